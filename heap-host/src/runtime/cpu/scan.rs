//! From the counts of a total's events to offsets and their sum.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::control::Words;
use crate::runtime::record::{Cause, FailedRequest, TotalState};
use crate::sequence::TotalId;

use super::device::Device;

impl Device<'_> {
    /// Exclusive scan: `n` counts become `n + 1` offsets, the last of which is
    /// the total. A total that a kernel set as a whole is shared out evenly.
    pub(super) fn scan(&self, total: TotalId) {
        let algorithm = self.config.sequence.total(total).computed_by;
        let fail = |cause| {
            let total = Some(total);
            let failure = FailedRequest {
                total,
                ..FailedRequest::default()
            };
            self.control.fail(cause, algorithm, failure);
        };
        if self.control.failed() {
            return;
        }
        let table = self.control.table(total);
        let sum = match self.control.total(total) {
            (TotalState::Unset, _) => return fail(Cause::NoTotal),
            (TotalState::Counted, _) => exclusive_scan(table),
            (TotalState::Summed | TotalState::Ready, sum) => {
                share_out(table, sum);
                Some(sum)
            }
        };
        match sum {
            Some(sum) => self.control.set_total(total, TotalState::Ready, sum),
            None => fail(Cause::TotalOverflow),
        }
    }
}

/// In place; the last word's value before is of no interest. `None` where the
/// sum does not fit 64 bits.
fn exclusive_scan(table: &[AtomicU64]) -> Option<u64> {
    let (end, counts) = table.split_last().expect("a table has its end");
    let mut sum = 0u64;
    // Relaxed: one lane scans.
    for word in counts {
        let count = word.swap(sum, Ordering::Relaxed);
        sum = sum.checked_add(count)?;
    }
    end.store(sum, Ordering::Relaxed);
    Some(sum)
}

fn share_out(table: &[AtomicU64], sum: u64) {
    let events = (table.len() as u128 - 1).max(1);
    for (event, word) in table.iter().enumerate() {
        let offset = u128::from(sum) * (event as u128).min(events) / events;
        word.store(offset as u64, Ordering::Relaxed);
    }
    // Without events the end is all there is.
    table[table.len() - 1].store(sum, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(counts: &[u64]) -> (Option<u64>, Vec<u64>) {
        let words = counts.iter().copied().chain([99]);
        let table: Vec<AtomicU64> = words.map(AtomicU64::new).collect();
        let sum = exclusive_scan(&table);
        (sum, table.into_iter().map(AtomicU64::into_inner).collect())
    }

    /// Seen in NVIDIA/cub#367: `n` counts need `n + 1` offsets.
    #[test]
    fn n_counts_make_n_plus_1_offsets() {
        for n in [0, 1, 255, 256, 1024, 1025] {
            let counts: Vec<u64> = (0..n).collect();
            let (sum, offsets) = scanned(&counts);
            let expected: Vec<u64> = (0..=n).map(|i| i * i.saturating_sub(1) / 2).collect();
            assert_eq!(offsets, expected);
            assert_eq!(sum, expected.last().copied());
        }
    }

    /// Seen in NVIDIA/cub#302: counts of 8 bits, summed in 8 bits.
    #[test]
    fn sums_are_64_bits_wide() {
        assert_eq!(scanned(&[100, 28, 128]).0, Some(256));
        assert_eq!(scanned(&[1 << 31, 1 << 31, 1]).0, Some((1 << 32) + 1));
        assert_eq!(scanned(&[u64::MAX]).0, Some(u64::MAX));
        assert_eq!(scanned(&[u64::MAX, 1]).0, None);
    }

    #[test]
    fn a_sum_is_shared_out_evenly() {
        let table: Vec<AtomicU64> = (0..5).map(|_| AtomicU64::new(0)).collect();
        share_out(&table, 10);
        let offsets: Vec<u64> = table.into_iter().map(AtomicU64::into_inner).collect();
        assert_eq!(offsets, [0, 2, 5, 7, 10]);
        let alone = [AtomicU64::new(0)];
        share_out(&alone, 3);
        assert_eq!(alone[0].load(Ordering::Relaxed), 3);
    }
}

//! A proved lower bound of the peak: the largest live sum.
//!
//! All buffers alive at one step lie side by side, so no plan has a peak
//! below the sum of their sizes. Alignment sharpens this. Let `g` be a power
//! of two and take only buffers whose alignment is a multiple of `g`. Each of
//! them starts at a multiple of `g`, so each but the topmost takes its size
//! rounded up to a multiple of `g` before the next can start; the topmost
//! takes at least its own size. Hence
//!
//! > peak >= sum of rounded sizes - the largest rounding among them
//!
//! for the buffers alive at one step, and the bound is the largest such value
//! over all steps and all alignments `g` that occur. With the smallest `g`
//! every buffer takes part, so the bound is never below the plain live sum.

use std::collections::BTreeMap;

use super::instance::{Buffer, Instance};

/// A lower bound of the peak, with the buffers and the step that prove it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LowerBound {
    /// No plan has a peak below this, in bytes. (At `u64::MAX` the true bound
    /// may be higher still.)
    pub bytes: u64,
    /// The first step that proves it; `None` when no buffer takes space.
    pub step: Option<u64>,
    /// The proof: indices, ascending, of buffers alive at `step` that need
    /// `bytes` together.
    pub buffers: Vec<usize>,
    /// The proof rounds sizes up to a multiple of this many bytes, of which
    /// all their alignments are multiples.
    pub granularity: u64,
}

/// The largest live sum of `instance`, aware of alignments.
///
/// O(k n log n) for k different alignments. Sums are taken in 128 bits.
pub fn lower_bound(instance: &Instance) -> LowerBound {
    let buffers = instance.buffers();
    let events = events(buffers);
    let mut best = Peak {
        bytes: 0,
        step: 0,
        granularity: 1,
    };
    for granularity in alignments(buffers) {
        let peak = sweep(buffers, &events, granularity);
        if peak.bytes > best.bytes {
            best = peak;
        }
    }
    explain(buffers, best)
}

/// The largest value that one granularity proves, and where.
struct Peak {
    bytes: u128,
    step: u64,
    granularity: u64,
}

/// Ends sort before starts of the same step: lifetimes are half-open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    End,
    Start,
}

fn events(buffers: &[Buffer]) -> Vec<(u64, Edge, usize)> {
    let mut events: Vec<_> = (0..buffers.len())
        .filter(|&index| buffers[index].takes_space())
        .flat_map(|index| {
            let Buffer { lower, upper, .. } = buffers[index];
            [(lower, Edge::Start, index), (upper, Edge::End, index)]
        })
        .collect();
    events.sort_unstable();
    events
}

/// The alignments that occur, ascending.
fn alignments(buffers: &[Buffer]) -> Vec<u64> {
    let seen = buffers
        .iter()
        .filter(|b| b.takes_space())
        .fold(0u64, |bits, b| bits | b.alignment);
    (0..u64::BITS)
        .map(|bit| 1u64 << bit)
        .filter(|g| seen & g != 0)
        .collect()
}

fn sweep(buffers: &[Buffer], events: &[(u64, Edge, usize)], granularity: u64) -> Peak {
    let mut best = Peak {
        bytes: 0,
        step: 0,
        granularity,
    };
    let mut sum = 0u128;
    // Roundings of the live buffers; the largest one is the topmost's in the
    // best case, which the bound must grant.
    let mut roundings = BTreeMap::<u64, usize>::new();
    for &(step, edge, index) in events {
        let Buffer {
            size, alignment, ..
        } = buffers[index];
        if alignment < granularity {
            continue;
        }
        let rounding = size.wrapping_neg() & (granularity - 1);
        let taken = u128::from(size) + u128::from(rounding);
        match edge {
            Edge::Start => {
                sum += taken;
                *roundings.entry(rounding).or_default() += 1;
                let largest = roundings.last_key_value().map_or(0, |(&r, _)| r);
                let bytes = sum - u128::from(largest);
                if bytes > best.bytes {
                    best = Peak {
                        bytes,
                        step,
                        granularity,
                    };
                }
            }
            Edge::End => {
                sum -= taken;
                remove_one(&mut roundings, rounding);
            }
        }
    }
    best
}

fn remove_one(counts: &mut BTreeMap<u64, usize>, key: u64) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

fn explain(buffers: &[Buffer], peak: Peak) -> LowerBound {
    if peak.bytes == 0 {
        return LowerBound {
            granularity: 1,
            ..LowerBound::default()
        };
    }
    let proves =
        |b: &Buffer| b.takes_space() && b.is_live_at(peak.step) && b.alignment >= peak.granularity;
    LowerBound {
        bytes: u64::try_from(peak.bytes).unwrap_or(u64::MAX),
        step: Some(peak.step),
        buffers: (0..buffers.len())
            .filter(|&i| proves(&buffers[i]))
            .collect(),
        granularity: peak.granularity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(buffers: Vec<Buffer>) -> LowerBound {
        lower_bound(&Instance::new(buffers).unwrap())
    }

    #[test]
    fn half_open_lifetimes_do_not_meet() {
        let found = bound(vec![Buffer::new("a", 0, 2, 10), Buffer::new("b", 2, 4, 12)]);
        assert_eq!(
            (found.bytes, found.step, found.buffers),
            (12, Some(2), vec![1])
        );
    }

    #[test]
    fn buffers_without_space_do_not_count() {
        let found = bound(vec![
            Buffer::new("zero", 0, 9, 0),
            Buffer::new("never", 4, 4, 99),
            Buffer::new("a", 3, 5, 7),
        ]);
        assert_eq!((found.bytes, found.buffers), (7, vec![2]));
        assert_eq!(bound(vec![]).step, None);
    }

    #[test]
    fn all_but_the_topmost_are_rounded() {
        let found = bound(vec![
            Buffer::new("a", 0, 1, 1).aligned_to(256),
            Buffer::new("b", 0, 1, 100).aligned_to(256),
        ]);
        // b at 0, a at 256: the peak is 257.
        assert_eq!((found.bytes, found.granularity), (257, 256));
    }

    #[test]
    fn small_alignments_may_fill_the_holes_of_large_ones() {
        let found = bound(vec![
            Buffer::new("a", 0, 1, 64).aligned_to(128),
            Buffer::new("b", 0, 1, 64).aligned_to(128),
            Buffer::new("c", 0, 1, 64),
        ]);
        // a at 0, c at 64, b at 128: 192 and no less.
        assert_eq!(found.bytes, 192);
    }

    #[test]
    fn sums_do_not_wrap() {
        let huge = |name| Buffer::new(name, 0, 1, (1 << 63) - 1).aligned_to(1 << 63);
        assert_eq!(bound(vec![huge("a"), huge("b")]).bytes, u64::MAX);
        let found = bound(vec![
            Buffer::new("a", 0, 1, 1).aligned_to(1 << 63),
            Buffer::new("b", 0, 1, 1).aligned_to(1 << 63),
            Buffer::new("c", 0, 1, 1).aligned_to(1 << 63),
        ]);
        assert_eq!(found.bytes, u64::MAX);
    }
}

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
//!
//! Of a buffer with gaps only what is in use counts; aliases count once, as far
//! as they overlap. A pair that may be in place saves at most the (rounded) size
//! of the smaller one, at the step at which both are alive, so that much is
//! taken off. A buffer that is fixed proves its own end.

use std::collections::{BTreeMap, HashSet};

use super::instance::{Instance, Storages};

/// A lower bound of the peak, with what proves it.
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
    /// What kind of proof it is.
    pub proof: Proof,
}

/// How a lower bound is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Proof {
    /// Buffers alive at one step lie side by side.
    #[default]
    LiveSum,
    /// A fixed buffer ends there.
    FixedEnd,
    /// A search for anything lower has been everywhere, with the buffers named.
    Search,
}

/// The largest live sum of `instance`, aware of alignments, or the end of a fixed
/// buffer.
///
/// O(k n log n) for k different alignments. Sums are taken in 128 bits.
pub fn lower_bound(instance: &Instance) -> LowerBound {
    let loads = Loads::new(instance);
    let events = loads.events();
    let mut best = Peak {
        bytes: 0,
        step: 0,
        granularity: 1,
    };
    for granularity in loads.alignments() {
        let peak = loads.sweep(&events, granularity);
        if peak.bytes > best.bytes {
            best = peak;
        }
    }
    match loads.fixed_end {
        Some(fixed) if u128::from(fixed.bytes) > best.bytes => fixed,
        _ => loads.explain(instance, best),
    }
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

/// Bytes that lie side by side with all others at the same step.
struct Load {
    lower: u64,
    upper: u64,
    size: u64,
    alignment: u64,
    /// The first of the buffers to which they belong, and whether there is more.
    buffer: usize,
    rich: bool,
}

/// At one step two loads may share this.
struct Saving {
    step: u64,
    size: u64,
    alignment: u64,
    /// They are not the only ones at their places, so rounding may save more.
    rich: bool,
}

struct Loads {
    loads: Vec<Load>,
    savings: Vec<Saving>,
    /// The members of each storage, by its first buffer.
    members: BTreeMap<usize, Vec<usize>>,
    fixed_end: Option<LowerBound>,
}

impl Loads {
    fn new(instance: &Instance) -> Self {
        let buffers = instance.buffers();
        let Storages { plain, rich } = Storages::new(instance, |_| false);
        let plain = plain
            .into_iter()
            .filter(|&index| buffers[index].takes_space());
        let mut found = Loads {
            loads: Vec::with_capacity(buffers.len()),
            savings: Vec::new(),
            members: BTreeMap::new(),
            fixed_end: None,
        };
        found.loads.extend(plain.map(|index| {
            let buffer = &buffers[index];
            Load {
                lower: buffer.lower,
                upper: buffer.upper,
                size: buffer.size,
                alignment: buffer.alignment,
                buffer: index,
                rich: false,
            }
        }));
        for storage in &rich {
            let buffer = storage.members[0].0;
            for piece in &storage.pieces {
                found.fix(storage.fixed, piece.to, piece.lower, buffer);
                let start = piece.from | storage.fixed.unwrap_or(0);
                found.loads.push(Load {
                    lower: piece.lower,
                    upper: piece.upper,
                    size: piece.to - piece.from,
                    alignment: storage.alignment.min(1 << start.trailing_zeros().min(63)),
                    buffer,
                    rich: true,
                });
            }
            let members = storage.members.iter().map(|&(index, _)| index).collect();
            found.members.insert(buffer, members);
        }
        found.add_savings(instance);
        found
    }

    fn fix(&mut self, fixed: Option<u64>, to: u64, step: u64, buffer: usize) {
        let Some(end) = fixed.map(|offset| offset + to) else {
            return;
        };
        if self
            .fixed_end
            .as_ref()
            .is_none_or(|found| found.bytes < end)
        {
            self.fixed_end = Some(LowerBound {
                bytes: end,
                step: Some(step),
                buffers: vec![buffer],
                granularity: 1,
                proof: Proof::FixedEnd,
            });
        }
    }

    fn add_savings(&mut self, instance: &Instance) {
        let buffers = instance.buffers();
        let rich: HashSet<usize> = self.members.values().flatten().copied().collect();
        for link in instance.in_place() {
            let (a, b) = (&buffers[link.of], &buffers[link.buffer]);
            let meet = a.upper.min(b.upper) > b.lower && a.lower <= b.lower;
            if !meet || !a.takes_space() || !b.takes_space() {
                continue;
            }
            self.savings.push(Saving {
                step: b.lower,
                size: a.size.min(b.size),
                alignment: a.alignment.min(b.alignment),
                rich: rich.contains(&link.of) || rich.contains(&link.buffer),
            });
        }
        self.savings.sort_unstable_by_key(|saving| saving.step);
    }

    fn events(&self) -> Vec<(u64, Edge, usize)> {
        let edges = |(index, load): (usize, &Load)| {
            [
                (load.lower, Edge::Start, index),
                (load.upper, Edge::End, index),
            ]
        };
        let mut events: Vec<_> = self.loads.iter().enumerate().flat_map(edges).collect();
        events.sort_unstable();
        events
    }

    /// The alignments that occur, ascending.
    fn alignments(&self) -> Vec<u64> {
        let seen = self
            .loads
            .iter()
            .fold(0u64, |bits, load| bits | load.alignment);
        (0..u64::BITS)
            .map(|bit| 1u64 << bit)
            .filter(|g| seen & g != 0)
            .collect()
    }

    /// What pairs in place may save at `step`, at most.
    fn saved(&self, step: u64, granularity: u64) -> u128 {
        let from = self.savings.partition_point(|saving| saving.step < step);
        self.savings[from..]
            .iter()
            .take_while(|saving| saving.step == step)
            .filter(|saving| saving.rich || saving.alignment >= granularity)
            .map(|saving| {
                let more = if saving.rich { granularity } else { 0 };
                u128::from(saving.size).next_multiple_of(granularity.into()) + u128::from(more)
            })
            .sum()
    }

    fn sweep(&self, events: &[(u64, Edge, usize)], granularity: u64) -> Peak {
        let mut best = Peak {
            bytes: 0,
            step: 0,
            granularity,
        };
        let mut sum = 0u128;
        // Roundings of what is live; the largest one is the topmost's in the
        // best case, which the bound must grant.
        let mut roundings = BTreeMap::<u64, usize>::new();
        for &(step, edge, index) in events {
            let Load {
                size, alignment, ..
            } = self.loads[index];
            if alignment < granularity {
                continue;
            }
            let rounding = size.wrapping_neg() & (granularity - 1);
            let taken = u128::from(size) + u128::from(rounding);
            if edge == Edge::End {
                sum -= taken;
                remove_one(&mut roundings, rounding);
                continue;
            }
            sum += taken;
            *roundings.entry(rounding).or_default() += 1;
            let largest = roundings.last_key_value().map_or(0, |(&r, _)| r);
            let mut bytes = sum - u128::from(largest);
            if bytes > best.bytes && !self.savings.is_empty() {
                bytes = bytes.saturating_sub(self.saved(step, granularity));
            }
            if bytes > best.bytes {
                best = Peak {
                    bytes,
                    step,
                    granularity,
                };
            }
        }
        best
    }

    fn explain(&self, instance: &Instance, peak: Peak) -> LowerBound {
        if peak.bytes == 0 {
            return LowerBound {
                granularity: 1,
                ..LowerBound::default()
            };
        }
        let proves = |load: &&Load| {
            load.lower <= peak.step && peak.step < load.upper && load.alignment >= peak.granularity
        };
        let mut proof = Vec::new();
        for load in self.loads.iter().filter(proves) {
            match self.members.get(&load.buffer).filter(|_| load.rich) {
                None => proof.push(load.buffer),
                Some(members) => {
                    let live = |&&index: &&usize| {
                        let buffer = &instance.buffers()[index];
                        buffer.takes_space() && buffer.is_live_at(peak.step)
                    };
                    proof.extend(members.iter().filter(live));
                }
            }
        }
        proof.sort_unstable();
        proof.dedup();
        LowerBound {
            bytes: u64::try_from(peak.bytes).unwrap_or(u64::MAX),
            step: Some(peak.step),
            buffers: proof,
            granularity: peak.granularity,
            proof: Proof::LiveSum,
        }
    }
}

fn remove_one(counts: &mut BTreeMap<u64, usize>, key: u64) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::instance::Buffer;
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

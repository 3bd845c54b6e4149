//! A placement for those who have no time.
//!
//! Items come in the order of their starts, as if they were allocated and freed
//! one by one: each takes the smallest hole between those that are alive, or
//! the end. Nothing is looked at twice, so it takes a moment where the fits of
//! the portfolio, which see whole lifetimes, take minutes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::fit::Placement;
use super::problem::{Component, Item};

/// Places the items of `component` in O(n log n); `None` when one would end
/// past 2^64 - 1, or where there is more to be said of one than lifetime, size and
/// alignment.
pub(super) fn quick_fit(component: &Component) -> Option<Placement> {
    if !component.is_plain() {
        return None;
    }
    let mut holes = Holes::default();
    // Ends, with the bytes that are free from then on.
    let mut alive = BinaryHeap::new();
    let mut offsets = Vec::with_capacity(component.items.len());
    let mut peak = 0;
    for item in &component.items {
        while let Some(&Reverse((last, start, end))) = alive.peek() {
            if last > item.first {
                break;
            }
            alive.pop();
            holes.give(start, end);
        }
        let offset = holes.take(item)?;
        let end = offset + item.size;
        alive.push(Reverse((item.last, offset, end)));
        offsets.push(offset);
        peak = peak.max(end);
    }
    Some(Placement { offsets, peak })
}

/// The free bytes below `top`; all above it are free as well.
#[derive(Default)]
struct Holes {
    /// From start to end. No two touch.
    by_start: BTreeMap<u64, u64>,
    /// Bytes, start.
    by_size: BTreeSet<(u64, u64)>,
    top: u64,
}

impl Holes {
    fn take(&mut self, item: &Item) -> Option<u64> {
        // The smallest may be at a bad place for the alignment; one that is
        // larger by that is not.
        let sure = item.size.saturating_add(item.alignment - 1);
        let fits = |&(size, start): &(u64, u64)| {
            let offset = item.align(start)?;
            (offset.checked_add(item.size)? <= start + size).then_some((start, offset))
        };
        let smallest = |size| self.by_size.range((size, 0)..).next();
        let found = smallest(item.size).and_then(fits);
        let Some((start, offset)) = found.or_else(|| smallest(sure).and_then(fits)) else {
            return self.grow(item);
        };
        let hole_end = self.remove(start);
        self.insert(start, offset);
        self.insert(offset + item.size, hole_end);
        Some(offset)
    }

    /// Puts the item at the end.
    fn grow(&mut self, item: &Item) -> Option<u64> {
        let offset = item.align(self.top)?;
        let end = offset.checked_add(item.size)?;
        let below = self.top;
        self.top = end;
        self.give(below, offset);
        Some(offset)
    }

    /// Frees `start..end`, and joins it with its neighbours.
    fn give(&mut self, mut start: u64, mut end: u64) {
        if start == end {
            return;
        }
        let before = self.by_start.range(..start).next_back();
        if let Some((&before, _)) = before.filter(|&(_, &end)| end == start) {
            self.remove(before);
            start = before;
        }
        if self.by_start.contains_key(&end) {
            end = self.remove(end);
        }
        self.insert(start, end);
    }

    fn insert(&mut self, start: u64, end: u64) {
        if start < end {
            self.by_start.insert(start, end);
            self.by_size.insert((end - start, start));
        }
    }

    /// Removes the hole at `start` and gives its end.
    fn remove(&mut self, start: u64) -> u64 {
        let end = self.by_start.remove(&start).unwrap_or(start);
        self.by_size.remove(&(end - start, start));
        end
    }
}

#[cfg(test)]
mod tests {
    use super::super::bound::lower_bound;
    use super::super::generate;
    use super::super::instance::{Buffer, Instance};
    use super::super::problem::components;
    use super::super::verify::verify;
    use super::*;

    /// The verifier's verdict: the peak.
    fn planned(instance: &Instance) -> u64 {
        let (mut offsets, mut peak) = (vec![0; instance.len()], 0);
        for component in components(instance, |_| false) {
            let placement = quick_fit(&component).unwrap();
            for (item, offset) in component.items.iter().zip(placement.offsets) {
                offsets[item.buffer] = offset;
            }
            peak = peak.max(placement.peak);
        }
        assert_eq!(verify(instance, &offsets), Ok(peak));
        peak
    }

    #[test]
    fn it_is_valid_and_not_far_off() {
        for seed in 0..30 {
            let instance = generate::random(seed, 200);
            let (peak, bound) = (planned(&instance), lower_bound(&instance).bytes);
            assert!(peak <= 2 * bound, "{peak} with a bound of {bound}");
        }
        planned(&generate::cut_rectangle(1, 5000, 1000, 1 << 20));
    }

    #[test]
    fn holes_join_and_are_used_again() {
        let buffers = [(0, 2, 4), (0, 2, 4), (0, 9, 1), (2, 9, 8)]
            .into_iter()
            .enumerate();
        let buffers = buffers.map(|(i, (l, u, size))| Buffer::new(format!("b{i}"), l, u, size));
        assert_eq!(planned(&Instance::new(buffers.collect()).unwrap()), 9);
    }

    #[test]
    fn the_address_space_ends() {
        let half = |name| Buffer::new(name, 0, 1, 1).aligned_to(1 << 63);
        let two = Instance::new(vec![half("a"), half("b")]).unwrap();
        assert_eq!(planned(&two), (1 << 63) + 1);
        let three = Instance::new(vec![half("a"), half("b"), half("c")]).unwrap();
        assert!(quick_fit(&components(&three, |_| false)[0]).is_none());
    }
}

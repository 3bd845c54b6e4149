//! What is placed so far, and where the next item fits.
//!
//! Two structures answer the same questions: [`ScanSpace`] walks a list
//! sorted by offset, the fastest for up to some thousand items;
//! [`TreeSpace`] keeps merged address ranges in a segment tree over time, so
//! that the number of items alive together hardly matters.

mod ranges;
mod scan;
mod tree;

pub(super) use scan::ScanSpace;
pub(super) use tree::TreeSpace;

use super::problem::{Component, Item};

/// Which of the free gaps an item takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// The lowest that is large enough.
    First,
    /// The one that leaves the fewest bytes over, the lowest among equals;
    /// the end of everything only when there is no other.
    Best,
}

/// Items of one component with their offsets.
pub(super) trait Space {
    /// Forgets every item.
    fn clear(&mut self);

    /// The offset that `fit` chooses for `item`: aligned, and free in all of
    /// its sections. `None` when it would end past 2^64 - 1.
    fn find(&self, item: &Item, fit: Fit) -> Option<u64>;

    /// Adds `item` at `offset`, which [`Space::find`] has given.
    fn insert(&mut self, item: &Item, offset: u64);
}

/// Up to this many items the list is two to five times as fast, on the
/// shapes of [`generate`](super::generate).
const SCAN_LIMIT: usize = 4096;

/// The faster structure for `component`.
pub(super) fn space_for(component: &Component) -> Box<dyn Space + Send> {
    if component.items.len() <= SCAN_LIMIT {
        Box::new(ScanSpace::default())
    } else {
        Box::new(TreeSpace::new(component.sections))
    }
}

/// Collects gaps from low to high and keeps the best fitting one.
struct BestGap<'a> {
    item: &'a Item,
    /// Bytes left over, offset.
    best: Option<(u64, u64)>,
}

impl<'a> BestGap<'a> {
    fn new(item: &'a Item) -> Self {
        BestGap { item, best: None }
    }

    /// Offers the free bytes `start..end`.
    fn offer(&mut self, start: u64, end: u64) {
        let Some(offset) = self.item.align(start) else {
            return;
        };
        let fits = offset
            .checked_add(self.item.size)
            .is_some_and(|item_end| item_end <= end);
        let left = (end - start).saturating_sub(self.item.size);
        if fits && self.best.is_none_or(|(least, _)| left < least) {
            self.best = Some((left, offset));
        }
    }

    /// Whether no later gap can be better.
    fn is_perfect(&self) -> bool {
        self.best.is_some_and(|(left, _)| left == 0)
    }

    /// The best gap, or the space from `top` on.
    fn finish(self, top: u64) -> Option<u64> {
        let item = self.item;
        self.best.map(|(_, offset)| offset).or_else(|| {
            item.align(top)
                .filter(|offset| offset.checked_add(item.size).is_some())
        })
    }
}

#[cfg(test)]
mod tests;

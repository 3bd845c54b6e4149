//! A list sorted by offset.

use super::super::problem::{Item, Part};
use super::{BestGap, Fit, Space};

/// Every query walks the list from the bottom, O(items placed); of an item in
/// parts, once for each part and each time it is pushed up.
#[derive(Default)]
pub(in super::super) struct ScanSpace {
    placed: Vec<Placed>,
}

struct Placed {
    start: u64,
    end: u64,
    first: usize,
    last: usize,
}

impl Placed {
    fn meets(&self, first: usize, last: usize) -> bool {
        self.first < last && first < self.last
    }
}

impl ScanSpace {
    fn first_fit(&self, item: &Item) -> Option<u64> {
        let mut offset = 0u64;
        for placed in &self.placed {
            // Whatever follows starts no lower.
            if placed.start >= offset.checked_add(item.size)? {
                break;
            }
            if placed.end > offset && placed.meets(item.first, item.last) {
                offset = item.align(placed.end)?;
            }
        }
        offset.checked_add(item.size).map(|_| offset)
    }

    /// Lets the parts take turns to push the offset up, until none has to.
    fn first_fit_in_parts(&self, item: &Item, parts: &[Part]) -> Option<u64> {
        let mut offset = 0u64;
        loop {
            offset.checked_add(item.size)?;
            let blocker = parts.iter().find_map(|part| self.above(part, offset));
            match blocker {
                Some(low) => offset = item.align(low)?,
                None => return Some(offset),
            }
        }
    }

    /// The lowest offset at which the item's part is above the first thing that
    /// is in its way at `offset`; `None` if nothing is.
    fn above(&self, part: &Part, offset: u64) -> Option<u64> {
        let (start, end) = (offset + part.from, offset + part.to);
        self.placed
            .iter()
            .take_while(|placed| placed.start < end)
            .find(|placed| placed.end > start && placed.meets(part.first, part.last))
            .map(|placed| placed.end - part.from)
    }

    fn best_fit(&self, item: &Item) -> Option<u64> {
        let mut gaps = BestGap::new(item);
        let mut top = 0u64;
        let meets = |placed: &&Placed| placed.meets(item.first, item.last);
        for placed in self.placed.iter().filter(meets) {
            if placed.start > top {
                gaps.offer(top, placed.start);
                if gaps.is_perfect() {
                    break;
                }
            }
            top = top.max(placed.end);
        }
        gaps.finish(top)
    }
}

impl Space for ScanSpace {
    fn clear(&mut self) {
        self.placed.clear();
    }

    fn find(&self, item: &Item, fit: Fit) -> Option<u64> {
        match (item.in_parts(), fit) {
            (Some(parts), _) => self.first_fit_in_parts(item, parts),
            (None, Fit::First) => self.first_fit(item),
            (None, Fit::Best) => self.best_fit(item),
        }
    }

    fn insert(&mut self, item: &Item, offset: u64) {
        for part in item.parts() {
            let start = offset + part.from;
            let at = self.placed.partition_point(|placed| placed.start <= start);
            self.placed.insert(
                at,
                Placed {
                    start,
                    end: offset.saturating_add(part.taken),
                    first: part.first,
                    last: part.last,
                },
            );
        }
    }
}

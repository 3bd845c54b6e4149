//! A list sorted by offset.

use super::super::problem::Item;
use super::{BestGap, Fit, Space};

/// Every query walks the list from the bottom, O(items placed).
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
    fn meets(&self, item: &Item) -> bool {
        self.first < item.last && item.first < self.last
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
            if placed.end > offset && placed.meets(item) {
                offset = item.align(placed.end)?;
            }
        }
        offset.checked_add(item.size).map(|_| offset)
    }

    fn best_fit(&self, item: &Item) -> Option<u64> {
        let mut gaps = BestGap::new(item);
        let mut top = 0u64;
        for placed in self.placed.iter().filter(|placed| placed.meets(item)) {
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
        match fit {
            Fit::First => self.first_fit(item),
            Fit::Best => self.best_fit(item),
        }
    }

    fn insert(&mut self, item: &Item, offset: u64) {
        let at = self.placed.partition_point(|placed| placed.start <= offset);
        let Item { first, last, .. } = *item;
        let end = item.taken_end(offset);
        self.placed.insert(
            at,
            Placed {
                start: offset,
                end,
                first,
                last,
            },
        );
    }
}

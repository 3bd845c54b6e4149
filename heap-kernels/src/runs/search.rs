//! Looking for a hole, and choosing one.

use super::{Place, RunRequest};
use crate::layout::Pool;
use crate::mem::{Mem, Order};

/// Free pages `start .. end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Hole {
    fn len(self) -> u64 {
        self.end - self.start
    }
}

/// Holes that fit, among which the best is chosen: more make the choice hardly
/// better, and a fragmented pool has thousands.
const CHOICE: u32 = 64;

impl<M: Mem> Pool<M> {
    /// A place for the request at or behind page `from`, as far as can be
    /// seen while others work.
    #[inline(never)]
    pub(super) fn find_run(&self, request: &RunRequest, from: u64) -> Option<u64> {
        let mut best: Option<(u64, u64)> = None;
        let (mut from, mut fitting) = (from, 0);
        // A first fit need not know how long its hole is.
        let slack = request.align >> self.geo.page_shift;
        let enough = match request.place {
            Place::Low => request.pages.saturating_add(slack),
            Place::Best | Place::High => u64::MAX,
        };
        while let Some(hole) = self.next_hole(from, enough) {
            from = hole.end;
            let Some(start) = self.fit(hole, request) else {
                continue;
            };
            fitting += 1;
            match request.place {
                Place::Low => return Some(start),
                Place::High => best = Some((0, start)),
                Place::Best if hole.len() == request.pages => return Some(start),
                Place::Best if best.is_none_or(|(len, _)| hole.len() < len) => {
                    best = Some((hole.len(), start));
                }
                Place::Best if fitting >= CHOICE => break,
                Place::Best => {}
            }
        }
        best.map(|(_, start)| start)
    }

    /// Where in `hole` the request goes, if it fits.
    fn fit(&self, hole: Hole, request: &RunRequest) -> Option<u64> {
        let last = hole
            .end
            .checked_sub(request.pages)
            .filter(|&last| last >= hole.start)?;
        if request.align <= self.geo.page_size() {
            return Some(if request.place == Place::Low {
                hole.start
            } else {
                last
            });
        }
        let base = self.mem.base() + self.geo.data;
        let address = |page: u64| base + (page << self.geo.page_shift);
        let start = if request.place == Place::Low {
            let up = address(hole.start).checked_next_multiple_of(request.align)?;
            (up - base) >> self.geo.page_shift
        } else {
            let down = address(last) / request.align * request.align;
            down.checked_sub(base)? >> self.geo.page_shift
        };
        (hole.start..=last).contains(&start).then_some(start)
    }

    /// The first hole from page `from` on; its end may be cut off behind
    /// `enough` pages.
    #[inline(never)]
    pub(crate) fn next_hole(&self, from: u64, enough: u64) -> Option<Hole> {
        let start = self.next_free_page(from)?;
        let end = self.next_used_page(start, start.saturating_add(enough));
        Some(Hole {
            start,
            end: end.max(start + 1),
        })
    }

    fn next_free_page(&self, from: u64) -> Option<u64> {
        let mut word = from / 64;
        let mut mask = u64::MAX << (from % 64);
        while word < self.geo.level_words[0] {
            let free = !self.run_bits(word) & mask;
            if free != 0 {
                return Some(word * 64 + u64::from(free.trailing_zeros()));
            }
            mask = u64::MAX;
            word = self.next_open_word(word + 1);
        }
        None
    }

    /// The first used page from `from` on, or the first word's end at or
    /// behind `limit`, or the end.
    fn next_used_page(&self, from: u64, limit: u64) -> u64 {
        let mut word = from / 64;
        let mut mask = u64::MAX << (from % 64);
        let limit = limit.min(self.geo.pages);
        while word * 64 < limit {
            let used = self.run_bits(word) & mask;
            if used != 0 {
                return (word * 64 + u64::from(used.trailing_zeros())).min(self.geo.pages);
            }
            mask = u64::MAX;
            word = self.next_dirty_word(word + 1);
        }
        (word * 64).min(self.geo.pages)
    }

    fn run_bits(&self, word: u64) -> u64 {
        self.mem.load(self.level_at(0, word), Order::Relaxed)
    }
}

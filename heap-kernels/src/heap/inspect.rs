//! Statistics.

use super::{FreeError, Heap};
use crate::layout::classes::class_size;
use crate::layout::words::{PageUse, SlabKind, State};
use crate::layout::{Counter, ShardCounter};
use crate::mem::{Mem, Order};

/// What a heap holds. Exact while nobody else uses the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of the whole pool.
    pub pool_bytes: u64,
    /// Bytes in front of the pages.
    pub metadata_bytes: u64,
    /// Bytes of all pages.
    pub page_bytes: u64,
    /// Blocks handed out and not freed.
    pub live_blocks: u64,
    /// Their bytes, as [`Heap::usable_size`] counts them.
    pub live_bytes: u64,
    /// Bytes of pages that are in use: by slabs, or by runs.
    pub used_bytes: u64,
    /// The largest `used_bytes` since the last reset.
    pub high_water_bytes: u64,
    /// Bytes that requests can have: free pages, pages of empty slabs, and
    /// free slots.
    pub free_bytes: u64,
    /// The largest request (of page alignment) that would be met by a run, in
    /// bytes.
    pub largest_free_run: u64,
    /// Blocks handed out since the last reset.
    pub allocations: u64,
    /// Blocks freed since the last reset.
    pub frees: u64,
    /// Requests not met since the last reset.
    pub failures: u64,
    /// Frees refused since the last reset.
    pub bad_frees: u64,
}

/// What one size class holds. Exact while nobody else uses the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// Slabs of this class.
    pub slabs: u64,
    /// Slots handed out and not freed.
    pub live_blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Slots that are free.
    pub free_blocks: u64,
}

/// What a range of pages holds: the part of [`Stats`] that has to be looked up
/// page by page. Lengths of holes are in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Survey {
    /// Pages looked at.
    pub pages: u64,
    /// Blocks that begin there.
    pub live_blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Bytes of free pages, empty slabs and free slots.
    pub free_bytes: u64,
    /// The largest hole.
    pub largest: u64,
    /// The hole that the range begins with.
    pub first_hole: u64,
    /// The hole that the range ends with.
    pub last_hole: u64,
}

impl Survey {
    /// Number of words of [`to_words`](Self::to_words).
    pub const WORDS: usize = 7;

    /// All fields in order, as a kernel writes them.
    #[must_use]
    pub const fn to_words(&self) -> [u64; Self::WORDS] {
        [
            self.pages,
            self.live_blocks,
            self.live_bytes,
            self.free_bytes,
            self.largest,
            self.first_hole,
            self.last_hole,
        ]
    }

    /// The survey that [`to_words`](Self::to_words) wrote.
    #[must_use]
    pub const fn from_words(words: &[u64; Self::WORDS]) -> Self {
        Self {
            pages: words[0],
            live_blocks: words[1],
            live_bytes: words[2],
            free_bytes: words[3],
            largest: words[4],
            first_hole: words[5],
            last_hole: words[6],
        }
    }

    /// The survey of this range and the one right behind it.
    #[must_use]
    pub fn merge(&self, behind: &Self) -> Self {
        let joined =
            |hole: u64, range: u64, more: u64| if hole == range { hole + more } else { hole };
        let across = self.last_hole + behind.first_hole;
        Self {
            pages: self.pages + behind.pages,
            live_blocks: self.live_blocks + behind.live_blocks,
            live_bytes: self.live_bytes + behind.live_bytes,
            free_bytes: self.free_bytes + behind.free_bytes,
            largest: self.largest.max(behind.largest).max(across),
            first_hole: joined(self.first_hole, self.pages, behind.first_hole),
            last_hole: joined(behind.last_hole, behind.pages, self.last_hole),
        }
    }
}

/// The first free that was refused since the last reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offender {
    /// Why.
    pub error: FreeError,
    /// The offset that it named.
    pub offset: u64,
}

impl<M: Mem> Heap<M> {
    /// Statistics of the whole heap. Linear in the number of pages.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats_of(&self.survey(0, self.pool.geo.pages))
    }

    /// Statistics from the [`Survey`] of all pages: of one, or of the merged
    /// surveys of adjoining ranges that different lanes looked at.
    #[must_use]
    pub fn stats_of(&self, survey: &Survey) -> Stats {
        let geo = &self.pool.geo;
        let allocations = self.pool.shard_sum(ShardCounter::HandedOut);
        Stats {
            pool_bytes: geo.len,
            metadata_bytes: geo.metadata_bytes(),
            page_bytes: geo.page_bytes(),
            live_blocks: survey.live_blocks,
            live_bytes: survey.live_bytes,
            used_bytes: self.pool.counter(Counter::UsedPages) << geo.page_shift,
            high_water_bytes: self.pool.counter(Counter::HighPages) << geo.page_shift,
            free_bytes: survey.free_bytes,
            largest_free_run: survey.largest << geo.page_shift,
            allocations,
            frees: allocations.saturating_sub(survey.live_blocks),
            failures: self.pool.shard_sum(ShardCounter::Refused),
            bad_frees: self.pool.counter(Counter::BadFrees),
        }
    }

    /// Adds up the blocks that begin in pages `from .. to`, and the holes
    /// there. Linear in the number of pages.
    #[must_use]
    pub fn survey(&self, from: u64, to: u64) -> Survey {
        let mut survey = Survey {
            pages: to - from,
            ..Survey::default()
        };
        let (mut page, mut hole) = (from, 0);
        while page < to {
            let (pages, free) = self.survey_page(page, to, &mut survey);
            let pages = pages.clamp(1, to - page);
            hole = if free { hole + pages } else { 0 };
            page += pages;
            survey.largest = survey.largest.max(hole);
            if hole == page - from {
                survey.first_hole = hole;
            }
        }
        survey.last_hole = hole;
        survey
    }

    /// Adds up what begins at `page`: how many pages of it, and whether they
    /// are free.
    fn survey_page(&self, page: u64, to: u64, survey: &mut Survey) -> (u64, bool) {
        let pool = &self.pool;
        match pool.page_word(page, Order::Acquire).decode() {
            PageUse::Run { pages } => {
                survey.live_blocks += 1;
                survey.live_bytes += pages << pool.geo.page_shift;
                (pages, false)
            }
            PageUse::Slab {
                kind,
                descriptor,
                index,
            } => {
                let free = self.survey_slab(kind, descriptor, index == 0, survey);
                let pages = pool.slab_pages(kind);
                (pages.saturating_sub(index.into()), free)
            }
            PageUse::Nothing => match pool.next_hole(page, to - page) {
                Some(found) if found.start == page => {
                    let pages = found.end.min(to) - page;
                    survey.free_bytes += pages << pool.geo.page_shift;
                    (pages, true)
                }
                _ => (1, false),
            },
        }
    }

    /// Adds up one slab, if its first page is looked at; whether it is empty,
    /// so that its pages are to be had.
    fn survey_slab(
        &self,
        kind: SlabKind,
        descriptor: u32,
        first: bool,
        survey: &mut Survey,
    ) -> bool {
        let slots = self.pool.slots(kind);
        let free = self
            .pool
            .state(descriptor, Order::Acquire)
            .credits()
            .clamp(0, slots);
        let live = (slots - free) as u64;
        if first {
            survey.live_blocks += live;
            survey.live_bytes += live * class_size(kind.class);
            survey.free_bytes += if live == 0 {
                self.pool.slab_pages(kind) << self.pool.geo.page_shift
            } else {
                free as u64 * class_size(kind.class)
            };
        }
        live == 0
    }

    /// Statistics of one size class; zeros where there is no such class.
    /// Linear in the number of pages.
    #[must_use]
    pub fn class_stats(&self, class: u32) -> ClassStats {
        let pool = &self.pool;
        if class >= pool.geo.classes {
            return ClassStats::default();
        }
        let mut stats = ClassStats {
            slot_bytes: class_size(class),
            ..ClassStats::default()
        };
        for descriptor in 0..pool.geo.pages as u32 {
            let state = pool.state(descriptor, Order::Acquire);
            if state.has(State::USED) && state.alive() && state.class() == class {
                let slots = pool.slots(state.kind());
                let free = state.credits().clamp(0, slots);
                stats.slabs += 1;
                stats.free_blocks += free as u64;
                stats.live_blocks += (slots - free) as u64;
            }
        }
        stats.live_bytes = stats.live_blocks * stats.slot_bytes;
        stats
    }

    /// The first free that was refused since the last reset, if any was.
    #[must_use]
    pub fn offender(&self) -> Option<Offender> {
        let error = match self.pool.counter(Counter::OffenderKind).checked_sub(1)? {
            kind if kind == FreeError::DoubleFree as u64 => FreeError::DoubleFree,
            kind if kind == FreeError::OutsidePool as u64 => FreeError::OutsidePool,
            kind if kind == FreeError::InsideBlock as u64 => FreeError::InsideBlock,
            _ => FreeError::NeverAllocated,
        };
        Some(Offender {
            error,
            offset: self.pool.counter(Counter::OffenderOffset),
        })
    }
}

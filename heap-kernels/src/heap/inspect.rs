//! Statistics.

use super::{FreeError, Heap};
use crate::layout::Counter;
use crate::layout::classes::class_size;
use crate::layout::words::{PageUse, State};
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
        let geo = &self.pool.geo;
        let mut stats = Stats {
            pool_bytes: geo.len,
            metadata_bytes: geo.metadata_bytes(),
            page_bytes: geo.page_bytes(),
            used_bytes: self.pool.counter(Counter::UsedPages) << geo.page_shift,
            high_water_bytes: self.pool.counter(Counter::HighPages) << geo.page_shift,
            failures: self.pool.counter(Counter::Failures),
            bad_frees: self.pool.counter(Counter::BadFrees),
            ..Stats::default()
        };
        for shard in 0..geo.shards {
            let at = self.pool.handed_out_at(shard);
            stats.allocations += self.pool.mem.load(at, Order::Relaxed);
        }
        self.walk(&mut stats);
        stats.frees = stats.allocations.saturating_sub(stats.live_blocks);
        stats
    }

    /// Adds up blocks and holes, page by page.
    fn walk(&self, stats: &mut Stats) {
        let pool = &self.pool;
        let page_bytes = |pages: u64| pages << pool.geo.page_shift;
        let (mut page, mut hole) = (0, 0);
        while page < pool.geo.pages {
            let (pages, free) = match pool.page_word(page, Order::Acquire).decode() {
                PageUse::Run { pages } => {
                    stats.live_blocks += 1;
                    stats.live_bytes += page_bytes(pages);
                    (pages, false)
                }
                PageUse::Slab {
                    class,
                    descriptor,
                    index: 0,
                } => {
                    let free = self.walk_slab(class, descriptor, stats);
                    (u64::from(pool.shape(class).pages), free)
                }
                PageUse::Slab { .. } => (1, false),
                PageUse::Nothing => match pool.next_hole(page, u64::MAX) {
                    Some(found) if found.start == page => {
                        stats.free_bytes += page_bytes(found.end - page);
                        (found.end - page, true)
                    }
                    _ => (1, false),
                },
            };
            page += pages.max(1);
            hole = if free { hole + page_bytes(pages) } else { 0 };
            stats.largest_free_run = stats.largest_free_run.max(hole);
        }
    }

    /// Adds up one slab; whether it is empty, so that its pages are to be had.
    fn walk_slab(&self, class: u32, descriptor: u32, stats: &mut Stats) -> bool {
        let slots = self.pool.slots(class);
        let free = self
            .pool
            .state(descriptor, Order::Acquire)
            .credits()
            .clamp(0, slots);
        let live = (slots - free) as u64;
        stats.live_blocks += live;
        stats.live_bytes += live * class_size(class);
        stats.free_bytes += if live == 0 {
            u64::from(self.pool.shape(class).pages) << self.pool.geo.page_shift
        } else {
            free as u64 * class_size(class)
        };
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
        let slots = pool.slots(class);
        let mut stats = ClassStats {
            slot_bytes: class_size(class),
            ..ClassStats::default()
        };
        for descriptor in 0..pool.geo.pages as u32 {
            let state = pool.state(descriptor, Order::Acquire);
            if state.has(State::USED) && state.alive() && state.class() == class {
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

//! Freeing.

use super::locate::{Located, Slot};
use super::{FreeError, Heap};
use crate::layout::Counter;
use crate::layout::words::PageWord;
use crate::mem::{Fault, Mem, Order};
use crate::warp::{Mask, Warp};

impl<M: Mem> Heap<M> {
    /// Frees the block at `offset`, for each lane that calls this together.
    /// Lanes whose slots share a word share the atomics. Expected constant
    /// time for a slot; a run, or the last slot of a slab, takes time
    /// proportional to its pages.
    ///
    /// # Errors
    ///
    /// [`FreeError`] where no live block begins there: counted, the first
    /// kept (see [`offender`](Self::offender)), and the heap is as before. Two
    /// lanes that free one block at the same time: one of them succeeds. A
    /// block at whose offset another has been allocated since cannot be told
    /// from that one.
    pub fn free<W: Warp>(&self, warp: &W, offset: u64) -> Result<(), FreeError> {
        const APART: u64 = u64::MAX;
        let located = self.locate(offset);
        let key = match located {
            Ok(Located::Slot(slot)) => slot.word_at,
            _ => APART,
        };
        let peers = warp.match_any(warp.active(), key);
        let result = match located {
            Ok(Located::Slot(slot)) => self.free_slot(warp, peers, offset, &slot),
            Ok(Located::Run { page, pages }) => self.free_run(offset, page, pages),
            Err(error) => Err(error),
        };
        result.inspect_err(|&error| self.offend(error, offset))
    }

    /// The lanes of `peers` free slots of one word.
    fn free_slot<W: Warp>(
        &self,
        warp: &W,
        peers: Mask,
        offset: u64,
        slot: &Slot,
    ) -> Result<(), FreeError> {
        self.remember_live(offset, slot);
        let bits = warp.reduce_or(peers, slot.bit);
        if bits.count_ones() < peers.count_ones() {
            // Some lanes name one slot: each for itself, and one wins.
            let freed = self.clear_slots(warp.shard(), slot, slot.bit);
            return self.freed(offset, slot.bit, freed);
        }
        // What each lane did to its block comes before the leader's release.
        warp.sync(peers);
        let leader = peers.trailing_zeros();
        let mut freed = 0;
        if warp.lane() == leader {
            freed = self.clear_slots(warp.shard(), slot, bits);
        }
        let freed = warp.shuffle(peers, freed, leader);
        self.freed(offset, slot.bit, freed)
    }

    fn freed(&self, offset: u64, bit: u64, freed: u64) -> Result<(), FreeError> {
        if freed & bit == 0 {
            Err(self.not_live(offset))
        } else {
            Ok(())
        }
    }

    /// Frees those of the slots `bits` that are live; which they were.
    fn clear_slots(&self, shard: u32, slot: &Slot, bits: u64) -> u64 {
        let pool = &self.pool;
        let shard = pool.geo.shard_of(shard);
        // AcqRel. Release: what the user did to the block comes before what the
        // next owner does. Acquire: for the second look.
        let old = pool.mem.fetch_and(slot.word_at, !bits, Order::AcqRel);
        let freed = if M::FAULT as u8 == Fault::BlindFree as u8 {
            bits
        } else {
            old & bits
        };
        if freed == 0 {
            return 0;
        }
        // Each slot just cleared lacks a credit, which pins the slab it belongs
        // to. If that is not the slab it was taken for, this is a double free
        // that raced with the slab's end and the page's next use: the bits
        // are another slab's, so they go back. A claimer of that slab whose
        // credit is for another slot may take the bit before that: as with any
        // double free that comes after the re-use, somebody else's block has
        // been freed then (see DESIGN.md, Drawbacks).
        let seen = pool.page_word(slot.page, Order::Relaxed);
        if seen != slot.first_word && M::FAULT as u8 != Fault::BlindFree as u8 {
            pool.mem.fetch_or(slot.word_at, freed, Order::AcqRel);
            return 0;
        }
        pool.add_credits(shard, slot.descriptor, freed.count_ones() as i32);
        freed
    }

    /// Remembers that the block at `offset` was freed, if it is live: before
    /// it is freed, so that whoever frees it a second time is told so.
    fn remember_live(&self, offset: u64, slot: &Slot) {
        if self.pool.mem.load(slot.word_at, Order::Relaxed) & slot.bit != 0 {
            self.remember(offset);
        }
    }

    fn remember(&self, offset: u64) {
        let (at, bit) = self.pool.history_at(offset);
        // Relaxed: a report, not a decision. The load spares most atomics.
        if self.pool.mem.load(at, Order::Relaxed) & bit == 0 {
            self.pool.mem.fetch_or(at, bit, Order::Relaxed);
        }
    }

    #[inline(never)]
    fn free_run(&self, offset: u64, page: u64, pages: u64) -> Result<(), FreeError> {
        let pool = &self.pool;
        self.remember(offset);
        let word = PageWord::run(pages).0;
        // AcqRel: one of two racing frees wins, and what its user did to the
        // block comes before the release of the pages.
        let won = pool
            .mem
            .compare_exchange(pool.page_word_at(page), word, 0, Order::AcqRel);
        if won.is_err() {
            return Err(FreeError::DoubleFree);
        }
        pool.release_run(page, pages);
        Ok(())
    }

    /// Counts a refused free, and keeps the first.
    #[cold]
    #[inline(never)]
    fn offend(&self, error: FreeError, offset: u64) {
        let pool = &self.pool;
        pool.count(Counter::BadFrees, 1);
        let kind = error as u64 + 1;
        let at = pool.counter_at(Counter::OffenderKind);
        // Relaxed: a report for when the heap is at rest.
        if pool
            .mem
            .compare_exchange(at, 0, kind, Order::Relaxed)
            .is_ok()
        {
            pool.mem.store(
                pool.counter_at(Counter::OffenderOffset),
                offset,
                Order::Relaxed,
            );
        }
    }
}

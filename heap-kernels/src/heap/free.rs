//! Freeing.

use super::locate::{Located, Slot};
use super::{FreeError, Heap};
use crate::layout::words::{PageWord, State};
use crate::layout::{Counter, Pool};
use crate::mem::{Fault, Mem, Order};
use crate::warp::{Mask, Warp};

/// What the usual way of a free leaves to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    what: u32,
    /// The lanes that go on together, or the slab's descriptor.
    whose: u32,
    /// The slab's state, where it calls for care.
    state: State,
}

/// The slot is freed, its slab calls for care.
const CARE: u32 = 0;
/// The slot was not live; its slab may call for care.
const NOT_LIVE: u32 = 1;
/// Nothing is done; a slot at an offset where none was freed before, or that two
/// lanes name.
const FIRST: u32 = 2;
/// Nothing is done; no slot.
const UNUSUAL: u32 = 3;

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
    #[inline]
    pub fn free<W: Warp>(&self, warp: &W, offset: u64) -> Result<(), FreeError> {
        match Self::free_quick(&self.pool.hot(), warp, offset) {
            Ok(()) => Ok(()),
            Err(left) => self.free_slow(warp, offset, left),
        }
    }

    /// The usual way of [`free`](Self::free). `hot` is a copy of the pool.
    ///
    /// # Errors
    ///
    /// What is left, for [`free_slow`](Self::free_slow).
    #[inline(always)]
    pub(crate) fn free_quick<W: Warp>(hot: &Pool<M>, warp: &W, offset: u64) -> Result<(), Left> {
        const APART: u64 = u64::MAX;
        let found = Self::slot_at(hot, offset);
        // Words are multiples of 8: the lowest bit keeps lanes apart that go
        // another way.
        let key = found.map_or(APART, |(slot, known)| slot.word_at | u64::from(!known));
        let peers = warp.match_any(warp.active(), key);
        match found {
            Some((slot, true)) => {
                let bits = warp.reduce_or(peers, slot.bit);
                if bits.count_ones() < peers.count_ones() {
                    // Some lanes name one slot.
                    return Err(Left {
                        what: FIRST,
                        whose: peers,
                        state: State::FREE,
                    });
                }
                let (live, state) = Self::free_slots(hot, warp, peers, &slot, bits);
                if live && state == State::FREE {
                    return Ok(());
                }
                Err(Left {
                    what: if live { CARE } else { NOT_LIVE },
                    whose: slot.descriptor,
                    state,
                })
            }
            Some((_, false)) => Err(Left {
                what: FIRST,
                whose: peers,
                state: State::FREE,
            }),
            None => Err(Left {
                what: UNUSUAL,
                whose: 0,
                state: State::FREE,
            }),
        }
    }

    /// All that is rare in a free.
    #[inline(always)]
    pub(crate) fn free_slow<W: Warp>(
        &self,
        warp: &W,
        offset: u64,
        left: Left,
    ) -> Result<(), FreeError> {
        // One by one: a structure goes through memory.
        self.free_left(warp, offset, left.what, left.whose, left.state.0)
    }

    #[inline(never)]
    fn free_left<W: Warp>(
        &self,
        warp: &W,
        offset: u64,
        what: u32,
        whose: u32,
        state: u64,
    ) -> Result<(), FreeError> {
        match what {
            FIRST => self.free_first(warp, whose, offset),
            UNUSUAL => self.free_unusual(offset),
            live => self.free_rest(offset, whose, live == CARE, State(state)),
        }
    }

    /// What is rare after a slot was freed, or was found not to be `live`. The
    /// slab's state, unless it is `FREE`, calls for care.
    #[inline(never)]
    fn free_rest(
        &self,
        offset: u64,
        descriptor: u32,
        live: bool,
        state: State,
    ) -> Result<(), FreeError> {
        if state != State::FREE {
            self.pool.settle(descriptor, state);
        }
        if live {
            Ok(())
        } else {
            self.offend(self.not_live(offset), offset)
        }
    }

    /// Frees a slot at an offset that was never freed before: as
    /// [`free`](Self::free), and remembers it. The slot is looked up again, since
    /// that is rare and passing it on is dear; it is still there, if live.
    #[inline(never)]
    fn free_first<W: Warp>(&self, warp: &W, peers: Mask, offset: u64) -> Result<(), FreeError> {
        let found = Self::slot_at(&self.pool, offset);
        let word_at = found.map_or(0, |(slot, _)| slot.word_at);
        let again = warp.match_any(peers, word_at);
        let Some((slot, _)) = found else {
            return self.free_unusual(offset);
        };
        self.remember_live(offset, slot.word_at, slot.bit);
        let (live, state) = Self::free_slot(&self.pool, warp, again, &slot);
        self.free_rest(offset, slot.descriptor, live, state)
    }

    /// Frees what begins at `offset`, which is no slot as far as was seen.
    #[inline(never)]
    fn free_unusual(&self, offset: u64) -> Result<(), FreeError> {
        let result = match self.locate(offset) {
            Ok(Located::Slot(slot)) => {
                self.remember_live(offset, slot.word_at, slot.bit);
                let (freed, state) = Self::clear_slots(&self.pool, &slot, slot.bit);
                return self.free_rest(offset, slot.descriptor, freed != 0, state);
            }
            Ok(Located::Run { page, pages }) => self.free_run(offset, page, pages),
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.offend(error, offset),
        }
    }

    /// The lanes of `peers` free slots of one word; whether the calling lane's
    /// was live. With it, for one of the lanes, the slab's state if that calls
    /// for care, and else `FREE`. `hot` is the pool, or a copy.
    fn free_slot<W: Warp>(hot: &Pool<M>, warp: &W, peers: Mask, slot: &Slot) -> (bool, State) {
        let bits = warp.reduce_or(peers, slot.bit);
        if bits.count_ones() < peers.count_ones() {
            // Some lanes name one slot: each for itself, and one wins.
            let (freed, state) = Self::clear_slots(hot, slot, slot.bit);
            return (freed != 0, state);
        }
        Self::free_slots(hot, warp, peers, slot, bits)
    }

    /// The lanes of `peers` free the slots `bits` of one word, one each.
    #[inline(always)]
    fn free_slots<W: Warp>(
        hot: &Pool<M>,
        warp: &W,
        peers: Mask,
        slot: &Slot,
        bits: u64,
    ) -> (bool, State) {
        // What each lane did to its block comes before the leader's release.
        warp.sync(peers);
        let leader = peers.trailing_zeros();
        let (mut freed, mut state) = (0, State::FREE);
        if warp.lane() == leader {
            (freed, state) = Self::clear_slots(hot, slot, bits);
        }
        (warp.shuffle(peers, freed, leader) & slot.bit != 0, state)
    }

    /// Frees those of the slots `bits` that are live: which they were, and the
    /// slab's state if that calls for care.
    #[inline(always)]
    fn clear_slots(hot: &Pool<M>, slot: &Slot, bits: u64) -> (u64, State) {
        let base_slots = hot.base_slots(slot.class);
        // AcqRel. Release: what the user did to the block comes before what the
        // next owner does. Acquire: for the second look.
        let old = hot.mem.fetch_and(slot.word_at, !bits, Order::AcqRel);
        let freed = if M::FAULT as u8 == Fault::BlindFree as u8 {
            bits
        } else {
            old & bits
        };
        if freed == 0 {
            return (0, State::FREE);
        }
        // Each slot just cleared lacks a credit, which pins the slab it belongs
        // to. If that is not the slab it was taken for, this is a double free
        // that raced with the slab's end and the page's next use: the bits
        // are another slab's, so they go back. A claimer of that slab whose
        // credit is for another slot may take the bit before that: as with any
        // double free that comes after the re-use, somebody else's block has
        // been freed then (see DESIGN.md, Drawbacks).
        let seen = hot.page_word(slot.page, Order::Relaxed);
        if seen != slot.first_word && M::FAULT as u8 != Fault::BlindFree as u8 {
            hot.mem.fetch_or(slot.word_at, freed, Order::AcqRel);
            return (0, State::FREE);
        }
        let (old, now) = hot.return_credits(slot.descriptor, freed.count_ones() as i32);
        let care = old.alive() && now.needs_care(base_slots);
        (freed, if care { now } else { State::FREE })
    }

    /// Remembers that the block at `offset` was freed, if it is live: before
    /// it is freed, so that whoever frees it a second time is told so.
    #[inline(never)]
    fn remember_live(&self, offset: u64, word_at: u64, bit: u64) {
        if self.pool.mem.load(word_at, Order::Relaxed) & bit != 0 {
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
    fn offend(&self, error: FreeError, offset: u64) -> Result<(), FreeError> {
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
        Err(error)
    }
}

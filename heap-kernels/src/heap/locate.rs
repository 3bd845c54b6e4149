//! From a block's offset to what the heap knows of it.

use super::{FreeError, Heap};
use crate::layout::Pool;
use crate::layout::classes::{MARKED, class_size, slot_of};
use crate::layout::words::{PageUse, PageWord, SlabKind};
use crate::mem::{Mem, Order};

/// A slot, live or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// First page of its slab.
    pub(super) page: u64,
    /// The page word that was seen there, or follows from what was seen.
    pub(super) first_word: PageWord,
    pub(super) class: u32,
    pub(super) descriptor: u32,
    /// Offset of its word of slot bits.
    pub(super) word_at: u64,
    /// Its bit.
    pub(super) bit: u64,
}

/// What begins at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Located {
    Slot(Slot),
    Run { page: u64, pages: u64 },
}

impl<M: Mem> Heap<M> {
    /// What begins at `offset`. A slot may not be live.
    pub(super) fn locate(&self, offset: u64) -> Result<Located, FreeError> {
        let geo = &self.pool.geo;
        let Some(inside) = offset
            .checked_sub(geo.data)
            .filter(|&at| at < geo.page_bytes())
        else {
            return Err(FreeError::OutsidePool);
        };
        let page = inside >> geo.page_shift;
        // Relaxed: whoever may free the block got its pointer from the lane
        // that wrote the word, or from one that saw it.
        match self.pool.page_word(page, Order::Relaxed).decode() {
            PageUse::Nothing => Err(self.no_block(offset, page)),
            PageUse::Run { pages } if offset == geo.page_start(page) => {
                Ok(Located::Run { page, pages })
            }
            PageUse::Run { .. } => Err(FreeError::InsideBlock),
            PageUse::Slab {
                kind,
                index,
                descriptor,
            } => {
                let first = page.saturating_sub(u64::from(index));
                self.slot(offset, first, kind, descriptor)
                    .map(Located::Slot)
            }
        }
    }

    fn slot(
        &self,
        offset: u64,
        page: u64,
        kind: SlabKind,
        descriptor: u32,
    ) -> Result<Slot, FreeError> {
        let pool = &self.pool;
        let class = kind.class;
        let inside = offset - pool.geo.page_start(page);
        let (slot, begins) = slot_of(class, inside);
        let (word_at, bit) = (
            pool.slot_word_at(page, u64::from(slot / 64)),
            1 << (slot % 64),
        );
        if slot >= pool.slots(kind) as u32 {
            // The tail of a slab, which is no part of any block.
            return Err(self.not_live(offset));
        }
        if !begins {
            return Err(self.inside_slot(offset, word_at, bit));
        }
        Ok(Slot {
            page,
            first_word: PageWord::slab(kind, 0, descriptor),
            class,
            descriptor,
            word_at,
            bit,
        })
    }

    /// The slot that begins at `offset`, live or not, and whether a block at
    /// `offset` is known to have been freed before; nothing where no slot begins
    /// there. Two loads, which do not depend on each other: a slot's bit alone
    /// says whether it is live, and behind a slab's last slot none is, so nothing
    /// has to be looked up for the class.
    #[inline(always)]
    pub(super) fn slot_at(hot: &Pool<M>, offset: u64) -> Option<(Slot, bool)> {
        let inside = offset.wrapping_sub(hot.geo.data);
        if inside >= hot.geo.page_bytes() {
            return None;
        }
        let page = inside >> hot.geo.page_shift;
        let (history_at, history_bit) = hot.history_at(offset);
        // Relaxed: as in `locate`; the history is a report.
        let history = hot.mem.load(history_at, Order::Relaxed);
        let PageUse::Slab {
            kind,
            index,
            descriptor,
        } = hot.page_word(page, Order::Relaxed).decode()
        else {
            return None;
        };
        let first = page.wrapping_sub(index.into());
        let inside = inside.wrapping_sub(first << hot.geo.page_shift);
        let (slot, begins) = slot_of(kind.class, inside);
        if !begins {
            return None;
        }
        let slot = Slot {
            page: first,
            first_word: PageWord::slab(kind, 0, descriptor),
            class: kind.class,
            descriptor,
            word_at: hot.slot_word_at(first, u64::from(slot / 64)),
            bit: 1 << (slot % 64),
        };
        Some((slot, history & history_bit != 0))
    }

    /// Why no block begins at `offset`, behind the first byte of a slot. In a
    /// free slot, a block that began here was freed with a former slab.
    #[cold]
    #[inline(never)]
    fn inside_slot(&self, offset: u64, word_at: u64, bit: u64) -> FreeError {
        let live = self.pool.mem.load(word_at, Order::Relaxed) & bit != 0;
        if !live && self.was_freed(offset) {
            FreeError::DoubleFree
        } else {
            FreeError::InsideBlock
        }
    }

    /// Why no block begins at `offset`, in a page where none begins.
    #[cold]
    #[inline(never)]
    fn no_block(&self, offset: u64, page: u64) -> FreeError {
        let used = self
            .pool
            .mem
            .load(self.pool.level_at(0, page / 64), Order::Relaxed);
        if self.was_freed(offset) {
            FreeError::DoubleFree
        } else if used >> (page % 64) & 1 == 1 && !self.is_unmarked_slot(offset, page) {
            FreeError::InsideBlock
        } else {
            FreeError::NeverAllocated
        }
    }

    /// Whether a slot begins at `offset` in a page that has no word, since nobody
    /// has taken a slot there, or whether it lies in such a slab's tail. A page
    /// not far below has a word then.
    fn is_unmarked_slot(&self, offset: u64, page: u64) -> bool {
        let pool = &self.pool;
        for back in 1..MARKED.min(page + 1) {
            match pool.page_word(page - back, Order::Relaxed).decode() {
                PageUse::Nothing => {}
                PageUse::Run { .. } => return false,
                PageUse::Slab { kind, index, .. } => {
                    let index = u64::from(index) + back;
                    let first = page.saturating_sub(index);
                    let (slot, begins) = slot_of(kind.class, offset - pool.geo.page_start(first));
                    return index < pool.slab_pages(kind)
                        && (begins || slot >= pool.slots(kind) as u32);
                }
            }
        }
        false
    }

    /// Whether a block that began at `offset` has been freed since the last
    /// reset.
    pub(super) fn was_freed(&self, offset: u64) -> bool {
        if !offset.is_multiple_of(16) {
            return false;
        }
        let (at, bit) = self.pool.history_at(offset);
        self.pool.mem.load(at, Order::Relaxed) & bit != 0
    }

    /// Why the slot at `offset`, which is not live, cannot be freed.
    #[cold]
    #[inline(never)]
    pub(super) fn not_live(&self, offset: u64) -> FreeError {
        if self.was_freed(offset) {
            FreeError::DoubleFree
        } else {
            FreeError::NeverAllocated
        }
    }

    /// The live block that begins at `offset`, as far as can be told while
    /// others work.
    pub(super) fn live(&self, offset: u64) -> Result<Located, FreeError> {
        let located = self.locate(offset)?;
        if let Located::Slot(slot) = located
            && self.pool.mem.load(slot.word_at, Order::Relaxed) & slot.bit == 0
        {
            return Err(self.not_live(offset));
        }
        Ok(located)
    }

    /// Bytes of a block.
    pub(super) fn size_of(&self, located: Located) -> u64 {
        match located {
            Located::Slot(slot) => class_size(slot.class),
            Located::Run { pages, .. } => pages << self.pool.geo.page_shift,
        }
    }

    /// Bytes that the block at `offset` has: at least as many as were asked
    /// for. Constant time.
    ///
    /// # Errors
    ///
    /// [`FreeError`] where no live block begins there.
    pub fn usable_size(&self, offset: u64) -> Result<u64, FreeError> {
        self.live(offset).map(|located| self.size_of(located))
    }
}

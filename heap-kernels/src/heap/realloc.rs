//! Changing the size of a block.

use core::fmt;

use super::locate::Located;
use super::{AllocError, FreeError, Heap, Request};
use crate::layout::words::PageWord;
use crate::mem::{Mem, Order};
use crate::warp::Warp;

/// Why a block could not be given another size. It is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReallocError {
    /// No room for the new size.
    Alloc(AllocError),
    /// The offset names no live block.
    Free(FreeError),
}

impl fmt::Display for ReallocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alloc(error) => error.fmt(f),
            Self::Free(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ReallocError {}

impl<M: Mem> Heap<M> {
    /// Gives the block at `offset` the size and alignment of `request`, in
    /// place where that wastes less than half of it; the block's (new) offset.
    /// The first bytes, up to the smaller of both sizes, stay the same.
    ///
    /// A run shrinks, and grows into free pages behind it, in place. Else
    /// linear in the bytes copied, and both blocks exist meanwhile.
    ///
    /// # Errors
    ///
    /// [`ReallocError`]; the block is still live, at its old offset, with its
    /// contents.
    pub fn realloc<W: Warp>(
        &self,
        warp: &W,
        offset: u64,
        request: Request,
    ) -> Result<u64, ReallocError> {
        if !request.align.is_power_of_two() {
            return Err(ReallocError::Alloc(AllocError::BadAlignment));
        }
        let located = self.live(offset).map_err(ReallocError::Free)?;
        let aligned = (self.pool.mem.base() + offset).is_multiple_of(request.align);
        if aligned && self.resize_in_place(located, request.size) {
            return Ok(offset);
        }
        let new = self.alloc(warp, request).map_err(ReallocError::Alloc)?;
        let kept = self.size_of(located).min(request.size);
        // SAFETY: both blocks are live, so they do not overlap, have at least
        // `kept` bytes, and are the caller's.
        unsafe { self.pool.mem.copy(offset, new, kept) };
        match self.free(warp, offset) {
            Ok(()) => Ok(new),
            Err(error) => {
                // Somebody freed it meanwhile; nothing of it is left to give.
                let _ = self.free(warp, new);
                Err(ReallocError::Free(error))
            }
        }
    }

    fn resize_in_place(&self, located: Located, size: u64) -> bool {
        let usable = self.size_of(located);
        match located {
            Located::Slot(_) => size <= usable && (usable <= 32 || size * 2 >= usable),
            Located::Run { page, pages } => {
                let small = size <= self.pool.geo.small_max() && size * 2 < usable;
                let wanted = size.div_ceil(self.pool.geo.page_size()).max(1);
                !small && self.resize_run(page, pages, wanted)
            }
        }
    }

    fn resize_run(&self, page: u64, pages: u64, wanted: u64) -> bool {
        let pool = &self.pool;
        let extends = wanted > pages;
        if extends {
            let fits = page
                .checked_add(wanted)
                .is_some_and(|end| end <= pool.geo.pages);
            if !fits || pool.claim_run(page + pages, wanted - pages).is_err() {
                return false;
            }
            pool.note_used(wanted - pages);
        }
        let (old, new) = (PageWord::run(pages).0, PageWord::run(wanted).0);
        // AcqRel, as in free: against a free of the block that races with this.
        let at = pool.page_word_at(page);
        let won = pool
            .mem
            .compare_exchange(at, old, new, Order::AcqRel)
            .is_ok();
        if extends && !won {
            pool.release_run(page + pages, wanted - pages);
        } else if won && wanted < pages {
            pool.release_run(page + wanted, pages - wanted);
        }
        won
    }
}

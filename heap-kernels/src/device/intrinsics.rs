//! The instructions of the device that Rust has no safe name for, named as
//! `cuda_std` names them. The only file with device assembly.
//!
//! PTX ISA 7.0, `sm_80` and up. Atomics are of gpu scope: rustc's own acquire
//! and release become system scope on this target, which is dearer than a
//! heap in device memory needs.

use core::arch::asm;

/// Where the calling thread is.
pub mod thread {
    use core::arch::nvptx;

    /// Index of the calling thread in the whole launch, for one-dimensional
    /// blocks and grids.
    #[must_use]
    #[inline]
    pub fn index() -> u64 {
        // SAFETY: reading special registers has no effect.
        unsafe {
            nvptx::_block_idx_x() as u64 * nvptx::_block_dim_x() as u64
                + nvptx::_thread_idx_x() as u64
        }
    }

    /// Threads in the whole launch, likewise.
    #[must_use]
    #[inline]
    pub fn count() -> u64 {
        // SAFETY: reading special registers has no effect.
        unsafe { nvptx::_grid_dim_x() as u64 * nvptx::_block_dim_x() as u64 }
    }
}

/// The lanes of the calling thread's warp.
pub mod warp {
    use super::asm;

    /// Index of the calling thread in its warp.
    #[must_use]
    #[inline]
    pub fn lane_id() -> u32 {
        let lane: u32;
        // SAFETY: reads a special register.
        unsafe { asm!("mov.u32 {}, %laneid;", out(reg32) lane, options(pure, nomem, nostack)) };
        lane
    }

    /// Index of the multiprocessor that runs the calling thread.
    #[must_use]
    #[inline]
    pub fn sm_id() -> u32 {
        let sm: u32;
        // SAFETY: reads a special register; volatile, for it may change.
        unsafe { asm!("mov.u32 {}, %smid;", out(reg32) sm, options(nomem, nostack)) };
        sm
    }

    /// The lanes that run this together.
    #[must_use]
    #[inline]
    pub fn active_mask() -> u32 {
        let mask: u32;
        // SAFETY: reads the mask; no `pure`: it differs from place to place.
        unsafe { asm!("activemask.b32 {};", out(reg32) mask, options(nostack)) };
        mask
    }

    /// A barrier among the lanes of `mask`, also for memory.
    ///
    /// # Safety
    ///
    /// All lanes of `mask`, the caller among them, call it.
    #[inline]
    pub unsafe fn sync_warp(mask: u32) {
        // SAFETY: as the caller promises.
        unsafe { asm!("bar.warp.sync {};", in(reg32) mask, options(nostack)) };
    }

    /// The lanes of `mask` whose `predicate` is true.
    ///
    /// # Safety
    ///
    /// As [`sync_warp`].
    #[must_use]
    #[inline]
    pub unsafe fn ballot(mask: u32, predicate: bool) -> u32 {
        let result: u32;
        // SAFETY: as the caller promises.
        unsafe {
            asm!(
                "{{ .reg .pred %p; setp.ne.u32 %p, {1}, 0; vote.sync.ballot.b32 {0}, %p, {2}; }}",
                out(reg32) result, in(reg32) u32::from(predicate), in(reg32) mask,
                options(nostack)
            );
        }
        result
    }

    /// The lanes of `mask` whose `value` is the caller's.
    ///
    /// # Safety
    ///
    /// As [`sync_warp`].
    #[must_use]
    #[inline]
    pub unsafe fn match_any(mask: u32, value: u64) -> u32 {
        let result: u32;
        // SAFETY: as the caller promises.
        unsafe {
            asm!(
                "match.any.sync.b64 {}, {}, {};",
                out(reg32) result, in(reg64) value, in(reg32) mask,
                options(nostack)
            );
        }
        result
    }

    /// The `value` of lane `from`, which is in `mask`.
    ///
    /// # Safety
    ///
    /// As [`sync_warp`].
    #[must_use]
    #[inline]
    pub unsafe fn shuffle(mask: u32, value: u32, from: u32) -> u32 {
        let result: u32;
        // SAFETY: as the caller promises.
        unsafe {
            asm!(
                "shfl.sync.idx.b32 {}, {}, {}, 31, {};",
                out(reg32) result, in(reg32) value, in(reg32) from, in(reg32) mask,
                options(nostack)
            );
        }
        result
    }

    /// Bitwise or of the values of the lanes of `mask`.
    ///
    /// # Safety
    ///
    /// As [`sync_warp`].
    #[must_use]
    #[inline]
    pub unsafe fn reduce_or(mask: u32, value: u32) -> u32 {
        let result: u32;
        // SAFETY: as the caller promises.
        unsafe {
            asm!(
                "redux.sync.or.b32 {}, {}, {};",
                out(reg32) result, in(reg32) value, in(reg32) mask,
                options(nostack)
            );
        }
        result
    }
}

/// Atomic accesses to 64-bit words of global memory, of gpu scope.
pub mod atomic {
    use super::asm;
    use crate::mem::Order;

    macro_rules! by_order {
        ($order:expr, $one:ident) => {
            match $order {
                Order::Relaxed => $one!("relaxed"),
                Order::Acquire => $one!("acquire"),
                Order::Release => $one!("release"),
                Order::AcqRel => $one!("acq_rel"),
            }
        };
    }

    /// Loads a word; `order` is `Relaxed` or `Acquire`.
    ///
    /// # Safety
    ///
    /// `word` points to an aligned word of global memory.
    #[must_use]
    #[inline]
    pub unsafe fn load(word: *const u64, order: Order) -> u64 {
        let value: u64;
        // SAFETY: as the caller promises.
        unsafe {
            match order {
                Order::Acquire | Order::AcqRel => asm!(
                    "ld.acquire.gpu.global.u64 {}, [{}];",
                    out(reg64) value, in(reg64) word, options(nostack)
                ),
                Order::Relaxed | Order::Release => asm!(
                    "ld.relaxed.gpu.global.u64 {}, [{}];",
                    out(reg64) value, in(reg64) word, options(nostack)
                ),
            }
        }
        value
    }

    /// Stores a word; `order` is `Relaxed` or `Release`.
    ///
    /// # Safety
    ///
    /// As [`load`].
    #[inline]
    pub unsafe fn store(word: *mut u64, value: u64, order: Order) {
        // SAFETY: as the caller promises.
        unsafe {
            match order {
                Order::Release | Order::AcqRel => asm!(
                    "st.release.gpu.global.u64 [{}], {};",
                    in(reg64) word, in(reg64) value, options(nostack)
                ),
                Order::Relaxed | Order::Acquire => asm!(
                    "st.relaxed.gpu.global.u64 [{}], {};",
                    in(reg64) word, in(reg64) value, options(nostack)
                ),
            }
        }
    }

    /// Replaces `current` by `new`; the old value.
    ///
    /// # Safety
    ///
    /// As [`load`].
    #[must_use]
    #[inline]
    pub unsafe fn compare_and_swap(word: *mut u64, current: u64, new: u64, order: Order) -> u64 {
        let old: u64;
        macro_rules! one {
            ($name:literal) => {
                // SAFETY: as the caller promises.
                unsafe {
                    asm!(
                        concat!("atom.", $name, ".gpu.global.cas.b64 {}, [{}], {}, {};"),
                        out(reg64) old, in(reg64) word, in(reg64) current, in(reg64) new,
                        options(nostack)
                    )
                }
            };
        }
        by_order!(order, one);
        old
    }

    macro_rules! read_modify_write {
        ($(#[$doc:meta])* $function:ident, $instruction:literal) => {
            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// As [`load`].
            #[inline]
            pub unsafe fn $function(word: *mut u64, value: u64, order: Order) -> u64 {
                let old: u64;
                macro_rules! one {
                    ($name:literal) => {
                        // SAFETY: as the caller promises.
                        unsafe {
                            asm!(
                                concat!("atom.", $name, ".gpu.global.", $instruction, " {}, [{}], {};"),
                                out(reg64) old, in(reg64) word, in(reg64) value,
                                options(nostack)
                            )
                        }
                    };
                }
                by_order!(order, one);
                old
            }
        };
    }

    read_modify_write!(
        /// Adds with wrap-around; the old value.
        add, "add.u64"
    );
    read_modify_write!(
        /// Bitwise and; the old value.
        and, "and.b64"
    );
    read_modify_write!(
        /// Bitwise or; the old value.
        or, "or.b64"
    );
    read_modify_write!(
        /// Maximum of unsigned values; the old value.
        max, "max.u64"
    );
}

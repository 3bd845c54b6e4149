//! The instructions of the device that Rust has no safe name for, named as
//! `cuda_std` names them. The only file with device assembly.
//!
//! PTX ISA 7.0, `sm_80` and up. Atomics are of gpu scope: rustc's own acquire
//! and release become system scope on this target, which is dearer than a
//! heap in device memory needs.

use core::arch::asm;

/// Where the calling thread is.
pub mod thread {
    use super::asm;
    use core::arch::nvptx;

    /// Index of the calling thread in the whole launch, for one-dimensional
    /// blocks and grids.
    ///
    /// Read anew each time: three instructions are cheaper than a register that
    /// holds the index across a call.
    #[must_use]
    #[inline]
    pub fn index() -> u64 {
        let (block, size, thread): (u32, u32, u32);
        // SAFETY: reads special registers; volatile, see above.
        unsafe {
            asm!("mov.u32 {}, %ctaid.x;", out(reg32) block, options(nomem, nostack));
            asm!("mov.u32 {}, %ntid.x;", out(reg32) size, options(nomem, nostack));
            asm!("mov.u32 {}, %tid.x;", out(reg32) thread, options(nomem, nostack));
        }
        u64::from(block) * u64::from(size) + u64::from(thread)
    }

    /// Threads in the whole launch, likewise.
    #[must_use]
    #[inline]
    pub fn count() -> u64 {
        // SAFETY: reading special registers has no effect.
        unsafe { nvptx::_grid_dim_x() as u64 * nvptx::_block_dim_x() as u64 }
    }

    /// Ends the calling thread.
    #[inline]
    pub fn exit() -> ! {
        // SAFETY: a thread may end anywhere; the kernel waits for no other.
        unsafe { asm!("exit;", options(nomem, nostack, noreturn)) }
    }

    /// Lets other warps go on for about so many nanoseconds, twice as many at
    /// most.
    #[inline]
    pub fn sleep(nanoseconds: u32) {
        // SAFETY: touches no memory.
        unsafe { asm!("nanosleep.u32 {};", in(reg32) nanoseconds, options(nomem, nostack)) };
    }

    /// Ticks of the multiprocessor's clock.
    #[must_use]
    #[inline]
    pub fn clock() -> u64 {
        let ticks: u64;
        // SAFETY: reads a special register; volatile, for it changes.
        unsafe { asm!("mov.u64 {}, %clock64;", out(reg64) ticks, options(nomem, nostack)) };
        ticks
    }
}

/// The lanes of the calling thread's warp.
///
/// What lanes do together goes through the code generator's own intrinsics,
/// which it knows to be *convergent*: it may not copy such a call into the two
/// sides of a branch, where lanes of one mask would wait for each other at
/// different instructions. For `asm!` on this target it knows no such thing.
pub mod warp {
    use super::asm;

    // SAFETY: names and types are those of the code generator's intrinsics.
    unsafe extern "unadjusted" {
        #[link_name = "llvm.nvvm.activemask"]
        fn activemask() -> u32;
        #[link_name = "llvm.nvvm.bar.warp.sync"]
        fn bar_warp_sync(mask: u32);
        #[link_name = "llvm.nvvm.vote.ballot.sync"]
        fn vote_ballot_sync(mask: u32, predicate: bool) -> u32;
        #[link_name = "llvm.nvvm.match.any.sync.i64"]
        fn match_any_sync(mask: u32, value: u64) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
        fn shfl_sync_idx(mask: u32, value: u32, from: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.or"]
        fn redux_sync_or(value: u32, mask: u32) -> u32;
    }

    /// Index of the calling thread in its warp; read anew each time, as
    /// [`thread::index`](super::thread::index).
    #[must_use]
    #[inline]
    pub fn lane_id() -> u32 {
        let lane: u32;
        // SAFETY: reads a special register; volatile, see above.
        unsafe { asm!("mov.u32 {}, %laneid;", out(reg32) lane, options(nomem, nostack)) };
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
        // SAFETY: reads the mask.
        unsafe { activemask() }
    }

    /// A barrier among the lanes of `mask`, also for memory.
    ///
    /// # Safety
    ///
    /// All lanes of `mask`, the caller among them, call it.
    #[inline]
    pub unsafe fn sync_warp(mask: u32) {
        // SAFETY: as the caller promises.
        unsafe { bar_warp_sync(mask) };
    }

    /// The lanes of `mask` whose `predicate` is true.
    ///
    /// # Safety
    ///
    /// As [`sync_warp`].
    #[must_use]
    #[inline]
    pub unsafe fn ballot(mask: u32, predicate: bool) -> u32 {
        // SAFETY: as the caller promises.
        unsafe { vote_ballot_sync(mask, predicate) }
    }

    /// The lanes of `mask` whose `value` is the caller's.
    ///
    /// # Safety
    ///
    /// As [`sync_warp`].
    #[must_use]
    #[inline]
    pub unsafe fn match_any(mask: u32, value: u64) -> u32 {
        // SAFETY: as the caller promises.
        unsafe { match_any_sync(mask, value) }
    }

    /// The `value` of lane `from`, which is in `mask`.
    ///
    /// # Safety
    ///
    /// As [`sync_warp`].
    #[must_use]
    #[inline]
    pub unsafe fn shuffle(mask: u32, value: u32, from: u32) -> u32 {
        // SAFETY: as the caller promises; all lanes are one segment.
        unsafe { shfl_sync_idx(mask, value, from, 31) }
    }

    /// Bitwise or of the values of the lanes of `mask`.
    ///
    /// # Safety
    ///
    /// As [`sync_warp`].
    #[must_use]
    #[inline]
    pub unsafe fn reduce_or(mask: u32, value: u32) -> u32 {
        // SAFETY: as the caller promises.
        unsafe { redux_sync_or(value, mask) }
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

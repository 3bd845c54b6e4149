//! Plain host memory as a pool.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::mem::{Mem, Order, Scope};

/// A pool in host memory that somebody else owns.
///
/// `Copy`: all copies refer to the same memory.
#[derive(Clone, Copy, Debug)]
pub struct HostMem {
    base: *mut u8,
    len: u64,
}

// SAFETY: the pointer is only used for atomic accesses and, through the unsafe
// methods, for ranges that the caller has to itself.
unsafe impl Send for HostMem {}
// SAFETY: as above; all shared accesses are atomic.
unsafe impl Sync for HostMem {}

impl HostMem {
    /// The pool of `len` bytes at `base`.
    ///
    /// # Safety
    ///
    /// The bytes are valid for reads and writes, aligned to 8 bytes at least,
    /// and belong to this pool alone for as long as any copy of the value is
    /// used.
    #[must_use]
    pub const unsafe fn new(base: *mut u8, len: u64) -> Self {
        Self { base, len }
    }

    /// The pointer to the byte at offset `at`.
    #[must_use]
    #[inline]
    pub fn pointer(&self, at: u64) -> *mut u8 {
        debug_assert!(at <= self.len);
        self.base.wrapping_add(at as usize)
    }

    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= self.len);
        // SAFETY: the heap passes offsets of words inside the pool, which is
        // valid memory aligned to 8 bytes, and accesses these words through
        // atomics only.
        unsafe { AtomicU64::from_ptr(self.base.add(at as usize).cast()) }
    }
}

#[inline]
const fn ordering(order: Order) -> Ordering {
    match order {
        Order::Relaxed => Ordering::Relaxed,
        Order::Acquire => Ordering::Acquire,
        Order::Release => Ordering::Release,
        Order::AcqRel => Ordering::AcqRel,
    }
}

#[inline]
const fn failure(order: Order) -> Ordering {
    match order {
        Order::Acquire | Order::AcqRel => Ordering::Acquire,
        Order::Relaxed | Order::Release => Ordering::Relaxed,
    }
}

// SAFETY: `new` demands the memory's validity and exclusiveness; every word
// method is one std atomic of the same order.
unsafe impl Mem for HostMem {
    const SCOPE: Scope = Scope::Device;

    #[inline]
    fn len(&self) -> u64 {
        self.len
    }
    #[inline]
    fn base(&self) -> u64 {
        self.base as u64
    }
    #[inline]
    fn load(&self, at: u64, order: Order) -> u64 {
        self.word(at).load(ordering(order))
    }
    #[inline]
    fn store(&self, at: u64, value: u64, order: Order) {
        self.word(at).store(value, ordering(order));
    }
    #[inline]
    fn compare_exchange(&self, at: u64, current: u64, new: u64, order: Order) -> Result<u64, u64> {
        self.word(at)
            .compare_exchange(current, new, ordering(order), failure(order))
    }
    #[inline]
    fn fetch_add(&self, at: u64, value: u64, order: Order) -> u64 {
        self.word(at).fetch_add(value, ordering(order))
    }
    #[inline]
    fn fetch_and(&self, at: u64, value: u64, order: Order) -> u64 {
        self.word(at).fetch_and(value, ordering(order))
    }
    #[inline]
    fn fetch_or(&self, at: u64, value: u64, order: Order) -> u64 {
        self.word(at).fetch_or(value, ordering(order))
    }
    #[inline]
    fn fetch_max(&self, at: u64, value: u64, order: Order) -> u64 {
        self.word(at).fetch_max(value, ordering(order))
    }
    #[inline]
    unsafe fn fill(&self, at: u64, len: u64, byte: u8) {
        // SAFETY: the caller promises that the range is in the pool and its own.
        unsafe { self.pointer(at).write_bytes(byte, len as usize) }
    }
    #[inline]
    unsafe fn copy(&self, from: u64, to: u64, len: u64) {
        // SAFETY: the caller promises that both ranges are in the pool, do not
        // overlap, and that nobody else accesses them.
        unsafe {
            self.pointer(to)
                .copy_from_nonoverlapping(self.pointer(from), len as usize);
        }
    }
}

//! A GPU as a machine for the heap: its memory and its warps, for the target
//! `nvptx64-nvidia-cuda`.
//!
//! A kernel crate of one's own takes a `&HeapHandle` as a kernel parameter (a
//! pointer to the handle that the host made), and calls
//! `handle.heap().alloc(&DeviceWarp, request)` from any lane.

#[cfg(feature = "entry")]
mod entry;
pub mod intrinsics;

use crate::heap::{Heap, HeapHandle};
use crate::mem::{Mem, Order, Scope};
use crate::warp::{Mask, Warp};
use intrinsics::{atomic, thread, warp};

impl HeapHandle {
    /// The heap that the handle stands for.
    ///
    /// # Safety
    ///
    /// The handle is that of a pool in this device's memory, which was formatted.
    #[must_use]
    #[inline]
    pub const unsafe fn heap(&self) -> &Heap<DeviceMem> {
        // SAFETY: the heap is `repr(C)` with the handle's fields in the
        // handle's order: base, length, geometry.
        unsafe { &*(&raw const *self).cast() }
    }
}

const _: () = assert!(size_of::<HeapHandle>() == size_of::<Heap<DeviceMem>>());

/// A pool in global memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceMem {
    base: u64,
    len: u64,
}

impl DeviceMem {
    #[inline]
    fn word(&self, at: u64) -> *mut u64 {
        (self.base + at) as *mut u64
    }
}

// SAFETY: a handle is made for a pool that its maker keeps valid; all word
// methods are single instructions of gpu scope and the stated order.
unsafe impl Mem for DeviceMem {
    const SCOPE: Scope = Scope::Device;
    const PATIENCE: u32 = 4096;

    #[inline]
    fn pause(&self) {
        thread::sleep(256);
    }
    #[inline]
    fn len(&self) -> u64 {
        self.len
    }
    #[inline]
    fn base(&self) -> u64 {
        self.base
    }
    #[inline]
    fn load(&self, at: u64, order: Order) -> u64 {
        // SAFETY: the heap passes offsets of words of its pool.
        unsafe { atomic::load(self.word(at), order) }
    }
    #[inline]
    fn store(&self, at: u64, value: u64, order: Order) {
        // SAFETY: as above.
        unsafe { atomic::store(self.word(at), value, order) }
    }
    #[inline]
    fn compare_exchange(&self, at: u64, current: u64, new: u64, order: Order) -> Result<u64, u64> {
        // SAFETY: as above.
        let old = unsafe { atomic::compare_and_swap(self.word(at), current, new, order) };
        if old == current { Ok(old) } else { Err(old) }
    }
    #[inline]
    fn fetch_add(&self, at: u64, value: u64, order: Order) -> u64 {
        // SAFETY: as above.
        unsafe { atomic::add(self.word(at), value, order) }
    }
    #[inline]
    fn fetch_and(&self, at: u64, value: u64, order: Order) -> u64 {
        // SAFETY: as above.
        unsafe { atomic::and(self.word(at), value, order) }
    }
    #[inline]
    fn fetch_or(&self, at: u64, value: u64, order: Order) -> u64 {
        // SAFETY: as above.
        unsafe { atomic::or(self.word(at), value, order) }
    }
    #[inline]
    fn fetch_max(&self, at: u64, value: u64, order: Order) -> u64 {
        // SAFETY: as above.
        unsafe { atomic::max(self.word(at), value, order) }
    }
    unsafe fn fill(&self, at: u64, len: u64, byte: u8) {
        let start = (self.base + at) as *mut u8;
        // SAFETY: the caller has the range to itself.
        unsafe { start.write_bytes(byte, len as usize) }
    }
    unsafe fn copy(&self, from: u64, to: u64, len: u64) {
        let (from, to) = ((self.base + from) as *const u8, (self.base + to) as *mut u8);
        // SAFETY: the caller has both ranges to itself, and they are apart.
        unsafe { to.copy_from_nonoverlapping(from, len as usize) }
    }
}

/// The calling thread's warp.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceWarp;

// SAFETY: each method is the hardware's collective with the given mask, whose
// lanes the heap has agreed on. Only `sync` orders memory among them.
unsafe impl Warp for DeviceWarp {
    #[inline]
    fn lane(&self) -> u32 {
        warp::lane_id()
    }
    #[inline]
    fn active(&self) -> Mask {
        warp::active_mask()
    }
    #[inline]
    fn ballot(&self, mask: Mask, predicate: bool) -> Mask {
        // SAFETY: the heap calls collectives with all lanes of the mask.
        unsafe { warp::ballot(mask, predicate) }
    }
    #[inline]
    fn match_any(&self, mask: Mask, value: u64) -> Mask {
        // SAFETY: as above.
        unsafe { warp::match_any(mask, value) }
    }
    #[inline]
    fn shuffle(&self, mask: Mask, value: u64, from: u32) -> u64 {
        // SAFETY: as above.
        unsafe {
            let low = warp::shuffle(mask, value as u32, from);
            let high = warp::shuffle(mask, (value >> 32) as u32, from);
            u64::from(high) << 32 | u64::from(low)
        }
    }
    #[inline]
    fn reduce_or(&self, mask: Mask, value: u64) -> u64 {
        // SAFETY: as above.
        unsafe {
            let low = warp::reduce_or(mask, value as u32);
            let high = warp::reduce_or(mask, (value >> 32) as u32);
            u64::from(high) << 32 | u64::from(low)
        }
    }
    #[inline]
    fn sync(&self, mask: Mask) {
        // SAFETY: as above.
        unsafe { warp::sync_warp(mask) }
    }
    #[inline]
    fn shard(&self) -> u32 {
        warp::sm_id()
    }
}

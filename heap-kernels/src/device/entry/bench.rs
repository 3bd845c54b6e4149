//! What the heap's times are set beside.

use super::super::intrinsics::{atomic, thread, warp};
use super::{DeviceHeap, WARP, element, put};
use crate::heap::Request;
use crate::mem::{Mem, Order};

unsafe extern "C" {
    /// The driver's own device heap; it resolves these when it loads the code.
    fn malloc(bytes: u64) -> *mut u8;
    fn free(block: *mut u8);
}

/// Keeps the device busy for about so many clock ticks: what is enqueued
/// behind it starts without waiting for the host.
///
/// # Safety
///
/// None needed: it touches no memory.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_delay(ticks: u64) {
    let start = thread::clock();
    while thread::clock().wrapping_sub(start) < ticks {}
}

/// W: each thread writes one pointer.
///
/// # Safety
///
/// `n` elements at `out`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_write_pointer(base: u64, size: u64, out: *mut u64, n: u64) {
    let i = thread::index();
    if i < n {
        // SAFETY: the host passes n elements.
        unsafe { put(out, i, base + i * size) };
    }
}

/// Each thread reads one pointer; `sum` gets the number of nulls.
///
/// # Safety
///
/// `n` elements at `blocks`, one at `sum`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_read_pointer(blocks: *const u64, sum: *mut u64, n: u64) {
    let i = thread::index();
    // SAFETY: the host passes n elements.
    if i < n && unsafe { element(blocks, i, 1) } == 0 {
        // SAFETY: one word, used through atomics.
        unsafe { atomic::add(sum, 1, Order::Relaxed) };
    }
}

/// A bump allocator, one atomic for the lanes of a warp: `counters` has one
/// word (`every` 0), or one per multiprocessor, `every` words apart.
///
/// # Safety
///
/// `n` elements at `out`; `counters` as described, zero.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_bump(
    counters: *mut u64,
    every: u64,
    share: u64,
    size: u64,
    out: *mut u64,
    n: u64,
) {
    let i = thread::index();
    if i >= n {
        return;
    }
    let peers = warp::active_mask();
    let (lane, leader) = (warp::lane_id(), peers.trailing_zeros());
    let sm = u64::from(warp::sm_id()) * u64::from(every != 0);
    let mut first = 0;
    // SAFETY: the host passes valid pointers; all active lanes shuffle.
    unsafe {
        if lane == leader {
            let counter = counters.add((sm * every) as usize);
            first = atomic::add(counter, u64::from(peers.count_ones()), Order::Relaxed) as u32;
        }
        let first = warp::shuffle(peers, first, leader);
        let rank = (peers & ((1 << lane) - 1)).count_ones();
        put(out, i, sm * share + u64::from(first + rank) * size);
    }
}

/// The driver's own `malloc`.
///
/// # Safety
///
/// As `dh_alloc`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_driver_malloc(
    sizes: *const u64,
    size: u64,
    out: *mut u64,
    n: u64,
) {
    let i = thread::index();
    if i < n {
        // SAFETY: the host passes valid pointers to n elements.
        unsafe { put(out, i, malloc(element(sizes, i, size)) as u64) };
    }
}

/// The driver's own `free`.
///
/// # Safety
///
/// As `dh_free`, for blocks of `dh_driver_malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_driver_free(blocks: *const u64, n: u64) {
    let i = thread::index();
    if i < n {
        // SAFETY: the host passes valid pointers to n elements.
        unsafe { free(element(blocks, i, 0) as *mut u8) };
    }
}

/// Each thread frees a block and allocates one of the same size in its place:
/// thread `i` that at place `(i * step + first) mod n`, with an odd `step` and
/// `n` a power of two, so that neighbours free blocks that lie apart. `failed`
/// counts frees and requests that failed.
///
/// # Safety
///
/// A valid handle of a formatted heap, arrays of `n` elements, and a word at
/// `failed`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_swap(
    heap: *const DeviceHeap,
    sizes: *const u64,
    size: u64,
    blocks: *mut u64,
    step: u64,
    first: u64,
    failed: *mut u64,
    n: u64,
) {
    let i = thread::index();
    if i >= n {
        return;
    }
    let place = i.wrapping_mul(step).wrapping_add(first) & (n - 1);
    // SAFETY: the host passes valid pointers; each place has one thread.
    unsafe {
        let heap = &*heap;
        let base = heap.mem().base();
        let block = element(blocks, place, 0);
        let freed = heap.free(&WARP, block.wrapping_sub(base));
        let new = heap.alloc(&WARP, Request::new(element(sizes, place, size)));
        put(blocks, place, new.map_or(0, |offset| base + offset));
        if freed.is_err() || new.is_err() {
            atomic::add(failed, 1, Order::Relaxed);
        }
    }
}

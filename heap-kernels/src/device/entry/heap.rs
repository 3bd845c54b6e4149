//! What a heap does, one thread per element.

use super::super::intrinsics::thread;
use super::{DeviceHeap, WARP, answer_to, element, put};
use crate::exercise::allocate;
use crate::heap::Request;
use crate::mem::{Mem, Order};

/// First step of formatting or resetting: zeroes the metadata, any number of
/// threads. Neighbouring lanes write neighbouring words.
///
/// # Safety
///
/// A valid handle, whose pool nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_zero(heap: *const DeviceHeap) {
    // SAFETY: the host passes a valid handle.
    let heap = unsafe { &*heap };
    let (start, len) = heap.geometry().zeroed();
    for word in (thread::index()..len / 8).step_by(thread::count() as usize) {
        heap.mem().store(start + word * 8, 0, Order::Relaxed);
    }
}

/// Second step, after `dh_zero` has ended: what is not zero in an empty heap.
///
/// # Safety
///
/// As [`dh_zero`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_begin(heap: *const DeviceHeap) {
    // SAFETY: the host passes a valid handle.
    unsafe { (*heap).begin_part(thread::index(), thread::count()) };
}

/// Gives the pages of retained empty slabs back; one thread.
///
/// # Safety
///
/// A valid handle of a formatted heap.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_reclaim(heap: *const DeviceHeap) {
    if thread::index() == 0 {
        // SAFETY: the host passes a valid handle.
        unsafe { (*heap).reclaim() };
    }
}

/// Allocates `sizes[i]` bytes, or `size` where `sizes` is null, into `out[i]`.
/// `status` may be null.
///
/// # Safety
///
/// A valid handle of a formatted heap, and arrays of `n` elements.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_alloc(
    heap: *const DeviceHeap,
    sizes: *const u64,
    size: u64,
    out: *mut u64,
    status: *mut u32,
    n: u64,
) {
    let i = thread::index();
    if i >= n {
        return;
    }
    // SAFETY: the host passes valid pointers to n elements.
    unsafe {
        let request = Request::new(element(sizes, i, size));
        let hot = (*heap).pool.hot();
        match (*heap).alloc_quick(&hot, &WARP, request) {
            Ok(offset) => {
                // Read anew: cheaper than a register kept all the way.
                let i = thread::index();
                put(out, i, hot.mem.base() + offset);
                put(status, i, 0);
            }
            Err(rest) => {
                let answer = (*heap).alloc_slow(&WARP, request, rest);
                let (address, code) = answer_to(&*heap, answer);
                let i = thread::index();
                put(out, i, address);
                put(status, i, code);
                // Lanes do not meet again: what the others keep would have to
                // be saved around the call.
                thread::exit();
            }
        }
    }
}

/// As `dh_alloc`, with alignment `aligns[i]` (null: 16), for those lanes of
/// each warp that are set in `lanes`; the others do not take part. With
/// `zero`, the bytes asked for are zero.
///
/// # Safety
///
/// As [`dh_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_alloc_lanes(
    heap: *const DeviceHeap,
    sizes: *const u64,
    aligns: *const u64,
    lanes: u32,
    zero: u32,
    out: *mut u64,
    status: *mut u32,
    n: u64,
) {
    let i = thread::index();
    if i >= n || lanes >> (i % 32) & 1 == 0 {
        return;
    }
    // SAFETY: the host passes valid pointers to n elements.
    unsafe {
        let request = Request::new(element(sizes, i, 0)).align(element(aligns, i, 16));
        let (address, code) = allocate(&*heap, &WARP, request);
        if zero != 0 && address != 0 {
            let offset = address - (*heap).mem().base();
            (*heap).mem().fill(offset, request.size, 0);
        }
        put(out, i, address);
        put(status, i, code);
    }
}

/// One block for each warp: the lane's part goes to `out[i]`, the address to
/// be freed, once, to `bases[i]`.
///
/// # Safety
///
/// As [`dh_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_alloc_warp(
    heap: *const DeviceHeap,
    sizes: *const u64,
    bases: *mut u64,
    out: *mut u64,
    status: *mut u32,
    n: u64,
) {
    let i = thread::index();
    if i >= n {
        return;
    }
    // SAFETY: the host passes valid pointers to n elements.
    unsafe {
        let base = (*heap).mem().base();
        let result = (*heap).alloc_warp(&WARP, element(sizes, i, 0));
        let (block, part, code) = match result {
            Ok(block) => (base + block.base, base + block.offset, 0),
            Err(error) => (0, 0, error.code()),
        };
        put(bases, i, block);
        put(out, i, part);
        put(status, i, code);
    }
}

/// Frees `blocks[i]`; null is skipped. `status` may be null.
///
/// # Safety
///
/// As [`dh_alloc`], and nobody uses a freed block's bytes.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_free(
    heap: *const DeviceHeap,
    blocks: *const u64,
    status: *mut u32,
    n: u64,
) {
    let i = thread::index();
    if i >= n {
        return;
    }
    // SAFETY: the host passes valid pointers to n elements.
    unsafe {
        let block = element(blocks, i, 0);
        if block == 0 {
            put(status, i, 0);
            return;
        }
        let hot = (*heap).pool.hot();
        let offset = block.wrapping_sub(hot.mem.base());
        match DeviceHeap::free_quick(&hot, &WARP, offset) {
            Ok(()) => put(status, i, 0),
            Err(left) => {
                let freed = (*heap).free_slow(&WARP, offset, left);
                put(
                    status,
                    thread::index(),
                    freed.map_or_else(|e| e.code(), |()| 0),
                );
                // As in `dh_alloc`.
                thread::exit();
            }
        }
    }
}

/// Gives `blocks[i]` the size `sizes[i]`; the block's address then, or null
/// with the block as it was, in `out[i]`.
///
/// # Safety
///
/// As [`dh_free`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_realloc(
    heap: *const DeviceHeap,
    blocks: *const u64,
    sizes: *const u64,
    out: *mut u64,
    status: *mut u32,
    n: u64,
) {
    let i = thread::index();
    if i >= n {
        return;
    }
    // SAFETY: the host passes valid pointers to n elements.
    unsafe {
        let base = (*heap).mem().base();
        let offset = element(blocks, i, 0).wrapping_sub(base);
        let request = Request::new(element(sizes, i, 0));
        let (address, code) = match (*heap).realloc(&WARP, offset, request) {
            Ok(offset) => (base + offset, 0),
            Err(error) => (0, error.code()),
        };
        put(out, i, address);
        put(status, i, code);
    }
}

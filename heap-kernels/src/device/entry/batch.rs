//! Many requests by few threads: a step between kernels that places, or frees,
//! a whole list.

use super::super::intrinsics::thread;
use super::{DeviceHeap, WARP, element, put};
use crate::exercise::{allocate, release};
use crate::heap::Request;
use crate::runs::Place;

const fn place(code: u32) -> Place {
    match code {
        1 => Place::Low,
        2 => Place::High,
        _ => Place::Best,
    }
}

/// Allocates `sizes[i]` bytes aligned to `aligns[i]` (null: 16) at `places[i]`
/// (null: best; 1: low; 2: high) into `out[i]`, for all `i` below `n`, however
/// few threads are launched.
///
/// # Safety
///
/// A valid handle of a formatted heap, and arrays of `n` elements.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_alloc_batch(
    heap: *const DeviceHeap,
    sizes: *const u64,
    aligns: *const u64,
    places: *const u32,
    out: *mut u64,
    status: *mut u32,
    n: u64,
) {
    for i in (thread::index()..n).step_by(thread::count() as usize) {
        // SAFETY: the host passes valid pointers to n elements.
        unsafe {
            let request = Request::new(element(sizes, i, 0))
                .align(element(aligns, i, 16))
                .place(place(element(places, i, 0)));
            let (address, code) = allocate(&*heap, &WARP, request);
            put(out, i, address);
            put(status, i, code);
        }
    }
}

/// Frees `blocks[i]` for all `i` below `n`, however few threads are launched;
/// null is skipped.
///
/// # Safety
///
/// As [`dh_alloc_batch`], and nobody uses a freed block's bytes.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_free_batch(
    heap: *const DeviceHeap,
    blocks: *const u64,
    status: *mut u32,
    n: u64,
) {
    for i in (thread::index()..n).step_by(thread::count() as usize) {
        // SAFETY: the host passes valid pointers to n elements.
        unsafe {
            let code = release(&*heap, &WARP, element(blocks, i, 0));
            put(status, i, code);
        }
    }
}

//! Kernels of one's own, which allocate and free on the device: rows of a
//! triangle whose lengths only the device knows.
//!
//! `cargo xtask ptx` builds this crate for `nvptx64-nvidia-cuda` and writes
//! `own_kernel.sm_80.ptx` beside it; `examples/own_kernel.rs` is the host's side.

#![no_std]
#![feature(abi_ptx, stdarch_nvptx)]

use core::arch::nvptx;

use heap_kernels::device::DeviceWarp;
use heap_kernels::device::intrinsics::thread;
use heap_kernels::mem::Mem;
use heap_kernels::{HeapHandle, Request};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the thread; the launch fails with an error.
    unsafe { nvptx::trap() }
}

/// Row `i` gets `i % 100 + 1` words, word `j` of which is `i * j`; rows of odd
/// length in a branch of their own. A row that found no room stays null.
///
/// # Safety
///
/// A valid handle of a formatted heap, and `n` elements at `rows`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn make_rows(heap: *const HeapHandle, rows: *mut *mut u64, n: u64) {
    let i = thread::index();
    if i >= n {
        return;
    }
    // SAFETY: the host passes a valid handle and n rows.
    let (heap, row) = unsafe { ((*heap).heap(), rows.add(i as usize)) };
    let words = i % 100 + 1;
    let request = Request::new(words * 8);
    // Any lane may ask, in any branch; those that ask together share atomics.
    let block = if words % 2 == 1 {
        heap.alloc(&DeviceWarp, request)
    } else {
        heap.alloc(&DeviceWarp, request.align(256))
    };
    let Ok(offset) = block else { return };
    let start = (heap.mem().base() + offset) as *mut u64;
    for j in 0..words {
        // SAFETY: the block has so many words and is this thread's.
        unsafe { start.add(j as usize).write(i * j) };
    }
    // SAFETY: one thread per row.
    unsafe { row.write(start) };
}

/// Adds up each row into `sums`, and frees it.
///
/// # Safety
///
/// As [`make_rows`], which made the rows, and `n` elements at `sums`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn sum_rows(
    heap: *const HeapHandle,
    rows: *const *mut u64,
    sums: *mut u64,
    n: u64,
) {
    let i = thread::index();
    if i >= n {
        return;
    }
    // SAFETY: the host passes a valid handle and n rows.
    let (heap, row) = unsafe { ((*heap).heap(), *rows.add(i as usize)) };
    let mut sum = u64::MAX;
    if !row.is_null() {
        sum = 0;
        for j in 0..i % 100 + 1 {
            // SAFETY: so many words were written.
            sum += unsafe { *row.add(j as usize) };
        }
        let freed = heap.free(&DeviceWarp, row as u64 - heap.mem().base());
        if freed.is_err() {
            sum = u64::MAX;
        }
    }
    // SAFETY: one thread per sum.
    unsafe { *sums.add(i as usize) = sum };
}

//! Entry points: the kernels that a host launches.
//!
//! All are one-dimensional launches of any block size. Blocks of the heap are
//! given out and taken as device addresses, null where there is none; a status
//! is 0 for success, else the error's code. Arrays may be null where a doc
//! comment says so. `n` is the number of elements; threads beyond it do
//! nothing.
//!
//! - `heap`: what a heap does, one thread per element;
//! - `batch`: the same, a few threads walking a list;
//! - `inspect`: statistics and the invariant scan;
//! - `suite`: patterns, divergence and random work, for `selftest`;
//! - `bench`: what `bench` sets the heap beside.

// Kernels are found by name, not by path.
#![allow(unreachable_pub)]

mod batch;
mod bench;
mod heap;
mod inspect;
mod suite;

use super::{DeviceMem, DeviceWarp};
use crate::heap::{Answer, Heap};
use crate::mem::Mem;

type DeviceHeap = Heap<DeviceMem>;

const WARP: DeviceWarp = DeviceWarp;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the thread; the launch fails with an error.
    unsafe { core::arch::nvptx::trap() }
}

/// Element `i` of an array, or `otherwise` where there is no array.
///
/// # Safety
///
/// `array` is null or has an element `i`.
#[inline]
unsafe fn element<T: Copy>(array: *const T, i: u64, otherwise: T) -> T {
    if array.is_null() {
        return otherwise;
    }
    // SAFETY: as the caller promises.
    unsafe { *array.add(i as usize) }
}

/// Sets element `i` of an array, if there is one.
///
/// # Safety
///
/// `array` is null or has an element `i`, which nobody else writes.
#[inline]
unsafe fn put<T>(array: *mut T, i: u64, value: T) {
    if !array.is_null() {
        // SAFETY: as the caller promises.
        unsafe { *array.add(i as usize) = value }
    }
}

/// An answer as address and status.
#[inline]
fn answer_to(heap: &DeviceHeap, answer: Answer) -> (u64, u32) {
    match answer.decode() {
        Ok(offset) => (heap.mem().base() + offset, 0),
        Err(error) => (0, error.code()),
    }
}

//! Patterns in blocks, lanes that go different ways, and random work.

use super::super::intrinsics::{atomic, thread, warp};
use super::{DeviceHeap, WARP, element, put};
use crate::exercise::{Churn, HELD, Held, churn, drain, wander};
use crate::mem::Order;
use crate::pattern;

/// The warp's number and the number of warps: each takes every so many-th
/// block, so that neighbouring lanes touch neighbouring words.
fn warps() -> (u64, usize) {
    (thread::index() / 32, (thread::count() / 32).max(1) as usize)
}

/// Calls `word(address, index, bytes)` for each word of a block, the last one
/// perhaps of fewer than 8 bytes, of which this lane has every 32nd.
#[inline]
fn each_word(address: u64, size: u64, mut word: impl FnMut(u64, u64, u64)) {
    for index in (u64::from(warp::lane_id())..size.div_ceil(8)).step_by(32) {
        word(address + index * 8, index, (size - index * 8).min(8));
    }
}

/// Writes the pattern of block `i` of `seed` into `sizes[i]` (null: `size`)
/// bytes at `blocks[i]`; null blocks are skipped.
///
/// # Safety
///
/// Arrays of `n` elements, blocks of so many bytes that belong to the caller,
/// and a number of threads divisible by 32.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_write(
    blocks: *const u64,
    sizes: *const u64,
    size: u64,
    seed: u64,
    n: u64,
) {
    let (first, every) = warps();
    for i in (first..n).step_by(every) {
        // SAFETY: the host passes valid pointers to n elements.
        let (address, size) = unsafe { (element(blocks, i, 0), element(sizes, i, size)) };
        if address == 0 {
            continue;
        }
        each_word(address, size, |at, index, bytes| {
            // SAFETY: `at` lies in the block, with so many bytes behind it.
            unsafe { pattern::write(at as *mut u8, pattern::word(seed, i, index), bytes) };
        });
    }
}

/// Adds the number of words that are not as `dh_write` left them (`zero` 0) or
/// not zero (`zero` 1) to `wrong[0]`; `wrong[1]` becomes the highest index of
/// a block with such a word, plus one.
///
/// # Safety
///
/// As [`dh_write`], and two elements at `wrong`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_verify(
    blocks: *const u64,
    sizes: *const u64,
    size: u64,
    seed: u64,
    zero: u32,
    wrong: *mut u64,
    n: u64,
) {
    let (first, every) = warps();
    for i in (first..n).step_by(every) {
        // SAFETY: the host passes valid pointers to n elements.
        let (address, size) = unsafe { (element(blocks, i, 0), element(sizes, i, size)) };
        if address == 0 {
            continue;
        }
        let mut bad = 0;
        each_word(address, size, |at, index, bytes| {
            let expected = if zero != 0 {
                0
            } else {
                pattern::word(seed, i, index)
            };
            // SAFETY: `at` lies in the block, with so many bytes behind it.
            bad += u64::from(!unsafe { pattern::is(at as *const u8, expected, bytes) });
        });
        if bad > 0 {
            // SAFETY: two elements that are used through atomics only.
            unsafe {
                atomic::add(wrong, bad, Order::Relaxed);
                atomic::max(wrong.add(1), i + 1, Order::Relaxed);
            }
        }
    }
}

/// What [`wander`] does: what a lane has in the end goes to `out[i]` and
/// `sizes[i]`, the first error on its way to `status[i]`.
///
/// # Safety
///
/// A valid handle of a formatted heap, and arrays of `n` elements.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_wander(
    heap: *const DeviceHeap,
    seed: u64,
    sizes: *mut u64,
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
        let end = wander(&*heap, &WARP, seed, i);
        put(sizes, i, end.size);
        put(out, i, end.address);
        put(status, i, end.status);
    }
}

/// What [`churn`] does, or [`drain`] where `last` is not 0, for each thread.
/// Adds to the 5 words of `counts`, in the order of the fields of `Counts`.
///
/// # Safety
///
/// A valid handle of a formatted heap; `held` has 4 pairs of words per thread,
/// zero or as an earlier launch with this seed left them.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_churn(
    heap: *const DeviceHeap,
    seed: u64,
    round: u64,
    operations: u64,
    largest: u64,
    last: u32,
    held: *mut [Held; HELD],
    counts: *mut u64,
    n: u64,
) {
    let i = thread::index();
    if i >= n {
        return;
    }
    let work = Churn {
        seed,
        round,
        operations,
        largest,
    };
    // SAFETY: the host passes valid pointers; a thread's blocks are its own.
    unsafe {
        let held = &mut *held.add(i as usize);
        let mine = if last == 0 {
            churn(&*heap, &WARP, &work, i, held)
        } else {
            drain(&*heap, &WARP, &work, held)
        };
        for (index, count) in mine.to_words().into_iter().enumerate() {
            if count != 0 {
                atomic::add(counts.add(index), count, Order::Relaxed);
            }
        }
    }
}

//! Statistics and the invariant scan, shared out among threads.

use super::super::intrinsics::{atomic, thread};
use super::{DeviceHeap, element, put};
use crate::heap::{Corruption, Survey, Tally};
use crate::mem::{Mem, Order};

/// A [`Corruption`] as a host reads it.
#[repr(C)]
struct Finding {
    /// Bytes of the text; 0: nothing found so far.
    length: u64,
    at: u64,
    text: [u8; 64],
}

impl Finding {
    /// Keeps the first corruption that is reported.
    ///
    /// # Safety
    ///
    /// `this` is valid, and written through this function only.
    unsafe fn report(this: *mut Self, corruption: &Corruption) {
        let text = corruption.what.as_bytes();
        let length = text.len().min(64) as u64;
        // SAFETY: as the caller promises; who wins the exchange writes alone.
        unsafe {
            let flag = &raw mut (*this).length;
            if atomic::compare_and_swap(flag, 0, length, Order::Relaxed) == 0 {
                (*this).at = corruption.at;
                let to = (&raw mut (*this).text).cast::<u8>();
                to.copy_from_nonoverlapping(text.as_ptr(), length as usize);
            }
        }
    }
}

/// Surveys `parts` ranges of pages, one per thread.
///
/// # Safety
///
/// A valid handle of a formatted heap, and `parts` elements at `out`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_survey(
    heap: *const DeviceHeap,
    out: *mut [u64; Survey::WORDS],
    parts: u64,
) {
    let part = thread::index();
    if part >= parts {
        return;
    }
    // SAFETY: the host passes valid pointers.
    unsafe {
        let pages = (*heap).geometry().pages();
        let cut = |part: u64| pages * part / parts;
        let survey = (*heap).survey(cut(part), cut(part + 1));
        put(out, part, survey.to_words());
    }
}

/// Statistics from the merged surveys of all pages; one thread.
///
/// # Safety
///
/// A valid handle of a formatted heap, and valid pointers.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_stats(
    heap: *const DeviceHeap,
    survey: *const [u64; Survey::WORDS],
    out: *mut [u64; crate::heap::Stats::WORDS],
) {
    if thread::index() == 0 {
        // SAFETY: the host passes valid pointers.
        unsafe { *out = (*heap).stats_of(&Survey::from_words(&*survey)).to_words() };
    }
}

/// Statistics of one size class per thread, 5 words each, in the order of the
/// fields of `ClassStats`.
///
/// # Safety
///
/// A valid handle of a formatted heap, and `classes` elements at `out`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_class_stats(
    heap: *const DeviceHeap,
    out: *mut [u64; 5],
    classes: u64,
) {
    let class = thread::index();
    if class >= classes {
        return;
    }
    // SAFETY: the host passes valid pointers.
    unsafe {
        let stats = (*heap).class_stats(class as u32);
        let words = [
            stats.slot_bytes,
            stats.slabs,
            stats.live_blocks,
            stats.live_bytes,
            stats.free_blocks,
        ];
        put(out, class, words);
    }
}

/// Checks `parts` shares of the heap, one per thread: sums to `tallies`, the
/// first broken invariant to `finding`, which is zero before.
///
/// # Safety
///
/// A valid handle of a formatted heap that nobody else uses, and `parts`
/// elements at `tallies`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_check(
    heap: *const DeviceHeap,
    tallies: *mut [u64; Tally::WORDS],
    finding: *mut [u64; 10],
    parts: u64,
) {
    let part = thread::index();
    if part >= parts {
        return;
    }
    // SAFETY: the host passes valid pointers.
    unsafe {
        match (*heap).check_part(part, parts) {
            Ok(tally) => put(tallies, part, tally.to_words()),
            Err(corruption) => Finding::report(finding.cast(), &corruption),
        }
    }
}

/// Checks the sums over all shares; one thread.
///
/// # Safety
///
/// As [`dh_check`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_check_tally(
    heap: *const DeviceHeap,
    tally: *const [u64; Tally::WORDS],
    finding: *mut [u64; 10],
) {
    if thread::index() != 0 {
        return;
    }
    // SAFETY: the host passes valid pointers.
    unsafe {
        if let Err(corruption) = (*heap).check_tally(&Tally::from_words(&*tally)) {
            Finding::report(finding.cast(), &corruption);
        }
    }
}

/// The first refused free: its code (0: none) and the offset; one thread.
///
/// # Safety
///
/// A valid handle of a formatted heap, and two elements at `out`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_offender(heap: *const DeviceHeap, out: *mut u64) {
    if thread::index() != 0 {
        return;
    }
    // SAFETY: the host passes valid pointers.
    unsafe {
        let offender = (*heap).offender();
        put(out, 0, offender.map_or(0, |o| u64::from(o.error.code())));
        put(out, 1, offender.map_or(0, |o| o.offset));
    }
}

/// Bytes of `blocks[i]`, 0 where no live block begins there.
///
/// # Safety
///
/// A valid handle of a formatted heap, and arrays of `n` elements.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_usable_size(
    heap: *const DeviceHeap,
    blocks: *const u64,
    out: *mut u64,
    n: u64,
) {
    let i = thread::index();
    if i >= n {
        return;
    }
    // SAFETY: the host passes valid pointers to n elements.
    unsafe {
        let offset = element(blocks, i, 0).wrapping_sub((*heap).mem().base());
        put(out, i, (*heap).usable_size(offset).unwrap_or(0));
    }
}

//! Random work on one heap by many threads, each of which owns a few blocks
//! and looks after their contents.

use super::super::intrinsics::{atomic, thread};
use super::{DeviceHeap, allocate, release};
use crate::heap::Request;
use crate::mem::Order;
use crate::pattern::{self, Random};

/// Blocks that a thread holds at most; `held` has so many pairs per thread.
const HELD: u64 = 4;

/// Blocks up to this length are written and verified whole, of longer ones
/// the last word and one in so many.
const WHOLE: u64 = 4096;
const STRIDE: u64 = 1024;

/// What a thread counted, in the order in which it is added up.
#[derive(Default)]
struct Counts {
    allocations: u64,
    frees: u64,
    refused: u64,
    wrong_words: u64,
    bad_frees: u64,
}

/// A block that a thread holds; address 0: none.
#[derive(Clone, Copy)]
#[repr(C)]
struct Held {
    address: u64,
    size: u64,
}

impl Held {
    /// Calls `word` for each word to be written or verified.
    #[inline]
    fn each_word(self, mut word: impl FnMut(*mut u8, u64, u64)) {
        let words = self.size.div_ceil(8);
        let mut visit = |index: u64| {
            let bytes = (self.size - index * 8).min(8);
            word((self.address + index * 8) as *mut u8, index, bytes);
        };
        let step = if self.size <= WHOLE { 1 } else { STRIDE / 8 };
        let mut index = 0;
        while index < words {
            visit(index);
            index += step;
        }
        if step > 1 {
            visit(words - 1);
        }
    }

    /// Marks the block with words of its address and size.
    fn write(self, seed: u64) {
        self.each_word(|at, index, bytes| {
            // SAFETY: a word of a block that this thread owns.
            unsafe {
                pattern::write(
                    at,
                    pattern::word(seed ^ self.size, self.address, index),
                    bytes,
                )
            };
        });
    }

    /// Words that are not as [`write`](Self::write) left them.
    fn wrong(self, seed: u64) -> u64 {
        let mut wrong = 0;
        self.each_word(|at, index, bytes| {
            let expected = pattern::word(seed ^ self.size, self.address, index);
            // SAFETY: as above, and written before.
            wrong += u64::from(!unsafe { pattern::is(at, expected, bytes) });
        });
        wrong
    }

    /// Verifies and frees.
    fn drop(self, heap: &DeviceHeap, seed: u64, counts: &mut Counts) {
        counts.wrong_words += self.wrong(seed);
        counts.bad_frees += u64::from(release(heap, self.address) != 0);
        counts.frees += 1;
    }
}

/// A size as programs ask for: half small, few large.
fn size(random: &mut Random, largest: u64) -> u64 {
    let roll = random.below(256);
    let limit = match roll {
        0..128 => 64,
        128..224 => 512,
        224..255 => 4096,
        _ => 65_536,
    };
    random.below(limit.min(largest) + 1)
}

/// Does `rounds` operations per thread: at a place of `held` that holds a
/// block, verifies and frees it; at an empty one, allocates up to `largest`
/// bytes and marks them. With `drain`, then frees all. Adds to the 5 words of
/// `counts`: allocations, frees, requests refused, wrong words, bad frees.
///
/// # Safety
///
/// A valid handle of a formatted heap; `held` has 4 pairs of words per thread,
/// zero or as an earlier launch of the same shape and seed left them.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dh_churn(
    heap: *const DeviceHeap,
    seed: u64,
    round: u64,
    rounds: u64,
    largest: u64,
    drain: u32,
    held: *mut u64,
    counts: *mut u64,
    n: u64,
) {
    let i = thread::index();
    if i >= n {
        return;
    }
    // SAFETY: the host passes a valid handle, and a thread's pairs are its own.
    let (heap, held) = unsafe { (&*heap, held.cast::<Held>().add((i * HELD) as usize)) };
    let mut random = Random::new(seed ^ pattern::mix(round), i);
    let mut mine = Counts::default();
    let mut done = 0;
    while done < rounds {
        let place = random.below(HELD) as usize;
        // SAFETY: one of this thread's pairs.
        unsafe {
            held.add(place).write(step(
                heap,
                held.add(place).read(),
                seed,
                largest,
                &mut random,
                &mut mine,
            ))
        };
        done += 1;
    }
    if drain != 0 {
        for place in 0..HELD as usize {
            // SAFETY: as above.
            unsafe {
                let block = held.add(place).read();
                if block.address != 0 {
                    block.drop(heap, seed, &mut mine);
                    held.add(place).write(Held {
                        address: 0,
                        size: 0,
                    });
                }
            }
        }
    }
    let sums = [
        mine.allocations,
        mine.frees,
        mine.refused,
        mine.wrong_words,
        mine.bad_frees,
    ];
    for (index, sum) in sums.into_iter().enumerate() {
        if sum != 0 {
            // SAFETY: 5 words that are used through atomics.
            unsafe { atomic::add(counts.add(index), sum, Order::Relaxed) };
        }
    }
}

/// One operation on one place; what is there then.
fn step(
    heap: &DeviceHeap,
    block: Held,
    seed: u64,
    largest: u64,
    random: &mut Random,
    counts: &mut Counts,
) -> Held {
    if block.address != 0 {
        block.drop(heap, seed, counts);
        return Held {
            address: 0,
            size: 0,
        };
    }
    let size = size(random, largest);
    let (address, code) = allocate(heap, Request::new(size));
    if code != 0 {
        counts.refused += 1;
        return Held {
            address: 0,
            size: 0,
        };
    }
    counts.allocations += 1;
    let block = Held { address, size };
    block.write(seed);
    block
}

//! Work for a heap that lanes of a device and threads of a host do alike:
//! random requests whose contents are looked after, and lanes that go
//! different ways. Blocks are named by address, null where there is none.

use crate::heap::{Heap, Request};
use crate::mem::Mem;
use crate::pattern::{self, Random};
use crate::warp::Warp;

/// Blocks that a thread of [`churn`] holds at most.
pub const HELD: usize = 4;

/// Blocks up to this length are written and verified whole, of longer ones
/// the last word and one in so many bytes.
const WHOLE: u64 = 4096;
const STRIDE: u64 = 1024;

/// Address and status, not inlined: for callers whose time is not the point.
#[inline(never)]
pub fn allocate<M: Mem, W: Warp>(heap: &Heap<M>, warp: &W, request: Request) -> (u64, u32) {
    match heap.alloc(warp, request) {
        Ok(offset) => (heap.mem().base() + offset, 0),
        Err(error) => (0, error.code()),
    }
}

/// Status of freeing the block at an address; null is skipped.
#[inline(never)]
pub fn release<M: Mem, W: Warp>(heap: &Heap<M>, warp: &W, address: u64) -> u32 {
    if address == 0 {
        return 0;
    }
    let offset = address.wrapping_sub(heap.mem().base());
    heap.free(warp, offset).map_or_else(|e| e.code(), |()| 0)
}

/// What threads counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks allocated, and written.
    pub allocations: u64,
    /// Blocks verified and freed.
    pub frees: u64,
    /// Requests that the heap refused.
    pub refused: u64,
    /// Words that were not as written.
    pub wrong_words: u64,
    /// Frees of a thread's own block that the heap refused.
    pub bad_frees: u64,
}

impl Counts {
    /// Number of words of [`to_words`](Self::to_words).
    pub const WORDS: usize = 5;

    /// All fields in order.
    #[must_use]
    pub const fn to_words(&self) -> [u64; Self::WORDS] {
        [
            self.allocations,
            self.frees,
            self.refused,
            self.wrong_words,
            self.bad_frees,
        ]
    }

    /// The counts that [`to_words`](Self::to_words) wrote.
    #[must_use]
    pub const fn from_words(words: &[u64; Self::WORDS]) -> Self {
        Self {
            allocations: words[0],
            frees: words[1],
            refused: words[2],
            wrong_words: words[3],
            bad_frees: words[4],
        }
    }
}

/// A block that a thread holds; address 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Held {
    /// Where it begins.
    pub address: u64,
    /// Bytes asked for.
    pub size: u64,
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
        if words > 0 && !(words - 1).is_multiple_of(step) {
            visit(words - 1);
        }
    }

    /// Marks the block with words that depend on its address and size.
    ///
    /// # Safety
    ///
    /// The block is live and the caller's.
    unsafe fn write(self, seed: u64) {
        self.each_word(|at, index, bytes| {
            let value = pattern::word(seed ^ self.size, self.address, index);
            // SAFETY: so many bytes of a block that the caller owns.
            unsafe { pattern::write(at, value, bytes) };
        });
    }

    /// Words that are not as [`write`](Self::write) left them.
    ///
    /// # Safety
    ///
    /// As [`write`](Self::write), which was called before.
    unsafe fn wrong(self, seed: u64) -> u64 {
        let mut wrong = 0;
        self.each_word(|at, index, bytes| {
            let expected = pattern::word(seed ^ self.size, self.address, index);
            // SAFETY: as above, and initialised.
            wrong += u64::from(!unsafe { pattern::is(at, expected, bytes) });
        });
        wrong
    }
}

/// A stretch of random work.
#[derive(Clone, Copy, Debug)]
pub struct Churn {
    /// The same for all stretches that hand blocks to each other.
    pub seed: u64,
    /// Number of the stretch.
    pub round: u64,
    /// Operations of one thread.
    pub operations: u64,
    /// The largest request in bytes.
    pub largest: u64,
}

impl Churn {
    /// A size as programs ask for: half small, few large.
    fn size(&self, random: &mut Random) -> u64 {
        let limit = match random.below(256) {
            0..128 => 64,
            128..224 => 512,
            224..255 => 4096,
            _ => 65_536,
        };
        random.below(limit.min(self.largest) + 1)
    }

    /// One operation on one place; what is there then.
    ///
    /// # Safety
    ///
    /// As [`churn`].
    unsafe fn step<M: Mem, W: Warp>(
        &self,
        heap: &Heap<M>,
        warp: &W,
        block: Held,
        random: &mut Random,
        counts: &mut Counts,
    ) -> Held {
        if block.address != 0 {
            // SAFETY: a place's block is the thread's, and written.
            unsafe { self.give_back(heap, warp, block, counts) };
            return Held::default();
        }
        let size = self.size(random);
        let (address, code) = allocate(heap, warp, Request::new(size));
        if code != 0 {
            counts.refused += 1;
            return Held::default();
        }
        counts.allocations += 1;
        let block = Held { address, size };
        // SAFETY: just allocated.
        unsafe { block.write(self.seed) };
        block
    }

    /// Verifies and frees.
    ///
    /// # Safety
    ///
    /// The block is the caller's and written.
    unsafe fn give_back<M: Mem, W: Warp>(
        &self,
        heap: &Heap<M>,
        warp: &W,
        block: Held,
        counts: &mut Counts,
    ) {
        // SAFETY: as the caller promises.
        counts.wrong_words += unsafe { block.wrong(self.seed) };
        counts.bad_frees += u64::from(release(heap, warp, block.address) != 0);
        counts.frees += 1;
    }
}

/// Random work of thread `thread`: at a place that holds a block, verifies and
/// frees it; at an empty one, allocates a block and marks it.
///
/// # Safety
///
/// Offsets of `heap` plus its base are addresses that the caller may write to;
/// what `held` holds was put there by an earlier call with the same seed.
pub unsafe fn churn<M: Mem, W: Warp>(
    heap: &Heap<M>,
    warp: &W,
    work: &Churn,
    thread: u64,
    held: &mut [Held; HELD],
) -> Counts {
    let mut random = Random::new(work.seed ^ pattern::mix(work.round), thread);
    let mut counts = Counts::default();
    let mut done = 0;
    while done < work.operations {
        let place = &mut held[random.below(HELD as u64) as usize % HELD];
        // SAFETY: as the caller promises.
        *place = unsafe { work.step(heap, warp, *place, &mut random, &mut counts) };
        done += 1;
    }
    counts
}

/// Verifies and frees all that `held` holds.
///
/// # Safety
///
/// As [`churn`].
pub unsafe fn drain<M: Mem, W: Warp>(
    heap: &Heap<M>,
    warp: &W,
    work: &Churn,
    held: &mut [Held; HELD],
) -> Counts {
    let mut counts = Counts::default();
    for place in held {
        if place.address != 0 {
            // SAFETY: as the caller promises.
            unsafe { work.give_back(heap, warp, *place, &mut counts) };
            *place = Held::default();
        }
    }
    counts
}

/// What a lane has in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wandered {
    /// Bytes asked for.
    pub size: u64,
    /// Its block; null for lanes that leave at once.
    pub address: u64,
    /// The first error on the way, 0 where there was none.
    pub status: u32,
}

/// Lanes go different ways: one in four leaves at once, others allocate in a
/// branch of their own, in a loop of their own length that frees again, or
/// twice and free once.
pub fn wander<M: Mem, W: Warp>(heap: &Heap<M>, warp: &W, seed: u64, thread: u64) -> Wandered {
    let mut random = Random::new(seed, thread);
    let size = 1 + random.below(4000);
    let request = Request::new(size);
    let (address, status) = match random.below(4) {
        0 => (0, 0),
        1 => allocate(heap, warp, request),
        2 => {
            let mut first = 0;
            for _ in 0..random.below(5) {
                let (address, code) = allocate(heap, warp, Request::new(random.below(600)));
                let freed = release(heap, warp, address);
                first = [first, code, freed]
                    .into_iter()
                    .find(|&c| c != 0)
                    .unwrap_or(0);
            }
            let (address, code) = allocate(heap, warp, request);
            (address, if first == 0 { code } else { first })
        }
        _ => {
            let (first, code) = allocate(heap, warp, request);
            if code != 0 || random.below(2) == 0 {
                (first, code)
            } else {
                let (second, code) = allocate(heap, warp, request);
                let freed = release(heap, warp, first);
                (second, if code == 0 { freed } else { code })
            }
        }
    };
    Wandered {
        size,
        address,
        status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::tests::Owned;
    use crate::{Config, SingleLane};

    const LANE: SingleLane = SingleLane::new(0);

    #[test]
    fn churn_leaves_the_heap_as_it_was_and_finds_no_wrong_word() {
        let pool = Owned::new(4 << 20, &Config::default());
        let fresh = pool.heap.stats().largest_free_run;
        let mut held = [Held::default(); HELD];
        let mut sum = Counts::default();
        let mut work = Churn {
            seed: 7,
            round: 0,
            operations: 500,
            largest: 65_536,
        };
        for round in 0..20 {
            work.round = round;
            // SAFETY: host memory; the same seed throughout.
            let counts = unsafe { churn(&pool.heap, &LANE, &work, 3, &mut held) };
            sum.allocations += counts.allocations;
            sum.frees += counts.frees;
            assert_eq!(
                (counts.wrong_words, counts.bad_frees, counts.refused),
                (0, 0, 0)
            );
        }
        // SAFETY: as above.
        let last = unsafe { drain(&pool.heap, &LANE, &work, &mut held) };
        assert_eq!(sum.allocations, sum.frees + last.frees);
        assert!(sum.allocations + sum.frees == 10_000);
        let stats = pool.heap.stats();
        assert_eq!((stats.live_blocks, stats.largest_free_run), (0, fresh));
    }

    #[test]
    fn churn_finds_a_word_that_somebody_else_wrote() {
        let pool = Owned::new(4 << 20, &Config::default());
        for size in [1, 8, 100, 4096, 4097, 60_000] {
            let (address, _) = allocate(&pool.heap, &LANE, Request::new(size));
            let block = Held { address, size };
            // SAFETY: a live block of this thread.
            unsafe {
                block.write(1);
                assert_eq!((block.wrong(1), block.wrong(2) > 0), (0, true));
                let last = (address + size - 1) as *mut u8;
                last.write(!last.read());
                assert_eq!(block.wrong(1), 1, "{size}");
            }
        }
    }

    #[test]
    fn lanes_wander_to_blocks_of_their_own() {
        let pool = Owned::new(16 << 20, &Config::default());
        let lanes = (0..1000).map(|thread| wander(&pool.heap, &LANE, 5, thread));
        let mut blocks: std::vec::Vec<_> = lanes.inspect(|w| assert_eq!(w.status, 0)).collect();
        blocks.retain(|w| w.address != 0);
        assert!((600..900).contains(&blocks.len()), "{}", blocks.len());
        blocks.sort_by_key(|w| w.address);
        assert!(
            blocks
                .windows(2)
                .all(|w| w[0].address + w[0].size <= w[1].address)
        );
        assert_eq!(pool.heap.stats().live_blocks, blocks.len() as u64);
    }
}

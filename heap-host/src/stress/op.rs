//! The streams of operations.

use fastrand::Rng;
use heap_kernels::{Place, Request};

/// The largest size asked for, in bytes, where the pool is large enough.
const LARGEST: u64 = 1 << 20;

/// Operations for which a stream mostly grows or mostly shrinks what is live:
/// long enough to fill a pool of some MiB, and to empty it.
const PHASE: u64 = 2048;

/// One operation. A `pick` chooses among whatever blocks the thread has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Allocate {
        request: Request,
        zeroed: bool,
    },
    Reallocate {
        pick: u64,
        request: Request,
    },
    Verify {
        pick: u64,
    },
    Free {
        pick: u64,
    },
    /// Give a block to the thread that is `ahead` after this one.
    HandOver {
        pick: u64,
        ahead: u64,
    },
    /// Take what others handed over; free every second of it at once.
    Receive,
    /// Wrong: free an offset behind the first byte of a live block.
    FreeInside {
        pick: u64,
        by: u64,
    },
    /// Wrong: free what is no part of the pool's pages.
    FreeOutside {
        distance: u64,
    },
}

/// The stream of one thread. Every operation takes the same number of random
/// words, so it does not depend on what became of those before.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    rng: Rng,
    step: u64,
    largest: u64,
}

/// A finaliser of 64 bits (splitmix64's), so that near seeds differ in all
/// bits.
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream of thread `thread`, for a pool with `page_bytes` to give.
    pub(super) fn new(seed: u64, thread: u32, page_bytes: u64) -> Self {
        Self {
            rng: Rng::with_seed(mix(mix(seed) ^ u64::from(thread))),
            step: 0,
            largest: LARGEST.min(page_bytes / 4),
        }
    }

    fn request(&self, size: u64, detail: u64) -> Request {
        // Sizes are log-uniform: first how many bits, then which.
        let bits = size % 22;
        let top = 1u64 << bits >> 1;
        let size = if top == 0 {
            0
        } else {
            top | (size >> 8) & (top - 1)
        };
        let align = if detail & 3 == 0 {
            1 << ((detail >> 2) % 17)
        } else {
            16
        };
        let place = match (detail >> 8) & 7 {
            0 => Place::Low,
            1 => Place::High,
            _ => Place::Best,
        };
        Request::new(size.min(self.largest))
            .align(align)
            .place(place)
    }
}

impl Iterator for Stream {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        let grows = (self.step / PHASE).is_multiple_of(2);
        self.step += 1;
        let (kind, pick) = (self.rng.u64(0..100), self.rng.u64(..));
        let (size, detail) = (self.rng.u64(..), self.rng.u64(..));
        let request = self.request(size, detail);
        let zeroed = (detail >> 16) & 7 == 0;
        let (allocate, free) = if grows { (60, 75) } else { (15, 75) };
        Some(match kind {
            k if k < allocate => Op::Allocate { request, zeroed },
            k if k < free => Op::Free { pick },
            75..84 => Op::Reallocate { pick, request },
            84..92 => Op::Verify { pick },
            92..95 => Op::HandOver { pick, ahead: size },
            95..97 => Op::Receive,
            97..99 => Op::FreeInside { pick, by: size },
            _ => Op::FreeOutside { distance: detail },
        })
    }
}

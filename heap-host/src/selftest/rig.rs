//! What a self-test asks of a machine, the same for cards and host threads.
//!
//! Blocks are named by address, 0 where there is none; statuses are 0 for
//! success, else the code of an `AllocError`, `FreeError` or `ReallocError`.

use heap_kernels::exercise::{Churn, Counts, HELD, Held};
use heap_kernels::{ClassStats, Geometry, Offender, Stats};

/// Why a test ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Something is wrong.
    Failed(String),
    /// It cannot be done on this machine.
    Skipped(String),
}

/// What a step of a test comes to.
pub(super) type Step<T = ()> = Result<T, End>;

/// Ends a test as failed, with a formatted reason.
macro_rules! fail {
    ($($words:tt)*) => {
        return Err($crate::selftest::rig::End::Failed(format!($($words)*)))
    };
}
pub(super) use fail;

/// What came of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) addresses: Vec<u64>,
    pub(super) statuses: Vec<u32>,
}

/// Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sizes<'a> {
    /// The same for all.
    All(u64),
    /// One for each.
    Each(&'a [u64]),
}

impl Sizes<'_> {
    pub(super) fn of(self, index: usize) -> u64 {
        match self {
            Self::All(size) => size,
            Self::Each(sizes) => sizes[index],
        }
    }
}

/// Requests of some lanes of each warp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lanes<'a> {
    pub(super) sizes: &'a [u64],
    pub(super) aligns: Option<&'a [u64]>,
    /// Bit `i`: element `i` of each 32 takes part.
    pub(super) lanes: u32,
    pub(super) zero: bool,
}

impl Lanes<'_> {
    pub(super) fn takes_part(&self, index: usize) -> bool {
        self.lanes >> (index % 32) & 1 == 1
    }
}

/// Requests that a few threads walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct List<'a> {
    pub(super) sizes: &'a [u64],
    pub(super) aligns: Option<&'a [u64]>,
    /// 0: best, 1: low, 2: high.
    pub(super) places: Option<&'a [u32]>,
    pub(super) threads: u32,
}

/// What blocks should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// What `write` wrote under this seed.
    Pattern(u64),
    /// Zeros.
    Zero,
}

/// What blocks hold that they should not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Words that are wrong.
    pub(super) words: u64,
    /// The highest index of a block with such a word.
    pub(super) highest: Option<usize>,
}

/// Rounds of allocating, writing, verifying and freeing; the last round's
/// blocks are kept.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) sizes: Vec<u64>,
    pub(super) seed: u64,
    pub(super) rounds: usize,
}

impl Chain {
    pub(super) fn seed_of(&self, round: usize) -> u64 {
        self.seed ^ ((round as u64 + 1) << 32)
    }
}

/// What came of a chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Chained {
    pub(super) rounds: Vec<Round>,
    pub(super) wrong: Wrong,
}

/// One round of a chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub(super) answer: Answer,
    /// Empty for the last round.
    pub(super) freed: Vec<u32>,
}

/// A machine as its user knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) backend: &'static str,
    pub(super) device: String,
    pub(super) driver: Option<String>,
}

/// What pools are made on.
pub(super) trait Machine {
    fn facts(&self) -> Facts;
    /// Threads that a launch of many has.
    fn threads(&self) -> u64;
    /// Bytes that a pool may have, where that is known.
    fn free_memory(&self) -> Step<Option<u64>>;
    /// A fresh pool of so many bytes.
    fn pool(&self, bytes: u64) -> Step<Box<dyn Rig + '_>>;
}

/// One pool, and all that can be done with it. Each call is one launch, waited
/// for.
pub(super) trait Rig {
    /// Address of the pool's first byte.
    fn base(&self) -> u64;
    fn geometry(&self) -> &Geometry;

    /// `n` requests, a thread each.
    fn alloc(&self, sizes: Sizes<'_>, n: usize) -> Step<Answer>;
    fn alloc_lanes(&self, requests: &Lanes<'_>) -> Step<Answer>;
    fn alloc_batch(&self, requests: &List<'_>) -> Step<Answer>;
    /// One block per warp: the blocks to be freed, and each lane's part.
    fn alloc_warp(&self, sizes: &[u64]) -> Step<(Vec<u64>, Answer)>;
    fn realloc(&self, blocks: &[u64], sizes: &[u64]) -> Step<Answer>;
    fn free(&self, blocks: &[u64]) -> Step<Vec<u32>>;
    fn free_batch(&self, blocks: &[u64], threads: u32) -> Step<Vec<u32>>;

    /// Writes block `i`'s pattern under `seed` into block `i`.
    fn write(&self, blocks: &[u64], sizes: Sizes<'_>, seed: u64) -> Step;
    fn verify(&self, blocks: &[u64], sizes: Sizes<'_>, contents: Contents) -> Step<Wrong>;
    /// The bytes at an address in the pool.
    fn peek(&self, address: u64, bytes: usize) -> Step<Vec<u8>>;

    /// Sizes, and what lanes have in the end: see `exercise::wander`.
    fn wander(&self, seed: u64, n: usize) -> Step<(Vec<u64>, Answer)>;
    /// `exercise::churn`, or `drain` with `last`, a thread per element.
    fn churn(&self, work: &Churn, last: bool, held: &mut [[Held; HELD]]) -> Step<Counts>;
    /// Two chains at the same time, neither waiting for the other.
    fn chains(&self, chains: [&Chain; 2]) -> Step<[Chained; 2]>;

    fn stats(&self) -> Step<Stats>;
    fn class_stats(&self) -> Step<Vec<ClassStats>>;
    /// Gives the pages of retained empty slabs back.
    fn reclaim(&self) -> Step;
    fn check(&self) -> Step;
    fn offender(&self) -> Step<Option<Offender>>;
    fn usable_sizes(&self, blocks: &[u64]) -> Step<Vec<u64>>;
    fn reset(&self) -> Step;
}

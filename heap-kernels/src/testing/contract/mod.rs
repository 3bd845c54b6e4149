//! The contract that every backend keeps: tests that know a heap only through
//! lists of [`Call`]s that its lanes make, so that they run on any machine.
//!
//! A backend implements [`Backend`], and one `#[test]` per function of
//! [`sizes`], [`lanes`], [`limits`], [`misuse`] and [`pools`] calls it.

mod call;
pub mod hosts;
pub mod lanes;
pub mod limits;
pub mod misuse;
pub mod pools;
pub mod sizes;

use std::vec;
use std::vec::Vec;

pub use call::{Call, Reply, Target, perform};

use crate::{
    AllocError, ClassStats, Config, Corruption, FormatError, FreeError, Geometry, Offender,
    Request, Stats,
};

/// A machine on which heaps run.
pub trait Backend {
    /// A pool in this machine's memory.
    type Pool: PoolUnderTest;

    /// Lanes in a warp of this machine.
    fn lanes(&self) -> u32;

    /// Formats a pool of `len` bytes at an address that is a multiple of
    /// 65,536.
    ///
    /// # Errors
    ///
    /// As [`Heap::format`](crate::Heap::format).
    fn format(&self, len: u64, config: &Config) -> Result<Self::Pool, FormatError>;
}

/// A pool with a heap in it.
pub trait PoolUnderTest {
    /// Lanes in a warp.
    fn lanes(&self) -> u32;

    /// Runs each list on a lane of its own, all at once, dealt out to warps in
    /// order; each lane's replies in the order of its calls.
    fn launch(&self, lists: &[Vec<Call>]) -> Vec<Vec<Reply>>;

    /// Address of the pool's first byte.
    fn base(&self) -> u64;

    /// The heap's layout.
    fn geometry(&self) -> Geometry;

    /// As the heap's.
    fn stats(&self) -> Stats;

    /// As the heap's.
    fn class_stats(&self, class: u32) -> ClassStats;

    /// As the heap's.
    ///
    /// # Errors
    ///
    /// As the heap's.
    fn check(&self) -> Result<(), Corruption>;

    /// As the heap's.
    fn offender(&self) -> Option<Offender>;

    /// As the heap's.
    fn reset(&self);

    /// As the heap's.
    fn reclaim(&self);
}

/// One mebibyte.
const MIB: u64 = 1 << 20;

/// A pool of `len` bytes as it comes by default.
fn pool<B: Backend>(backend: &B, len: u64) -> B::Pool {
    with_config(backend, len, &Config::default())
}

fn with_config<B: Backend>(backend: &B, len: u64, config: &Config) -> B::Pool {
    match backend.format(len, config) {
        Ok(pool) => pool,
        Err(error) => panic!("a pool of {len} bytes with {config:?}: {error}"),
    }
}

/// What one lane is told of one call.
fn one<P: PoolUnderTest>(pool: &P, call: Call) -> Reply {
    pool.launch(&[vec![call]])[0][0]
}

fn alloc<P: PoolUnderTest>(pool: &P, size: u64) -> Result<u64, AllocError> {
    request(pool, Request::new(size))
}

fn request<P: PoolUnderTest>(pool: &P, request: Request) -> Result<u64, AllocError> {
    match one(pool, Call::Alloc(request)) {
        Reply::Block(offset) => Ok(offset),
        Reply::AllocFailed(error) => Err(error),
        other => panic!("{request:?}: {other:?}"),
    }
}

fn free<P: PoolUnderTest>(pool: &P, offset: u64) -> Result<(), FreeError> {
    match one(pool, Call::Free(Target::At(offset))) {
        Reply::Done => Ok(()),
        Reply::FreeFailed(error) => Err(error),
        other => panic!("free of {offset:#x}: {other:?}"),
    }
}

/// Frees all of these, shared out among a few warps' lanes.
fn free_all<P: PoolUnderTest>(pool: &P, blocks: &[u64]) {
    let mut lists = vec![Vec::new(); (pool.lanes() as usize * 4).min(blocks.len())];
    let lanes = lists.len();
    for (index, &at) in blocks.iter().enumerate() {
        lists[index % lanes].push(Call::Free(Target::At(at)));
    }
    for reply in pool.launch(&lists).into_iter().flatten() {
        assert_eq!(reply, Reply::Done);
    }
}

/// Fills the pool with blocks of `size` bytes, by `lanes` lanes.
fn fill<P: PoolUnderTest>(pool: &P, size: u64, lanes: usize) -> Vec<u64> {
    let slot = crate::class_size(crate::class_of(size));
    let calls = (pool.geometry().page_bytes() / slot) as usize / lanes + 2;
    let list = vec![Call::Alloc(Request::new(size)); calls];
    let replies = pool.launch(&vec![list; lanes]);
    let mut blocks = Vec::new();
    let mut refused = 0;
    for reply in replies.into_iter().flatten() {
        match reply {
            Reply::Block(offset) => blocks.push(offset),
            Reply::AllocFailed(AllocError::OutOfMemory | AllocError::Contended) => refused += 1,
            other => panic!("{size} bytes: {other:?}"),
        }
    }
    assert!(refused > 0, "the pool never filled up with {size} bytes");
    // Those who were refused for others' sake leave little; one lane gets it.
    while let Ok(offset) = alloc(pool, size) {
        blocks.push(offset);
    }
    blocks
}

/// The heap is sound, and nothing is live.
fn assert_empty<P: PoolUnderTest>(pool: &P) {
    if let Err(corruption) = pool.check() {
        panic!("{corruption}");
    }
    let stats = pool.stats();
    assert_eq!((stats.live_blocks, stats.live_bytes), (0, 0));
    assert_eq!(stats.largest_free_run, pool.geometry().page_bytes());
}

/// No two of these ranges meet.
fn assert_distinct(mut ranges: Vec<(u64, u64)>) {
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let [(first, len), (second, _)] = [pair[0], pair[1]];
        assert!(
            first + len <= second,
            "{first:#x} of {len} bytes meets {second:#x}"
        );
    }
}

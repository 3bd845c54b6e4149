//! The lanes that run one instruction together, as the heap sees them.

/// A set of lanes of one warp: bit `i` stands for lane `i`.
pub type Mask = u32;

/// The largest number of lanes in a warp.
pub const LANES: u32 = 32;

/// The view one lane has of its warp.
///
/// Every method that takes a `mask` is a collective: it returns once all
/// lanes in `mask` have called it.
///
/// # Safety
///
/// An implementation promises that
/// - `lane()` is below [`LANES`] and differs between the lanes of one warp;
/// - `active()` contains the calling lane, and every lane it returns gets the
///   same set from the same call; lanes of one warp that are not in it run
///   elsewhere or not at all, and it may be smaller than the hardware's;
/// - a collective returns to each lane in `mask` a result computed from the
///   values of exactly the lanes in `mask`;
/// - [`sync`](Self::sync) orders memory among the lanes of `mask` as a barrier
///   of the warp does; the other collectives need not.
///
/// The heap in turn calls a collective only with a mask that contains the
/// caller and was agreed on by all its lanes, and all of them call the same
/// collectives in the same order until they part for good.
pub unsafe trait Warp {
    /// Index of the calling lane in its warp.
    fn lane(&self) -> u32;

    /// The lanes that called this together with the caller.
    fn active(&self) -> Mask;

    /// The lanes of `mask` whose `predicate` is true.
    fn ballot(&self, mask: Mask, predicate: bool) -> Mask;

    /// The lanes of `mask` whose `value` is the caller's.
    fn match_any(&self, mask: Mask, value: u64) -> Mask;

    /// The `value` of lane `from`, which is in `mask`.
    fn shuffle(&self, mask: Mask, value: u64, from: u32) -> u64;

    /// Bitwise or of the lanes' values.
    fn reduce_or(&self, mask: Mask, value: u64) -> u64;

    /// A barrier among the lanes of `mask`, also for memory.
    fn sync(&self, mask: Mask);

    /// A number that spreads concurrent warps over shards: the multiprocessor
    /// on a GPU, the thread's number on a host. The same for all lanes of a
    /// warp; any value is correct, a good one avoids contention.
    fn shard(&self) -> u32;
}

/// A warp of one lane: a host thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SingleLane {
    shard: u32,
}

impl SingleLane {
    /// A lane that prefers shard `shard` (modulo the heap's shard count).
    #[must_use]
    pub const fn new(shard: u32) -> Self {
        Self { shard }
    }
}

// SAFETY: there is one lane, so every collective has exactly the caller in its
// mask and returns the caller's own value at once.
unsafe impl Warp for SingleLane {
    #[inline]
    fn lane(&self) -> u32 {
        0
    }
    #[inline]
    fn active(&self) -> Mask {
        1
    }
    #[inline]
    fn ballot(&self, _mask: Mask, predicate: bool) -> Mask {
        Mask::from(predicate)
    }
    #[inline]
    fn match_any(&self, _mask: Mask, _value: u64) -> Mask {
        1
    }
    #[inline]
    fn shuffle(&self, _mask: Mask, value: u64, _from: u32) -> u64 {
        value
    }
    #[inline]
    fn reduce_or(&self, _mask: Mask, value: u64) -> u64 {
        value
    }
    #[inline]
    fn sync(&self, _mask: Mask) {}
    #[inline]
    fn shard(&self) -> u32 {
        self.shard
    }
}

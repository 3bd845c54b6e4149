//! What a lane can be told to do, in values that any machine can pass on.

use crate::mem::{Mem, Order};
use crate::{AllocError, FreeError, Heap, ReallocError, Request, Warp};

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Whatever is at this offset.
    At(u64),
    /// What this call of the same lane's list gave.
    Own(u32),
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Nothing, while others do something.
    Idle,
    /// [`Heap::alloc`].
    Alloc(Request),
    /// [`Heap::alloc_zeroed`].
    AllocZeroed(Request),
    /// [`Heap::alloc_warp`], with the bytes for this lane.
    AllocWarp(u64),
    /// [`Heap::free`].
    Free(Target),
    /// [`Heap::realloc`].
    Realloc(Target, Request),
    /// [`Heap::usable_size`].
    UsableSize(Target),
    /// Sets the first so many bytes of a block to a value.
    Mark(Target, u64, u8),
    /// Whether that is what is there, in whole words of the first so many
    /// bytes.
    Verify(Target, u64, u8),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing was to be done, or its target does not exist.
    Idle,
    /// Done, or verified.
    Done,
    /// Offset of a block.
    Block(u64),
    /// Offsets of a warp's block and of the lane's part.
    WarpBlock {
        /// The block.
        base: u64,
        /// The part.
        offset: u64,
    },
    /// Bytes.
    Size(u64),
    /// No block.
    AllocFailed(AllocError),
    /// No such block.
    FreeFailed(FreeError),
    /// Offset of the first word whose bytes are not what they should be.
    Damaged(u64),
}

impl Reply {
    /// The block that was given.
    ///
    /// # Panics
    ///
    /// If none was.
    #[must_use]
    pub fn block(self) -> u64 {
        match self {
            Self::Block(offset) => offset,
            other => panic!("no block: {other:?}"),
        }
    }
}

/// Makes one call as the lane of `warp`, whose earlier calls had the replies
/// `before`. Needs neither std nor allocation, so that a kernel can do it.
pub fn perform<M: Mem, W: Warp>(heap: &Heap<M>, warp: &W, call: Call, before: &[Reply]) -> Reply {
    let at = |target| match target {
        Target::At(offset) => Some(offset),
        Target::Own(index) => match before.get(index as usize) {
            Some(Reply::Block(offset) | Reply::WarpBlock { offset, .. }) => Some(*offset),
            _ => None,
        },
    };
    let given = |result: Result<u64, AllocError>| match result {
        Ok(offset) => Reply::Block(offset),
        Err(error) => Reply::AllocFailed(error),
    };
    let reply = match call {
        Call::Idle => None,
        Call::Alloc(request) => Some(given(heap.alloc(warp, request))),
        Call::AllocZeroed(request) => Some(given(heap.alloc_zeroed(warp, request))),
        Call::AllocWarp(size) => Some(match heap.alloc_warp(warp, size) {
            Ok(block) => Reply::WarpBlock {
                base: block.base,
                offset: block.offset,
            },
            Err(error) => Reply::AllocFailed(error),
        }),
        Call::Free(target) => at(target).map(|offset| match heap.free(warp, offset) {
            Ok(()) => Reply::Done,
            Err(error) => Reply::FreeFailed(error),
        }),
        Call::Realloc(target, request) => {
            at(target).map(|offset| match heap.realloc(warp, offset, request) {
                Ok(offset) => Reply::Block(offset),
                Err(ReallocError::Alloc(error)) => Reply::AllocFailed(error),
                Err(ReallocError::Free(error)) => Reply::FreeFailed(error),
            })
        }
        Call::UsableSize(target) => at(target).map(|offset| match heap.usable_size(offset) {
            Ok(size) => Reply::Size(size),
            Err(error) => Reply::FreeFailed(error),
        }),
        Call::Mark(target, len, byte) => at(target).map(|offset| {
            // SAFETY: the tests mark only what is in a block of the lane's own.
            unsafe { heap.mem().fill(offset, len, byte) };
            Reply::Done
        }),
        Call::Verify(target, len, byte) => {
            at(target).map(|offset| verify(heap.mem(), offset, len, byte))
        }
    };
    reply.unwrap_or(Reply::Idle)
}

fn verify<M: Mem>(mem: &M, offset: u64, len: u64, byte: u8) -> Reply {
    let expected = u64::from_ne_bytes([byte; 8]);
    let words = (offset..offset + len / 8 * 8).step_by(8);
    match words
        .into_iter()
        .find(|&at| mem.load(at, Order::Relaxed) != expected)
    {
        Some(at) => Reply::Damaged(at),
        None => Reply::Done,
    }
}

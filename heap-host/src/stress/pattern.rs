//! What the blocks hold.

use std::sync::atomic::{AtomicU64, Ordering};

use heap_kernels::HostMem;

/// Any odd number: neighbouring words then differ, in blocks of any tag.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The bytes of blocks. They are accessed as atomic words: where the heap has
/// given one block to two threads, that is found, and not undefined.
#[derive(Clone, Copy)]
pub(super) struct Bytes(HostMem);

impl Bytes {
    pub(super) fn new(mem: HostMem) -> Self {
        Self(mem)
    }

    fn word(&self, offset: u64, index: u64) -> &AtomicU64 {
        // SAFETY: callers pass blocks that lie within the pool, at multiples
        // of 8 (`Shared::admit` saw to it); all accesses here are atomic.
        unsafe { AtomicU64::from_ptr(self.0.pointer(offset + index * 8).cast()) }
    }

    /// Fills `len` bytes, a multiple of 8, with the pattern of `tag`.
    pub(super) fn write(&self, offset: u64, len: u64, tag: u64) {
        for index in 0..len / 8 {
            // Relaxed: the block is passed on through locks or the heap.
            self.word(offset, index).store(
                tag.wrapping_add(index.wrapping_mul(STEP)),
                Ordering::Relaxed,
            );
        }
    }

    /// The first of `len` bytes that is not as `tag` demands.
    pub(super) fn mismatch(&self, offset: u64, len: u64, tag: u64) -> Option<u64> {
        self.differs(offset, len, |index| {
            tag.wrapping_add(index.wrapping_mul(STEP))
        })
    }

    /// The first of `len` bytes that is not zero.
    pub(super) fn nonzero(&self, offset: u64, len: u64) -> Option<u64> {
        self.differs(offset, len, |_| 0)
    }

    fn differs(&self, offset: u64, len: u64, expected: impl Fn(u64) -> u64) -> Option<u64> {
        let difference =
            |index: u64| self.word(offset, index).load(Ordering::Relaxed) ^ expected(index);
        let first =
            |wrong: u64, index: u64| index * 8 + u64::from(wrong.to_le().trailing_zeros() / 8);
        let whole = (0..len / 8).find_map(|index| {
            let wrong = difference(index);
            (wrong != 0).then(|| first(wrong, index))
        });
        // The rest of a length that is no multiple of 8: the word is there,
        // since blocks are multiples of 16.
        whole.or_else(|| {
            let rest = len % 8;
            let wrong = if rest == 0 {
                0
            } else {
                difference(len / 8).to_le() & ((1 << (rest * 8)) - 1)
            };
            (wrong != 0).then(|| len / 8 * 8 + u64::from(wrong.trailing_zeros() / 8))
        })
    }
}

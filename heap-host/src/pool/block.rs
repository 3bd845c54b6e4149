//! A block that frees itself.

use std::ops::{Deref, DerefMut};

use super::host_pool::HostPool;

/// A block of a [`HostPool`], freed when dropped.
#[derive(Debug)]
pub struct Block<'pool> {
    pool: &'pool HostPool,
    offset: u64,
    bytes: usize,
}

impl<'pool> Block<'pool> {
    /// # Safety
    /// A live block of at least `bytes` initialised bytes begins at `offset`,
    /// and the new value is its only owner.
    pub(super) unsafe fn new(pool: &'pool HostPool, offset: u64, bytes: u64) -> Self {
        let bytes = bytes as usize;
        Self {
            pool,
            offset,
            bytes,
        }
    }

    /// Its offset from the pool's first byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Deref for Block<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `new` demands that many initialised bytes and the only
        // owner; freeing by offset is unsafe, so they are still its own.
        unsafe { std::slice::from_raw_parts(self.pool.pointer(self.offset), self.bytes) }
    }
}

impl DerefMut for Block<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pool.pointer(self.offset), self.bytes) }
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // SAFETY: the owner is gone, so nobody uses the bytes any more.
        let freed = unsafe { self.pool.free(self.offset) };
        debug_assert_eq!(freed, Ok(()), "a block was freed behind its owner's back");
    }
}

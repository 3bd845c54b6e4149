//! Zeroed memory that somebody owns.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// What the system's allocator aligns to without being asked. Asking for more
/// makes it touch every byte of a zeroed allocation, so the rest is done here.
const SYSTEM_ALIGNMENT: usize = 16;

/// An aligned range of memory, zero at first, given back when dropped.
///
/// A large range takes no room until it is touched.
#[derive(Debug)]
pub struct OwnedMemory {
    /// What the system gave, and its layout; nothing for an empty range.
    allocation: Option<(NonNull<u8>, Layout)>,
    base: *mut u8,
    len: u64,
}

/// Why there is no such memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The system has not so much.
    #[error("the system has no {bytes} bytes of memory to give; ask for less")]
    Refused {
        /// Bytes asked for.
        bytes: u64,
    },
    /// More than an address space holds.
    #[error("{bytes} bytes exceed the address space of this machine; ask for less")]
    TooLarge {
        /// Bytes asked for.
        bytes: u64,
    },
}

// SAFETY: the memory belongs to the value, which gives out raw pointers only.
unsafe impl Send for OwnedMemory {}
// SAFETY: as above; whoever dereferences the pointers vouches for it.
unsafe impl Sync for OwnedMemory {}

impl OwnedMemory {
    /// `len` zero bytes, aligned to `alignment`.
    ///
    /// # Errors
    /// [`MemoryError`] where the system has not so much.
    ///
    /// # Panics
    /// If `alignment` is no power of two.
    pub fn zeroed(len: u64, alignment: u64) -> Result<Self, MemoryError> {
        assert!(
            alignment.is_power_of_two(),
            "alignment {alignment} is no power of two"
        );
        if len == 0 {
            let base = std::ptr::without_provenance_mut(alignment as usize);
            return Ok(Self {
                allocation: None,
                base,
                len,
            });
        }
        let layout = padded(len, alignment).ok_or(MemoryError::TooLarge { bytes: len })?;
        // SAFETY: the layout has a size above zero.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) });
        let allocation = allocation.ok_or(MemoryError::Refused { bytes: len })?;
        let start = allocation.as_ptr();
        let skip = start.addr().next_multiple_of(alignment as usize) - start.addr();
        // SAFETY: the allocation is longer than `len` by all that an alignment
        // can take, see `padded`.
        let base = unsafe { start.add(skip) };
        Ok(Self {
            allocation: Some((allocation, layout)),
            base,
            len,
        })
    }

    /// The first byte.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for OwnedMemory {
    fn drop(&mut self) {
        if let Some((allocation, layout)) = self.allocation {
            // SAFETY: allocated with this layout in `zeroed`, given back once.
            unsafe { dealloc(allocation.as_ptr(), layout) };
        }
    }
}

/// Room for `len` bytes from a multiple of `alignment` on.
fn padded(len: u64, alignment: u64) -> Option<Layout> {
    let slack = alignment.saturating_sub(SYSTEM_ALIGNMENT as u64);
    let bytes = usize::try_from(len.checked_add(slack)?).ok()?;
    Layout::from_size_align(bytes, SYSTEM_ALIGNMENT).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_zero() {
        for alignment in [1, 16, 4096, 1 << 21] {
            let memory = OwnedMemory::zeroed(10_000, alignment).unwrap();
            assert!((memory.base() as u64).is_multiple_of(alignment));
            // SAFETY: valid for its length, and nobody else's.
            let bytes = unsafe { std::slice::from_raw_parts(memory.base(), 10_000) };
            assert!(bytes.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn no_bytes_are_legal() {
        let memory = OwnedMemory::zeroed(0, 4096).unwrap();
        assert!(memory.is_empty());
        assert!((memory.base() as u64).is_multiple_of(4096));
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        let bytes = u64::MAX;
        let refused = OwnedMemory::zeroed(bytes, 4096).unwrap_err();
        assert_eq!(refused, MemoryError::TooLarge { bytes });
        assert!(OwnedMemory::zeroed(1 << 62, 4096).is_err());
    }

    /// Only touched pages count.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_large_range_is_not_touched() {
        let Ok(memory) = OwnedMemory::zeroed(4 << 30, 1 << 21) else {
            return;
        };
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
        };
        assert!(resident() < 2 << 30, "resident: {}", resident());
        drop(memory);
    }
}

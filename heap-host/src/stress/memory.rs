//! Memory for a pool.

use std::alloc::{Layout, alloc, dealloc};

use heap_kernels::HostMem;

use super::StressError;

/// The largest page size of a heap, so that any fits.
const ALIGN: usize = 65536;

/// Owned memory, not initialised.
pub(super) struct Memory {
    base: *mut u8,
    layout: Layout,
}

impl Memory {
    pub(super) fn new(bytes: u64) -> Result<Self, StressError> {
        let refused = StressError::Memory { bytes };
        let layout = usize::try_from(bytes.max(1))
            .ok()
            .and_then(|len| Layout::from_size_align(len, ALIGN).ok())
            .ok_or(refused.clone())?;
        // SAFETY: the layout's size is one at least.
        let base = unsafe { alloc(layout) };
        if base.is_null() {
            return Err(refused);
        }
        Ok(Self { base, layout })
    }

    /// The memory as a pool; valid as long as `self` lives.
    pub(super) fn mem(&self) -> HostMem {
        // SAFETY: allocated with this size and an alignment above 8; all that
        // use it end before `self` does, see `run`.
        unsafe { HostMem::new(self.base, self.layout.size() as u64) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `new`.
        unsafe { dealloc(self.base, self.layout) }
    }
}

//! What steps work on.

use heap_kernels::{Heap, HostMem};

use crate::runtime::configuration::Configuration;
use crate::runtime::control::{Control, Words};
use crate::runtime::memory::Region;
use crate::runtime::record::{Handle, Status};
use crate::sequence::BufferId;

use super::division::Divisions;

/// A dynamic pool with its heap.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) region: Region,
    pub(super) heap: Heap<HostMem>,
}

/// The memory of one stream and what is known about it, inside a step.
#[derive(Clone, Copy)]
pub(super) struct Device<'a> {
    pub(super) config: &'a Configuration,
    pub(super) control: Control<'a>,
    pub(super) pools: &'a [Option<Pool>; 2],
    pub(super) divisions: &'a Divisions,
}

impl<'a> Device<'a> {
    /// The handle of a buffer that is there.
    pub(super) fn live(&self, buffer: BufferId) -> Option<Handle> {
        let handle = self.control.handle(buffer);
        (handle.status == Status::Live).then_some(handle)
    }

    /// Bytes at an address of this device.
    ///
    /// # Safety
    /// The range is in a live buffer or its guard, and nobody writes it for as
    /// long as the slice is used.
    pub(super) unsafe fn bytes(&self, address: u64, len: u64) -> &'a [u8] {
        let start = std::ptr::with_exposed_provenance(address as usize);
        // SAFETY: regions are initialised memory whose provenance is exposed
        // with their address; the caller promises the rest.
        unsafe { std::slice::from_raw_parts(start, len as usize) }
    }

    /// Bytes at an address of this device, to write.
    ///
    /// # Safety
    /// The range is in a live buffer or its guard, and nobody else accesses it
    /// for as long as the slice is used.
    pub(super) unsafe fn bytes_mut(&self, address: u64, len: u64) -> &'a mut [u8] {
        let start = std::ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts_mut(start, len as usize) }
    }

    /// All bytes of a buffer.
    ///
    /// # Safety
    /// As [`bytes`](Self::bytes).
    pub(super) unsafe fn contents(&self, handle: Handle) -> &'a [u8] {
        // SAFETY: the caller promises it.
        unsafe { self.bytes(handle.address, handle.bytes) }
    }

    /// All bytes of a buffer, to write.
    ///
    /// # Safety
    /// As [`bytes_mut`](Self::bytes_mut).
    pub(super) unsafe fn contents_mut(&self, handle: Handle) -> &'a mut [u8] {
        // SAFETY: the caller promises it.
        unsafe { self.bytes_mut(handle.address, handle.bytes) }
    }
}

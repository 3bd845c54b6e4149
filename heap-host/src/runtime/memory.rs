//! Device memory, and the one door through which the host may look into it.

use crate::pool::{MemoryError, OwnedMemory};

use super::backend::Backend;

/// Proof that the code that holds it runs on the device: inside a step that a
/// backend executes, not in the host code that launches steps.
///
/// Only the CPU backend can make one, and lends it to its steps.
#[derive(Debug)]
pub(super) struct OnDevice(());

impl OnDevice {
    /// For the backend alone, on entering a step.
    pub(super) const fn enter() -> Self {
        Self(())
    }
}

/// A range of a CPU backend's device memory. Its contents can be reached with
/// an [`OnDevice`] or a [`ReadTicket`] only.
#[derive(Debug)]
pub(super) struct Region {
    memory: OwnedMemory,
}

impl Region {
    /// `len` zero bytes at a multiple of `alignment`.
    pub(super) fn new(len: u64, alignment: u64) -> Result<Self, MemoryError> {
        let memory = OwnedMemory::zeroed(len, alignment)?;
        Ok(Self { memory })
    }

    pub(super) fn address(&self) -> u64 {
        self.memory.base().expose_provenance() as u64
    }

    pub(super) fn len(&self) -> u64 {
        self.memory.len()
    }

    pub(super) fn contains(&self, address: u64, len: u64) -> bool {
        let start = self.address();
        address >= start
            && address
                .checked_add(len)
                .is_some_and(|end| end <= start + self.len())
    }

    /// The device's own access.
    pub(super) fn pointer(&self, at: u64, _: &OnDevice) -> *mut u8 {
        debug_assert!(at <= self.len());
        self.memory.base().wrapping_add(at as usize)
    }

    /// A copy from the device to the host, which a ticket pays for.
    pub(super) fn copy_out(&self, address: u64, into: &mut [u8], ticket: ReadTicket) {
        assert!(self.contains(address, into.len() as u64));
        let ReadTicket(()) = ticket;
        let at = (address - self.address()) as usize;
        // SAFETY: the range is inside the region (asserted), whose bytes are
        // initialised; no step runs while the host reads.
        unsafe {
            self.memory
                .base()
                .add(at)
                .copy_to_nonoverlapping(into.as_mut_ptr(), into.len());
        }
    }
}

/// The right to copy one range of device memory to the host.
#[derive(Debug)]
pub struct ReadTicket(());

/// The only way from device memory to the host.
///
/// Each read waits for the device first. Reads between the upload of a batch
/// and its end are counted: they are what a batch must do without.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostPort {
    in_batch: bool,
    syncs: u64,
}

impl HostPort {
    /// The upload of a batch is done.
    pub(super) fn open_batch(&mut self) {
        self.in_batch = true;
        self.syncs = 0;
    }

    /// All steps of the batch are done; how often the host read meanwhile.
    pub(super) fn close_batch(&mut self) -> u64 {
        self.in_batch = false;
        self.syncs
    }

    /// Waits for `device` and copies what is at `address` there.
    pub(super) fn read(&mut self, device: &mut impl Backend, address: u64, into: &mut [u8]) {
        self.syncs += u64::from(self.in_batch);
        device.wait();
        device.read(address, into, ReadTicket(()));
    }

    /// The same for `count` 64-bit words.
    pub(super) fn read_words(
        &mut self,
        device: &mut impl Backend,
        address: u64,
        count: usize,
    ) -> Vec<u64> {
        let mut words = vec![0; count];
        self.read(device, address, bytemuck::cast_slice_mut(&mut words));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_device_wrote_comes_out() {
        let region = Region::new(64, 64).unwrap();
        // SAFETY: inside the region, which nobody else uses.
        unsafe { region.pointer(8, &OnDevice::enter()).write_bytes(5, 4) };
        let mut bytes = [9; 6];
        region.copy_out(region.address() + 7, &mut bytes, ReadTicket(()));
        assert_eq!(bytes, [0, 5, 5, 5, 5, 0]);
    }

    #[test]
    fn ranges_that_pass_the_end_are_not_contained() {
        let region = Region::new(64, 64).unwrap();
        let start = region.address();
        assert!(region.contains(start, 64) && region.contains(start + 64, 0));
        assert!(!region.contains(start, 65) && !region.contains(start - 1, 1));
        assert!(!region.contains(start + 1, u64::MAX));
    }
}

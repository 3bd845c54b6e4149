//! Sizes that the host may know, and sizes that it may not.

use crate::sequence::{BufferId, CountOverflow, Kind};

use super::configuration::Configuration;
use super::cpu::{AccessError, KernelContext};

/// The number of elements of a buffer, as far as the host may know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Known before the batch starts.
    Known(u64),
    /// Only the device knows, once the batch is under way.
    OnDevice(DeviceLength),
}

/// A number that the host cannot ask for: only a kernel can, with its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLength(BufferId);

impl DeviceLength {
    /// The number of elements.
    ///
    /// # Errors
    /// If the buffer is not live in the kernel's algorithm.
    pub fn elements(self, context: &KernelContext<'_>) -> Result<u64, AccessError> {
        context.elements(self.0)
    }
}

impl Configuration {
    /// The number of elements of a buffer in a batch of `events`.
    ///
    /// # Errors
    /// If a static buffer's does not fit 64 bits.
    pub fn length(&self, buffer: BufferId, events: u64) -> Result<Length, CountOverflow> {
        let declared = self.sequence.buffer(buffer);
        if declared.kind == Kind::Dynamic {
            return Ok(Length::OnDevice(DeviceLength(buffer)));
        }
        let parameters = self.sequence.parameters_at(events);
        declared.count.evaluate(&parameters, &[]).map(Length::Known)
    }
}

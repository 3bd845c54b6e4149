//! Looking into device memory while a batch is under way.

use crate::sequence::{BufferId, TotalId};

use super::backend::Backend;
use super::configuration::Configuration;
use super::control::{Image, Words};
use super::memory::HostPort;
use super::record::{Status, TotalState};

/// The host's view of a batch that is under way. Every look waits for the
/// device and is counted.
#[derive(Debug)]
pub struct Probe<'a, B> {
    backend: &'a mut B,
    port: &'a mut HostPort,
    config: &'a Configuration,
}

impl<'a, B: Backend> Probe<'a, B> {
    pub(super) fn new(
        backend: &'a mut B,
        port: &'a mut HostPort,
        config: &'a Configuration,
    ) -> Self {
        Self {
            backend,
            port,
            config,
        }
    }

    /// The value of a total; `None` if it is not there yet. One
    /// synchronisation.
    pub fn total(&mut self, total: TotalId) -> Option<u64> {
        let (state, value) = self.image().total(total);
        (state == TotalState::Ready).then_some(value)
    }

    /// The contents of a buffer; `None` if it is not live. Two
    /// synchronisations: where it is, and what it holds.
    pub fn bytes(&mut self, buffer: BufferId) -> Option<Vec<u8>> {
        let handle = self.image().handle(buffer);
        if handle.status != Status::Live {
            return None;
        }
        let mut bytes = vec![0; handle.bytes as usize];
        self.port.read(self.backend, handle.address, &mut bytes);
        Some(bytes)
    }

    fn image(&mut self) -> Image {
        let layout = self.config.control;
        let address = self.backend.control_address();
        let words = self
            .port
            .read_words(self.backend, address, layout.shared_words());
        Image::new(layout, words)
    }
}

//! What a machine must do to run batches.

use std::sync::Arc;

use heap_kernels::FormatError;

use crate::pool::MemoryError;
use crate::sequence::{AlgorithmId, Scope};

use super::configuration::Configuration;
use super::memory::ReadTicket;
use super::program::Step;

/// A machine with memory of its own that executes [`Step`]s.
///
/// A backend owns the regions of one stream: for each scope a static arena and
/// a dynamic pool, and the control block. The executor uploads the control
/// block, launches the steps of the program in order, waits, and reads the
/// control block. `launch` takes nothing from the device and may return before
/// the step has run; each step runs after those launched before it.
///
/// The contract of the steps themselves, in terms of the control block, is in
/// DESIGN.md ("The runtime").
pub trait Backend: Sized {
    /// The word for it on the command line and in reports.
    const NAME: &'static str;

    /// Sets up the regions that `config` asks for.
    ///
    /// # Errors
    /// [`BackendError`] where the machine has no room for them.
    fn configure(config: Arc<Configuration>) -> Result<Self, BackendError>;

    /// Where the control block is.
    fn control_address(&self) -> u64;

    /// Where a scope's static arena is.
    fn arena_address(&self, scope: Scope) -> u64;

    /// Begins a batch: `words` go to the start of the control block.
    fn upload(&mut self, words: &[u64]);

    /// Lets the device execute `step` after all that was launched before.
    fn launch(&mut self, step: &Step);

    /// Waits until everything that was launched is done.
    fn wait(&mut self);

    /// Copies device memory to the host; the ticket is the caller's account
    /// of it.
    ///
    /// # Panics
    /// If the range is in none of the regions.
    fn read(&mut self, address: u64, into: &mut [u8], ticket: ReadTicket);

    /// What a user's kernel said when it failed, since the last upload.
    fn take_fault(&mut self) -> Option<KernelFault>;

    /// Looks at a scope's pool between two batches; `deep` also checks every
    /// invariant of its heap. `None` where the scope has no pool.
    fn audit(&mut self, scope: Scope, deep: bool) -> Option<PoolAudit>;

    /// Makes a scope's pool empty between two batches.
    fn reset_pool(&mut self, scope: Scope);
}

/// The state of a pool between two batches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolAudit {
    /// Bytes of blocks that nobody freed.
    pub live_bytes: u64,
    /// Bytes of pages that are in use.
    pub used_bytes: u64,
    /// The first invariant of the heap that does not hold.
    pub corruption: Option<String>,
}

/// A kernel's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFault {
    /// The algorithm.
    pub algorithm: AlgorithmId,
    /// What it said.
    pub message: String,
}

/// Why a machine cannot run a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// No memory for a region.
    #[error("no memory for the {region}: {source}")]
    Memory {
        /// The region.
        region: String,
        /// Why.
        source: MemoryError,
    },
    /// A pool cannot hold a heap.
    #[error("the pool for dynamic {scope} buffers cannot be used: {source}")]
    Pool {
        /// The pool.
        scope: Scope,
        /// Why.
        source: FormatError,
    },
}

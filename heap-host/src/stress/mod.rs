//! Random operations from many threads on one heap, checked against a shadow
//! model that shares nothing with the heap.
//!
//! Each thread runs a stream of operations that follows from seed and thread
//! number alone: allocate (plain or zeroed, any alignment, any
//! [`Place`](heap_kernels::Place)), write, verify, reallocate, free, hand a
//! block to another thread, and deliberate wrong frees. Every block is filled
//! with a pattern of its own, all of its usable bytes, which is compared
//! whenever the block is verified, reallocated, handed over or freed. A bit
//! per 16 bytes of the pool tells which bytes are live, so that overlapping
//! blocks are found at once, whichever threads have them.
//!
//! The streams are cut into rounds. Between two rounds nobody works, and the
//! heap is held to account: [`check`](heap_kernels::Heap::check), every
//! counter against the models' own counts, and blocks freed by all threads at
//! the same time, which must succeed exactly once.
//!
//! ```
//! use heap_host::stress::{self, Options};
//!
//! let options = Options { threads: 2, ops: 2_000, pool_bytes: 8 << 20, seed: 7 };
//! let report = stress::run(&options, &|_done| ())?;
//! assert_eq!((report.ops, report.errors, report.leaked_bytes), (2_000, 0, 0));
//! # Ok::<(), stress::StressError>(())
//! ```

mod account;
mod op;
mod pattern;
mod shadow;
mod worker;

#[cfg(test)]
mod tests;

use std::time::Instant;

use heap_kernels::{Config, FormatError, Heap, HostMem};

use crate::pool::{MemoryError, OwnedMemory};
use account::Trial;

/// Alignment of the pool: the largest page size that a heap can have.
const ALIGNMENT: u64 = 65536;

/// The most threads that a run may have.
pub const MAX_THREADS: u32 = 1024;

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Threads of the operating system, from 1 to [`MAX_THREADS`].
    pub threads: u32,
    /// Operations of all threads together, shared out evenly.
    pub ops: u64,
    /// Bytes of the pool, metadata included.
    pub pool_bytes: u64,
    /// Determines every thread's stream of operations.
    pub seed: u64,
}

impl Default for Options {
    /// As many threads as the machine runs at once, 200,000 operations, a
    /// pool of 64 MiB, seed 1.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        Self {
            threads: cores.min(MAX_THREADS),
            ops: 200_000,
            pool_bytes: 64 << 20,
            seed: 1,
        }
    }
}

/// What happened. With one thread it is the same for equal [`Options`], but
/// for the seconds; with more, what fails for want of memory depends on who
/// comes first.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Threads that ran.
    pub threads: u32,
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// The seed of the streams.
    pub seed: u64,
    /// Operations of the streams that were done.
    pub ops: u64,
    /// Blocks handed out.
    pub allocations: u64,
    /// Blocks freed; equals `allocations` unless there are errors.
    pub frees: u64,
    /// Blocks that were given another size, in place or not.
    pub reallocations: u64,
    /// Requests that were refused, which is right in a full pool.
    pub failed: u64,
    /// Deliberate wrong frees that were refused, as they must be.
    pub refused_frees: u64,
    /// Largest sum of the sizes asked for of all live blocks, in bytes.
    pub max_live_bytes: u64,
    /// Deviations from the shadow model.
    pub errors: u64,
    /// The first of them, in words.
    pub first_error: Option<String>,
    /// Bytes that the heap still counts as used after every block was freed.
    pub leaked_bytes: u64,
    /// Wall time.
    pub seconds: f64,
}

impl Report {
    /// Whether the heap did all that it promises.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.errors == 0 && self.leaked_bytes == 0
    }
}

/// Why nothing was run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StressError {
    /// The number of threads is out of its range.
    #[error("{0} threads are not possible; choose from 1 to {MAX_THREADS}")]
    Threads(u32),
    /// The pool cannot hold a heap.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The system has not got the memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Runs `options.ops` operations; `progress` is called, now and then and by
/// any thread, with the number of operations done since its last call.
///
/// # Errors
///
/// [`StressError`] where the options are impossible; nothing was run then.
/// What the heap does wrong is in the report.
pub fn run(options: &Options, progress: &(dyn Fn(u64) + Sync)) -> Result<Report, StressError> {
    if options.threads == 0 || options.threads > MAX_THREADS {
        return Err(StressError::Threads(options.threads));
    }
    let memory = OwnedMemory::zeroed(options.pool_bytes, ALIGNMENT)?;
    // SAFETY: `memory` outlives the heap, which alone uses it.
    let mem = unsafe { HostMem::new(memory.base(), memory.len()) };
    let start = Instant::now();
    let heap = Heap::format(mem, &Config::default())?;
    let mut report = Trial::new(heap, mem, options, progress).run();
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

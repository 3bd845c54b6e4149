//! Running a sequence: two kinds of memory, one lifetime model.
//!
//! [`Configuration`] plans a sequence: static arenas, pools, and the
//! [`Program`] of a batch. An [`Executor`] is one stream of a [`Backend`]: it
//! uploads a batch, walks the program without taking any value from the
//! device, and reads at the end what became of it. Where the pool is too small
//! for a batch, its halves are run instead. [`run()`] does all batches with
//! built-in kernels, and [`Report`]s.
//!
//! ```
//! use heap_host::runtime::{self, Options};
//! use heap_host::sequence::{BufferSpec, SequenceBuilder};
//!
//! let mut b = SequenceBuilder::new("hits");
//! b.parameter("events", 1000);
//! let count = b.algorithm("count");
//! let total = b.total("hits", count, "94.8");
//! let decode = b.algorithm("decode");
//! b.write(decode, BufferSpec::device_dynamic("hits").element_bytes(16).per(total, 1));
//! let sequence = b.build()?;
//!
//! let report = runtime::run(&sequence, &Options::default(), &())?;
//! assert!(report.verified);
//! assert_eq!(report.host_syncs_in_batch, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backend;
mod configuration;
mod control;
mod cpu;
mod error;
mod executor;
mod failure;
mod finding;
mod guard;
mod length;
mod memory;
mod occupancy;
mod options;
mod outcome;
mod pattern;
mod placement;
mod probe;
mod program;
mod record;
mod report;
mod run;
mod sizes;
#[cfg(test)]
mod tests;

pub use backend::{Backend, BackendError, KernelFault, PoolAudit};
pub use configuration::{Arena, Configuration, GUARD_BYTES, PoolPlan};
pub use cpu::{AccessError, CpuBackend, KernelContext, KernelError, Key, Writing};
pub use error::{ConfigError, RunError};
pub use executor::Executor;
pub use failure::{Failure, FailureReason};
pub use finding::{Finding, FindingFault, LeakedBuffer};
pub use length::{DeviceLength, Length};
pub use memory::{HostPort, ReadTicket};
pub use options::{Debug, Options, OptionsError, Placement};
pub use outcome::{BatchOutcome, PoolUse};
pub use probe::Probe;
pub use program::{Allocation, Program, Step};
pub use report::{BufferSum, DynamicReport, HostReport, Report, StaticReport};
pub use run::{Progress, run};

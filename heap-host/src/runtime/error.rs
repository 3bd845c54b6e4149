//! Why a sequence cannot be configured, or a batch not be run.

use std::ops::Range;

use heap_kernels::FormatError;

use crate::plan::{InstanceError, PlanError, PlanFault};
use crate::sequence::suggest::hint;
use crate::sequence::{CountOverflow, Scope};

use super::backend::BackendError;
use super::options::OptionsError;

/// Why a sequence cannot be configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The options do not go together, or not with the sequence.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A size does not fit 64 bits.
    #[error("the size of buffer {buffer:?} overflows for a batch of {events} events: {overflow}")]
    Size {
        /// The buffer.
        buffer: String,
        /// The batch.
        events: u64,
        /// What overflows.
        overflow: CountOverflow,
    },
    /// The static buffers are no instance for the planner.
    #[error("the static {scope} buffers cannot be planned: {source}")]
    Instance {
        /// The arena.
        scope: Scope,
        /// Why.
        source: InstanceError,
    },
    /// The planner found no plan.
    #[error("the static {scope} buffers cannot be planned: {source}")]
    Plan {
        /// The arena.
        scope: Scope,
        /// Why.
        source: PlanError,
    },
    /// A plan is not valid for the sequence.
    #[error("the plan of the static {scope} buffers is refused: {source}")]
    PlanFault {
        /// The arena.
        scope: Scope,
        /// Why.
        source: PlanFault,
    },
    /// The arena would exceed the capacity that was asked for.
    #[error(
        "the static {scope} buffers need {peak} bytes, which exceeds the capacity of {capacity}; \
         allow more, or fewer events in a batch"
    )]
    Capacity {
        /// The arena.
        scope: Scope,
        /// Its size.
        peak: u64,
        /// What was allowed.
        capacity: u64,
    },
    /// The pool is no room for a heap.
    #[error(
        "the pool of {bytes} bytes for dynamic {scope} buffers is refused: {source}; this sequence \
         needs about {suggested}"
    )]
    Pool {
        /// The pool.
        scope: Scope,
        /// Its size.
        bytes: u64,
        /// Why.
        source: FormatError,
        /// What would do.
        suggested: u64,
    },
    /// Totals and events are too many for a table of 64-bit offsets.
    #[error("the per-event offsets of {totals} totals overflow for a batch of {events} events")]
    Offsets {
        /// Totals of the sequence.
        totals: usize,
        /// The batch.
        events: u64,
    },
}

/// Why a batch could not be run to its end. The executor can run the next one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The sequence cannot be configured.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The machine cannot run it.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The static arenas are planned for smaller batches. Nothing was run.
    #[error(
        "a batch of {events} events exceeds the {max} that the static arenas are planned for; \
         configure with more events, or split the batch"
    )]
    BatchTooLarge {
        /// What was asked for.
        events: u64,
        /// What is planned for.
        max: u64,
    },
    /// Event numbers would wrap. Nothing was run.
    #[error("{events} events from {first_event} on exceed 18446744073709551615; start lower")]
    EventOverflow {
        /// The first event.
        first_event: u64,
        /// How many.
        events: u64,
    },
    /// A size that depends on parameters only does not fit. Nothing was run.
    #[error("the size of static buffer {buffer:?} overflows for {events} events: {overflow}")]
    Size {
        /// The buffer.
        buffer: String,
        /// The batch.
        events: u64,
        /// What overflows.
        overflow: CountOverflow,
    },
    /// A user's kernel failed. No event of the batch counts as done that is
    /// not in an earlier half.
    #[error("algorithm {algorithm:?} failed: {message}")]
    Kernel {
        /// The algorithm.
        algorithm: String,
        /// What it said.
        message: String,
    },
    /// A user's kernel left a total open.
    #[error(
        "algorithm {algorithm:?} has run, but total {total:?} that it computes is not set; call \
         set_counts or set_total in its kernel"
    )]
    NoTotal {
        /// The algorithm.
        algorithm: String,
        /// The total.
        total: String,
    },
    /// No algorithm of that name.
    #[error(
        "sequence {sequence:?} has no algorithm {name:?}; name one of its algorithms{}",
        hint(.nearest)
    )]
    UnknownAlgorithm {
        /// The sequence.
        sequence: String,
        /// The name.
        name: String,
        /// The nearest name that there is.
        nearest: Option<String>,
    },
    /// A sink or a probe panicked. No event of the batch counts as done that is
    /// not in an earlier part.
    #[error("the {what} of {name:?} failed for events {first_event} to {last_event}: {message}")]
    Callback {
        /// `on_output` or `probe`.
        what: &'static str,
        /// The output, or the algorithm.
        name: String,
        /// The first event of the part that was run.
        first_event: u64,
        /// The last one.
        last_event: u64,
        /// What it said.
        message: String,
    },
    /// No such output.
    #[error(
        "{name:?} is not among the outputs of the options; list it there first{}",
        hint(.nearest)
    )]
    NotAnOutput {
        /// The name.
        name: String,
        /// The nearest output that there is.
        nearest: Option<String>,
    },
}

impl RunError {
    /// The error for what a closure said that panicked on the host.
    pub(super) fn callback<'a>(
        what: &'static str,
        name: &'a str,
        part: &'a Range<u64>,
    ) -> impl FnOnce(String) -> Self + 'a {
        move |message| Self::Callback {
            what,
            name: name.to_owned(),
            first_event: part.start,
            last_event: part.end.saturating_sub(1).max(part.start),
            message,
        }
    }
}

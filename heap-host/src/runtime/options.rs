//! How a sequence is to be run.

use crate::plan;
use crate::sequence::Sequence;
use crate::sequence::suggest::{hint, nearest};

/// How a sequence is to be run.
///
/// ```
/// use heap_host::runtime::Options;
///
/// let options = Options { batches: 4, ..Options::default() };
/// assert_eq!(options.streams, 1);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Events in a batch: the largest batch that the static arenas are planned
    /// for. By default the sequence's own maximum.
    pub events: Option<u64>,
    /// How many batches [`run`](super::run()) does. Batch `i` has the events
    /// from `i * events` on.
    pub batches: u64,
    /// Seeds the built-in kernels' counts.
    pub seed: u64,
    /// Bytes of each stream's dynamic pool in device memory, metadata
    /// included. By default one that fits, see
    /// [`Configuration::default_pool`](super::Configuration::default_pool).
    pub pool_bytes: Option<u64>,
    /// The same for dynamic buffers in host memory.
    pub host_pool_bytes: Option<u64>,
    /// How many batches are under way at a time, each in regions of its own.
    pub streams: u32,
    /// Where dynamic buffers go in their pool.
    pub placement: Placement,
    /// What is checked beyond the contents at every read.
    pub debug: Debug,
    /// Buffers that are kept to the end of the batch, for
    /// [`Executor::on_output`](super::Executor::on_output).
    pub outputs: Vec<String>,
    /// How hard the static arenas are planned. A capacity makes an arena that
    /// exceeds it an error.
    pub plan: plan::Options,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            events: None,
            batches: 1,
            seed: 0,
            pool_bytes: None,
            host_pool_bytes: None,
            streams: 1,
            placement: Placement::Auto,
            debug: Debug::default(),
            outputs: Vec::new(),
            plan: plan::Options::default(),
        }
    }
}

/// How a pool is told apart for long and short lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Buffers that live for more algorithms than some border go to the pool's
    /// low end, others to its high end. The border is found by simulating the
    /// expected totals.
    #[default]
    Auto,
    /// The same with this border, in algorithms after the writer.
    Border(u32),
    /// No hints: the smallest hole that fits.
    Best,
}

/// Checks for developers. Each costs time, guards also memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debug {
    /// Put [`GUARD_BYTES`](super::GUARD_BYTES) behind the requested bytes of
    /// every buffer, and look after every algorithm, before every free and at
    /// the batch's end whether they were written.
    pub guards: bool,
    /// Fill buffers with patterns when they begin and end, so that a read of
    /// what was never written shows.
    pub poison: bool,
    /// Check every invariant of the heaps at the end of each batch.
    pub check_heap: bool,
}

impl Debug {
    /// Every check.
    pub const ALL: Self = Self {
        guards: true,
        poison: true,
        check_heap: true,
    };
}

/// Why options do not go together, or not with the sequence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// Nobody would run anything.
    #[error("streams is 0; it must be at least 1")]
    NoStreams,
    /// A batch larger than the sequence allows.
    #[error(
        "a batch of {events} events exceeds what sequence {sequence:?} allows; raise its parameter \
         \"events\" from {max}{}",
        or_less(*max)
    )]
    TooManyEvents {
        /// The sequence.
        sequence: String,
        /// What was asked for.
        events: u64,
        /// The sequence's largest batch.
        max: u64,
    },
    /// Event numbers would wrap.
    #[error(
        "{batches} batches of {events} events are more than 18446744073709551615 events; ask for \
         fewer batches"
    )]
    TooManyBatches {
        /// Batches asked for.
        batches: u64,
        /// Events in each.
        events: u64,
    },
    /// All streams' pools together are too large.
    #[error(
        "{streams} streams with pools of {pool_bytes} bytes are more than 18446744073709551615 \
         bytes; ask for fewer streams or a smaller pool"
    )]
    TooMuchMemory {
        /// Streams asked for.
        streams: u32,
        /// Bytes of each one's pool.
        pool_bytes: u64,
    },
    /// An output that is no buffer.
    #[error(
        "the output {name:?} is no buffer of sequence {sequence:?}; name one of its buffers{}",
        hint(.nearest)
    )]
    UnknownOutput {
        /// The sequence.
        sequence: String,
        /// The name.
        name: String,
        /// The nearest name that there is.
        nearest: Option<String>,
    },
    /// An output that nobody may see.
    #[error(
        "the output {name:?} is a temporary, which ends with its algorithm; name a buffer that is \
         none"
    )]
    TemporaryOutput {
        /// The name.
        name: String,
    },
    /// An output that is named twice.
    #[error("the output {name:?} is listed twice; list it once")]
    DuplicateOutput {
        /// The name.
        name: String,
    },
}

/// Nobody asks for no events.
fn or_less(max: u64) -> String {
    match max {
        0 => ", which allows no event at all".into(),
        _ => format!(", or ask for at most {max}"),
    }
}

impl Options {
    /// Events of the largest batch.
    pub fn max_events(&self, sequence: &Sequence) -> u64 {
        self.events.unwrap_or(sequence.max_events())
    }

    /// Whether these options go together, and with `sequence`.
    ///
    /// # Errors
    /// The first that does not.
    pub fn validate(&self, sequence: &Sequence) -> Result<(), OptionsError> {
        let (events, max) = (self.max_events(sequence), sequence.max_events());
        let (batches, streams) = (self.batches, self.streams);
        if streams == 0 {
            return Err(OptionsError::NoStreams);
        }
        if events > max {
            let sequence = sequence.name().into();
            return Err(OptionsError::TooManyEvents {
                sequence,
                events,
                max,
            });
        }
        if events.checked_mul(batches).is_none() {
            return Err(OptionsError::TooManyBatches { batches, events });
        }
        for pool_bytes in [self.pool_bytes, self.host_pool_bytes]
            .into_iter()
            .flatten()
        {
            if pool_bytes.checked_mul(streams.into()).is_none() {
                return Err(OptionsError::TooMuchMemory {
                    streams,
                    pool_bytes,
                });
            }
        }
        self.validate_outputs(sequence)
    }

    fn validate_outputs(&self, sequence: &Sequence) -> Result<(), OptionsError> {
        for (index, name) in self.outputs.iter().enumerate() {
            let name = name.clone();
            let Some(id) = sequence.buffer_named(&name) else {
                let names = sequence.buffers().iter().map(|buffer| &*buffer.name);
                return Err(OptionsError::UnknownOutput {
                    nearest: nearest(&name, names),
                    sequence: sequence.name().into(),
                    name,
                });
            };
            if sequence.buffer(id).temporary {
                return Err(OptionsError::TemporaryOutput { name });
            }
            if self.outputs[..index].contains(&name) {
                return Err(OptionsError::DuplicateOutput { name });
            }
        }
        Ok(())
    }
}

//! The vocabulary: algorithms, buffers, totals and parameters, and the dense
//! indexes by which they refer to each other.

use std::fmt;

use super::count::{Count, CountOverflow};
use super::ratio::Ratio;

/// The name of the parameter by which a batch is sized and halved.
pub const EVENTS: &str = "events";

/// The alignment of a buffer that does not ask for one, in bytes.
pub const DEFAULT_ALIGNMENT: u64 = 256;

/// The largest alignment that a buffer may ask for, in bytes.
pub const MAX_ALIGNMENT: u64 = 64 << 10;

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The id of the item at `index`.
            ///
            /// # Panics
            /// If `index` does not fit 32 bits.
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("a sequence has fewer than 2^32 items of a kind"))
            }

            /// The position in the sequence's list, from 0.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

dense_id! {
    /// An algorithm of a sequence; ids ascend in program order.
    AlgorithmId
}
dense_id! {
    /// A buffer of a sequence; ids ascend in the program order of the writers.
    BufferId
}
dense_id! {
    /// A total of a sequence.
    TotalId
}
dense_id! {
    /// A parameter of a sequence.
    ParameterId
}

/// Where a buffer's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Host memory (pinned, where there is a card).
    Host,
    /// Device memory.
    Device,
}

/// When a buffer's size becomes known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// At configuration: the count depends on batch parameters only.
    Static,
    /// On the device, during the batch: the count depends on a total.
    Dynamic,
}

/// What a count may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// A batch parameter, known before the batch starts.
    Parameter(ParameterId),
    /// A total, known once its algorithm has run.
    Total(TotalId),
}

/// What a buffer holds when its writer starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Init {
    /// Nothing in particular.
    None,
    /// This byte, everywhere.
    Fill(u8),
    /// The contents of a buffer of the same scope, element size and count.
    CopyOf(BufferId),
}

/// A buffer: memory that one algorithm writes and later ones read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Buffer {
    /// Unique among the sequence's buffers.
    pub name: String,
    /// Where the memory is.
    pub scope: Scope,
    /// When the size becomes known.
    pub kind: Kind,
    /// Whether only the writer uses it, as scratch space.
    pub temporary: bool,
    /// Size of an element in bytes; 0 is legal.
    pub element_bytes: u64,
    /// Alignment in bytes: a power of two up to [`MAX_ALIGNMENT`].
    pub alignment: u64,
    /// Number of elements.
    pub count: Count,
    /// The algorithm that writes it.
    pub writer: AlgorithmId,
    /// What this buffer points into: it lives at least as long as this one.
    pub keeps_alive: Vec<BufferId>,
    /// The buffer lives to the end of this algorithm, or of its last reader
    /// where that one is later.
    pub live_until: Option<AlgorithmId>,
    /// Contents when the writer starts.
    pub init: Init,
}

impl Buffer {
    /// Requested size in bytes, without any rounding to the alignment.
    ///
    /// `parameters` and `totals` hold one value for each of the sequence's
    /// parameters and totals, in the order of their ids.
    ///
    /// # Errors
    /// If the count or the size does not fit 64 bits.
    ///
    /// # Panics
    /// If a slice is too short for a variable that the count uses.
    pub fn bytes(&self, parameters: &[u64], totals: &[u64]) -> Result<u64, CountOverflow> {
        let elements = self.count.evaluate(parameters, totals)?;
        let element_bytes = self.element_bytes;
        elements
            .checked_mul(element_bytes)
            .ok_or(CountOverflow::Bytes {
                elements,
                element_bytes,
            })
    }
}

/// A number that only the device knows, once an algorithm has run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Total {
    /// Unique among the sequence's totals and parameters.
    pub name: String,
    /// The algorithm that computes it.
    pub computed_by: AlgorithmId,
    /// What is expected for each event: the built-in kernels aim at it, and
    /// the default pool is sized by it.
    pub expected_per_event: Ratio,
}

impl Total {
    /// The expected value for a batch of `events`, rounded up.
    ///
    /// # Errors
    /// If it does not fit 64 bits.
    pub fn expected(&self, events: u64) -> Result<u64, CountOverflow> {
        self.expected_per_event.times(events)
    }
}

/// A step of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Algorithm {
    /// Unique among the sequence's algorithms.
    pub name: String,
    /// Free text for people, such as the kind of the algorithm; may be empty.
    pub label: String,
    /// The buffers it reads, each written by an earlier algorithm.
    pub reads: Vec<BufferId>,
    /// The buffers it writes, ascending.
    pub writes: Vec<BufferId>,
    /// The totals it computes, ascending.
    pub computes: Vec<TotalId>,
}

/// A number that is fixed for a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// Unique among the sequence's parameters and totals.
    pub name: String,
    /// The largest value that a batch may have.
    pub max: u64,
}

impl From<ParameterId> for Variable {
    fn from(id: ParameterId) -> Self {
        Self::Parameter(id)
    }
}

impl From<TotalId> for Variable {
    fn from(id: TotalId) -> Self {
        Self::Total(id)
    }
}

impl Scope {
    /// The word for it in a sequence file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Device => "device",
        }
    }
}

impl Kind {
    /// The word for it in a sequence file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Dynamic => "dynamic",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

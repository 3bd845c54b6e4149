//! Sequences of algorithms with declared buffers.
//!
//! A [`Sequence`] says what runs, in which order, and what memory that needs.
//! It comes from a [`SequenceBuilder`] or from a JSON file
//! ([`Sequence::read`]), is checked when it is made, and does not change.
//!
//! - An [`Algorithm`] reads buffers that earlier ones wrote, writes buffers of
//!   its own, and may compute [`Total`]s.
//! - A [`Buffer`] has a writer, a [`Scope`], and a [`Count`] of elements. If
//!   the count depends on batch [`Parameter`]s only it is static, known at
//!   configuration; if it depends on a total it is dynamic, known only on the
//!   device.
//! - [`live_ranges`] says when each buffer must be there.
//! - [`shipped`] has the sequences that come with the program.
//!
//! The modules, lowest first: `ratio` and `count` (exact numbers), `model` (the
//! parts), `whole` (the sequence), `validate` (every rule), `builder` and `json`
//! (two ways to the same parts). Nothing here knows planners or the runtime.
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod arbitrary;
mod builder;
mod count;
mod error;
mod fingerprint;
mod json;
mod lifetime;
mod model;
mod ratio;
pub mod shipped;
mod spec;
pub(crate) mod suggest;
mod validate;
mod whole;

pub use builder::SequenceBuilder;
pub use count::{Count, CountOverflow};
pub use error::{Problem, SequenceError};
pub use json::{FORMAT, VERSION};
pub use lifetime::{LiveRange, live_ranges};
pub use model::{
    Algorithm, AlgorithmId, Buffer, BufferId, DEFAULT_ALIGNMENT, EVENTS, Init, Kind, MAX_ALIGNMENT,
    Parameter, ParameterId, Scope, Total, TotalId, Variable,
};
pub use ratio::{Ratio, RatioError};
pub use spec::{BufferSpec, Coefficient, CoefficientError};
pub use whole::Sequence;

/// The program in the format's documentation compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../sequences/README.md")]
struct FormatReference;

//! Sequences of algorithms with declared buffers.
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
mod suggest;
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

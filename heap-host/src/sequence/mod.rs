//! Sequences of algorithms with declared buffers.
#![deny(unsafe_code)]

mod count;
mod lifetime;
mod model;
mod ratio;
mod whole;

pub use count::{Count, CountOverflow};
pub use lifetime::{LiveRange, live_ranges};
pub use model::{
    Algorithm, AlgorithmId, Buffer, BufferId, DEFAULT_ALIGNMENT, EVENTS, Init, Kind, MAX_ALIGNMENT,
    Parameter, ParameterId, Scope, Total, TotalId, Variable,
};
pub use ratio::{Ratio, RatioError};
pub use whole::Sequence;

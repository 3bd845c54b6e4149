//! The host half of device-heap: sequences of algorithms with declared
//! buffers, the static arena planned from their lifetimes, and the runtime.

#[cfg(feature = "cuda")]
pub mod cuda;
pub mod file;
#[doc(hidden)]
pub mod fuzzing;
pub mod plan;
pub mod pool;
pub mod runtime;
pub mod selftest;
pub mod sequence;
pub mod stress;

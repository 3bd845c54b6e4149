//! What tests of the heap share (feature `testing`, needs std): a simulated
//! machine of 32-lane warps, programs of heap operations, an independent
//! shadow model, and the contract that every backend keeps.

pub mod contract;
#[doc(hidden)]
pub mod fuzzing;
pub mod generate;
pub mod lockstep;
pub mod memory;
mod pattern;
pub mod program;
pub mod runners;
pub mod session;
pub mod shadow;
pub mod words;

//! The device heap.
#![no_std]

#[cfg(feature = "testing")]
extern crate std;

pub mod host;
pub mod mem;
pub mod warp;

#[cfg(feature = "testing")]
pub mod testing;

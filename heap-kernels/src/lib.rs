//! The device heap.
#![no_std]

//! device-heap.

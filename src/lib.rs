//! device-heap.
pub use heap_host::{plan, pool, runtime, sequence, stress};
pub use heap_kernels as kernels;

//! Heaps on NVIDIA GPUs (feature `cuda`).
//!
//! The kernels are Rust, compiled to PTX and embedded; the host launches them
//! through `cust`. Nothing of CUDA is needed to build: the driver is looked
//! for when the program runs, and [`GpuError::NoDriver`] says where there is
//! none.
//!
//! ```no_run
//! use heap_host::cuda::{DevicePool, Gpu, Sizes};
//! use cust::memory::DeviceBuffer;
//!
//! let gpu = Gpu::open(0)?;
//! let stream = gpu.stream()?;
//! let pool = DevicePool::new(&gpu, 1 << 30, &Default::default(), &stream)?;
//! let blocks = DeviceBuffer::<u64>::zeroed(1_000_000)?;
//! pool.alloc(&stream, Sizes::All(100), &blocks, None)?;
//! pool.free(&stream, &blocks, None)?;
//! assert_eq!(pool.stats(&stream)?.live_blocks, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bench;
mod driver;
mod error;
mod gpu;
mod inspect;
mod pool;
mod suite;

/// The binding to the driver that all of this uses: streams, buffers, modules.
pub use cust;

pub use bench::{BenchOptions, BenchReport, BenchRow, Size, bench, open_for_bench};
pub use error::GpuError;
pub(crate) use error::Named;
pub use gpu::{DeviceInfo, Gpu, GpuOptions, devices};
pub use pool::{DevicePool, Requests, Sizes};

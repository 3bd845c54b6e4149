//! Heaps in host memory, for host threads.
//!
//! [`OwnedMemory`] is a range of zeroed memory that takes room only where it
//! is touched; [`HostPool`] is a heap in one, with [`Block`]s that free
//! themselves.
//!
//! ```
//! use heap_host::pool::HostPool;
//!
//! let pool = HostPool::new(4 << 20)?;
//! let mut block = pool.block(1000)?;
//! block.fill(7);
//! assert_eq!(pool.stats().live_blocks, 1);
//! drop(block);
//! assert_eq!(pool.stats().live_blocks, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
mod host_pool;
mod memory;

pub use block::Block;
pub use heap_kernels::heap::{AllocError, FreeError, ReallocError, Request, Stats};
pub use heap_kernels::{Config, FormatError};
pub use host_pool::{HostPool, Leak, PoolError};
pub use memory::{MemoryError, OwnedMemory};

//! The device heap of device-heap: allocation and freeing inside one pool of
//! memory, by any lane of a GPU or any thread of a host, lock-free.
//!
//! One `no_std` source without `alloc`, generic over two small traits:
//! [`Mem`], the words of the pool, and [`Warp`], the
//! lanes that act together. DESIGN.md at the repository's root says how it
//! works; the modules are its rooms, and import only downwards in this order:
//!
//! `heap` → `slab` → `runs` → `layout` → `mem`, and `heap` → `warp`.
//!
//! ```
//! use heap_kernels::{Config, Heap, HostMem, Request, SingleLane};
//!
//! #[repr(align(4096))]
//! struct Pool([u8; 1 << 20]);
//! let mut pool = Box::new(Pool([0; 1 << 20]));
//! // SAFETY: the array outlives the heap, and only the heap uses it.
//! let mem = unsafe { HostMem::new(pool.0.as_mut_ptr(), 1 << 20) };
//!
//! let heap = Heap::format(mem, &Config::default())?;
//! let lane = SingleLane::new(0);
//! let block = heap.alloc(&lane, Request::new(100).align(64))?;
//! assert!(heap.usable_size(block)? >= 100);
//! heap.free(&lane, block)?;
//! assert!(heap.free(&lane, block).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![cfg_attr(all(target_arch = "nvptx64", feature = "entry"), feature(abi_ptx))]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        abi_unadjusted,
        asm_experimental_arch,
        link_llvm_intrinsics,
        stdarch_nvptx
    ),
    // The warp's collectives are the code generator's, see `device::intrinsics`.
    allow(internal_features)
)]

#[cfg(any(test, feature = "testing"))]
extern crate std;

#[cfg(target_arch = "nvptx64")]
pub mod device;
#[doc(hidden)]
pub mod exercise;
pub mod heap;
pub mod host;
mod layout;
pub mod mem;
#[doc(hidden)]
pub mod pattern;
mod runs;
mod slab;
#[cfg(feature = "testing")]
pub mod testing;
pub mod warp;

pub use heap::{
    AllocError, ClassStats, Corruption, FreeError, Heap, HeapHandle, Offender, ReallocError,
    Request, Stats, Survey, Tally, WarpBlock,
};
pub use host::HostMem;
pub use layout::classes::{class_of, class_size};
pub use layout::geometry::{Config, FormatError, Geometry};
pub use mem::Mem;
pub use runs::Place;
pub use warp::{SingleLane, Warp};

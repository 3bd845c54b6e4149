//! A simulated machine: warps of up to 32 lanes, all on one thread, in an
//! order that depends on a seed and nothing else.
//!
//! Every lane is a coroutine. It can lose its turn at each atomic access
//! through a [`LockstepMem`], and waits in each collective until all lanes of
//! the mask have come. So the lanes of a warp, and warps, meet in every order
//! that a [`Policy`] can think of, and a run that fails can be repeated.
//!
//! ```
//! use heap_kernels::mem::{Mem, Order};
//! use heap_kernels::testing::lockstep::{LockstepMem, Machine, Schedule};
//! use heap_kernels::testing::memory::PoolMemory;
//! use heap_kernels::warp::Warp;
//!
//! let memory = PoolMemory::new(4096, 16);
//! let mem = LockstepMem::new(memory.mem());
//! let machine = Machine { warps: 2, lanes: 32, schedule: Schedule::random(7) };
//! let outcome = machine.run(|lane| {
//!     let together = lane.active();
//!     if together.trailing_zeros() == lane.lane() {
//!         mem.fetch_add(0, u64::from(together.count_ones()), Order::Relaxed);
//!     }
//! });
//! assert!(outcome.all_finished());
//! assert_eq!(mem.load(0, Order::Relaxed), 64);
//! ```
//!
//! What goes wrong is reported, not hung on: lanes that wait for each other in
//! vain, collectives that do not fit together, an order that an access cannot
//! have, and more steps than [`Schedule::step_limit`], each with the lanes'
//! states and the last steps. Interleavings are of whole accesses: effects of
//! weak memory are for model checks.

mod lane;
mod memory;
mod run;
mod schedule;
mod state;
mod trace;

#[cfg(test)]
mod tests;

pub use lane::Lane;
pub use memory::LockstepMem;
pub use run::{End, LaneOutcome, Machine, Outcome};
pub use schedule::{Policy, Schedule, Stop};

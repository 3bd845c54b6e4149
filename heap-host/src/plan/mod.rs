//! Static planning: offsets from lifetimes.
//!
//! A static arena is one block of memory in which every [`Buffer`] of an
//! [`Instance`] gets a fixed offset, such that no two buffers that are alive
//! at one step share a byte. The planner looks for offsets with a small
//! *peak* (the end of the highest buffer, which is the size the arena needs).
//! The problem is known as *dynamic storage allocation* (Garey and Johnson,
//! problem SR2) and is NP-hard, so a plan carries a proved *lower bound*
//! beside its peak: the largest sum of sizes alive at one step.
//!
//! ```
//! use heap_host::plan::{self, Buffer, Instance, Options, Status};
//!
//! let instance = Instance::new(vec![
//!     Buffer::new("hits", 0, 2, 4096),
//!     Buffer::new("tracks", 1, 4, 1024).aligned_to(256),
//!     Buffer::new("vertices", 2, 3, 4096),
//! ])?;
//! let plan = plan::plan(&instance, &Options::default())?;
//! assert_eq!(plan.peak(), 5120);
//! assert_eq!(plan.status(), Status::Optimal);
//! plan.verify(&instance)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layers
//!
//! `instance` and `fingerprint` know nothing else. [`bound`] and [`verify`]
//! read only an instance, so neither can inherit a fault of the planner.
//! `problem` turns an instance into what the search works on: buffers that
//! take space, on compressed steps, in independent components. `space` keeps
//! what is placed and finds gaps; `fit` places all buffers in one order;
//! `portfolio` tries the orders, after `quick`, which needs none, where time is short;
//! `improve` changes the best of them; `exact` searches for a placement within a
//! given peak, which it would not miss; `planner` drives these and reports. [`csv`] reads and writes files and [`generate`]
//! makes instances; nothing depends on those two.
//!
//! # Conventions
//!
//! Sizes, offsets and alignments are bytes. Lifetimes are half-open ranges of
//! steps, `lower..upper`. A buffer of size zero, or with `lower == upper`,
//! takes no space at any step: its offset is valid (aligned, and 0 in plans
//! of this planner), it blocks nobody and does not count for the peak.

#![deny(unsafe_code)]

pub mod bound;
pub mod csv;
mod exact;
mod fingerprint;
mod fit;
pub mod generate;
mod improve;
mod instance;
mod planner;
mod portfolio;
mod problem;
mod quick;
mod space;
pub mod verify;

pub use bound::{LowerBound, Proof};
pub use fingerprint::Fingerprint;
pub use instance::{
    Alias, AliasLink, Arena, Buffer, Gap, InPlaceLink, Instance, InstanceError, Piece,
};
pub use planner::{Options, Plan, PlanError, PlanFault, StalePlan, Status, plan};

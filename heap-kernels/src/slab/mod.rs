//! Slabs: runs cut into equal slots, held by per-class stacks.
//!
//! Read in this order: `credits` (the right to a slot), `slots` (the slot),
//! `stack` (where slabs with credits are found), `form` and `retire` (where
//! slabs come from and go), `search` (all of it, in the order of a request).

mod credits;
mod form;
mod retire;
pub(crate) mod search;
pub(crate) mod slots;
mod stack;

/// What a leader got for the lanes of its group: slots in one word of the slot
/// bits of one slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// First page of the slab.
    pub(crate) page: u32,
    /// Class of the slab; it may be larger than the class asked for.
    pub(crate) class: u32,
    /// Index of the word in the slab's slot bits.
    pub(crate) word: u32,
    /// The slots, one at least.
    pub(crate) mask: u64,
}

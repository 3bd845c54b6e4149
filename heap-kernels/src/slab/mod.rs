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
pub(crate) mod stack;

/// What a leader got for the lanes of its group: some of 64 neighbouring slots
/// of one slab. Two words, which lanes shuffle and functions return in
/// registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Unused 8, class 8, first slot 16, first page of the slab 32, from high to
    /// low.
    place: u64,
    mask: u64,
}

impl Grant {
    /// No slot.
    pub(crate) const NONE: Self = Self { place: 0, mask: 0 };

    /// The slots `mask`, counted from slot `first` on, of the slab of `class` at
    /// `page`.
    #[inline]
    pub(crate) const fn new(page: u32, class: u32, first: u32, mask: u64) -> Self {
        Self {
            place: (class as u64) << 48 | (first as u64) << 32 | page as u64,
            mask,
        }
    }

    #[inline]
    pub(crate) const fn from_words(place: u64, mask: u64) -> Self {
        Self { place, mask }
    }

    #[inline]
    pub(crate) const fn place(self) -> u64 {
        self.place
    }

    /// The slots, counted from [`first`](Self::first) on.
    #[inline]
    pub(crate) const fn mask(self) -> u64 {
        self.mask
    }

    /// Number of slots.
    #[inline]
    pub(crate) const fn count(self) -> u32 {
        self.mask.count_ones()
    }

    /// First page of the slab.
    #[inline]
    pub(crate) const fn page(self) -> u64 {
        self.place & u32::MAX as u64
    }

    /// The slot that bit 0 of the mask stands for.
    #[inline]
    pub(crate) const fn first(self) -> u32 {
        (self.place >> 32) as u32 & 0xffff
    }

    /// Class of the slab; it may be larger than the class asked for.
    #[inline]
    pub(crate) const fn class(self) -> u32 {
        (self.place >> 48) as u32 & 0xff
    }
}

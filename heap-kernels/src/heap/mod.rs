//! The heap: what lanes and host threads call.

mod alloc;
mod answer;
mod check;
mod codes;
mod free;
mod handle;
mod inspect;
mod locate;
mod realloc;
#[cfg(test)]
pub(crate) mod tests;

use core::fmt;

#[cfg(feature = "entry")]
#[cfg_attr(not(target_arch = "nvptx64"), allow(unused_imports))]
pub(crate) use answer::Answer;

pub use alloc::WarpBlock;
pub use check::{Corruption, Tally};
pub use handle::HeapHandle;
pub use inspect::{ClassStats, Offender, Stats, Survey};
pub use realloc::ReallocError;

use crate::layout::Pool;
use crate::layout::geometry::{Config, FormatError, Geometry};
use crate::mem::Mem;
use crate::runs::Place;

/// A heap in one pool of memory.
///
/// All its state is in the pool: any number of values may be
/// [attached](Heap::attach) to one pool, on a host and (with a backend whose
/// scope says so) on a device, and used at the same time.
///
/// Blocks are named by their offset from the pool's first byte, in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Heap<M> {
    pub(crate) pool: Pool<M>,
}

/// What an allocation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes; zero is legal and gets a block of its own.
    pub size: u64,
    /// Alignment of the block's address in bytes: a power of two.
    pub align: u64,
    /// Where a block too large for a slab should lie.
    pub place: Place,
}

impl Request {
    /// `size` bytes, aligned to 16.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self {
            size,
            align: 16,
            place: Place::Best,
        }
    }

    /// The same with another alignment, a power of two.
    #[must_use]
    pub const fn align(self, align: u64) -> Self {
        Self { align, ..self }
    }

    /// The same at another place.
    #[must_use]
    pub const fn place(self, place: Place) -> Self {
        Self { place, ..self }
    }
}

/// Why an allocation failed. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocError {
    /// No hole fits.
    OutOfMemory,
    /// More than the whole pool has.
    TooLarge,
    /// The alignment is zero or no power of two.
    BadAlignment,
    /// Others changed the heap during every search, so that the request was
    /// neither met nor shown to be impossible.
    Contended,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfMemory => "no hole in the pool fits the request",
            Self::TooLarge => "the request is larger than the whole pool",
            Self::BadAlignment => "the alignment is not a power of two",
            Self::Contended => "the pool kept changing while the request looked for room",
        })
    }
}

impl core::error::Error for AllocError {}

/// Why an offset does not name a live block. The heap was not changed, except
/// for its count of such calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FreeError {
    /// The block that began here has been freed already.
    DoubleFree,
    /// Not an offset of the pool's pages.
    OutsidePool,
    /// Behind the first byte of a block or slot.
    InsideBlock,
    /// No block that began here was ever handed out.
    NeverAllocated,
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DoubleFree => "the block was freed before",
            Self::OutsidePool => "the pointer is outside of the pool",
            Self::InsideBlock => "the pointer is inside of a block, not at its start",
            Self::NeverAllocated => "no block was ever handed out at this pointer",
        })
    }
}

impl core::error::Error for FreeError {}

impl<M: Mem> Heap<M> {
    /// Makes `mem` an empty heap. Time proportional to the metadata, 2.2 % of
    /// the pool at 4 KiB pages.
    ///
    /// # Errors
    ///
    /// [`FormatError`] where the memory is too short or misaligned, or a
    /// setting is out of its range; the memory is untouched then.
    pub fn format(mem: M, config: &Config) -> Result<Self, FormatError> {
        Ok(Self {
            pool: Pool::format(mem, config)?,
        })
    }

    /// Opens the heap that was [formatted](Self::format) in `mem`. Constant
    /// time.
    ///
    /// # Errors
    ///
    /// [`FormatError::NotFormatted`] where there is none.
    pub fn attach(mem: M) -> Result<Self, FormatError> {
        Ok(Self {
            pool: Pool::attach(mem)?,
        })
    }

    /// The layout of the pool.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.pool.geo
    }

    /// The memory.
    #[must_use]
    pub const fn mem(&self) -> &M {
        &self.pool.mem
    }

    /// Forgets all blocks and counters, in time proportional to the metadata.
    /// Nobody else may use the heap meanwhile; afterwards no block handed out
    /// before may be used or freed.
    pub fn reset(&self) {
        self.zero_part(0, 1);
        self.begin_part(0, 1);
    }

    /// Zeroes the `part`-th of `parts` pieces of the metadata: the first step
    /// of formatting or resetting a heap by many lanes, which have it to
    /// themselves.
    pub fn zero_part(&self, part: u64, parts: u64) {
        self.pool.zero_part(part, parts);
    }

    /// The second step, after [`zero_part`](Self::zero_part) of all pieces is
    /// visible: the `part`-th of `parts` shares of what is not zero in an
    /// empty heap.
    pub fn begin_part(&self, part: u64, parts: u64) {
        self.pool.begin_part(part, parts);
    }

    /// Gives the pages of empty slabs back that were retained (see
    /// [`Config::retain`]). Linear in the number of stacks and of slabs on them,
    /// if there are any.
    pub fn reclaim(&self) {
        self.pool.reclaim(u64::MAX, 0);
    }
}

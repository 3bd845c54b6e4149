//! A heap in the memory of a device, as its host knows it.

use crate::layout::geometry::{Config, FormatError, Geometry};

/// Address, length and layout of a heap: what a host copies into device
/// memory, and passes to kernels by pointer.
///
/// On the device this is the heap itself; see the `device` module, which
/// exists for that target only. The host cannot do anything to the heap but
/// launch kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HeapHandle {
    base: u64,
    len: u64,
    geometry: Geometry,
}

impl HeapHandle {
    /// A handle to the pool of `len` bytes at device address `base`, which
    /// kernels have formatted or will.
    ///
    /// # Errors
    ///
    /// [`FormatError`] where the pool is too short or misaligned, or a setting
    /// is out of its range.
    pub fn new(base: u64, len: u64, config: &Config) -> Result<Self, FormatError> {
        let geometry = Geometry::new(len, config)?;
        if !base.is_multiple_of(geometry.page_size()) {
            return Err(FormatError::Misaligned {
                base,
                page_size: geometry.page_size(),
            });
        }
        Ok(Self {
            base,
            len,
            geometry,
        })
    }

    /// Device address of the pool's first byte.
    #[must_use]
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// The layout of the pool.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The handle as bytes, for copying it to a device.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the handle and the geometry are `repr(C)` with fields of 4
        // and 8 bytes in an order that leaves no padding (asserted below).
        unsafe { core::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }
}

/// Four words of 32 bits, and the rest of 64: all of it fields.
const _: () = {
    let levels = crate::layout::geometry::LEVELS;
    assert!(size_of::<Geometry>() == 8 * (1 + 2 + 13 + 2 * levels));
    assert!(size_of::<HeapHandle>() == 16 + size_of::<Geometry>());
};

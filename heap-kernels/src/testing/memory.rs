//! Memory for pools under test.

use core::marker::PhantomData;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use crate::host::HostMem;
use crate::mem::{Fault, Mem, Order, Scope};

/// A pool whose bytes this thread can address.
///
/// # Safety
///
/// `pointer(at)` is valid for reads and writes of `len() - at` bytes as long
/// as the value lives, and refers to the bytes that [`Mem::fill`] and
/// [`Mem::copy`] see at `at`.
pub unsafe trait HostBytes: Mem {
    /// The pointer to the byte at offset `at`.
    fn pointer(&self, at: u64) -> *mut u8;

    /// Reads the bytes from `at` on.
    ///
    /// # Safety
    ///
    /// Nobody writes these bytes meanwhile.
    ///
    /// # Panics
    ///
    /// If the bytes are not all in the pool.
    unsafe fn read(&self, at: u64, into: &mut [u8]) {
        let end = at.checked_add(into.len() as u64);
        assert!(
            end.is_some_and(|end| end <= self.len()),
            "read outside of the pool"
        );
        // SAFETY: in the pool, as just checked; the caller excludes writers.
        unsafe { into.as_mut_ptr().copy_from(self.pointer(at), into.len()) }
    }

    /// Writes the bytes from `at` on.
    ///
    /// # Safety
    ///
    /// Nobody else accesses these bytes meanwhile.
    ///
    /// # Panics
    ///
    /// If the bytes are not all in the pool.
    unsafe fn write(&self, at: u64, from: &[u8]) {
        let end = at.checked_add(from.len() as u64);
        assert!(
            end.is_some_and(|end| end <= self.len()),
            "write outside of the pool"
        );
        // SAFETY: in the pool, as just checked; the caller excludes others.
        unsafe { self.pointer(at).copy_from(from.as_ptr(), from.len()) }
    }
}

// SAFETY: `HostMem::new` demands that the bytes are valid.
unsafe impl HostBytes for HostMem {
    fn pointer(&self, at: u64) -> *mut u8 {
        HostMem::pointer(self, at)
    }
}

/// Owned, zeroed memory of a pool; the pages of a large one are committed by
/// the operating system when they are first touched.
#[derive(Debug)]
pub struct PoolMemory {
    block: *mut u8,
    layout: Layout,
    base: *mut u8,
    len: u64,
}

// SAFETY: the memory belongs to the value; it is accessed only through the
// `HostMem`s it gives out, which are `Send` themselves.
unsafe impl Send for PoolMemory {}
// SAFETY: shared accesses give out `HostMem`s only, which are `Sync`.
unsafe impl Sync for PoolMemory {}

impl PoolMemory {
    /// `len` bytes aligned to `align`.
    ///
    /// # Panics
    ///
    /// If `align` is no power of two, or `len + align` is not addressable.
    #[must_use]
    pub fn new(len: u64, align: u64) -> Self {
        assert!(
            align.is_power_of_two(),
            "alignment {align} is no power of two"
        );
        let bytes = len
            .checked_add(align)
            .and_then(|bytes| usize::try_from(bytes).ok());
        // Aligned by hand: an allocator asked for zeroed memory of a large
        // alignment writes all of it, where one asked for the usual alignment
        // gets fresh pages that cost nothing until they are used.
        let layout = bytes
            .and_then(|bytes| Layout::from_size_align(bytes.max(16), 16).ok())
            .unwrap_or_else(|| panic!("{len} bytes cannot be addressed"));
        // SAFETY: the layout's size is not zero.
        let block = unsafe { alloc_zeroed(layout) };
        if block.is_null() {
            handle_alloc_error(layout);
        }
        let base = block.map_addr(|at| at.next_multiple_of(align as usize));
        Self {
            block,
            layout,
            base,
            len,
        }
    }

    /// The memory as a pool. All pools of one memory are the same pool, which
    /// must not be used once the memory has been dropped.
    #[must_use]
    pub fn mem(&self) -> HostMem {
        // SAFETY: `len` bytes from `base` on are in the block, aligned to 16
        // at least (or empty), and belong to the pools of this value.
        unsafe { HostMem::new(self.base, self.len) }
    }
}

impl Drop for PoolMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.block, self.layout) }
    }
}

/// Names the fault that a [`Planted`] memory carries.
pub trait Plant {
    /// The fault.
    const FAULT: Fault;
}

/// A memory under which the heap has a planted fault.
#[derive(Debug)]
pub struct Planted<M, P>(M, PhantomData<fn() -> P>);

impl<M, P> Planted<M, P> {
    /// `mem` with the fault of `P`.
    pub const fn new(mem: M) -> Self {
        Self(mem, PhantomData)
    }
}

impl<M: Clone, P> Clone for Planted<M, P> {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl<M: Copy, P> Copy for Planted<M, P> {}

// SAFETY: every method is the inner memory's.
unsafe impl<M: Mem, P: Plant> Mem for Planted<M, P> {
    const SCOPE: Scope = M::SCOPE;
    const FAULT: Fault = P::FAULT;

    fn len(&self) -> u64 {
        self.0.len()
    }
    fn base(&self) -> u64 {
        self.0.base()
    }
    fn load(&self, at: u64, order: Order) -> u64 {
        self.0.load(at, order)
    }
    fn store(&self, at: u64, value: u64, order: Order) {
        self.0.store(at, value, order);
    }
    fn compare_exchange(&self, at: u64, current: u64, new: u64, order: Order) -> Result<u64, u64> {
        self.0.compare_exchange(at, current, new, order)
    }
    fn fetch_add(&self, at: u64, value: u64, order: Order) -> u64 {
        self.0.fetch_add(at, value, order)
    }
    fn fetch_and(&self, at: u64, value: u64, order: Order) -> u64 {
        self.0.fetch_and(at, value, order)
    }
    fn fetch_or(&self, at: u64, value: u64, order: Order) -> u64 {
        self.0.fetch_or(at, value, order)
    }
    fn fetch_max(&self, at: u64, value: u64, order: Order) -> u64 {
        self.0.fetch_max(at, value, order)
    }
    unsafe fn fill(&self, at: u64, len: u64, byte: u8) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.fill(at, len, byte) }
    }
    unsafe fn copy(&self, from: u64, to: u64, len: u64) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.copy(from, to, len) }
    }
}

// SAFETY: the inner memory's pointer.
unsafe impl<M: HostBytes, P: Plant> HostBytes for Planted<M, P> {
    fn pointer(&self, at: u64) -> *mut u8 {
        self.0.pointer(at)
    }
}

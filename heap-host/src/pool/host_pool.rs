//! A heap for host threads.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use heap_kernels::heap::{AllocError, Corruption, FreeError, ReallocError, Request, Stats};
use heap_kernels::{Config, FormatError, Heap, HostMem, Mem, SingleLane};
use parking_lot::Mutex;

use super::block::Block;
use super::memory::{MemoryError, OwnedMemory};

/// Alignment of a pool's first byte: no request may ask for more.
const BASE_ALIGNMENT: u64 = 1 << 21;

/// A heap in memory of its own, for any number of threads at once.
///
/// No thread waits for another one in `alloc` and `free`: they are the device
/// heap's, with each thread as a warp of one lane. (With
/// [names](Self::named), a lock guards the list of names.)
#[derive(Debug)]
pub struct HostPool {
    heap: Heap<HostMem>,
    /// Owns what the heap manages.
    _memory: OwnedMemory,
    names: Option<Mutex<HashMap<u64, Arc<str>>>>,
}

/// Why there is no pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The system has no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// No heap can be made in it.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// A block that is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// Its offset in the pool.
    pub offset: u64,
    /// Bytes that its owner may use.
    pub bytes: u64,
    /// The name that it was allocated under.
    pub name: Arc<str>,
}

impl HostPool {
    /// A pool of `bytes`, metadata included. Pages are touched when they are
    /// first used; the metadata (up to 3 %) at once.
    ///
    /// # Errors
    /// [`PoolError`] where there is not so much memory, or where the pool is
    /// too small for a heap.
    pub fn new(bytes: u64) -> Result<Self, PoolError> {
        Self::with_config(bytes, &Config::default())
    }

    /// A pool with the heap's settings.
    ///
    /// # Errors
    /// As [`new`](Self::new), or for settings out of range.
    pub fn with_config(bytes: u64, config: &Config) -> Result<Self, PoolError> {
        let memory = OwnedMemory::zeroed(bytes, BASE_ALIGNMENT)?;
        // SAFETY: the memory is valid for `bytes`, aligned to 2 MiB, and kept
        // by the pool for as long as the heap; nobody else gets it.
        let mem = unsafe { HostMem::new(memory.base(), bytes) };
        Ok(Self {
            heap: Heap::format(mem, config)?,
            _memory: memory,
            names: None,
        })
    }

    /// The same pool, with a name for each block: see
    /// [`alloc_named`](Self::alloc_named) and [`leaks`](Self::leaks).
    #[must_use]
    pub fn named(mut self) -> Self {
        self.names = Some(Mutex::default());
        self
    }

    /// Allocates a block; its offset from the pool's first byte. The bytes are
    /// whatever was there before.
    ///
    /// # Errors
    /// [`AllocError`]; nothing was changed.
    #[inline]
    pub fn alloc(&self, request: Request) -> Result<u64, AllocError> {
        self.heap.alloc(&lane(), request)
    }

    /// Allocates a block whose requested bytes are zero.
    ///
    /// # Errors
    /// [`AllocError`]; nothing was changed.
    pub fn alloc_zeroed(&self, request: Request) -> Result<u64, AllocError> {
        self.heap.alloc_zeroed(&lane(), request)
    }

    /// Allocates a block under a name, which a pool without
    /// [names](Self::named) forgets.
    ///
    /// # Errors
    /// [`AllocError`]; nothing was changed.
    pub fn alloc_named(&self, request: Request, name: &Arc<str>) -> Result<u64, AllocError> {
        let offset = self.alloc(request)?;
        if self.names.is_some() {
            self.put_name(offset, Some(Arc::clone(name)));
        }
        Ok(offset)
    }

    /// Frees the block at `offset`.
    ///
    /// # Errors
    /// [`FreeError`] where no live block begins there; the pool is as before.
    ///
    /// # Safety
    /// Nobody uses the bytes of that block, through a pointer or a [`Block`],
    /// from here on.
    #[inline]
    pub unsafe fn free(&self, offset: u64) -> Result<(), FreeError> {
        // The name goes first: once the block is free, its offset is anybody's.
        let name = self.take_name(offset);
        let freed = self.heap.free(&lane(), offset);
        if freed.is_err() {
            self.put_name(offset, name);
        }
        freed
    }

    /// Gives the block at `offset` another size, and perhaps another place;
    /// the offset of the block that has the old one's bytes.
    ///
    /// # Errors
    /// [`ReallocError`]; the block is as before.
    ///
    /// # Safety
    /// Nobody uses the old block's bytes meanwhile, nor afterwards unless the
    /// call fails or returns the same offset.
    pub unsafe fn realloc(&self, offset: u64, request: Request) -> Result<u64, ReallocError> {
        let name = self.take_name(offset);
        let moved = self.heap.realloc(&lane(), offset, request);
        self.put_name(*moved.as_ref().unwrap_or(&offset), name);
        moved
    }

    fn take_name(&self, offset: u64) -> Option<Arc<str>> {
        self.names.as_ref()?.lock().remove(&offset)
    }

    fn put_name(&self, offset: u64, name: Option<Arc<str>>) {
        if let (Some(names), Some(name)) = (&self.names, name) {
            names.lock().insert(offset, name);
        }
    }

    /// Allocates a block of `bytes` that frees itself, all zero, aligned to 16.
    ///
    /// # Errors
    /// [`AllocError`]; nothing was changed.
    pub fn block(&self, bytes: u64) -> Result<Block<'_>, AllocError> {
        let offset = self.alloc_zeroed(Request::new(bytes))?;
        // SAFETY: just allocated with so many bytes, all initialised.
        Ok(unsafe { Block::new(self, offset, bytes) })
    }

    /// The address of the byte at `offset`.
    ///
    /// # Panics
    /// If the pool has no such byte.
    #[inline]
    pub fn pointer(&self, offset: u64) -> *mut u8 {
        assert!(
            offset < self.heap.mem().len(),
            "no byte {offset} in this pool"
        );
        self.heap.mem().pointer(offset)
    }

    /// Bytes that the owner of the block at `offset` may use: at least what it
    /// asked for.
    ///
    /// # Errors
    /// [`FreeError`] where no live block begins there.
    pub fn usable_size(&self, offset: u64) -> Result<u64, FreeError> {
        self.heap.usable_size(offset)
    }

    /// What the pool holds; exact while nobody else uses it. Linear in the
    /// number of pages.
    pub fn stats(&self) -> Stats {
        self.heap.stats()
    }

    /// Checks every invariant of the heap, which nobody uses meanwhile.
    ///
    /// # Errors
    /// The first one that does not hold.
    pub fn check(&self) -> Result<(), Corruption> {
        self.heap.check()
    }

    /// The named blocks that are still there, by offset.
    pub fn leaks(&self) -> Vec<Leak> {
        let Some(names) = &self.names else {
            return Vec::new();
        };
        let leak = |(&offset, name): (&u64, &Arc<str>)| {
            let bytes = self.heap.usable_size(offset).ok()?;
            let name = Arc::clone(name);
            Some(Leak {
                offset,
                bytes,
                name,
            })
        };
        let mut leaks: Vec<Leak> = names.lock().iter().filter_map(leak).collect();
        leaks.sort_by_key(|leak| leak.offset);
        leaks
    }
}

/// The calling thread, as the heap sees it: threads are numbered in the order
/// of their first allocation, so that neighbours use different shards.
#[inline]
fn lane() -> SingleLane {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static LANE: Cell<Option<SingleLane>> = const { Cell::new(None) };
    }
    LANE.get().unwrap_or_else(|| {
        // Relaxed: only a number, any one will do.
        let lane = SingleLane::new(THREADS.fetch_add(1, Ordering::Relaxed));
        LANE.set(Some(lane));
        lane
    })
}

//! A heap in the memory of a card.

use std::sync::Arc;

use cust::context::CurrentContext;
use cust::memory::{DeviceBuffer, DeviceSlice};
use cust::stream::Stream;
use heap_kernels::{Config, Geometry, HeapHandle};

use super::error::{GpuError, Named};
use super::gpu::Gpu;

/// Alignment of a pool's first byte: requests up to it are met as well at any
/// place of the pool.
const BASE_ALIGNMENT: u64 = 1 << 21;

/// Threads per block of a launch that walks a list; fewer are one block.
const WALKERS: u32 = 256;

/// Threads that zero the metadata.
const ZEROERS: u64 = 1 << 18;

/// Sizes of requests.
#[derive(Clone, Copy, Debug)]
pub enum Sizes<'a> {
    /// So many bytes each.
    All(u64),
    /// One size per request, in the card's memory.
    Each(&'a DeviceSlice<u64>),
}

impl Sizes<'_> {
    /// The two arguments that kernels take for them.
    pub(super) fn arguments(self) -> [u64; 2] {
        match self {
            Self::All(size) => [0, size],
            Self::Each(sizes) => [sizes.as_device_ptr().as_raw(), 0],
        }
    }

    pub(super) fn check(self, n: usize) {
        if let Self::Each(sizes) = self {
            assert!(sizes.len() >= n, "{} sizes for {n} requests", sizes.len());
        }
    }
}

/// A pool in the memory of a card, and the heap in it. All its work is
/// enqueued on streams that the caller names; any number of streams may use
/// one pool at once, and one card may have any number of pools.
///
/// A method that enqueues returns before the card has done it: arrays that it
/// names have to live so long. Dropping a `DeviceBuffer` waits for the card.
#[derive(Debug)]
pub struct DevicePool {
    /// The handle, where kernels read it.
    on_device: DeviceBuffer<u8>,
    _memory: DeviceBuffer<u8>,
    handle: HeapHandle,
    gpu: Arc<Gpu>,
}

impl Drop for DevicePool {
    fn drop(&mut self) {
        // Memory is freed in the calling thread's current context.
        let _ = self.gpu.enter();
    }
}

impl DevicePool {
    /// Takes `bytes` of the card's memory, metadata included, and formats a
    /// heap in them, on `stream`, which it waits for.
    ///
    /// # Errors
    /// [`GpuError`] where the card has not so much memory free, or where the
    /// pool is too small for a heap.
    pub fn new(
        gpu: &Arc<Gpu>,
        bytes: u64,
        config: &Config,
        stream: &Stream,
    ) -> Result<Self, GpuError> {
        gpu.enter()?;
        let needed = bytes.saturating_add(BASE_ALIGNMENT);
        let (free, _) = gpu.memory()?;
        if needed > free {
            return Err(GpuError::Memory { needed, free });
        }
        // SAFETY: bytes of any value are bytes.
        let memory =
            unsafe { DeviceBuffer::<u8>::uninitialized(needed as usize) }.call("cuMemAlloc")?;
        let base = memory
            .as_device_ptr()
            .as_raw()
            .next_multiple_of(BASE_ALIGNMENT);
        let handle = HeapHandle::new(base, bytes, config)?;
        let on_device = DeviceBuffer::from_slice(handle.as_bytes()).call("cuMemcpyHtoD")?;
        let pool = Self {
            on_device,
            _memory: memory,
            handle,
            gpu: Arc::clone(gpu),
        };
        // The copy above is on the driver's default stream, for which a stream
        // of the caller's need not wait; and whoever gets the pool may use it
        // from any stream at once.
        CurrentContext::synchronize().call("cuCtxSynchronize")?;
        pool.reset(stream)?;
        stream.synchronize().call("cuStreamSynchronize")?;
        Ok(pool)
    }

    /// The card.
    #[must_use]
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Address of the pool's first byte on the card.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.handle.base()
    }

    /// The layout of the pool.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.handle.geometry()
    }

    /// Address of the handle on the card: what kernels take as their heap.
    #[must_use]
    pub fn handle_address(&self) -> u64 {
        self.on_device.as_device_ptr().as_raw()
    }

    /// Forgets all blocks and counters.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn reset(&self, stream: &Stream) -> Result<(), GpuError> {
        self.gpu.enter()?;
        let heap = [self.handle_address()];
        let (_, zeroed) = self.geometry().zeroed();
        let classes = u64::from(self.geometry().classes());
        // SAFETY: the handle is valid, and so is the pool, as long as `self`;
        // whoever resets a pool has it to itself.
        unsafe {
            let zeroers = (zeroed / 8).min(ZEROERS);
            self.gpu.launch_threads(stream, "dh_zero", zeroers, &heap)?;
            self.gpu.launch_threads(stream, "dh_begin", classes, &heap)
        }
    }

    /// Enqueues one allocation per element of `out`, by as many threads. The
    /// address goes to `out`, null where there is no room; what was wrong goes
    /// to `status`, see [`AllocError::from_code`](heap_kernels::AllocError).
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    ///
    /// # Panics
    /// If there are fewer sizes or places for a status than elements.
    pub fn alloc(
        &self,
        stream: &Stream,
        sizes: Sizes<'_>,
        out: &DeviceSlice<u64>,
        status: Option<&DeviceSlice<u32>>,
    ) -> Result<(), GpuError> {
        let n = out.len();
        sizes.check(n);
        let [each, all] = sizes.arguments();
        let arguments = [
            self.handle_address(),
            each,
            all,
            address(out),
            status_address(status, n),
            n as u64,
        ];
        // SAFETY: all arrays have n elements.
        unsafe {
            self.gpu
                .launch_threads(stream, "dh_alloc", n as u64, &arguments)
        }
    }

    /// Enqueues one allocation per element of `out`, with alignments, by those
    /// lanes of each warp that are set in `lanes`.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    ///
    /// # Panics
    /// If arrays differ in length.
    pub fn alloc_lanes(
        &self,
        stream: &Stream,
        requests: &Requests<'_>,
        lanes: u32,
        zero: bool,
        out: &DeviceSlice<u64>,
        status: &DeviceSlice<u32>,
    ) -> Result<(), GpuError> {
        let n = out.len();
        requests.check(n);
        let arguments = [
            self.handle_address(),
            address(requests.sizes),
            requests.aligns.map_or(0, address),
            u64::from(lanes),
            u64::from(zero),
            address(out),
            status_address(Some(status), n),
            n as u64,
        ];
        // SAFETY: all arrays have n elements.
        unsafe {
            self.gpu
                .launch_threads(stream, "dh_alloc_lanes", n as u64, &arguments)
        }
    }

    /// Enqueues one allocation per element of `out`, by `threads` threads (of
    /// more than 256, a multiple of that) that walk the list: a step that
    /// places many buffers in one launch.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    ///
    /// # Panics
    /// If arrays differ in length.
    pub fn alloc_batch(
        &self,
        stream: &Stream,
        requests: &Requests<'_>,
        threads: u32,
        out: &DeviceSlice<u64>,
        status: &DeviceSlice<u32>,
    ) -> Result<(), GpuError> {
        let n = out.len();
        requests.check(n);
        let arguments = [
            self.handle_address(),
            address(requests.sizes),
            requests.aligns.map_or(0, address),
            requests.places.map_or(0, address),
            address(out),
            status_address(Some(status), n),
            n as u64,
        ];
        // SAFETY: all arrays have n elements.
        unsafe {
            let block = threads.clamp(1, WALKERS);
            self.gpu
                .launch(stream, "dh_alloc_batch", threads.into(), block, &arguments)
        }
    }

    /// Enqueues one block per warp, with a part for each lane: see
    /// [`Heap::alloc_warp`](heap_kernels::Heap::alloc_warp).
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    ///
    /// # Panics
    /// If arrays differ in length.
    pub fn alloc_warp(
        &self,
        stream: &Stream,
        sizes: &DeviceSlice<u64>,
        bases: &DeviceSlice<u64>,
        out: &DeviceSlice<u64>,
        status: &DeviceSlice<u32>,
    ) -> Result<(), GpuError> {
        let n = out.len();
        assert!(
            sizes.len() == n && bases.len() == n,
            "arrays differ in length"
        );
        let arguments = [
            self.handle_address(),
            address(sizes),
            address(bases),
            address(out),
            status_address(Some(status), n),
            n as u64,
        ];
        // SAFETY: all arrays have n elements.
        unsafe {
            self.gpu
                .launch_threads(stream, "dh_alloc_warp", n as u64, &arguments)
        }
    }

    /// Enqueues one free per element of `blocks`; null is skipped. What was
    /// wrong goes to `status`, see [`FreeError::from_code`](heap_kernels::FreeError).
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    ///
    /// # Panics
    /// If there are fewer places for a status than blocks.
    pub fn free(
        &self,
        stream: &Stream,
        blocks: &DeviceSlice<u64>,
        status: Option<&DeviceSlice<u32>>,
    ) -> Result<(), GpuError> {
        let n = blocks.len();
        let arguments = [
            self.handle_address(),
            address(blocks),
            status_address(status, n),
            n as u64,
        ];
        // SAFETY: all arrays have n elements.
        unsafe {
            self.gpu
                .launch_threads(stream, "dh_free", n as u64, &arguments)
        }
    }

    /// [`free`](Self::free) by `threads` threads that walk the list.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    ///
    /// # Panics
    /// If there are fewer places for a status than blocks.
    pub fn free_batch(
        &self,
        stream: &Stream,
        blocks: &DeviceSlice<u64>,
        threads: u32,
        status: Option<&DeviceSlice<u32>>,
    ) -> Result<(), GpuError> {
        let n = blocks.len();
        let arguments = [
            self.handle_address(),
            address(blocks),
            status_address(status, n),
            n as u64,
        ];
        // SAFETY: all arrays have n elements.
        unsafe {
            let block = threads.clamp(1, WALKERS);
            self.gpu
                .launch(stream, "dh_free_batch", threads.into(), block, &arguments)
        }
    }

    /// Enqueues one change of size per element of `blocks`.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    ///
    /// # Panics
    /// If arrays differ in length.
    pub fn realloc(
        &self,
        stream: &Stream,
        blocks: &DeviceSlice<u64>,
        sizes: &DeviceSlice<u64>,
        out: &DeviceSlice<u64>,
        status: &DeviceSlice<u32>,
    ) -> Result<(), GpuError> {
        let n = out.len();
        assert!(
            blocks.len() == n && sizes.len() == n,
            "arrays differ in length"
        );
        let arguments = [
            self.handle_address(),
            address(blocks),
            address(sizes),
            address(out),
            status_address(Some(status), n),
            n as u64,
        ];
        // SAFETY: all arrays have n elements.
        unsafe {
            self.gpu
                .launch_threads(stream, "dh_realloc", n as u64, &arguments)
        }
    }
}

/// Sizes, alignments and places of requests, in the card's memory.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a> {
    /// Bytes.
    pub sizes: &'a DeviceSlice<u64>,
    /// Alignments; 16 where there are none.
    pub aligns: Option<&'a DeviceSlice<u64>>,
    /// Where runs of pages should lie: 0 best, 1 low, 2 high; best where there
    /// are none. Only [`DevicePool::alloc_batch`] looks at them.
    pub places: Option<&'a DeviceSlice<u32>>,
}

impl Requests<'_> {
    fn check(&self, n: usize) {
        let aligns = self.aligns.map_or(n, DeviceSlice::len);
        let places = self.places.map_or(n, DeviceSlice::len);
        assert!(
            [self.sizes.len(), aligns, places] == [n; 3],
            "arrays differ in length"
        );
    }
}

pub(super) fn address<T: cust::memory::DeviceCopy>(slice: &DeviceSlice<T>) -> u64 {
    slice.as_device_ptr().as_raw()
}

fn status_address(status: Option<&DeviceSlice<u32>>, n: usize) -> u64 {
    status.map_or(0, |status| {
        assert!(
            status.len() >= n,
            "{} places for the status of {n}",
            status.len()
        );
        address(status)
    })
}

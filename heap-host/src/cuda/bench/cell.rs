//! The heap itself: launches that allocate, and launches that free.

use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::Stream;
use heap_kernels::Config;

use super::super::error::{GpuError, Named};
use super::super::pool::{DevicePool, Sizes, address};
use super::timer::Timer;
use super::{BenchOptions, BenchRow, Size};

/// A pool, and arrays for one number of threads.
pub(super) struct Cell<'a> {
    pub(super) timer: &'a Timer,
    pub(super) options: &'a BenchOptions,
    pub(super) pool: DevicePool,
    pub(super) threads: u64,
    pub(super) blocks: DeviceBuffer<u64>,
    mixed: DeviceBuffer<u64>,
    status: DeviceBuffer<u32>,
    /// Wrong words, the last block with one, nulls and failures.
    wrong: DeviceBuffer<u64>,
}

impl<'a> Cell<'a> {
    pub(super) fn new(
        timer: &'a Timer,
        options: &'a BenchOptions,
        threads: u64,
    ) -> Result<Self, GpuError> {
        let gpu = timer.gpu();
        gpu.enter()?;
        let mut random = fastrand::Rng::with_seed(options.seed);
        let mixed: Vec<u64> = (0..threads).map(|_| random.u64(16..=4096)).collect();
        let n = threads as usize;
        Ok(Self {
            pool: DevicePool::new(
                gpu,
                options.pool_bytes,
                &Config::for_device(),
                timer.stream(),
            )?,
            timer,
            options,
            threads,
            blocks: DeviceBuffer::zeroed(n).call("cuMemAlloc")?,
            mixed: DeviceBuffer::from_slice(&mixed).call("cuMemAlloc")?,
            status: DeviceBuffer::zeroed(n).call("cuMemAlloc")?,
            wrong: DeviceBuffer::zeroed(3).call("cuMemAlloc")?,
        })
    }

    /// Whether blocks for all threads fit, with what classes and slabs cost.
    pub(super) fn fits(&self, size: Size) -> bool {
        size.most().saturating_mul(self.threads) / 4 * 5 <= self.options.pool_bytes
    }

    pub(super) fn sizes(&self, size: Size) -> Sizes<'_> {
        match size {
            Size::Uniform(size) => Sizes::All(size),
            Size::Mixed => Sizes::Each(&self.mixed),
        }
    }

    /// The two arguments that kernels take for the sizes.
    pub(super) fn size_arguments(&self, size: Size) -> [u64; 2] {
        match size {
            Size::Uniform(size) => [0, size],
            Size::Mixed => [address(&self.mixed), 0],
        }
    }

    pub(super) fn alloc(&self, stream: &Stream, size: Size) -> Result<(), GpuError> {
        self.pool
            .alloc(stream, self.sizes(size), &self.blocks, None)
    }

    pub(super) fn failed_address(&self) -> u64 {
        address(&self.wrong) + 16
    }

    /// Writes every block, then verifies it; null blocks are counted too.
    pub(super) fn exercise(&self, size: Size, round: u64) -> Result<(), GpuError> {
        let [sizes, all] = self.size_arguments(size);
        let (blocks, n, wrong) = (address(&self.blocks), self.threads, address(&self.wrong));
        let (gpu, stream) = (self.timer.gpu(), self.timer.stream());
        // A warp for each block, up to as many as the card is busy with.
        let threads = (n * 32).min(1 << 22);
        // SAFETY: the arrays have n elements, and live blocks are so long.
        unsafe {
            gpu.launch_threads(stream, "dh_write", threads, &[blocks, sizes, all, round, n])?;
            let verify = [blocks, sizes, all, round, 0, wrong, n];
            gpu.launch_threads(stream, "dh_verify", threads, &verify)?;
            let nulls = [blocks, self.failed_address(), n];
            gpu.launch_threads(stream, "dh_read_pointer", n, &nulls)
        }
    }

    /// Words that were not as written and blocks that were null, so far.
    pub(super) fn faults(&self) -> Result<u64, GpuError> {
        let mut words = [0; 3];
        self.wrong.copy_to(&mut words).call("cuMemcpyDtoH")?;
        Ok(words[0] + words[2])
    }

    /// Frees all blocks; failures are statuses.
    fn free(&self, stream: &Stream) -> Result<(), GpuError> {
        self.pool.free(stream, &self.blocks, Some(&self.status))
    }

    fn bad_frees(&self) -> Result<u64, GpuError> {
        let mut status = vec![0; self.threads as usize];
        self.status.copy_to(&mut status).call("cuMemcpyDtoH")?;
        Ok(status.iter().filter(|&&status| status != 0).count() as u64)
    }

    /// All rounds of one size on a fresh heap.
    pub(super) fn heap(&self, size: Size) -> Result<BenchRow, GpuError> {
        let stream = self.timer.stream();
        self.pool.reset(stream)?;
        self.timer.wait()?;
        let before = self.faults()?;
        let (mut allocs, mut frees, mut wrong) = (Vec::new(), Vec::new(), 0);
        for round in 0..=u64::from(self.options.rounds) {
            allocs.push(self.timer.time(|stream| self.alloc(stream, size))?);
            self.exercise(size, round)?;
            frees.push(self.timer.time(|stream| self.free(stream))?);
            wrong += self.bad_frees()?;
        }
        wrong += self.faults()? - before;
        wrong += self.pool.stats(stream)?.live_blocks;
        let row = BenchRow::new("heap", size, self.threads).with_times(&allocs, &frees);
        Ok(BenchRow { wrong, ..row })
    }
}

//! Times of the heap on a card, beside what bounds them and what the driver
//! offers, all in one run.
//!
//! Everything is a multiple of W: the time in which each thread writes one
//! pointer. Times are of single kernels, by the card's own clock, each behind
//! a kernel that keeps the card busy until the host has enqueued all of it.
//! Blocks are written whole and verified in every round, with words that
//! depend on thread, round and place, so that two blocks that overlap show.

mod baseline;
mod cell;
mod extra;
mod timer;

use std::sync::Arc;

use serde::Serialize;

use super::error::GpuError;
use super::gpu::{Gpu, GpuOptions};
use cell::Cell;
use timer::Timer;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchOptions {
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// Rounds after the first, of which the median is taken; 1 at least.
    pub rounds: u32,
    /// Numbers of threads, each with one block.
    pub threads: Vec<u64>,
    /// Bytes of blocks.
    pub sizes: Vec<Size>,
    /// Whether the driver's own `malloc` and `free` are measured.
    pub driver: bool,
    /// Seed of mixed sizes.
    pub seed: u64,
}

impl Default for BenchOptions {
    fn default() -> Self {
        let sizes = [16, 64, 256, 1 << 10, 4 << 10, 8 << 10].map(Size::Uniform);
        let mut sizes = sizes.to_vec();
        sizes.push(Size::Mixed);
        Self {
            pool_bytes: 16 << 30,
            rounds: 10,
            threads: vec![1, 32, 1 << 10, 16 << 10, 128 << 10, 1 << 20],
            sizes,
            driver: true,
            seed: 1,
        }
    }
}

/// Bytes of the blocks of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The same for all.
    Uniform(u64),
    /// 16 to 4,096, evenly, another for each lane.
    Mixed,
}

impl Size {
    /// The largest block in bytes.
    #[must_use]
    pub const fn most(self) -> u64 {
        match self {
            Self::Uniform(size) => size,
            Self::Mixed => 4096,
        }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uniform(size) => size.fmt(f),
            Self::Mixed => f.pad("16-4096"),
        }
    }
}

/// One line of the result. Times are in microseconds; what does not apply is
/// missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchRow {
    /// What was measured.
    pub what: &'static str,
    /// Bytes of the blocks.
    pub bytes: String,
    /// Threads, with one block each.
    pub threads: u64,
    /// The first launch on a fresh heap that allocates.
    pub alloc_first_us: Option<f64>,
    /// Median of the later ones.
    pub alloc_us: Option<f64>,
    /// The first launch that frees.
    pub free_first_us: Option<f64>,
    /// Median of the later ones.
    pub free_us: Option<f64>,
    /// `alloc_us` over W for as many threads.
    pub alloc_w: Option<f64>,
    /// `free_us` over W for as many threads.
    pub free_w: Option<f64>,
    /// Requests and frees that failed, and words that were not as written, in
    /// all rounds.
    pub wrong: u64,
}

/// All that was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchReport {
    /// The card's name.
    pub device: String,
    /// The newest CUDA version that the driver knows.
    pub cuda: String,
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// Rounds after the first.
    pub rounds: u32,
    /// The lines.
    pub rows: Vec<BenchRow>,
}

impl BenchReport {
    /// Whether no request failed and no word was wrong.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.rows.iter().all(|row| row.wrong == 0)
    }
}

/// Opens card `index` with as much of the driver's own device heap as
/// [`bench()`] measures.
///
/// # Errors
///
/// As [`Gpu::open`].
pub fn open_for_bench(index: u32) -> Result<Arc<Gpu>, GpuError> {
    Gpu::with_options(&GpuOptions {
        index,
        driver_heap_bytes: Some(1 << 30),
    })
}

/// Measures everything, and calls `progress` with each line when it is there.
///
/// # Errors
///
/// [`GpuError`] where the card has too little memory free, or fails.
pub fn bench(
    gpu: &Arc<Gpu>,
    options: &BenchOptions,
    progress: &mut dyn FnMut(&BenchRow),
) -> Result<BenchReport, GpuError> {
    let timer = Timer::new(gpu)?;
    let mut rows = Vec::new();
    let mut add = |row: BenchRow| {
        progress(&row);
        rows.push(row);
    };
    for &threads in &options.threads {
        let write = baseline::write(&timer, options, threads)?;
        let w = write.alloc_us;
        add(write.over(w));
        add(baseline::bump(&timer, options, threads, false)?.over(w));
        add(baseline::bump(&timer, options, threads, true)?.over(w));
        let cell = Cell::new(&timer, options, threads)?;
        for &size in &options.sizes {
            if cell.fits(size) {
                add(cell.heap(size)?.over(w));
            }
        }
        if threads == 1 << 20 {
            for &size in &options.sizes {
                if cell.fits(size) {
                    add(extra::churn(&cell, size)?.over(w));
                }
            }
            for &size in &options.sizes {
                add(extra::full(&timer, options, size)?.over(w));
            }
            add(extra::reset(&cell)?.over(w));
        }
        drop(cell);
        for &size in &options.sizes {
            if options.driver && baseline::driver_ends(size, threads) {
                add(baseline::driver(&timer, options, size, threads)?.over(w));
            }
        }
    }
    let info = gpu.info();
    Ok(BenchReport {
        device: info.name.clone(),
        cuda: format!("{}.{}", info.cuda.0, info.cuda.1),
        pool_bytes: options.pool_bytes,
        rounds: options.rounds,
        rows,
    })
}

impl BenchRow {
    fn new(what: &'static str, bytes: impl ToString, threads: u64) -> Self {
        Self {
            what,
            bytes: bytes.to_string(),
            threads,
            alloc_first_us: None,
            alloc_us: None,
            free_first_us: None,
            free_us: None,
            alloc_w: None,
            free_w: None,
            wrong: 0,
        }
    }

    /// With the ratios to W.
    fn over(mut self, w: Option<f64>) -> Self {
        let ratio = |time: Option<f64>| Some(time? / w?);
        self.alloc_w = ratio(self.alloc_us);
        self.free_w = ratio(self.free_us);
        self
    }

    /// With first times and medians; the times are of rounds in order.
    fn with_times(mut self, allocs: &[f64], frees: &[f64]) -> Self {
        (self.alloc_first_us, self.alloc_us) = timer::first_and_median(allocs);
        (self.free_first_us, self.free_us) = timer::first_and_median(frees);
        self
    }
}

//! The heap in other situations: half full and in use, full, reset.

use super::super::error::GpuError;
use super::super::pool::address;
use super::cell::Cell;
use super::timer::Timer;
use super::{BenchOptions, BenchRow, Size};

/// Rounds of [`churn`].
const CHURN_ROUNDS: u64 = 64;

/// Each thread frees a block and allocates one in its place, in one kernel,
/// with other lanes' blocks beside its own from round to round. The time is of
/// one round.
pub(super) fn churn(cell: &Cell<'_>, size: Size) -> Result<BenchRow, GpuError> {
    let (timer, n) = (cell.timer, cell.threads);
    cell.pool.reset(timer.stream())?;
    cell.alloc(timer.stream(), size)?;
    timer.wait()?;
    let before = cell.faults()?;
    let [sizes, all] = cell.size_arguments(size);
    let mut random = fastrand::Rng::with_seed(cell.options.seed);
    let mut times = Vec::new();
    for round in 0..CHURN_ROUNDS {
        let (step, first) = (random.u64(..) | 1, random.u64(..));
        let arguments = [
            cell.pool.handle_address(),
            sizes,
            all,
            address(&cell.blocks),
            step,
            first,
            cell.failed_address(),
            n,
        ];
        times.push(timer.time(|stream| {
            // SAFETY: n live blocks, n a power of two, an odd step.
            unsafe { timer.gpu().launch_threads(stream, "dh_swap", n, &arguments) }
        })?);
        if round.is_multiple_of(8) {
            cell.exercise(size, round)?;
        }
    }
    cell.exercise(size, CHURN_ROUNDS)?;
    timer.wait()?;
    let wrong = cell.faults()? - before;
    let row = BenchRow::new("heap, free and allocate", size, n).with_times(&times, &[]);
    Ok(BenchRow { wrong, ..row })
}

/// A heap without room: every thread is refused.
pub(super) fn full(
    timer: &Timer,
    options: &BenchOptions,
    size: Size,
) -> Result<BenchRow, GpuError> {
    const POOL: u64 = 64 << 20;
    let small = BenchOptions {
        pool_bytes: POOL,
        ..options.clone()
    };
    let cell = Cell::new(timer, &small, 1 << 20)?;
    let stream = timer.stream();
    // Until nothing of any size that may be asked for is left.
    let least = match size {
        Size::Uniform(size) => size,
        Size::Mixed => 16,
    };
    for filler in [Size::Uniform(size.most()), Size::Uniform(least)] {
        for _ in 0..64 {
            cell.alloc(stream, filler)?;
        }
    }
    let blocks = cell.pool.stats(stream)?.live_blocks;
    let mut times = Vec::new();
    for _ in 0..=options.rounds {
        times.push(timer.time(|stream| cell.alloc(stream, size))?);
    }
    let served = cell.pool.stats(stream)?.live_blocks - blocks;
    let row = BenchRow::new("heap, full: all refused", size, cell.threads).with_times(&times, &[]);
    Ok(BenchRow {
        wrong: served,
        ..row
    })
}

/// Forgetting everything.
pub(super) fn reset(cell: &Cell<'_>) -> Result<BenchRow, GpuError> {
    let mut times = Vec::new();
    for _ in 0..=cell.options.rounds {
        times.push(cell.timer.time(|stream| cell.pool.reset(stream))?);
    }
    let bytes = cell.options.pool_bytes;
    Ok(BenchRow::new("reset of the pool", bytes, 1).with_times(&times, &[]))
}

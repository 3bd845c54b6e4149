//! What the heap's times are set beside: writing a pointer, bumping a counter,
//! the driver's own device heap.

use cust::memory::{CopyDestination, DeviceBuffer};

use super::super::error::{GpuError, Named};
use super::super::pool::address;
use super::timer::Timer;
use super::{BenchOptions, BenchRow, Size};

/// W: each thread writes one pointer.
pub(super) fn write(
    timer: &Timer,
    options: &BenchOptions,
    threads: u64,
) -> Result<BenchRow, GpuError> {
    let out = DeviceBuffer::<u64>::zeroed(threads as usize).call("cuMemAlloc")?;
    let arguments = [16, 16, address(&out), threads];
    let mut times = Vec::new();
    for _ in 0..=options.rounds {
        times.push(timer.time(|stream| {
            // SAFETY: n elements at `out`.
            unsafe {
                timer
                    .gpu()
                    .launch_threads(stream, "dh_write_pointer", threads, &arguments)
            }
        })?);
    }
    let right: Vec<u64> = (1..=threads).map(|i| i * 16).collect();
    let row = BenchRow::new("W: a pointer written", "-", threads).with_times(&times, &[]);
    Ok(BenchRow {
        wrong: differences(&out, &right)?,
        ..row
    })
}

fn differences(found: &DeviceBuffer<u64>, right: &[u64]) -> Result<u64, GpuError> {
    let mut host = vec![0; right.len()];
    found.copy_to(&mut host).call("cuMemcpyDtoH")?;
    Ok(host.iter().zip(right).filter(|(a, b)| a != b).count() as u64)
}

/// A bump allocator that shares atomics in a warp: one counter, or one for
/// each multiprocessor.
pub(super) fn bump(
    timer: &Timer,
    options: &BenchOptions,
    threads: u64,
    per_sm: bool,
) -> Result<BenchRow, GpuError> {
    /// Words between counters, which are on cache lines of their own.
    const EVERY: u64 = 16;
    const SIZE: u64 = 16;
    let every = if per_sm { EVERY } else { 0 };
    let counters = 1024 * EVERY as usize;
    let out = DeviceBuffer::<u64>::zeroed(threads as usize).call("cuMemAlloc")?;
    let share = threads * SIZE;
    let (mut times, mut wrong) = (Vec::new(), 0);
    for _ in 0..=options.rounds {
        let counters = DeviceBuffer::<u64>::zeroed(counters).call("cuMemAlloc")?;
        let arguments = [
            address(&counters),
            every,
            share,
            SIZE,
            address(&out),
            threads,
        ];
        times.push(timer.time(|stream| {
            // SAFETY: as many counters as a card has multiprocessors, and more.
            unsafe {
                timer
                    .gpu()
                    .launch_threads(stream, "dh_bump", threads, &arguments)
            }
        })?);
        let mut blocks = vec![0; threads as usize];
        out.copy_to(&mut blocks).call("cuMemcpyDtoH")?;
        blocks.sort_unstable();
        wrong += blocks.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
    }
    let what = if per_sm {
        "bump, a counter per SM"
    } else {
        "bump, one counter"
    };
    let row = BenchRow::new(what, SIZE, threads).with_times(&times, &[]);
    Ok(BenchRow { wrong, ..row })
}

/// Whether the driver's heap ends within seconds with so much.
pub(super) fn driver_ends(size: Size, threads: u64) -> bool {
    threads <= 16 << 10 && size.most() <= 8 << 10
}

/// The driver's own `malloc` and `free`.
pub(super) fn driver(
    timer: &Timer,
    options: &BenchOptions,
    size: Size,
    threads: u64,
) -> Result<BenchRow, GpuError> {
    let n = threads as usize;
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mixed: Vec<u64> = (0..n).map(|_| random.u64(16..=4096)).collect();
    let mixed = DeviceBuffer::from_slice(&mixed).call("cuMemAlloc")?;
    let (sizes, all) = match size {
        Size::Uniform(size) => (0, size),
        Size::Mixed => (address(&mixed), 0),
    };
    let blocks = DeviceBuffer::<u64>::zeroed(n).call("cuMemAlloc")?;
    let gpu = timer.gpu();
    let (mut allocs, mut frees, mut wrong) = (Vec::new(), Vec::new(), 0);
    // Two warm rounds say enough, and more would take long.
    for _ in 0..=options.rounds.min(2) {
        let arguments = [sizes, all, address(&blocks), threads];
        allocs.push(timer.time(|stream| {
            // SAFETY: arrays of n elements.
            unsafe { gpu.launch_threads(stream, "dh_driver_malloc", threads, &arguments) }
        })?);
        let mut host = vec![0; n];
        blocks.copy_to(&mut host).call("cuMemcpyDtoH")?;
        host.sort_unstable();
        wrong += host.iter().filter(|&&block| block == 0).count() as u64;
        wrong += host.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
        let arguments = [address(&blocks), threads];
        frees.push(timer.time(|stream| {
            // SAFETY: blocks of the driver's malloc.
            unsafe { gpu.launch_threads(stream, "dh_driver_free", threads, &arguments) }
        })?);
    }
    let row = BenchRow::new("CUDA malloc", size, threads).with_times(&allocs, &frees);
    Ok(BenchRow { wrong, ..row })
}

//! The stress test finds what is wrong, and only that.

use std::sync::atomic::{AtomicU64, Ordering};

use heap_kernels::mem::{Fault, Order, Scope};
use heap_kernels::{Config, Heap, HostMem, Mem};

use super::account::Trial;
use super::op::{Op, Stream};
use super::{ALIGNMENT, Options, Report, StressError, run};
use crate::pool::OwnedMemory;

const MIB: u64 = 1 << 20;

fn options(threads: u32, ops: u64, pool_bytes: u64, seed: u64) -> Options {
    Options {
        threads,
        ops,
        pool_bytes,
        seed,
    }
}

#[track_caller]
fn assert_passed(report: &Report, ops: u64) {
    assert_eq!(report.first_error, None);
    assert!(report.passed(), "{report:?}");
    assert_eq!(report.ops, ops);
    assert_eq!(report.frees, report.allocations);
}

#[test]
fn the_heap_passes_on_one_thread_and_on_more() {
    for (threads, ops, pool) in [
        (1, 20_000, 8 * MIB),
        (2, 30_000, 16 * MIB),
        (5, 20_000, 2 * MIB),
    ] {
        let report = run(&options(threads, ops, pool, 3), &|_| ()).unwrap();
        assert_passed(&report, ops);
        assert!(report.failed > 0, "the pool never filled: {report:?}");
        assert!(report.refused_frees > 100 && report.reallocations > 100);
        assert!(report.max_live_bytes > pool / 2 && report.max_live_bytes < pool);
    }
}

#[test]
fn one_thread_does_the_same_for_the_same_seed() {
    let report = |seed| {
        let mut report = run(&options(1, 5_000, 4 * MIB, seed), &|_| ()).unwrap();
        report.seconds = 0.0;
        report
    };
    assert_eq!(report(11), report(11));
    assert_ne!(report(11), report(12));
}

#[test]
fn streams_depend_on_seed_and_thread_only() {
    let stream = |seed, thread| -> Vec<Op> { Stream::new(seed, thread, MIB).take(500).collect() };
    assert_eq!(stream(1, 0), stream(1, 0));
    assert_ne!(stream(1, 0), stream(1, 1));
    assert_ne!(stream(1, 0), stream(2, 0));
}

#[test]
fn sizes_are_spread_over_all_magnitudes() {
    let stream = Stream::new(1, 0, 64 * MIB);
    let sizes: Vec<u64> = stream
        .take(20_000)
        .filter_map(|op| match op {
            Op::Allocate { request, .. } => Some(request.size),
            _ => None,
        })
        .collect();
    for bits in 0..=20u32 {
        let found = sizes
            .iter()
            .filter(|&&size| 64 - size.leading_zeros() == bits);
        assert!(found.count() > 100, "few sizes of {bits} bits");
    }
    assert!(sizes.iter().all(|&size| size <= MIB));
}

#[test]
fn no_operations_and_fewer_than_threads_are_legal() {
    for ops in [0, 1, 3] {
        let report = run(&options(4, ops, 2 * MIB, 1), &|_| ()).unwrap();
        assert_passed(&report, ops);
    }
}

#[test]
fn progress_adds_up_to_all_operations() {
    let done = AtomicU64::new(0);
    let add = |ops| {
        done.fetch_add(ops, Ordering::Relaxed);
    };
    run(&options(3, 40_001, 4 * MIB, 1), &add).unwrap();
    assert_eq!(done.into_inner(), 40_001);
}

#[test]
fn impossible_options_are_refused() {
    for threads in [0, 1025, u32::MAX] {
        let error = run(&options(threads, 1, MIB, 1), &|_| ()).unwrap_err();
        assert_eq!(error, StressError::Threads(threads));
    }
    for bytes in [0, 1, 4096] {
        let error = run(&options(1, 1, bytes, 1), &|_| ()).unwrap_err();
        assert!(matches!(error, StressError::Format(_)), "{error:?}");
    }
    for bytes in [u64::MAX, 1 << 62] {
        let error = run(&options(1, 1, bytes, 1), &|_| ()).unwrap_err();
        assert!(matches!(error, StressError::Memory(_)), "{error:?}");
    }
}

/// What a broken memory does instead of what it should.
trait Defect: Copy + Send + Sync {
    const FAULT: Fault = Fault::None;

    fn fill(mem: &HostMem, at: u64, len: u64, byte: u8) {
        // SAFETY: passed on from the heap's own call.
        unsafe { mem.fill(at, len, byte) }
    }

    fn copy(mem: &HostMem, from: u64, to: u64, len: u64) {
        // SAFETY: passed on from the heap's own call.
        unsafe { mem.copy(from, to, len) }
    }

    /// Whether the memory loses the effect of this change of bits.
    fn forgets() -> bool {
        false
    }
}

#[derive(Clone, Copy)]
struct Broken<D> {
    mem: HostMem,
    defect: D,
}

// SAFETY: host memory; what the defects change is what the blocks hold.
unsafe impl<D: Defect> Mem for Broken<D> {
    const SCOPE: Scope = Scope::Device;
    const FAULT: Fault = D::FAULT;

    fn len(&self) -> u64 {
        let _ = self.defect;
        self.mem.len()
    }
    fn base(&self) -> u64 {
        self.mem.base()
    }
    fn load(&self, at: u64, order: Order) -> u64 {
        self.mem.load(at, order)
    }
    fn store(&self, at: u64, value: u64, order: Order) {
        self.mem.store(at, value, order);
    }
    fn compare_exchange(&self, at: u64, current: u64, new: u64, order: Order) -> Result<u64, u64> {
        self.mem.compare_exchange(at, current, new, order)
    }
    fn fetch_add(&self, at: u64, value: u64, order: Order) -> u64 {
        self.mem.fetch_add(at, value, order)
    }
    fn fetch_and(&self, at: u64, value: u64, order: Order) -> u64 {
        if D::forgets() {
            return self.mem.load(at, Order::Acquire);
        }
        self.mem.fetch_and(at, value, order)
    }
    fn fetch_or(&self, at: u64, value: u64, order: Order) -> u64 {
        if D::forgets() {
            return self.mem.load(at, Order::Acquire);
        }
        self.mem.fetch_or(at, value, order)
    }
    fn fetch_max(&self, at: u64, value: u64, order: Order) -> u64 {
        self.mem.fetch_max(at, value, order)
    }
    unsafe fn fill(&self, at: u64, len: u64, byte: u8) {
        D::fill(&self.mem, at, len, byte);
    }
    unsafe fn copy(&self, from: u64, to: u64, len: u64) {
        D::copy(&self.mem, from, to, len);
    }
}

fn first_error_with<D: Defect>(defect: D, threads: u32) -> Option<String> {
    let options = options(threads, 20_000, 4 * MIB, 5);
    let memory = OwnedMemory::zeroed(options.pool_bytes, ALIGNMENT).unwrap();
    // SAFETY: the memory outlives the heap, which alone uses it.
    let mem = unsafe { HostMem::new(memory.base(), memory.len()) };
    let heap = Heap::format(Broken { mem, defect }, &Config::default()).unwrap();
    let report = Trial::new(heap, mem, &options, &|_| ()).run();
    assert_eq!(report.passed(), report.first_error.is_none());
    report.first_error
}

#[derive(Clone, Copy)]
struct Sound;
impl Defect for Sound {}

#[derive(Clone, Copy)]
struct BlindFree;
impl Defect for BlindFree {
    const FAULT: Fault = Fault::BlindFree;
}

/// Leaves the last byte of blocks as it was; metadata is filled whole.
#[derive(Clone, Copy)]
struct ShortFill;
impl Defect for ShortFill {
    fn fill(mem: &HostMem, at: u64, len: u64, byte: u8) {
        let kept = u64::from(at > 1 << 17 && len > 0);
        // SAFETY: less than what the heap asks for.
        unsafe { mem.fill(at, len - kept, byte) }
    }
}

/// Does not copy the last byte.
#[derive(Clone, Copy)]
struct ShortCopy;
impl Defect for ShortCopy {
    fn copy(mem: &HostMem, from: u64, to: u64, len: u64) {
        // SAFETY: less than what the heap asks for.
        unsafe { mem.copy(from, to, len.saturating_sub(1)) }
    }
}

/// Loses the effect of one change of bits in a thousand.
#[derive(Clone, Copy)]
struct Forgetful;
impl Defect for Forgetful {
    fn forgets() -> bool {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        CALLS.fetch_add(1, Ordering::Relaxed) % 1000 == 999
    }
}

#[test]
fn each_planted_fault_is_found_for_what_it_is() {
    assert_eq!(first_error_with(Sound, 1), None);
    let told = |error: Option<String>, words: &str| {
        let error = error.expect("the fault was not found");
        assert!(error.contains(words), "{error}");
    };
    told(first_error_with(ShortFill, 1), "zeroed");
    told(first_error_with(ShortCopy, 1), "reallocation");
    told(first_error_with(BlindFree, 1), "was freed 2 times");
    assert!(first_error_with(BlindFree, 2).is_some());
    assert!(first_error_with(Forgetful, 1).is_some());
}

//! The device heap on host threads beside mimalloc, in one run.
//!
//! - `pairs`: allocate a block, touch it, free it.
//! - `churn`: 1,000 live blocks per thread; replace a random one.
//!
//! Block sizes are 64, 1,024, or spread evenly from 16 to 4,096 bytes. With two
//! threads both use one heap at the same time, and the time is that of an
//! operation of one thread while the other works too. `device-heap` gives the
//! pages of an empty slab back at once, its default; `retaining` keeps one
//! empty slab per class, as a caching allocator does.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use device_heap::kernels::{Config, Heap, HostMem, Request, SingleLane};
use device_heap::pool::OwnedMemory;

const POOL: u64 = 256 << 20;
const LIVE: usize = 1000;
/// Random choices that are made beforehand; a power of two.
const CHOICES: usize = 1 << 14;

/// An allocator that any number of threads use at the same time.
trait Allocator: Sync {
    /// A block for thread `thread`.
    fn alloc(&self, thread: u32, size: usize) -> *mut u8;

    /// # Safety
    /// `block` came from `alloc` of the same allocator, and was not freed.
    unsafe fn free(&self, thread: u32, block: *mut u8);
}

struct Device {
    heap: Heap<HostMem>,
    _memory: OwnedMemory,
}

impl Device {
    fn new(config: &Config) -> Self {
        let memory = OwnedMemory::zeroed(POOL, 1 << 16).expect("memory for the pool");
        // SAFETY: the memory lives as long as the heap, which alone uses it.
        let mem = unsafe { HostMem::new(memory.base(), memory.len()) };
        Self {
            heap: Heap::format(mem, config).expect("a heap in the pool"),
            _memory: memory,
        }
    }
}

impl Allocator for Device {
    fn alloc(&self, thread: u32, size: usize) -> *mut u8 {
        let request = Request::new(size as u64);
        let offset = self.heap.alloc(&SingleLane::new(thread), request);
        self.heap
            .mem()
            .pointer(offset.expect("the pool is large enough"))
    }

    unsafe fn free(&self, thread: u32, block: *mut u8) {
        let offset = block.addr() - self.heap.mem().pointer(0).addr();
        let freed = self.heap.free(&SingleLane::new(thread), offset as u64);
        freed.expect("the block is live");
    }
}

struct Mimalloc;

impl Allocator for Mimalloc {
    fn alloc(&self, _thread: u32, size: usize) -> *mut u8 {
        // SAFETY: any size may be asked for.
        let block: *mut u8 = unsafe { libmimalloc_sys::mi_malloc(size) }.cast();
        assert!(!block.is_null(), "mimalloc has no memory");
        block
    }

    unsafe fn free(&self, _thread: u32, block: *mut u8) {
        // SAFETY: the caller's block is mimalloc's, and live.
        unsafe { libmimalloc_sys::mi_free(block.cast()) }
    }
}

/// Sizes of blocks.
#[derive(Clone, Copy)]
enum Sizes {
    Fixed(usize),
    Mixed,
}

impl Sizes {
    fn name(self) -> String {
        match self {
            Self::Fixed(size) => size.to_string(),
            Self::Mixed => "16..4096".into(),
        }
    }

    /// For each operation of a thread: which live block, and the new size.
    fn choices(self, thread: u32) -> Vec<(usize, usize)> {
        let mut rng = fastrand::Rng::with_seed(u64::from(thread) + 1);
        let mut choice = || {
            let size = match self {
                Self::Fixed(size) => size,
                Self::Mixed => rng.usize(16..=4096),
            };
            (rng.usize(..LIVE), size)
        };
        (0..CHOICES).map(|_| choice()).collect()
    }
}

/// Writes to a fresh block, as every user does.
///
/// # Safety
/// `block` is the caller's and has a byte.
unsafe fn touch(block: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe { black_box(block).write_volatile(1) };
}

fn pairs(allocator: &impl Allocator, thread: u32, choices: &[(usize, usize)], ops: u64) {
    for op in 0..ops as usize {
        let block = allocator.alloc(thread, choices[op % CHOICES].1);
        // SAFETY: just allocated, with 16 bytes at least, and freed once.
        unsafe {
            touch(block);
            allocator.free(thread, block);
        }
    }
}

/// The 1,000 live blocks that a thread begins with.
fn fill(allocator: &impl Allocator, thread: u32, choices: &[(usize, usize)]) -> Vec<*mut u8> {
    let sizes = choices.iter().take(LIVE);
    sizes
        .map(|&(_, size)| allocator.alloc(thread, size))
        .collect()
}

fn churn(
    allocator: &impl Allocator,
    thread: u32,
    choices: &[(usize, usize)],
    ops: u64,
    live: &mut [*mut u8],
) {
    for op in 0..ops as usize {
        let (index, size) = choices[op % CHOICES];
        let block = allocator.alloc(thread, size);
        let old = std::mem::replace(&mut live[index], block);
        // SAFETY: `block` was just allocated; `old` was live until here.
        unsafe {
            touch(block);
            allocator.free(thread, old);
        }
    }
}

/// What a thread does.
#[derive(Clone, Copy)]
enum Work {
    Pairs,
    Churn,
}

/// The time of the slowest of `threads` threads for `ops` operations each.
fn time(allocator: &impl Allocator, work: Work, sizes: Sizes, threads: u32, ops: u64) -> Duration {
    let barrier = Barrier::new(threads as usize);
    let run = |thread: u32| {
        let choices = sizes.choices(thread);
        let mut live = match work {
            Work::Pairs => Vec::new(),
            Work::Churn => fill(allocator, thread, &choices),
        };
        barrier.wait();
        let start = Instant::now();
        match work {
            Work::Pairs => pairs(allocator, thread, &choices, ops),
            Work::Churn => churn(allocator, thread, &choices, ops, &mut live),
        }
        let elapsed = start.elapsed();
        for block in live {
            // SAFETY: live, and this thread's.
            unsafe { allocator.free(thread, block) };
        }
        elapsed
    };
    let run = &run;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || run(thread)))
            .collect();
        let times = running
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"));
        times.max().unwrap_or_default()
    })
}

fn compare(group: &mut BenchmarkGroup<'_, WallTime>, work: Work, sizes: Sizes, threads: u32) {
    let case = format!("{}/{threads}", sizes.name());
    let retain = Config {
        retain: true,
        ..Config::default()
    };
    group.throughput(Throughput::Elements(1));
    let device = Device::new(&Config::default());
    group.bench_function(format!("device-heap/{case}"), |bencher| {
        bencher.iter_custom(|ops| time(&device, work, sizes, threads, ops));
    });
    let retaining = Device::new(&retain);
    group.bench_function(format!("retaining/{case}"), |bencher| {
        bencher.iter_custom(|ops| time(&retaining, work, sizes, threads, ops));
    });
    group.bench_function(format!("mimalloc/{case}"), |bencher| {
        bencher.iter_custom(|ops| time(&Mimalloc, work, sizes, threads, ops));
    });
}

fn heaps(criterion: &mut Criterion) {
    for (name, work) in [("pairs", Work::Pairs), ("churn", Work::Churn)] {
        let mut group = criterion.benchmark_group(name);
        group
            .sample_size(20)
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_millis(800));
        for sizes in [Sizes::Fixed(64), Sizes::Fixed(1024), Sizes::Mixed] {
            for threads in [1, 2] {
                compare(&mut group, work, sizes, threads);
            }
        }
        group.finish();
    }
}

criterion_group!(benches, heaps);
criterion_main!(benches);

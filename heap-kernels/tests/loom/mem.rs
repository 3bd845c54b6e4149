//! A pool whose words are loom's atomics, and whose blocks are cells that loom
//! watches for races.

use std::collections::BTreeMap;
use std::panic::Location;
use std::rc::Rc;
use std::sync::atomic::AtomicU64 as PlainAtomic;

use heap_kernels::mem::{Mem, Order, Scope};
use heap_kernels::testing::memory::PoolMemory;
use heap_kernels::testing::words::{WordUse, word_use};
use heap_kernels::{Config, Heap, HostMem};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};

/// A heap as the model starts with it.
pub(crate) struct Start {
    memory: PoolMemory,
    cells: Vec<u64>,
}

impl Start {
    /// A heap of `pages` pages with one shard and slots up to `small_max`
    /// bytes, on which `prepare` has been at work; what that returned.
    pub(crate) fn new<T>(
        pages: u64,
        small_max: u64,
        prepare: impl FnOnce(&Heap<HostMem>) -> T,
    ) -> (Self, T) {
        let config = Config {
            small_max: Some(small_max),
            ..Config::default()
        };
        Self::with_config(pages, config, prepare)
    }

    /// The same with any configuration.
    pub(crate) fn with_config<T>(
        pages: u64,
        config: Config,
        prepare: impl FnOnce(&Heap<HostMem>) -> T,
    ) -> (Self, T) {
        let config = Config {
            shards: Some(1),
            ..config
        };
        let fits = |len: &u64| {
            heap_kernels::Geometry::new(*len, &config).is_ok_and(|g| g.pages() == pages)
        };
        let len = (2..)
            .map(|n| n * 4096)
            .find(fits)
            .expect("a length for so many pages");
        let memory = PoolMemory::new(len, 4096);
        let heap = Heap::format(memory.mem(), &config).expect("a valid configuration");
        let prepared = prepare(&heap);
        heap.check().expect("a sound start");
        (
            Self {
                memory,
                cells: Vec::new(),
            },
            prepared,
        )
    }

    /// The same, with the blocks at these offsets watched.
    pub(crate) fn watching(mut self, cells: &[u64]) -> Self {
        self.cells = cells.to_vec();
        self
    }
}

enum Word {
    Constant(u64),
    Report(PlainAtomic),
    State(AtomicU64),
}

struct Words {
    words: Vec<Word>,
    cells: BTreeMap<u64, UnsafeCell<u64>>,
    base: u64,
    len: u64,
    relaxed: bool,
}

/// The memory of one execution of a model; loom runs all its threads on one.
#[derive(Clone)]
pub(crate) struct LoomMem(Rc<Words>);

impl LoomMem {
    pub(crate) fn new(start: &Start, relaxed: bool) -> Self {
        let mem = start.memory.mem();
        let heap = Heap::attach(mem).expect("a formatted pool");
        let geometry = heap.geometry();
        let word = |at: u64| {
            let value = mem.load(at, Order::Relaxed);
            match word_use(geometry, at) {
                WordUse::Constant => Word::Constant(value),
                WordUse::Report => Word::Report(PlainAtomic::new(value)),
                WordUse::State => Word::State(AtomicU64::new(value)),
            }
        };
        Self(Rc::new(Words {
            words: (0..geometry.metadata_bytes() / 8)
                .map(|i| word(i * 8))
                .collect(),
            cells: start
                .cells
                .iter()
                .map(|&at| (at, UnsafeCell::new(0)))
                .collect(),
            base: mem.base(),
            len: mem.len(),
            relaxed,
        }))
    }

    /// Writes to the block at `at`, as its owner does; loom fails the model if
    /// another owner's access may come at the same time.
    pub(crate) fn use_block(&self, at: u64) {
        if let Some(cell) = self.0.cells.get(&at) {
            // SAFETY: loom checks that nobody else has access.
            cell.with_mut(|value| unsafe { *value += 1 });
        }
    }

    /// The heap at the end of the model, in host memory; all threads joined.
    pub(crate) fn at_rest(&self) -> (PoolMemory, Heap<HostMem>) {
        let memory = PoolMemory::new(self.0.len, 4096);
        let mem = memory.mem();
        for (at, word) in (0..).step_by(8).zip(&self.0.words) {
            let value = match word {
                Word::Constant(value) => *value,
                Word::Report(word) => word.load(Ordering::Relaxed),
                // SAFETY: all threads have been joined.
                Word::State(word) => unsafe { word.unsync_load() },
            };
            mem.store(at, value, Order::Relaxed);
        }
        let heap = Heap::attach(mem).expect("a formatted pool");
        (memory, heap)
    }

    fn ordering(&self, order: Order) -> Ordering {
        if self.0.relaxed {
            Ordering::Relaxed
        } else {
            ordering(order)
        }
    }

    fn failure(&self, order: Order) -> Ordering {
        if self.0.relaxed {
            Ordering::Relaxed
        } else {
            failure(order)
        }
    }

    #[track_caller]
    fn update(
        &self,
        at: u64,
        plain: impl FnOnce(&PlainAtomic) -> u64,
        state: impl FnOnce(&AtomicU64) -> u64,
    ) -> u64 {
        match &self.0.words[(at / 8) as usize] {
            Word::Constant(_) => panic!("a constant is written at {}", Location::caller()),
            Word::Report(word) => plain(word),
            Word::State(word) => state(word),
        }
    }
}

fn ordering(order: Order) -> Ordering {
    match order {
        Order::Relaxed => Ordering::Relaxed,
        Order::Acquire => Ordering::Acquire,
        Order::Release => Ordering::Release,
        Order::AcqRel => Ordering::AcqRel,
    }
}

fn failure(order: Order) -> Ordering {
    match order {
        Order::Acquire | Order::AcqRel => Ordering::Acquire,
        Order::Relaxed | Order::Release => Ordering::Relaxed,
    }
}

// SAFETY: the words are atomics shared by all clones; nothing but the cells
// stands for the blocks, and the model uses those as the heap hands them out.
unsafe impl Mem for LoomMem {
    const SCOPE: Scope = Scope::Device;

    fn len(&self) -> u64 {
        self.0.len
    }
    fn base(&self) -> u64 {
        self.0.base
    }
    fn load(&self, at: u64, order: Order) -> u64 {
        match &self.0.words[(at / 8) as usize] {
            Word::Constant(value) => *value,
            Word::Report(word) => word.load(self.ordering(order)),
            Word::State(word) => word.load(self.ordering(order)),
        }
    }
    fn store(&self, at: u64, value: u64, order: Order) {
        let order = self.ordering(order);
        self.update(
            at,
            |word| word.swap(value, Ordering::Relaxed),
            |word| {
                word.store(value, order);
                value
            },
        );
    }
    fn compare_exchange(&self, at: u64, current: u64, new: u64, order: Order) -> Result<u64, u64> {
        let (done, failed) = (self.ordering(order), self.failure(order));
        let either = |result: Result<u64, u64>| result.unwrap_or_else(|found| found);
        let found = self.update(
            at,
            |word| either(word.compare_exchange(current, new, done, failed)),
            |word| either(word.compare_exchange(current, new, done, failed)),
        );
        if found == current {
            Ok(found)
        } else {
            Err(found)
        }
    }
    fn fetch_add(&self, at: u64, value: u64, order: Order) -> u64 {
        let order = self.ordering(order);
        self.update(
            at,
            |w| w.fetch_add(value, order),
            |w| w.fetch_add(value, order),
        )
    }
    fn fetch_and(&self, at: u64, value: u64, order: Order) -> u64 {
        let order = self.ordering(order);
        self.update(
            at,
            |w| w.fetch_and(value, order),
            |w| w.fetch_and(value, order),
        )
    }
    fn fetch_or(&self, at: u64, value: u64, order: Order) -> u64 {
        let order = self.ordering(order);
        self.update(
            at,
            |w| w.fetch_or(value, order),
            |w| w.fetch_or(value, order),
        )
    }
    fn fetch_max(&self, at: u64, value: u64, order: Order) -> u64 {
        let order = self.ordering(order);
        self.update(
            at,
            |w| w.fetch_max(value, order),
            |w| w.fetch_max(value, order),
        )
    }
    unsafe fn fill(&self, _at: u64, _len: u64, _byte: u8) {
        panic!("no model fills memory");
    }
    unsafe fn copy(&self, _from: u64, _to: u64, _len: u64) {
        panic!("no model copies memory");
    }
}

use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;

use super::{AllocError, FreeError, Heap, Request};
use crate::mem::{Mem, Order};
use crate::{Config, HostMem, Place, SingleLane};

const MIB: u64 = 1 << 20;
const LANE: SingleLane = SingleLane::new(0);

/// Owned, page-aligned memory with a heap in it.
pub(crate) struct Owned {
    layout: std::alloc::Layout,
    base: *mut u8,
    pub(crate) heap: Heap<HostMem>,
}

impl Owned {
    pub(crate) fn new(len: u64, config: &Config) -> Self {
        let layout = std::alloc::Layout::from_size_align(len as usize, 65536).unwrap();
        // SAFETY: the layout is not empty.
        let base = unsafe { std::alloc::alloc(layout) };
        // SAFETY: the memory lives as long as the heap, which alone uses it.
        let mem = unsafe { HostMem::new(base, len) };
        // SAFETY: as above; poison, so that nothing relies on zeroed memory.
        unsafe { crate::Mem::fill(&mem, 0, len, 0xa5) };
        Self {
            layout,
            base,
            heap: Heap::format(mem, config).unwrap(),
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `new`.
        unsafe { std::alloc::dealloc(self.base, self.layout) }
    }
}

fn owned(len: u64) -> Owned {
    Owned::new(len, &Config::default())
}

#[test]
fn every_small_size_comes_and_goes() {
    let pool = owned(MIB);
    let heap = &pool.heap;
    let fresh = heap.stats();
    for size in 0..=20_000 {
        let block = heap.alloc(&LANE, Request::new(size)).unwrap();
        assert!(heap.usable_size(block).unwrap() >= size);
        assert_eq!(heap.free(&LANE, block), Ok(()));
        assert_eq!(heap.free(&LANE, block), Err(FreeError::DoubleFree));
    }
    heap.check().unwrap();
    let stats = heap.stats();
    assert_eq!((stats.live_blocks, stats.used_bytes), (0, 0));
    assert_eq!(stats.largest_free_run, fresh.largest_free_run);
    assert_eq!(
        (stats.allocations, stats.frees, stats.bad_frees),
        (20_001, 20_001, 20_001)
    );
}

#[test]
fn the_whole_pool_is_one_block() {
    let pool = owned(3 * MIB);
    let heap = &pool.heap;
    let all = heap.geometry().page_bytes();
    let block = heap.alloc(&LANE, Request::new(all)).unwrap();
    assert_eq!(
        heap.alloc(&LANE, Request::new(0)),
        Err(AllocError::OutOfMemory)
    );
    assert_eq!(
        heap.alloc(&LANE, Request::new(all + 1)),
        Err(AllocError::TooLarge)
    );
    assert_eq!(
        heap.alloc(&LANE, Request::new(u64::MAX)),
        Err(AllocError::TooLarge)
    );
    heap.check().unwrap();
    heap.free(&LANE, block).unwrap();
    assert_eq!(heap.alloc(&LANE, Request::new(all)), Ok(block));
}

#[test]
fn a_pool_full_of_small_blocks_is_dense_and_recovers() {
    for size in [16, 64, 100, 256, 1024, 4096, 8192] {
        let pool = owned(16 * MIB);
        let heap = &pool.heap;
        let mut blocks = Vec::new();
        while let Ok(block) = heap.alloc(&LANE, Request::new(size)) {
            blocks.push(block);
        }
        heap.check().unwrap();
        let share = blocks.len() as u64 * crate::class_size(crate::class_of(size));
        assert!(share * 100 >= 16 * MIB * 95, "{size}: {share}");
        for block in blocks {
            heap.free(&LANE, block).unwrap();
        }
        heap.check().unwrap();
        let all = heap.geometry().page_bytes();
        assert_eq!(heap.stats().largest_free_run, all);
        heap.alloc(&LANE, Request::new(all)).unwrap();
    }
}

#[test]
fn alignments_hold_for_addresses() {
    let pool = owned(8 * MIB);
    let heap = &pool.heap;
    for shift in 0..=18 {
        let align = 1 << shift;
        for size in [0, 1, 100, 5000, 70_000] {
            for place in [Place::Best, Place::Low, Place::High] {
                let request = Request::new(size).align(align).place(place);
                let block = heap.alloc(&LANE, request).unwrap();
                assert_eq!((pool.base as u64 + block) % align.max(16), 0);
            }
        }
        heap.check().unwrap();
        heap.reset();
    }
    assert_eq!(
        heap.alloc(&LANE, Request::new(1).align(0)),
        Err(AllocError::BadAlignment)
    );
    assert_eq!(
        heap.alloc(&LANE, Request::new(1).align(24)),
        Err(AllocError::BadAlignment)
    );
}

#[test]
fn bad_frees_are_told_apart() {
    let pool = owned(2 * MIB);
    let heap = &pool.heap;
    let small = heap.alloc(&LANE, Request::new(100)).unwrap();
    let large = heap.alloc(&LANE, Request::new(100_000)).unwrap();
    let data = heap.geometry().metadata_bytes();
    for (offset, error) in [
        (0, FreeError::OutsidePool),
        (data - 1, FreeError::OutsidePool),
        (2 * MIB, FreeError::OutsidePool),
        (u64::MAX, FreeError::OutsidePool),
        (small + 1, FreeError::InsideBlock),
        (small + 16, FreeError::InsideBlock),
        (small + 112, FreeError::NeverAllocated),
        (large + 4096, FreeError::InsideBlock),
        (large + 16, FreeError::InsideBlock),
        (large - 4096, FreeError::NeverAllocated),
    ] {
        assert_eq!(heap.free(&LANE, offset), Err(error), "{offset}");
    }
    let first = heap.offender().unwrap();
    assert_eq!((first.error, first.offset), (FreeError::OutsidePool, 0));
    heap.free(&LANE, large).unwrap();
    assert_eq!(heap.free(&LANE, large), Err(FreeError::DoubleFree));
    heap.check().unwrap();
    assert_eq!(heap.stats().live_blocks, 1);
}

#[test]
fn attach_finds_what_format_wrote_and_nothing_else() {
    let pool = Owned::new(
        MIB,
        &Config {
            shards: Some(4),
            retain: true,
            ..Config::default()
        },
    );
    let block = pool.heap.alloc(&LANE, Request::new(50)).unwrap();
    let again = Heap::attach(*pool.heap.mem()).unwrap();
    assert_eq!(again.geometry(), pool.heap.geometry());
    again.free(&LANE, block).unwrap();
    // SAFETY: the first half of the same memory; nobody writes.
    let half = unsafe { HostMem::new(pool.base, MIB / 2) };
    assert!(Heap::attach(half).is_err());
}

#[derive(Clone, Debug)]
enum Op {
    Alloc { size: u64, align: u32, place: u8 },
    Free(usize),
    Realloc(usize, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let size = prop_oneof![0u64..300, 0u64..9000, 0u64..200_000];
    prop_oneof![
        3 => (size.clone(), 0u32..14, 0u8..3).prop_map(|(size, align, place)| Op::Alloc { size, align, place }),
        2 => any::<usize>().prop_map(Op::Free),
        1 => (any::<usize>(), size).prop_map(|(which, size)| Op::Realloc(which, size)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn random_programs_keep_every_invariant(ops in proptest::collection::vec(op(), 1..300), retain: bool) {
        let pool = Owned::new(MIB, &Config { retain, shards: Some(2), ..Config::default() });
        let heap = &pool.heap;
        let fresh = heap.stats().largest_free_run;
        let mut live: BTreeMap<u64, u64> = BTreeMap::new();
        for (step, op) in ops.into_iter().enumerate() {
            let lane = SingleLane::new(step as u32 % 3);
            match op {
                Op::Alloc { size, align, place } => {
                    let place = [Place::Best, Place::Low, Place::High][usize::from(place)];
                    let request = Request::new(size).align(1 << align).place(place);
                    match heap.alloc(&lane, request) {
                        Ok(block) => { live.insert(block, heap.usable_size(block).unwrap()); }
                        Err(_) => prop_assert!(heap.stats().largest_free_run < size + (1 << align)),
                    }
                }
                Op::Free(which) if !live.is_empty() => {
                    let block = *live.keys().nth(which % live.len()).unwrap();
                    live.remove(&block);
                    prop_assert_eq!(heap.free(&lane, block), Ok(()));
                }
                Op::Realloc(which, size) if !live.is_empty() => {
                    let block = *live.keys().nth(which % live.len()).unwrap();
                    if let Ok(new) = heap.realloc(&lane, block, Request::new(size)) {
                        live.remove(&block);
                        live.insert(new, heap.usable_size(new).unwrap());
                        prop_assert!(live[&new] >= size);
                    }
                }
                _ => {}
            }
            let mut end = 0;
            for (&at, &len) in &live {
                prop_assert!(at >= end);
                end = at + len;
            }
        }
        heap.check().unwrap();
        let stats = heap.stats();
        prop_assert_eq!(stats.live_blocks, live.len() as u64);
        prop_assert_eq!(stats.live_bytes, live.values().sum::<u64>());
        for block in live.into_keys() {
            prop_assert_eq!(heap.free(&LANE, block), Ok(()));
        }
        heap.check().unwrap();
        prop_assert_eq!(heap.stats().largest_free_run, fresh);
        heap.reclaim();
        prop_assert_eq!(heap.stats().used_bytes, 0);
    }
}

#[test]
fn surveys_and_checks_in_parts_say_what_the_whole_says() {
    let pool = Owned::new(
        4 * MIB,
        &Config {
            retain: true,
            ..Config::default()
        },
    );
    let heap = &pool.heap;
    let mut blocks = Vec::new();
    for k in 0..400u64 {
        let size = k * k * 7919 % if k % 3 == 0 { 40_000 } else { 700 };
        blocks.extend(heap.alloc(&LANE, Request::new(size)));
    }
    for block in blocks.iter().step_by(2) {
        heap.free(&LANE, *block).unwrap();
    }
    let pages = heap.geometry().pages();
    for parts in [1, 2, 3, 7, 64, pages] {
        let cut = |part: u64| pages * part / parts;
        let merged = (0..parts)
            .map(|part| heap.survey(cut(part), cut(part + 1)))
            .reduce(|sum, part| sum.merge(&part))
            .unwrap();
        assert_eq!(heap.stats_of(&merged), heap.stats());
        let tally = (0..parts).map(|part| heap.check_part(part, parts).unwrap());
        heap.check_tally(&tally.reduce(|sum, part| sum + part).unwrap())
            .unwrap();
    }
}

#[test]
fn threads_share_one_heap() {
    for retain in [false, true] {
        let pool = Owned::new(
            4 * MIB,
            &Config {
                retain,
                shards: Some(2),
                ..Config::default()
            },
        );
        let heap = pool.heap;
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                scope.spawn(move || churn(&heap, thread));
            }
        });
        heap.check().unwrap();
        assert_eq!(heap.stats().live_blocks, 0);
    }
}

/// Allocates, marks, verifies and frees at random.
fn churn(heap: &Heap<HostMem>, thread: u32) {
    let lane = SingleLane::new(thread);
    let mut seed = u64::from(thread) + 1;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut live: Vec<(u64, u64)> = Vec::new();
    for _ in 0..100_000 {
        if random() % 2 == 0 && live.len() < 200 {
            let size = if random() % 20 == 0 {
                random() % 60_000
            } else {
                random() % 500
            } + 8;
            let Ok(block) = heap.alloc(&lane, Request::new(size)) else {
                continue;
            };
            let mark = random();
            // SAFETY: the block has 8 bytes at least and is this thread's.
            unsafe { heap.mem().pointer(block).cast::<u64>().write(mark) };
            live.push((block, mark));
        } else if !live.is_empty() {
            let (block, mark) = live.swap_remove(random() as usize % live.len());
            // SAFETY: as above.
            let found = unsafe { heap.mem().pointer(block).cast::<u64>().read() };
            assert_eq!(found, mark, "another thread wrote into block {block}");
            heap.free(&lane, block).unwrap();
        }
    }
    for (block, _) in live {
        heap.free(&lane, block).unwrap();
    }
}

#[test]
fn a_demand_that_nobody_has_any_more_is_found() {
    let pool = Owned::new(4 * MIB, &Config::default());
    let inner = &pool.heap.pool;
    inner
        .mem
        .fetch_add(inner.demand_at(0, 3), 5, Order::Relaxed);
    let found = pool.heap.check().unwrap_err();
    assert_eq!((found.at, found.what.contains("wait")), (3, true));
}

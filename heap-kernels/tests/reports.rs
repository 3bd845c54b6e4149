//! Faults that people have reported of other memory managers, each as a small
//! test named after the fault.

use heap_kernels::testing::lockstep::LockstepMem;
use heap_kernels::testing::lockstep::{Machine, Policy, Schedule};
use heap_kernels::testing::memory::PoolMemory;
use heap_kernels::{
    AllocError, Config, FormatError, FreeError, Geometry, Heap, HostMem, Place, Request,
    SingleLane, Warp, WarpBlock,
};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const LANE: SingleLane = SingleLane::new(0);

/// A heap with memory of its own.
struct Pool {
    heap: Heap<HostMem>,
    memory: PoolMemory,
}

impl Pool {
    /// A pool with so many bytes for blocks, to the byte.
    fn for_blocks(bytes: u64) -> Self {
        let config = Config {
            page_size: Some(PAGE),
            ..Config::default()
        };
        let fits = |len: &u64| Geometry::new(*len, &config).is_ok_and(|g| g.page_bytes() == bytes);
        let len = (bytes / PAGE..)
            .map(|pages| pages * PAGE)
            .find(fits)
            .unwrap();
        let memory = PoolMemory::new(len, 1 << 16);
        Self {
            heap: Heap::format(memory.mem(), &config).unwrap(),
            memory,
        }
    }

    fn alloc(&self, size: u64) -> Result<u64, AllocError> {
        self.heap.alloc(&LANE, Request::new(size))
    }

    fn free(&self, block: u64) {
        assert_eq!(self.heap.free(&LANE, block), Ok(()));
    }

    fn lockstep(&self) -> Heap<LockstepMem<HostMem>> {
        Heap::attach(LockstepMem::new(self.memory.mem())).unwrap()
    }
}

fn machine(warps: u32, lanes: u32, seed: u64) -> Machine {
    Machine {
        warps,
        lanes,
        schedule: Schedule::any(seed),
    }
}

// Seen in pytorch#35901 and, as a request, in pytorch#29554.
#[test]
fn half_of_the_pool_in_pieces_is_told_from_half_of_it_in_one() {
    let pool = Pool::for_blocks(64 * MIB);
    let blocks: Vec<u64> = (0..64).map(|_| pool.alloc(MIB).unwrap()).collect();
    let mut sorted = blocks.clone();
    sorted.sort_unstable();
    sorted.iter().step_by(2).for_each(|&block| pool.free(block));
    assert_eq!(pool.alloc(2 * MIB), Err(AllocError::OutOfMemory));
    let stats = pool.heap.stats();
    assert_eq!((stats.free_bytes, stats.largest_free_run), (32 * MIB, MIB));
    assert_eq!(stats.failures, 1);
}

// Seen in pytorch#44742.
#[test]
fn small_long_lives_do_not_split_what_large_short_lives_leave() {
    let pool = Pool::for_blocks(64 * MIB);
    let mut long_lived = Vec::new();
    for _ in 0..20 {
        let large = [(); 7].map(|()| pool.alloc(8 * MIB).unwrap());
        long_lived.push(pool.alloc(4096).unwrap());
        large.into_iter().for_each(|block| pool.free(block));
    }
    assert!(pool.alloc(48 * MIB).is_ok());
}

// Seen in rapidsai/rmm#2451: 2^61 elements of 16 bytes are 0 bytes.
#[test]
fn sizes_close_to_the_end_of_64_bits_do_not_wrap() {
    let pool = Pool::for_blocks(MIB);
    for below in 0..10_000 {
        assert_eq!(pool.alloc(u64::MAX - below), Err(AllocError::TooLarge));
    }
    let aligned = Request::new(u64::MAX - 4096).align(1 << 63);
    assert_eq!(pool.heap.alloc(&LANE, aligned), Err(AllocError::TooLarge));
    // 31 lanes ask for 2^59 bytes each, and one for the rest of 2^64.
    let heap = pool.lockstep();
    let outcome = machine(1, 32, 1).run(|lane| heap.alloc_warp(lane, 1 << 59));
    assert!(
        outcome
            .results()
            .all(|result| result == Err(AllocError::TooLarge))
    );
    assert_eq!(pool.heap.stats().live_blocks, 0);
}

// Seen in llnl/Umpire#846 and #372.
#[test]
fn coalescing_has_an_end_where_there_is_nothing_to_coalesce() {
    let config = Config {
        retain: true,
        ..Config::default()
    };
    let memory = PoolMemory::new(MIB, PAGE);
    let heap = Heap::format(LockstepMem::new(memory.mem()), &config).unwrap();
    let limited = Machine {
        warps: 1,
        lanes: 1,
        schedule: Schedule::simt(0).limited(5000),
    };
    limited.run(|_| heap.reclaim());
    let block = heap.alloc(&LANE, Request::new(100)).unwrap();
    limited.run(|lane| {
        heap.free(lane, block).unwrap();
        heap.reclaim();
        heap.reclaim();
    });
    assert_eq!(heap.stats().used_bytes, 0);
}

// Seen in llnl/Umpire#539, zakarumych/gpu-alloc#44 and #45.
#[test]
fn counters_agree_with_the_blocks_after_every_operation() {
    let pool = Pool::for_blocks(MIB);
    let fresh = pool.heap.stats();
    let mut live: Vec<(u64, u64)> = Vec::new();
    let mut state = 1u64;
    for step in 0..3000 {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        let number = state >> 33;
        if live.is_empty() || number % 5 < 3 {
            let request = Request::new(number % 30_000).align(1 << (number % 16));
            if let Ok(block) = pool.heap.alloc(&LANE, request) {
                live.push((block, pool.heap.usable_size(block).unwrap()));
            }
        } else {
            let (block, _) = live.swap_remove(number as usize % live.len());
            pool.free(block);
        }
        let stats = pool.heap.stats();
        let sum: u64 = live.iter().map(|block| block.1).sum();
        assert_eq!(
            (stats.live_bytes, stats.live_blocks),
            (sum, live.len() as u64),
            "{step}"
        );
        // What is neither live nor free is the tails of slabs.
        let tails = stats.page_bytes - stats.live_bytes - stats.free_bytes;
        assert!(
            tails * 8 <= stats.used_bytes,
            "{tails} bytes are nobody's at step {step}"
        );
    }
    live.into_iter().for_each(|(block, _)| pool.free(block));
    let end = pool.heap.stats();
    assert_eq!((end.free_bytes, end.used_bytes), (fresh.free_bytes, 0));
}

// Seen in Genesis-Embodied-AI/quadrants#847.
#[test]
fn sixteen_requests_that_add_up_to_the_pool_fit() {
    let pool = Pool::for_blocks(16 * 5 * PAGE);
    let blocks: Vec<u64> = (0..16).map(|_| pool.alloc(5 * PAGE).unwrap()).collect();
    assert_eq!(pool.heap.stats().free_bytes, 0);
    assert_eq!(pool.alloc(1), Err(AllocError::OutOfMemory));
    blocks.into_iter().for_each(|block| pool.free(block));
}

// Seen in Genesis-Embodied-AI/quadrants#847.
#[test]
fn a_base_that_is_off_by_256_bytes_is_named() {
    let memory = PoolMemory::new(MIB, PAGE);
    // SAFETY: a part of the memory, which lives on; nobody else uses it.
    let mem = unsafe { HostMem::new(memory.mem().pointer(256), MIB - 256) };
    let error = Heap::format(mem, &Config::default()).unwrap_err();
    assert!(matches!(
        error,
        FormatError::Misaligned {
            page_size: PAGE,
            ..
        }
    ));
    assert!(
        error
            .to_string()
            .contains("not a multiple of its page size 4096")
    );
}

// Seen in taichi-dev/taichi#3096.
#[test]
fn alignment_is_each_requests_own() {
    let pool = Pool::for_blocks(MIB);
    for round in 0..500 {
        let odd = pool.heap.alloc(&LANE, Request::new(1).align(1)).unwrap();
        let align = 16 << (round % 9);
        let even = pool
            .heap
            .alloc(&LANE, Request::new(16).align(align))
            .unwrap();
        assert_ne!(odd, even);
        let address = heap_kernels::Mem::base(pool.heap.mem()) + even;
        assert!(address.is_multiple_of(align));
    }
}

// Seen in bkaradzic/bgfx#760.
#[test]
fn rounding_a_start_up_does_not_push_a_block_into_the_next() {
    let pool = Pool::for_blocks(MIB);
    let mut ranges = Vec::new();
    for round in 0..1000u64 {
        let (count, stride) = (1 + round % 7, if round.is_multiple_of(2) { 28 } else { 16 });
        let request = Request::new(count * stride).align(if stride == 28 { 4 } else { 64 });
        ranges.push((pool.heap.alloc(&LANE, request).unwrap(), count * stride));
    }
    ranges.sort_unstable();
    assert!(
        ranges
            .windows(2)
            .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0)
    );
}

// Seen in NVIDIA/cub#302: a sum kept in the type of what is summed.
#[test]
fn a_warps_total_of_four_gibibytes_is_not_zero() {
    let pool = Pool::for_blocks(5 * GIB);
    let heap = pool.lockstep();
    let schedule = Schedule::simt(1);
    let outcome = Machine {
        warps: 1,
        lanes: 32,
        schedule,
    }
    .run(|lane| (lane.lane(), heap.alloc_warp(lane, 1 << 27).unwrap()));
    for (lane, WarpBlock { base, offset }) in outcome.results() {
        assert_eq!(offset, base + (u64::from(lane) << 27));
        assert_eq!(pool.heap.usable_size(base), Ok(4 * GIB));
    }
    assert_eq!(pool.heap.stats().live_bytes, 4 * GIB);
}

// Seen in NVIDIA/cub#584 and #221, NVIDIA/cccl#1830.
#[test]
fn sizes_around_31_and_32_bits_are_as_any_other() {
    let pool = Pool::for_blocks(9 * GIB);
    for size in [
        (1 << 31) - 1,
        1 << 31,
        (1 << 31) + 1,
        (1 << 32) - 1,
        1 << 32,
        (1 << 32) + 1,
    ] {
        for place in [Place::Low, Place::High, Place::Best] {
            let block = pool
                .heap
                .alloc(&LANE, Request::new(size).place(place))
                .unwrap();
            assert!((size..size + PAGE).contains(&pool.heap.usable_size(block).unwrap()));
            let other = pool
                .heap
                .alloc(&LANE, Request::new(size).place(place))
                .unwrap();
            assert!(other.abs_diff(block) >= size);
            pool.free(block);
            pool.free(other);
        }
    }
    assert_eq!(pool.heap.stats().used_bytes, 0);
}

// Seen in linebender/vello#257.
#[test]
fn one_more_than_fits_does_not_fit() {
    let pool = Pool::for_blocks(100 * PAGE);
    assert!(pool.alloc(60 * PAGE).is_ok());
    assert!(pool.alloc(40 * PAGE).is_ok());
    assert_eq!(pool.alloc(1), Err(AllocError::OutOfMemory));
}

// Seen in LuisaGroup/LuisaCompute#260.
#[test]
fn a_refused_request_takes_nothing() {
    let pool = Pool::for_blocks(5 * GIB);
    for _ in 0..1000 {
        assert_eq!(pool.alloc(5 * GIB + 1), Err(AllocError::TooLarge));
    }
    let half = pool.alloc(3 * GIB).unwrap();
    for _ in 0..1000 {
        assert_eq!(pool.alloc(3 * GIB), Err(AllocError::OutOfMemory));
    }
    assert!(pool.alloc(2 * GIB).is_ok());
    pool.free(half);
    assert!(pool.alloc(3 * GIB).is_ok());
}

// Seen in kokkos/kokkos#312.
#[test]
fn a_thousand_lanes_that_ask_for_too_much_all_get_an_answer() {
    let pool = Pool::for_blocks(2 * MIB);
    let heap = pool.lockstep();
    let held = pool.alloc(MIB).unwrap();
    let outcome = machine(32, 32, 5).run(|lane| {
        let more_than_is_free = heap.alloc(lane, Request::new(MIB + PAGE));
        let more_than_there_is = heap.alloc(lane, Request::new(2 * MIB + 1));
        (more_than_is_free, more_than_there_is)
    });
    let expected = (Err(AllocError::OutOfMemory), Err(AllocError::TooLarge));
    assert!(outcome.results().all(|results| results == expected));
    pool.free(held);
    assert_eq!(pool.heap.stats().used_bytes, 0);
}

// Seen in kokkos/kokkos#487.
#[test]
fn all_lanes_of_a_warp_may_allocate_different_sizes() {
    let pool = Pool::for_blocks(4 * MIB);
    let heap = pool.lockstep();
    for seed in 0..30 {
        let outcome = machine(1, 32, seed).run(|lane| {
            let size = u64::from(lane.lane() * lane.lane()) * 40;
            let block = heap.alloc(lane, Request::new(size)).unwrap();
            assert!(heap.usable_size(block).unwrap() >= size);
            heap.free(lane, block).unwrap();
        });
        assert!(outcome.all_finished());
    }
    assert_eq!(pool.heap.stats().live_blocks, 0);
}

// Seen in kokkos/kokkos#452.
#[test]
fn a_slab_that_empties_while_an_allocation_completes_in_it_is_not_torn() {
    let pool = Pool::for_blocks(16 * PAGE);
    let heap = pool.lockstep();
    for seed in 0..2000 {
        heap.reset();
        let block = heap.alloc(&LANE, Request::new(2000)).unwrap();
        let policy = Policy::Priority {
            changes: 3,
            horizon: 40,
        };
        let schedule = Schedule::new(seed, policy);
        let outcome = Machine {
            warps: 2,
            lanes: 1,
            schedule,
        }
        .run(|lane| {
            if lane.warp() == 0 {
                heap.free(lane, block).unwrap();
                return None;
            }
            Some(heap.alloc(lane, Request::new(2000)).unwrap())
        });
        let got = outcome.results().flatten().next().unwrap();
        heap.check().unwrap();
        heap.free(&LANE, got).unwrap();
        assert_eq!(heap.stats().used_bytes, 0);
    }
}

// Seen in NVIDIA/cub#329, and in an arena that looked blocks up by their start
// without looking whether they were in use.
#[test]
fn a_double_free_is_detected_and_named() {
    let pool = Pool::for_blocks(MIB);
    for size in [64, 100_000] {
        pool.heap.reset();
        // The first buffer of all, and one behind it.
        let [first, second] = [(); 2].map(|()| pool.alloc(size).unwrap());
        pool.free(first);
        let before = pool.heap.stats();
        assert_eq!(pool.heap.free(&LANE, first), Err(FreeError::DoubleFree));
        assert_eq!(pool.heap.stats().live_bytes, before.live_bytes);
        let offender = pool.heap.offender().unwrap();
        assert_eq!(
            (offender.error, offender.offset),
            (FreeError::DoubleFree, first)
        );
        // Nobody gets the block twice for it.
        let [a, b] = [(); 2].map(|()| pool.alloc(size).unwrap());
        assert!(a != b && a != second && b != second);
        pool.heap.check().unwrap();
    }
}

// Seen in NVIDIA/cub#705 and celeritas-project/celeritas#554.
#[test]
fn twelve_mebibytes_of_eight_are_refused_with_a_status() {
    let pool = Pool::for_blocks(8 * MIB);
    assert_eq!(pool.alloc(12 * MIB), Err(AllocError::TooLarge));
    let blocks: Vec<_> = (0..12).map(|_| pool.alloc(MIB)).collect();
    assert!(blocks[..8].iter().all(Result::is_ok));
    assert!(
        blocks[8..]
            .iter()
            .all(|block| *block == Err(AllocError::OutOfMemory))
    );
    // The first offset is never a block's, so that it can stand for none.
    assert!(blocks.iter().all(|block| *block != Ok(0)));
}

// Seen in NVIDIA/cub#328.
#[test]
fn the_heap_is_usable_after_every_kind_of_error() {
    let pool = Pool::for_blocks(MIB);
    let heap = &pool.heap;
    let block = pool.alloc(MIB / 2).unwrap();
    assert!(pool.alloc(MIB).is_err());
    assert!(heap.alloc(&LANE, Request::new(1).align(3)).is_err());
    assert!(heap.free(&LANE, block + 1).is_err());
    assert!(heap.realloc(&LANE, block, Request::new(2 * MIB)).is_err());
    assert!(heap.realloc(&LANE, 5, Request::new(2)).is_err());
    assert!(heap.usable_size(u64::MAX).is_err());
    assert!(heap.alloc_warp(&LANE, MIB).is_err());
    heap.check().unwrap();
    assert!(pool.alloc(MIB / 2).is_ok());
}

// Seen in acts-project/vecmem#299.
#[test]
fn a_tiny_block_does_not_land_in_the_middle_of_a_huge_hole() {
    let pool = Pool::for_blocks(64 * MIB);
    for _ in 0..10 {
        let huge = pool.alloc(60 * MIB).unwrap();
        pool.free(huge);
        pool.alloc(16).unwrap();
        assert!(pool.heap.stats().largest_free_run >= 64 * MIB - 8 * PAGE);
    }
}

// Seen in zakarumych/gpu-alloc#45.
#[test]
fn alignment_leaves_no_memory_behind() {
    let pool = Pool::for_blocks(8 * MIB);
    let fresh = pool.heap.stats();
    for round in 0..1000 {
        let align = 1 << (round % 20);
        let request = Request::new(round * 37 % 20_000).align(align);
        let blocks = [(); 3].map(|()| pool.heap.alloc(&LANE, request).unwrap());
        blocks.into_iter().for_each(|block| pool.free(block));
    }
    let end = pool.heap.stats();
    assert_eq!(
        (end.free_bytes, end.largest_free_run),
        (fresh.free_bytes, 8 * MIB)
    );
}

// Seen in a bump allocator with a 32-bit counter, no alignment, no look at the
// capacity, and no reset.
#[test]
fn a_few_odd_sizes_then_an_aligned_type_then_more_than_32_bits() {
    let pool = Pool::for_blocks(5 * GIB);
    let odd = [1, 3, 5].map(|size| pool.alloc(size).unwrap());
    let word = pool.heap.alloc(&LANE, Request::new(8).align(8)).unwrap();
    assert!(word.is_multiple_of(8) && !odd.contains(&word));
    let large = [(); 4].map(|()| pool.alloc(GIB).unwrap());
    assert_eq!(pool.alloc(GIB), Err(AllocError::OutOfMemory));
    assert!(large.iter().any(|&block| block > u64::from(u32::MAX)));
    pool.heap.reset();
    assert_eq!(pool.alloc(5 * GIB).map(|block| pool.free(block)), Ok(()));
}

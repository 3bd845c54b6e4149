//! The heap under simulated warps: interleavings from seeds, lanes that stop
//! for ever, bounded work, and planted faults that all of this catches.

use std::cell::RefCell;
use std::collections::BTreeSet;

use heap_kernels::testing::generate::{contended, random};
use heap_kernels::testing::lockstep::{End, LockstepMem, Machine, Schedule, Stop};
use heap_kernels::testing::memory::PoolMemory;
use heap_kernels::testing::program::{Op, Phase, PhaseEnd, Program};
use heap_kernels::testing::runners::{run_lockstep, run_stopping};
use heap_kernels::{AllocError, Config, Heap, HostMem, Request, SingleLane, Warp};

const PAGE: u64 = 4096;

fn small_pages() -> Config {
    Config {
        page_size: Some(PAGE),
        shards: Some(2),
        ..Config::default()
    }
}

type LockstepHeap = Heap<LockstepMem<HostMem>>;

fn heap(memory: &PoolMemory, config: &Config) -> LockstepHeap {
    Heap::format(LockstepMem::new(memory.mem()), config).unwrap()
}

#[test]
fn contended_programs_agree_with_the_shadow_model() {
    for seed in 0..600 {
        run_lockstep(&contended(seed), &Schedule::any(seed));
    }
}

#[test]
fn programs_of_full_warps_agree_with_the_shadow_model() {
    for seed in 0..100 {
        run_lockstep(&random(seed, 1500, 64), &Schedule::any(seed));
    }
}

#[test]
fn a_run_of_the_heap_is_determined_by_its_seed() {
    let run = |seed| {
        let memory = PoolMemory::new(100 * PAGE, PAGE);
        let heap = heap(&memory, &small_pages());
        let machine = Machine {
            warps: 2,
            lanes: 32,
            schedule: Schedule::any(seed),
        };
        let outcome = machine.run(|lane| {
            let size = 16 << (lane.lane() % 8);
            let block = heap.alloc(lane, Request::new(size));
            block.inspect(|&block| heap.free(lane, block).unwrap()).ok()
        });
        (outcome.digest, outcome.results().collect::<Vec<_>>())
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
}

/// Small, large and mixed work for three warps of `lanes` lanes, the same for
/// each lane of a warp or not.
fn mixed_work(lanes: u32, seed: u64) -> Program {
    let sizes = [16, 2000, 4096, 9000, 100, 30_000];
    let ops = |lane: u64| {
        let mut ops = Vec::new();
        for round in 0..3 {
            let size = sizes[((seed + lane * (seed % 2) + round) % 6) as usize];
            let request = Request::new(size);
            ops.push(Op::Alloc {
                request,
                zeroed: false,
            });
            ops.push(Op::Alloc {
                request,
                zeroed: round == 1,
            });
            ops.push(Op::Free {
                which: (lane + round) as u32,
            });
        }
        ops.push(Op::Realloc {
            which: lane as u32,
            request: Request::new(5000),
        });
        ops.push(Op::Free { which: 0 });
        ops
    };
    Program {
        pool_bytes: (60 + 40 * u64::from(lanes)) * PAGE,
        config: Config {
            retain: seed.is_multiple_of(3),
            ..small_pages()
        },
        phases: vec![Phase {
            lanes: (0..u64::from(lanes) * 3).map(ops).collect(),
            end: PhaseEnd::Check,
        }],
    }
}

/// Stops something after each (or every `stride`-th) number of accesses, until
/// it is done before that; how many accesses that were.
fn stop_everywhere(lanes: u32, seed: u64, stride: usize, stop: impl Fn(u64) -> Stop) -> u64 {
    let program = mixed_work(lanes, seed);
    for after in (0..).step_by(stride) {
        let schedule = Schedule::any(seed ^ after << 8).stopping(stop(after));
        let outcome = run_stopping(&program, lanes, schedule, |session| {
            session.free_all();
            // The rest of the pool serves others: all sizes, from all shards.
            let lane = SingleLane::new(after as u32);
            for size in [16, 2000, 4096, 9000, 100, 30_000] {
                let block = session.heap().alloc(&lane, Request::new(size));
                session.heap().free(&lane, block.unwrap()).unwrap();
            }
        });
        if outcome.all_finished() {
            return after;
        }
        let stopped = outcome
            .lanes
            .iter()
            .filter(|lane| lane.end == End::Stopped)
            .count();
        assert!(stopped <= lanes as usize, "{stopped} lanes were held up");
    }
    unreachable!("the stopped part's work has an end")
}

#[test]
fn a_lone_lane_that_stops_anywhere_holds_nobody_up() {
    for seed in 0..12 {
        let accesses = stop_everywhere(1, seed, 1, |after| Stop {
            warp: 0,
            lane: None,
            after,
        });
        assert!(accesses > 30, "it stopped at {accesses} accesses only");
    }
}

#[test]
fn a_warp_that_stops_anywhere_holds_nobody_up() {
    for (seed, lanes, stride) in [(0, 4, 1), (1, 4, 1), (2, 32, 101), (3, 32, 101)] {
        let stop = |after| Stop {
            warp: 1,
            lane: None,
            after,
        };
        let accesses = stop_everywhere(lanes, seed, stride, stop);
        assert!(accesses > 200, "it stopped at {accesses} accesses only");
    }
}

#[test]
fn a_lane_that_stops_anywhere_holds_up_its_own_group_at_most() {
    for seed in 0..3 {
        let accesses = stop_everywhere(8, seed, 1, |after| Stop {
            warp: 2,
            lane: Some(5),
            after,
        });
        assert!(accesses > 10, "it stopped at {accesses} accesses only");
    }
}

/// A pool that is full, but for `spare` bytes that are in pieces of a page.
fn full_heap(memory: &PoolMemory, config: &Config, block: u64) -> (LockstepHeap, Vec<u64>) {
    let heap = heap(memory, config);
    let lane = SingleLane::new(0);
    let mut blocks = Vec::new();
    while let Ok(offset) = heap.alloc(&lane, Request::new(block)) {
        blocks.push(offset);
    }
    (heap, blocks)
}

/// Steps of the lane that took most, where all ask for `size` bytes in vain.
fn steps_in_vain(heap: &LockstepHeap, warps: u32, size: u64, seed: u64) -> u64 {
    let machine = Machine {
        warps,
        lanes: 32,
        schedule: Schedule::any(seed),
    };
    let outcome = machine.run(|lane| {
        let before = lane.steps();
        assert_eq!(
            heap.alloc(lane, Request::new(size)),
            Err(AllocError::OutOfMemory)
        );
        lane.steps() - before
    });
    outcome.results().max().unwrap_or(0)
}

#[test]
fn a_request_that_cannot_be_met_ends_within_a_bound() {
    for pages in [40, 400, 3000] {
        let memory = PoolMemory::new(pages * PAGE, PAGE);
        let config = small_pages();
        for size in [16, 100, 4096, 20_000, 30 * PAGE] {
            let (heap, _) = full_heap(&memory, &config, PAGE);
            let geometry = heap.geometry();
            let stacks = u64::from(geometry.classes() * (geometry.shards() + 1));
            // One look at each stack, one pass over the run bits and their
            // marks, the descriptors that such a search may have to free, and
            // what is counted.
            let bound = 2 * stacks + 2 * geometry.pages() / 64 + 100;
            for seed in 0..6 {
                let steps = steps_in_vain(&heap, 4, size, seed);
                assert!(
                    steps <= bound,
                    "{steps} steps, not {bound}, for {size} in {pages} pages"
                );
            }
            // The refusal is remembered: two looks, and a count.
            let steps = steps_in_vain(&heap, 1, size, 9);
            assert!(steps <= 12, "{steps} steps for a request refused before");
        }
    }
}

#[test]
fn requests_that_race_with_frees_end_within_a_bound() {
    let memory = PoolMemory::new(300 * PAGE, PAGE);
    let config = small_pages();
    for seed in 0..40 {
        let (heap, blocks) = full_heap(&memory, &config, PAGE);
        let blocks = RefCell::new(blocks);
        let machine = Machine {
            warps: 4,
            lanes: 16,
            schedule: Schedule::any(seed),
        };
        // Half of the lanes free and take single pages, so that the others'
        // search for three in a row always finds that something changed.
        let outcome = machine.run(|lane| {
            let mut most = 0;
            for _ in 0..10 {
                let before = lane.steps();
                if lane.lane() % 2 == 0 {
                    let block = blocks.borrow_mut().pop();
                    let Some(block) = block else { break };
                    heap.free(lane, block).unwrap();
                    if let Ok(block) = heap.alloc(lane, Request::new(PAGE)) {
                        blocks.borrow_mut().push(block);
                    }
                } else if let Ok(block) = heap.alloc(lane, Request::new(3 * PAGE)) {
                    heap.free(lane, block).unwrap();
                }
                most = most.max(lane.steps() - before);
            }
            most
        });
        let most = outcome.results().max().unwrap();
        // Eight searches of up to 32 claims, each a pass over 5 words of run
        // bits and as many marks, and the stacks.
        assert!(most < 8 * 32 * 20 + 2000, "{most} steps for one request");
    }
}

#[test]
fn blocks_of_all_lanes_are_distinct() {
    for seed in 0..50 {
        let memory = PoolMemory::new(1 << 20, PAGE);
        let heap = heap(&memory, &small_pages());
        let machine = Machine {
            warps: 3,
            lanes: 32,
            schedule: Schedule::any(seed),
        };
        let outcome = machine.run(|lane| {
            let uniform = heap.alloc(lane, Request::new(48)).unwrap();
            let mixed = heap
                .alloc(lane, Request::new(u64::from(lane.lane()) * 70))
                .unwrap();
            [uniform, mixed]
        });
        let blocks: Vec<u64> = outcome.results().flatten().collect();
        assert_eq!(blocks.iter().collect::<BTreeSet<_>>().len(), 192);
        heap.check().unwrap();
    }
}

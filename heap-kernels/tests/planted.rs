//! Every fault that can be planted in the heap is caught by a test that the
//! sound heap passes.

use heap_kernels::mem::Fault;
use heap_kernels::testing::generate::{contended, random};
use heap_kernels::testing::lockstep::{LockstepMem, Machine, Policy, Schedule, Stop};
use heap_kernels::testing::memory::{Plant, Planted, PoolMemory};
use heap_kernels::testing::runners::{run_alone_on, run_lockstep_on};
use heap_kernels::{Config, Heap, HostMem, Request, SingleLane};

const PAGE: u64 = 4096;

type FaultyMem<P> = LockstepMem<Planted<HostMem, P>>;

fn faulty<P: Plant>(memory: &PoolMemory) -> FaultyMem<P> {
    LockstepMem::new(Planted::new(memory.mem()))
}

/// Contended programs on simulated warps, against the shadow model.
fn contention<P: Plant>() {
    for seed in 0..700 {
        let program = contended(seed);
        let memory = PoolMemory::new(program.pool_bytes, PAGE);
        let schedule = Schedule::any(seed).limited(1_000_000);
        run_lockstep_on(faulty::<P>(&memory), &program, &schedule);
    }
}

/// Any programs on one lane, with frees of what is not live.
fn bad_frees<P: Plant>() {
    for seed in 0..20 {
        let program = random(seed, 300, 1);
        let memory = PoolMemory::new(program.pool_bytes, 1 << 16);
        run_alone_on(faulty::<P>(&memory), &program);
    }
}

/// Lanes that take and free the last pages of a full word of run bits, so that
/// its `full` mark is set and cleared at once.
fn full_words<P: Plant>() {
    for seed in 0..400 {
        let memory = PoolMemory::new(80 * PAGE, PAGE);
        let config = Config {
            shards: Some(1),
            ..Config::default()
        };
        let heap = Heap::format(faulty::<P>(&memory), &config).unwrap();
        let lane = SingleLane::new(0);
        let pages = heap.geometry().pages();
        assert!(
            (65..128).contains(&pages),
            "one full word, and a part of another"
        );
        let hold = Request::new((pages - 2) * PAGE).place(heap_kernels::Place::High);
        heap.alloc(&lane, hold).unwrap();
        let machine = Machine {
            warps: 3,
            lanes: 1,
            schedule: Schedule::any(seed),
        };
        machine.run(|lane| {
            for _ in 0..6 {
                if let Ok(block) = heap.alloc(lane, Request::new(PAGE)) {
                    heap.free(lane, block).unwrap();
                }
            }
        });
        heap.check().unwrap();
    }
}

/// A lane stops at each of its accesses while it takes pages in the middle of
/// the pool; a run that has room behind them, and only there, is served to
/// others all the same.
fn stopped_claim<P: Plant>() {
    /// Pages, too many for a slab.
    const RUN: u64 = 3;
    for after in 0..40 {
        let memory = PoolMemory::new(300 * PAGE, PAGE);
        let config = Config {
            shards: Some(1),
            ..Config::default()
        };
        let heap = Heap::format(faulty::<P>(&memory), &config).unwrap();
        let alone = SingleLane::new(0);
        let low = |pages| Request::new(pages * PAGE).place(heap_kernels::Place::Low);
        // What it takes are then the only used pages of the second word.
        let first = heap.alloc(&alone, low(64)).unwrap();
        let tail = (heap.geometry().pages() - 4 * 64) * PAGE;
        let tail = Request::new(tail).place(heap_kernels::Place::High);
        heap.alloc(&alone, tail).unwrap();
        let machine = Machine {
            warps: 1,
            lanes: 1,
            schedule: Schedule::simt(after).stopping(Stop {
                warp: 0,
                lane: None,
                after,
            }),
        };
        machine.run(|lane| heap.alloc(lane, low(RUN)).unwrap());
        heap.free(&alone, first).unwrap();
        heap.alloc(&alone, low(3 * 64 - RUN)).unwrap();
    }
}

/// A lane looks at the top of a stack, and gets its turn again when that
/// slab's descriptor belongs to a slab of another class.
fn recycled_descriptor<P: Plant>() {
    for seed in 0..3000 {
        let memory = PoolMemory::new(40 * PAGE, PAGE);
        let config = Config {
            shards: Some(1),
            ..Config::default()
        };
        let heap = Heap::format(faulty::<P>(&memory), &config).unwrap();
        let lane = SingleLane::new(0);
        // Two slots to a slab, so two slabs; the first one on top of the stack.
        let blocks = [(); 3].map(|()| heap.alloc(&lane, Request::new(2000)).unwrap());
        heap.free(&lane, blocks[0]).unwrap();
        let policy = Policy::Priority {
            changes: 2,
            horizon: 60,
        };
        let machine = Machine {
            warps: 2,
            lanes: 1,
            schedule: Schedule::new(seed, policy),
        };
        machine.run(|lane| {
            if lane.warp() == 0 {
                let block = heap.alloc(lane, Request::new(2000)).unwrap();
                assert_eq!(heap.usable_size(block), Ok(2048));
                return;
            }
            // Retires the first slab, takes it off the stack, and forms one of
            // another class in its place.
            heap.free(lane, blocks[1]).unwrap();
            heap.alloc(lane, Request::new(2000)).unwrap();
            heap.alloc(lane, Request::new(1000)).unwrap();
        });
        heap.check().unwrap();
    }
}

/// Slabs of growing size, whose pages get their words from who takes the slots;
/// and at the end there is one free slot, in the first and smallest slab, which
/// its shard has outgrown.
fn growing_slabs<P: Plant>() {
    for size in [16, 2000] {
        let memory = PoolMemory::new(400 * PAGE, PAGE);
        let config = Config {
            shards: Some(1),
            retain: true,
            ..Config::default()
        };
        let heap = Heap::format(faulty::<P>(&memory), &config).unwrap();
        let lane = SingleLane::new(0);
        let alloc = |size| heap.alloc(&lane, Request::new(size)).ok();
        let mut blocks = Vec::new();
        while heap.stats().used_bytes < 40 * PAGE {
            blocks.push(alloc(size).unwrap());
        }
        // What is left of the pages goes to runs, so that no smaller slab is formed.
        let mut runs = Vec::new();
        for pages in [64, 8, 3, 1] {
            let request = Request::new(pages * PAGE).align(2 * PAGE);
            runs.extend(std::iter::from_fn(|| heap.alloc(&lane, request).ok()));
            runs.extend(std::iter::from_fn(|| alloc(pages * PAGE)));
        }
        blocks.extend(std::iter::from_fn(|| alloc(size)));
        heap.check().unwrap();
        heap.free(&lane, blocks[0]).unwrap();
        assert_eq!(heap.alloc(&lane, Request::new(size)), Ok(blocks[0]));
        heap.check().unwrap();
        for &block in blocks.iter().chain(&runs) {
            heap.free(&lane, block).unwrap();
        }
        heap.check().unwrap();
        heap.reclaim();
        assert_eq!(heap.stats().used_bytes, 0);
    }
}

/// Tests that a scenario passes without a fault, and catches each of the others.
macro_rules! catches {
    ($scenario:ident: $($fault:ident, $name:ident;)*) => {
        mod $scenario {
            use super::*;

            struct Sound;
            impl Plant for Sound {
                const FAULT: Fault = Fault::None;
            }

            #[test]
            fn passes_the_sound_heap() {
                super::$scenario::<Sound>();
            }

            $(
                #[test]
                #[should_panic]
                fn $name() {
                    struct Faulty;
                    impl Plant for Faulty {
                        const FAULT: Fault = Fault::$fault;
                    }
                    super::$scenario::<Faulty>();
                }
            )*
        }
    };
}

catches! { contention:
    NoStackTag, catches_stack_heads_without_tags;
    NoRelist, catches_popped_slabs_that_are_not_looked_at_again;
    BlindRetire, catches_a_slab_retired_while_another_lane_claims;
    BlindClaim, catches_slots_claimed_blindly;
    BlindRun, catches_runs_claimed_blindly;
    EarlyPages, catches_pages_given_back_too_early;
    SameSlot, catches_neighbours_with_one_slot;
}

catches! { bad_frees:
    BlindFree, catches_frees_accepted_blindly;
}

catches! { full_words:
    NoFullRecheck, catches_full_marks_that_are_not_looked_at_again;
}

catches! { stopped_claim:
    NoDirtyHelp, catches_a_claim_that_leaves_a_hole_that_is_none;
}

catches! { growing_slabs:
    NoMark, catches_pages_without_a_word;
    NoAside, catches_an_outgrown_slab_out_of_sight;
}

catches! { recycled_descriptor:
    NoClassCheck, catches_credits_of_another_class;
}

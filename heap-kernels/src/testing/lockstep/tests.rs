use core::cell::{Cell, RefCell};
use std::time::Instant;
use std::vec::Vec;

use super::*;
use crate::host::HostMem;
use crate::mem::{Mem, Order};
use crate::testing::memory::PoolMemory;
use crate::warp::{Mask, Warp};

fn memory() -> PoolMemory {
    PoolMemory::new(4096, 16)
}

fn machine(warps: u32, lanes: u32, schedule: Schedule) -> Machine {
    Machine {
        warps,
        lanes,
        schedule,
    }
}

/// Each lane adds to a counter in two accesses, so that some are lost.
fn lossy(mem: &LockstepMem<HostMem>) {
    for _ in 0..8 {
        let old = mem.load(0, Order::Relaxed);
        mem.store(0, old + 1, Order::Relaxed);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let memory = memory();
        let mem = LockstepMem::new(memory.mem());
        let outcome = machine(3, 32, Schedule::any(seed)).run(|lane| {
            lossy(&mem);
            lane.active()
        });
        let digest = outcome.digest;
        (
            digest,
            outcome.results().collect::<Vec<_>>(),
            mem.load(0, Order::Relaxed),
        )
    };
    for seed in 0..50 {
        assert_eq!(run(seed), run(seed));
    }
    let digests: std::collections::BTreeSet<u64> = (0..50).map(|seed| run(seed).0).collect();
    assert!(
        digests.len() > 45,
        "seeds make a difference: {}",
        digests.len()
    );
}

#[test]
fn accesses_interleave() {
    for policy in [
        Policy::Simt,
        Policy::Random { burst: 1 },
        Policy::Random { burst: 8 },
    ] {
        let memory = memory();
        let mem = LockstepMem::new(memory.mem());
        machine(2, 4, Schedule::new(3, policy)).run(|_| lossy(&mem));
        let counted = mem.load(0, Order::Relaxed);
        assert!((1..64).contains(&counted), "{policy:?} counted {counted}");
    }
}

#[test]
fn a_priority_schedule_without_changes_interleaves_nothing() {
    let memory = memory();
    let mem = LockstepMem::new(memory.mem());
    let policy = Policy::Priority {
        changes: 0,
        horizon: 100,
    };
    machine(2, 4, Schedule::new(3, policy)).run(|_| lossy(&mem));
    assert_eq!(mem.load(0, Order::Relaxed), 64);
}

#[test]
fn a_converged_warp_steps_in_lane_order() {
    let memory = memory();
    let mem = LockstepMem::new(memory.mem());
    let order = RefCell::new(Vec::new());
    machine(1, 32, Schedule::simt(5)).run(|lane| {
        assert_eq!(lane.active(), Mask::MAX);
        for round in 0..3 {
            mem.load(0, Order::Relaxed);
            order.borrow_mut().push((round, lane.lane()));
        }
    });
    assert!(order.borrow().is_sorted(), "{:?}", order.borrow());
}

#[test]
fn collectives_answer_from_their_mask_alone() {
    for seed in 0..200 {
        machine(2, 32, Schedule::any(seed)).run(|lane| {
            let me = lane.lane();
            let all = lane.active();
            assert!(all & 1 << me != 0);
            let odd = 0xaaaa_aaaa;
            assert_eq!(lane.ballot(all, me % 2 == 1), all & odd);
            assert_eq!(
                lane.match_any(all, u64::from(me % 2)),
                all & (odd >> ((me + 1) % 2))
            );
            let half = lane.match_any(all, u64::from(me % 2));
            let bits = half & all;
            assert_eq!(lane.reduce_or(bits, 1 << me), u64::from(bits));
            let last = 31 - all.leading_zeros();
            assert_eq!(
                lane.shuffle(all, u64::from(me) + 100, last),
                u64::from(last) + 100
            );
            lane.sync(all);
        });
    }
}

#[test]
fn lanes_part_where_they_may() {
    let sizes = RefCell::new(std::collections::BTreeSet::new());
    for seed in 0..100 {
        machine(1, 32, Schedule::new(seed, Policy::Simt)).run(|lane| {
            let together = lane.active().count_ones();
            sizes.borrow_mut().insert(together);
        });
    }
    assert!(
        sizes.borrow().len() > 5 && sizes.borrow().contains(&32),
        "{sizes:?}"
    );
}

#[test]
fn lanes_at_different_places_are_never_active_together() {
    for seed in 0..100 {
        machine(1, 32, Schedule::any(seed)).run(|lane| {
            let low = lane.lane() < 10;
            let mut active = if low { lane.active() } else { 0 };
            if !low {
                active = lane.active();
            }
            assert_eq!(active & 0x3ff != 0, low);
            assert_eq!(active & !0x3ff != 0, !low);
        });
    }
}

#[test]
fn a_stopped_warp_holds_up_nobody_else() {
    let memory = memory();
    let mem = LockstepMem::new(memory.mem());
    let mut stops = 0;
    for after in 0.. {
        let stop = Stop {
            warp: 1,
            lane: None,
            after,
        };
        let schedule = Schedule::random(after).stopping(stop);
        let outcome = machine(3, 8, schedule).run(|_| lossy(&mem));
        let steps: u64 = outcome.lanes[8..16].iter().map(|lane| lane.steps).sum();
        if outcome.all_finished() {
            assert_eq!(steps, 128);
            break;
        }
        assert_eq!(steps, after);
        assert!(
            outcome.lanes[..8]
                .iter()
                .all(|lane| lane.end == End::Finished)
        );
        assert!(
            outcome.lanes[16..]
                .iter()
                .all(|lane| lane.end == End::Finished)
        );
        stops += 1;
    }
    assert_eq!(stops, 128);
}

#[test]
fn a_stopped_lane_holds_up_those_who_meet_it() {
    let memory = memory();
    let mem = LockstepMem::new(memory.mem());
    let stop = Stop {
        warp: 0,
        lane: Some(3),
        after: 2,
    };
    let outcome = machine(2, 8, Schedule::random(1).stopping(stop)).run(|lane| {
        lossy(&mem);
        if lane.lane() < 4 {
            lane.sync(0xf);
        }
    });
    let ends: Vec<bool> = outcome
        .lanes
        .iter()
        .map(|lane| lane.end == End::Stopped)
        .collect();
    assert_eq!(
        ends[..8],
        [true, true, true, true, false, false, false, false]
    );
    assert!(ends[8..].iter().all(|&stopped| !stopped));
    assert_eq!(outcome.lanes[3].steps, 2);
}

#[test]
fn what_a_stopped_lane_owns_is_dropped() {
    struct Counted<'a>(&'a Cell<u32>);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let memory = memory();
    let mem = LockstepMem::new(memory.mem());
    let dropped = Cell::new(0);
    let stop = Stop {
        warp: 0,
        lane: None,
        after: 3,
    };
    machine(1, 4, Schedule::random(1).stopping(stop)).run(|_| {
        let _counted = Counted(&dropped);
        lossy(&mem);
    });
    assert!(dropped.get() <= 4 && dropped.get() > 0);
}

#[test]
#[should_panic(expected = "deadlock")]
fn lanes_that_wait_for_each_other_are_reported() {
    machine(1, 3, Schedule::random(1)).run(|lane| lane.sync([3, 6, 5][lane.lane() as usize]));
}

#[test]
#[should_panic(expected = "has returned, but lane 0 waits for it in Sync")]
fn waiting_for_a_lane_that_returned_is_reported() {
    let stays = |lane: &Lane<'_>| {
        if lane.lane() == 0 {
            lane.sync(3);
        }
    };
    machine(1, 2, Schedule::new(1, Policy::Simt)).run(stays);
}

#[test]
#[should_panic(expected = "of it calls")]
fn different_collectives_are_reported() {
    machine(1, 2, Schedule::random(1)).run(|lane| match lane.lane() {
        0 => lane.sync(3),
        _ => {
            lane.ballot(3, true);
        }
    });
}

#[test]
#[should_panic(expected = "for lane 5, which is not in it")]
fn a_shuffle_from_outside_is_reported() {
    machine(1, 8, Schedule::random(1)).run(|lane| {
        if lane.lane() < 2 {
            lane.shuffle(3, 0, 5);
        }
    });
}

#[test]
#[should_panic(expected = "which does not contain it")]
fn a_mask_without_the_caller_is_reported() {
    machine(1, 2, Schedule::random(1)).run(|lane| lane.sync(1 << (1 - lane.lane())));
}

#[test]
#[should_panic(expected = "the step limit of 1000 is reached")]
fn a_loop_without_end_is_reported() {
    let memory = memory();
    let mem = LockstepMem::new(memory.mem());
    machine(1, 2, Schedule::random(1).limited(1000))
        .run(|_| while mem.load(8, Order::Relaxed) == 0 {});
}

#[test]
#[should_panic(expected = "Load with order Release")]
fn an_order_that_a_load_cannot_have_is_reported() {
    let memory = memory();
    LockstepMem::new(memory.mem()).load(0, Order::Release);
}

#[test]
#[should_panic(expected = "which is no word of a pool of 0x1000 bytes")]
fn a_word_past_the_end_is_reported() {
    let memory = memory();
    LockstepMem::new(memory.mem()).load(4096, Order::Relaxed);
}

#[test]
fn a_panic_names_seed_and_steps_and_the_machine_can_be_used_again() {
    let memory = memory();
    let mem = LockstepMem::new(memory.mem());
    let run = || {
        machine(1, 4, Schedule::random(77)).run(|lane| {
            lossy(&mem);
            assert_ne!(lane.lane(), 2, "lane two");
        })
    };
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
    let message = panic.downcast_ref::<std::string::String>().unwrap();
    for part in ["lane two", "seed: 77", "last steps:", "store [0x0] := "] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert!(
        machine(1, 4, Schedule::random(1))
            .run(|_| lossy(&mem))
            .all_finished()
    );
}

#[test]
fn millions_of_steps_a_second() {
    let memory = memory();
    let mem = LockstepMem::new(memory.mem());
    let start = Instant::now();
    let outcome = machine(4, 32, Schedule::random(1)).run(|_| {
        for _ in 0..4000 {
            mem.fetch_add(0, 1, Order::Relaxed);
        }
    });
    let rate = outcome.steps as f64 / start.elapsed().as_secs_f64();
    std::eprintln!("{:.1} million steps a second", rate / 1e6);
    // Far below the millions of a quiet machine: others may be at work on it.
    assert!(rate > 1e5, "{rate} steps a second");
}

//! Running programs: by one lane, by simulated warps, by threads.

use super::lockstep::{LockstepMem, Machine, Outcome, Schedule};
use super::memory::{HostBytes, PoolMemory};
use super::program::{Phase, PhaseEnd, Program};
use super::session::Session;
use crate::host::HostMem;
use crate::warp::LANES;
use crate::{Heap, SingleLane, Warp};

/// Alignment of the pools: more than any page.
const ALIGN: u64 = 1 << 16;

/// Memory for the program's pool, with something in it, so that nothing relies
/// on zeroed memory.
fn memory(program: &Program) -> PoolMemory {
    let memory = PoolMemory::new(program.pool_bytes, ALIGN);
    // SAFETY: nobody uses the memory yet.
    unsafe { crate::Mem::fill(&memory.mem(), 0, program.pool_bytes, 0xa5) };
    memory
}

fn format<M: HostBytes>(mem: M, program: &Program) -> Heap<M> {
    match Heap::format(mem, &program.config) {
        Ok(heap) => heap,
        Err(error) => panic!("{program:?}: {error}"),
    }
}

fn end_phase<M: HostBytes>(session: &Session<M>, end: PhaseEnd) {
    session.settle();
    match end {
        PhaseEnd::Check => {}
        PhaseEnd::Reclaim => session.reclaim(),
        PhaseEnd::Reset => session.reset(),
    }
}

/// Runs the program on one lane: an operation of each list in turn, each list
/// with a shard of its own.
///
/// # Panics
///
/// As [`Session::perform`].
pub fn run_alone(program: &Program) {
    let memory = memory(program);
    run_alone_on(memory.mem(), program);
}

/// [`run_alone`] in a given memory.
///
/// # Panics
///
/// As [`Session::perform`].
pub fn run_alone_on<M: HostBytes>(mem: M, program: &Program) {
    let session = Session::new(format(mem, program), true);
    for phase in &program.phases {
        let longest = phase
            .lanes
            .iter()
            .map(std::vec::Vec::len)
            .max()
            .unwrap_or(0);
        for index in 0..longest {
            for (lane, ops) in (0..).zip(&phase.lanes) {
                if let Some(&op) = ops.get(index) {
                    session.perform(&SingleLane::new(lane), op);
                }
            }
        }
        end_phase(&session, phase.end);
    }
    session.finish();
}

/// Runs the program on one thread per list.
///
/// # Panics
///
/// As [`Session::perform`].
pub fn run_threads(program: &Program) {
    let memory = memory(program);
    let session = Session::new(format(memory.mem(), program), false);
    for phase in &program.phases {
        std::thread::scope(|scope| {
            for (lane, ops) in (0..).zip(&phase.lanes) {
                let session = &session;
                scope.spawn(move || {
                    ops.iter()
                        .for_each(|&op| session.perform(&SingleLane::new(lane), op));
                });
            }
        });
        end_phase(&session, phase.end);
    }
    session.finish();
}

/// Runs the program on simulated warps of 32 lanes, a list per lane.
///
/// # Panics
///
/// As [`Session::perform`] and [`Machine::run`].
pub fn run_lockstep(program: &Program, schedule: &Schedule) {
    let memory = memory(program);
    run_lockstep_on(LockstepMem::new(memory.mem()), program, schedule);
}

/// [`run_lockstep`] in a given memory.
///
/// # Panics
///
/// As [`run_lockstep`].
pub fn run_lockstep_on<M: HostBytes>(mem: M, program: &Program, schedule: &Schedule) {
    let session = Session::new(format(mem, program), false);
    for (number, phase) in (0..).zip(&program.phases) {
        let mut schedule = schedule.clone();
        schedule.seed = schedule.seed.wrapping_add(number);
        run_phase(&session, phase, LANES, schedule);
        end_phase(&session, phase.end);
    }
    session.finish();
}

/// Runs a program's first phase on warps of `lanes` lanes, where a part of the
/// machine may stop for ever (see [`Schedule::stop`]); checks the contents of all blocks that were
/// not lost with it; then calls `after`, for what the heap is still good for.
///
/// # Panics
///
/// As [`run_lockstep`].
pub fn run_stopping(
    program: &Program,
    lanes: u32,
    schedule: Schedule,
    after: impl FnOnce(&Session<LockstepMem<HostMem>>),
) -> Outcome<()> {
    let memory = memory(program);
    let session = Session::new(format(LockstepMem::new(memory.mem()), program), false);
    let outcome = run_phase(&session, &program.phases[0], lanes, schedule);
    session.verify_contents();
    after(&session);
    session.verify_contents();
    outcome
}

/// Deals the lists out to warps of `lanes` lanes, or of as many as there are.
fn run_phase<M: HostBytes>(
    session: &Session<M>,
    phase: &Phase,
    lanes: u32,
    schedule: Schedule,
) -> Outcome<()> {
    let lists = phase.lanes.len() as u32;
    let lanes = lists.min(lanes);
    let machine = Machine {
        warps: lists.div_ceil(lanes),
        lanes,
        schedule,
    };
    machine.run(|lane| {
        let index = (lane.warp() * lanes + lane.lane()) as usize;
        for &op in phase.lanes.get(index).into_iter().flatten() {
            session.perform(lane, op);
        }
    })
}

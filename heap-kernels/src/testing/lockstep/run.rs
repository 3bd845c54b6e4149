//! Running a machine.

use core::cell::RefCell;
use std::any::Any;
use std::boxed::Box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::string::String;
use std::vec::Vec;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

use super::lane::{Lane, leave, with_current};
use super::schedule::Schedule;
use super::state::State;
use crate::warp::LANES;

/// A simulated machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Number of warps.
    pub warps: u32,
    /// Number of lanes in each, 1 to 32.
    pub lanes: u32,
    /// The interleaving.
    pub schedule: Schedule,
}

/// How a lane ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its program returned.
    Finished,
    /// It was stopped, or had to meet a lane that was.
    Stopped,
}

/// What became of one lane.
#[derive(Clone, Debug)]
pub struct LaneOutcome<R> {
    /// What its program returned, where it did.
    pub result: Option<R>,
    /// How it ended.
    pub end: End,
    /// Its memory accesses.
    pub steps: u64,
}

/// What became of a run.
#[derive(Clone, Debug)]
pub struct Outcome<R> {
    /// By warp and lane: lane `l` of warp `w` is at `w * lanes + l`.
    pub lanes: Vec<LaneOutcome<R>>,
    /// Memory accesses of all lanes.
    pub steps: u64,
    /// Digest of who accessed what in which order: the same for the same seed.
    pub digest: u64,
}

impl<R> Outcome<R> {
    /// Whether no lane was stopped.
    #[must_use]
    pub fn all_finished(&self) -> bool {
        self.lanes.iter().all(|lane| lane.end == End::Finished)
    }

    /// The results of the lanes that finished.
    pub fn results(self) -> impl Iterator<Item = R> {
        self.lanes.into_iter().filter_map(|lane| lane.result)
    }
}

type Fiber<R> = Coroutine<(), (), R, DefaultStack>;

impl Machine {
    /// Runs `program` once on each lane, to the end.
    ///
    /// # Panics
    ///
    /// With the seed, the panicking lane's message, and the last steps: if a
    /// program panics, if lanes misuse a collective or wait for each other in
    /// vain, if the step limit is reached. Also if the machine has no warp or
    /// not 1 to 32 lanes per warp, or runs within a lane of another.
    pub fn run<R>(&self, program: impl Fn(&Lane<'_>) -> R) -> Outcome<R> {
        assert!(self.warps > 0, "a machine has at least one warp");
        assert!(
            (1..=LANES).contains(&self.lanes),
            "a warp has 1 to {LANES} lanes"
        );
        with_current(|lane| assert!(lane.is_none(), "a machine cannot run within a lane"));
        let state = RefCell::new(State::new(&self.schedule, self.warps, self.lanes));
        let mut fibers: Vec<Fiber<R>> = (0..self.warps * self.lanes)
            .map(|index| {
                let place = (index / self.lanes, index % self.lanes);
                let (state, program) = (&state, &program);
                let main = move |yielder: &corosensei::Yielder<(), ()>, ()| {
                    Lane::new(state, yielder, place).enter(program)
                };
                // SAFETY: `state` and `program` outlive `fibers`, declared after
                // them; every fiber is completed or unwound in `retire`, or
                // dropped with `fibers`.
                unsafe { Fiber::with_stack_unchecked(stacks::take(), main) }
            })
            .collect();
        let mut results: Vec<Option<R>> = fibers.iter().map(|_| None).collect();
        let end = catch_unwind(AssertUnwindSafe(|| {
            self.drive(&state, &mut fibers, &mut results)
        }));
        leave();
        retire(fibers);
        if let Err(panic) = end {
            self.report(panic, &state);
        }
        self.outcome(&state.into_inner(), results)
    }

    fn drive<R>(&self, state: &RefCell<State>, fibers: &mut [Fiber<R>], results: &mut [Option<R>]) {
        loop {
            let choice = state.borrow_mut().choose();
            let Some((warp, lane)) = choice else {
                break;
            };
            let index = (warp * self.lanes + lane) as usize;
            let progress = fibers[index].resume(());
            leave();
            if let CoroutineResult::Return(result) = progress {
                results[index] = Some(result);
                state.borrow_mut().returned(warp, lane);
            }
        }
        state.borrow_mut().settle();
    }

    /// Panics again, saying where.
    fn report(&self, panic: Box<dyn Any + Send>, state: &RefCell<State>) -> ! {
        let message = match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => text.as_str(),
            (_, Some(text)) => text,
            _ => resume_unwind(panic),
        };
        let state = state.borrow();
        panic!(
            "{message}\nafter {} steps of {} warps of {} lanes, {:?}; lanes:\n{}last steps:\n{}",
            state.steps(),
            self.warps,
            self.lanes,
            self.schedule,
            state.lane_states(),
            state.trace
        );
    }

    fn outcome<R>(&self, state: &State, results: Vec<Option<R>>) -> Outcome<R> {
        let lane = |(index, result): (u32, Option<R>)| {
            let (warp, lane) = (index / self.lanes, index % self.lanes);
            let stopped = state.is_stopped(warp, lane);
            debug_assert_ne!(stopped, result.is_some());
            let end = if stopped { End::Stopped } else { End::Finished };
            LaneOutcome {
                result,
                end,
                steps: state.lane_steps(warp, lane),
            }
        };
        Outcome {
            lanes: (0..).zip(results).map(lane).collect(),
            steps: state.steps(),
            digest: state.trace.digest(),
        }
    }
}

/// Unwinds what has not ended, and keeps the stacks for the next run.
fn retire<R>(fibers: Vec<Fiber<R>>) {
    for mut fiber in fibers {
        fiber.force_unwind();
        stacks::give(fiber.into_stack());
    }
}

/// Stacks that wait for their next use: mapping one costs more than many a run.
mod stacks {
    use core::cell::RefCell;
    use std::vec::Vec;

    use corosensei::stack::DefaultStack;

    const BYTES: usize = 256 << 10;
    const KEPT: usize = 1024;

    std::thread_local! {
        static FREE: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn take() -> DefaultStack {
        FREE.with_borrow_mut(Vec::pop)
            .unwrap_or_else(|| DefaultStack::new(BYTES).expect("memory for a lane's stack"))
    }

    pub(super) fn give(stack: DefaultStack) {
        FREE.with_borrow_mut(|free| {
            if free.len() < KEPT {
                free.push(stack);
            }
        });
    }
}

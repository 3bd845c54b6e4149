//! What all lanes and the scheduler of one machine share.

use core::panic::Location;
use std::fmt::Write;
use std::string::String;
use std::vec::Vec;

use fastrand::Rng;

use super::schedule::{Chooser, Runnable, Schedule, lanes};
use super::trace::Trace;
use crate::warp::{LANES, Mask};

/// A collective with a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ballot,
    MatchAny,
    Shuffle,
    ReduceOr,
    Sync,
}

/// What a lane waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// Its turn.
    Turn,
    /// To learn with whom it goes on from here.
    Company(&'static Location<'static>),
    /// The other lanes of a mask.
    Meeting {
        kind: Kind,
        mask: Mask,
        value: u64,
        from: u32,
    },
}

struct LaneState {
    wait: Wait,
    /// The set that the last `active()` returned.
    group: Mask,
    /// Result of the last collective.
    answer: u64,
    steps: u64,
}

#[derive(Default)]
struct WarpState {
    meeting: Mask,
    returned: Mask,
    stopped: Mask,
    steps: u64,
}

/// What a lane does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Go,
    Suspend,
}

/// State of a machine.
pub(super) struct State {
    schedule: Schedule,
    chooser: Chooser,
    rng: Rng,
    lanes: Vec<LaneState>,
    warps: Vec<WarpState>,
    runnable: Vec<Runnable>,
    steps: u64,
    pub(super) trace: Trace,
}

const fn bit(lane: u32) -> Mask {
    1 << lane
}

impl State {
    pub(super) fn new(schedule: &Schedule, warps: u32, lanes: u32) -> Self {
        let all = Mask::MAX >> (LANES - lanes);
        let lane = || LaneState {
            wait: Wait::Turn,
            group: all,
            answer: 0,
            steps: 0,
        };
        Self {
            schedule: schedule.clone(),
            chooser: Chooser::new(schedule, warps),
            rng: Rng::with_seed(schedule.seed.rotate_left(32) ^ 0x9e37_79b9),
            lanes: (0..warps * LANES).map(|_| lane()).collect(),
            warps: (0..warps).map(|_| WarpState::default()).collect(),
            runnable: (0..warps)
                .map(|_| Runnable {
                    ready: all,
                    parting: 0,
                })
                .collect(),
            steps: 0,
            trace: Trace::new(),
        }
    }

    fn lane(&mut self, warp: u32, lane: u32) -> &mut LaneState {
        &mut self.lanes[(warp * LANES + lane) as usize]
    }

    /// Accesses of all lanes.
    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    /// Accesses of one lane.
    pub(super) fn lane_steps(&self, warp: u32, lane: u32) -> u64 {
        self.lanes[(warp * LANES + lane) as usize].steps
    }

    pub(super) fn answer(&self, warp: u32, lane: u32) -> u64 {
        self.lanes[(warp * LANES + lane) as usize].answer
    }

    pub(super) fn group(&self, warp: u32, lane: u32) -> Mask {
        self.lanes[(warp * LANES + lane) as usize].group
    }

    pub(super) fn is_stopped(&self, warp: u32, lane: u32) -> bool {
        self.warps[warp as usize].stopped & bit(lane) != 0
    }

    /// Chooses who goes next. A lane that is chosen while it waits for company
    /// gets it, and competes with the others again.
    pub(super) fn choose(&mut self) -> Option<(u32, u32)> {
        loop {
            let all = &self.lanes;
            let group = |warp, lane| all[(warp * LANES + lane) as usize].group;
            let (warp, lane) = self.chooser.choose(&self.runnable, group)?;
            if self.runnable[warp as usize].parting & bit(lane) == 0 {
                return Some((warp, lane));
            }
            self.give_company(warp, lane);
        }
    }

    /// Lets `lane` go on, together with the lanes that wait at the same place
    /// or with a part of them.
    fn give_company(&mut self, warp: u32, lane: u32) {
        let Wait::Company(place) = self.lane(warp, lane).wait else {
            unreachable!("a parting lane waits for company");
        };
        let mut group = bit(lane);
        for other in lanes(self.runnable[warp as usize].parting) {
            if matches!(self.lane(warp, other).wait, Wait::Company(at) if at == place) {
                group |= bit(other);
            }
        }
        if self.rng.u8(..) < self.schedule.split {
            group &= self.rng.u32(..) | bit(lane);
        }
        for member in lanes(group) {
            let state = self.lane(warp, member);
            state.group = group;
            state.wait = Wait::Turn;
        }
        let runnable = &mut self.runnable[warp as usize];
        runnable.parting &= !group;
        runnable.ready |= group;
    }

    /// A lane is about to access memory.
    ///
    /// # Panics
    ///
    /// If that is one step too many.
    pub(super) fn step(&mut self, warp: u32, lane: u32) -> Next {
        if self.stops_now(warp, lane) {
            return Next::Suspend;
        }
        assert!(
            self.steps < self.schedule.step_limit,
            "the step limit of {} is reached: a loop that does not end?\n{}",
            self.schedule.step_limit,
            self.lane_states()
        );
        self.steps += 1;
        self.warps[warp as usize].steps += 1;
        self.lane(warp, lane).steps += 1;
        match self.schedule.pause_every {
            0 | 1 => Next::Suspend,
            every if self.rng.u32(0..every) == 0 => Next::Suspend,
            _ => Next::Go,
        }
    }

    fn stops_now(&mut self, warp: u32, lane: u32) -> bool {
        let Some(stop) = self.schedule.stop.filter(|stop| stop.warp == warp) else {
            return false;
        };
        let stopped = match stop.lane {
            None if self.warps[warp as usize].steps >= stop.after => Mask::MAX,
            Some(one) if one == lane && self.lane(warp, lane).steps >= stop.after => bit(lane),
            _ => return false,
        };
        let state = &mut self.warps[warp as usize];
        state.stopped |= stopped & !state.returned;
        let runnable = &mut self.runnable[warp as usize];
        runnable.ready &= !stopped;
        runnable.parting &= !stopped;
        true
    }

    /// A lane asks who goes on with it.
    pub(super) fn part(&mut self, warp: u32, lane: u32, place: &'static Location<'static>) {
        self.lane(warp, lane).wait = Wait::Company(place);
        self.runnable[warp as usize].ready &= !bit(lane);
        self.runnable[warp as usize].parting |= bit(lane);
    }

    /// A lane comes to a collective; the last one to come lets all go on.
    ///
    /// # Panics
    ///
    /// If the lanes of the mask do not agree, or one of them has returned.
    pub(super) fn meet(
        &mut self,
        warp: u32,
        lane: u32,
        (kind, mask, value, from): (Kind, Mask, u64, u32),
    ) -> Next {
        let me = || std::format!("warp {warp} lane {lane} calls {kind:?} with mask {mask:#x}");
        assert!(mask & bit(lane) != 0, "{}, which does not contain it", me());
        let named = from < LANES && mask & bit(from) != 0;
        assert!(
            named || kind != Kind::Shuffle,
            "{} for lane {from}, which is not in it",
            me()
        );
        let gone = mask & self.warps[warp as usize].returned;
        assert!(
            gone == 0,
            "{}, of which lanes {gone:#x} have returned",
            me()
        );
        for other in lanes(mask & self.warps[warp as usize].meeting) {
            if let Wait::Meeting {
                kind: theirs,
                mask: set,
                ..
            } = self.lane(warp, other).wait
            {
                let agreed = set != mask || theirs == kind;
                assert!(agreed, "{}, but lane {other} of it calls {theirs:?}", me());
            }
        }
        self.lane(warp, lane).wait = Wait::Meeting {
            kind,
            mask,
            value,
            from,
        };
        let state = &mut self.warps[warp as usize];
        state.meeting |= bit(lane);
        self.runnable[warp as usize].ready &= !bit(lane);
        if self.all_there(warp, kind, mask) {
            self.answer_all(warp, kind, mask);
            return Next::Go;
        }
        Next::Suspend
    }

    fn all_there(&self, warp: u32, kind: Kind, mask: Mask) -> bool {
        self.warps[warp as usize].meeting & mask == mask
            && lanes(mask).all(|lane| {
                let wait = self.lanes[(warp * LANES + lane) as usize].wait;
                matches!(wait, Wait::Meeting { kind: k, mask: m, .. } if k == kind && m == mask)
            })
    }

    fn answer_all(&mut self, warp: u32, kind: Kind, mask: Mask) {
        let mut values = [0; LANES as usize];
        let mut sources = [0; LANES as usize];
        for lane in lanes(mask) {
            if let Wait::Meeting { value, from, .. } = self.lane(warp, lane).wait {
                values[lane as usize] = value;
                sources[lane as usize] = from;
            }
        }
        let any = |test: &dyn Fn(u64) -> bool| {
            lanes(mask).fold(0, |set, l| set | Mask::from(test(values[l as usize])) << l)
        };
        for lane in lanes(mask) {
            let own = values[lane as usize];
            let answer = match kind {
                Kind::Ballot => u64::from(any(&|value| value != 0)),
                Kind::MatchAny => u64::from(any(&|value| value == own)),
                Kind::Shuffle => values[sources[lane as usize] as usize],
                Kind::ReduceOr => values.iter().fold(0, |all, value| all | value),
                Kind::Sync => 0,
            };
            let state = self.lane(warp, lane);
            state.answer = answer;
            state.wait = Wait::Turn;
        }
        self.warps[warp as usize].meeting &= !mask;
        self.runnable[warp as usize].ready |= mask;
    }

    /// A lane's program is over.
    ///
    /// # Panics
    ///
    /// If another lane waits for it.
    pub(super) fn returned(&mut self, warp: u32, lane: u32) {
        self.warps[warp as usize].returned |= bit(lane);
        self.runnable[warp as usize].ready &= !bit(lane);
        for other in lanes(self.warps[warp as usize].meeting) {
            if let Wait::Meeting { kind, mask, .. } = self.lane(warp, other).wait {
                assert!(
                    mask & bit(lane) == 0,
                    "warp {warp} lane {lane} has returned, but lane {other} waits for it in \
                     {kind:?} with mask {mask:#x}"
                );
            }
        }
    }

    /// Nobody can go on. Lanes that wait for a stopped one count as stopped.
    ///
    /// # Panics
    ///
    /// If others have not returned.
    pub(super) fn settle(&mut self) {
        for warp in 0..self.warps.len() as u32 {
            while let Some(held) = self.held_lane(warp) {
                self.warps[warp as usize].stopped |= bit(held);
                self.warps[warp as usize].meeting &= !bit(held);
            }
        }
        let stuck = self
            .warps
            .iter()
            .any(|warp| warp.meeting & !warp.stopped != 0);
        assert!(
            !stuck,
            "deadlock: lanes wait for each other\n{}",
            self.lane_states()
        );
    }

    fn held_lane(&self, warp: u32) -> Option<u32> {
        let WarpState {
            meeting, stopped, ..
        } = self.warps[warp as usize];
        lanes(meeting & !stopped).find(|lane| {
            let wait = self.lanes[(warp * LANES + lane) as usize].wait;
            matches!(wait, Wait::Meeting { mask, .. } if mask & stopped != 0)
        })
    }

    /// One line per lane that has not returned.
    pub(super) fn lane_states(&self) -> String {
        let mut text = String::new();
        for (index, lane) in (0..).zip(&self.lanes) {
            let (warp, number) = (index / LANES, index % LANES);
            let runnable = self.runnable[warp as usize];
            let WarpState {
                meeting, stopped, ..
            } = self.warps[warp as usize];
            if (runnable.ready | runnable.parting | meeting | stopped) & bit(number) == 0 {
                continue;
            }
            let what = match lane.wait {
                _ if stopped & bit(number) != 0 => String::from("stopped"),
                Wait::Turn => String::from("can go on"),
                Wait::Company(at) => std::format!("asks who is active at {at}"),
                Wait::Meeting { kind, mask, .. } => std::format!("in {kind:?}, mask {mask:#x}"),
            };
            let _ = writeln!(
                text,
                "  warp {warp} lane {number}: {what}, {} steps",
                lane.steps
            );
        }
        text
    }
}

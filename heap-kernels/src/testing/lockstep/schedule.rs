//! Which lane goes next.

use std::vec::Vec;

use fastrand::Rng;

use crate::warp::{LANES, Mask};

/// How the next lane is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// As the hardware does: a warp is chosen, and the lanes of one of its
    /// converged groups make one step each, in lane order. Lanes part only
    /// where no lane of the warp can go on otherwise.
    Simt,
    /// Any lane of any warp; it keeps its turn for `burst` steps on average.
    Random {
        /// Mean number of steps in a row, at least 1.
        burst: u32,
    },
    /// The lane with the highest of random priorities, as long as it can go
    /// on; at `changes` random steps among the first `horizon`, the lane at
    /// work becomes the last of all. Finds any fault that takes `changes + 1`
    /// ordering constraints with a probability that is known from below
    /// (Burckhardt et al., "A Randomized Scheduler with Probabilistic
    /// Guarantees of Finding Bugs", ASPLOS 2010).
    Priority {
        /// Number of changes.
        changes: u32,
        /// Steps among which the changes fall, at least 1.
        horizon: u64,
    },
}

/// A part of the machine that stops for ever, between two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The warp.
    pub warp: u32,
    /// One lane of it; `None` is the whole warp. Lanes that later have to meet
    /// a stopped lane in a collective are held up with it, as in hardware.
    pub lane: Option<u32>,
    /// Number of accesses (of the lane, or of the warp's lanes together) after
    /// which it stops.
    pub after: u64,
}

/// Everything an interleaving depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Seed of all choices.
    pub seed: u64,
    /// How the next lane is chosen.
    pub policy: Policy,
    /// A lane can lose its turn at one of so many accesses, chosen at random;
    /// at least 1, which means at each.
    pub pause_every: u32,
    /// Of 256 times that lanes could go on together, how often a random part
    /// of them does.
    pub split: u8,
    /// What stops, if anything.
    pub stop: Option<Stop>,
    /// Accesses of all lanes together after which the run is given up.
    pub step_limit: u64,
}

impl Schedule {
    /// Limit that is far beyond what any test takes.
    const STEP_LIMIT: u64 = 50_000_000;

    /// A schedule with the given policy, a turn at every access, and lanes that
    /// part a quarter of the time.
    #[must_use]
    pub const fn new(seed: u64, policy: Policy) -> Self {
        Self {
            seed,
            policy,
            pause_every: 1,
            split: 64,
            stop: None,
            step_limit: Self::STEP_LIMIT,
        }
    }

    /// [`Policy::Simt`], with warps that never part without reason.
    #[must_use]
    pub const fn simt(seed: u64) -> Self {
        let mut schedule = Self::new(seed, Policy::Simt);
        schedule.split = 0;
        schedule
    }

    /// [`Policy::Random`] with turns of one step.
    #[must_use]
    pub const fn random(seed: u64) -> Self {
        Self::new(seed, Policy::Random { burst: 1 })
    }

    /// A schedule of any kind, chosen by the seed.
    #[must_use]
    pub fn any(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x5eed_5c4e_d01e);
        let policy = match rng.u32(0..4) {
            0 => Policy::Simt,
            1 => Policy::Random { burst: 1 },
            2 => Policy::Random {
                burst: 1 << rng.u32(1..8),
            },
            _ => Policy::Priority {
                changes: rng.u32(0..6),
                horizon: 1 << rng.u32(4..16),
            },
        };
        let mut schedule = Self::new(seed, policy);
        schedule.split = [0, 16, 64, 255][rng.usize(0..4)];
        schedule.pause_every = [1, 1, 3, 10][rng.usize(0..4)];
        schedule
    }

    /// The same with something that stops.
    #[must_use]
    pub const fn stopping(mut self, stop: Stop) -> Self {
        self.stop = Some(stop);
        self
    }

    /// The same with another limit.
    #[must_use]
    pub const fn limited(mut self, step_limit: u64) -> Self {
        self.step_limit = step_limit;
        self
    }
}

/// The lanes of one warp that can go on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Runnable {
    /// Between two accesses.
    pub(super) ready: Mask,
    /// Where they can part or go on together.
    pub(super) parting: Mask,
}

/// Makes the choices of a schedule.
pub(super) struct Chooser {
    policy: Policy,
    rng: Rng,
    /// The warp and lane that went last.
    last: Option<(u32, u32)>,
    /// Simt: the lanes of the last warp whose step is still due.
    due: Mask,
    /// Priority: per lane; and the steps at which to change, last one first.
    priorities: Vec<i64>,
    changes: Vec<u64>,
    choices: u64,
}

impl Chooser {
    pub(super) fn new(schedule: &Schedule, warps: u32) -> Self {
        let mut rng = Rng::with_seed(schedule.seed);
        let (mut priorities, mut changes) = (Vec::new(), Vec::new());
        if let Policy::Priority {
            changes: count,
            horizon,
        } = schedule.policy
        {
            priorities = (0..i64::from(warps * LANES)).collect();
            rng.shuffle(&mut priorities);
            changes = (0..count).map(|_| rng.u64(0..horizon.max(1))).collect();
            changes.sort_unstable_by(|a, b| b.cmp(a));
        }
        let policy = schedule.policy;
        Self {
            policy,
            rng,
            last: None,
            due: 0,
            priorities,
            changes,
            choices: 0,
        }
    }

    /// The next lane, as warp and lane; `None` where none can go on.
    pub(super) fn choose(
        &mut self,
        warps: &[Runnable],
        group: impl Fn(u32, u32) -> Mask,
    ) -> Option<(u32, u32)> {
        self.choices += 1;
        let choice = match self.policy {
            Policy::Simt => self.choose_simt(warps, group),
            Policy::Random { burst } => self.choose_random(warps, burst),
            Policy::Priority { .. } => self.choose_priority(warps),
        };
        self.last = choice;
        choice
    }

    fn choose_simt(
        &mut self,
        warps: &[Runnable],
        group: impl Fn(u32, u32) -> Mask,
    ) -> Option<(u32, u32)> {
        if let Some((warp, _)) = self.last {
            let due = self.due & warps[warp as usize].ready;
            if due != 0 {
                self.due = due & (due - 1);
                return Some((warp, due.trailing_zeros()));
            }
        }
        let warp = self.warp(warps)?;
        let Runnable { ready, parting } = warps[warp as usize];
        let lane = any_lane(if ready != 0 { ready } else { parting }, &mut self.rng);
        let together = if ready != 0 {
            group(warp, lane) & ready
        } else {
            0
        };
        if together == 0 {
            self.due = 0;
            return Some((warp, lane));
        }
        self.due = together & (together - 1);
        Some((warp, together.trailing_zeros()))
    }

    fn choose_random(&mut self, warps: &[Runnable], burst: u32) -> Option<(u32, u32)> {
        if let Some((warp, lane)) = self.last
            && burst > 1
            && warps[warp as usize].ready & 1 << lane != 0
            && self.rng.u32(0..burst) != 0
        {
            return self.last;
        }
        let warp = self.warp(warps)?;
        let Runnable { ready, parting } = warps[warp as usize];
        // Lanes that can part wait a while, or they would never go together.
        let part = ready == 0 || parting != 0 && self.rng.u8(0..16) == 0;
        Some((
            warp,
            any_lane(if part { parting } else { ready }, &mut self.rng),
        ))
    }

    fn choose_priority(&mut self, warps: &[Runnable]) -> Option<(u32, u32)> {
        while self.changes.last().is_some_and(|&at| at < self.choices) {
            self.changes.pop();
            if let Some((warp, lane)) = self.last {
                let lowest = -(self.choices as i64);
                self.priorities[(warp * LANES + lane) as usize] = lowest;
            }
        }
        let mut best: Option<(i64, u32, u32)> = None;
        for (warp, runnable) in (0..).zip(warps) {
            for lane in lanes(runnable.ready | runnable.parting) {
                let priority = self.priorities[(warp * LANES + lane) as usize];
                if best.is_none_or(|(highest, ..)| priority > highest) {
                    best = Some((priority, warp, lane));
                }
            }
        }
        best.map(|(_, warp, lane)| (warp, lane))
    }

    /// Any warp that can go on.
    fn warp(&mut self, warps: &[Runnable]) -> Option<u32> {
        let able = |warp: &Runnable| warp.ready | warp.parting != 0;
        let count = warps.iter().filter(|warp| able(warp)).count();
        if count == 0 {
            return None;
        }
        let index = self.rng.usize(0..count);
        (0..)
            .zip(warps)
            .filter(|(_, warp)| able(warp))
            .nth(index)
            .map(|(warp, _)| warp)
    }
}

/// Any lane of `mask`, which has one: the first one from a random lane on.
fn any_lane(mask: Mask, rng: &mut Rng) -> u32 {
    let from = rng.u32(0..LANES);
    (mask.rotate_right(from).trailing_zeros() + from) % LANES
}

/// The lanes of `mask` in ascending order.
pub(super) fn lanes(mask: Mask) -> impl Iterator<Item = u32> {
    (0..LANES).filter(move |lane| mask & 1 << lane != 0)
}

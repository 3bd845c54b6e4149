//! Which buffers take over the places of others.
//!
//! A pair in place shares its bytes at the step at which both are alive, but is
//! bound to one offset for both lives. Whether that pays shows only in the plan:
//! so all pairs are joined, or none, whichever plans better, and from there pair
//! after pair changes sides, as long as that lowers the peak.

use std::time::Instant;

use super::super::instance::Instance;
use super::super::portfolio::best_fit_of_all;
use super::super::problem::components;
use super::search::Search;

/// With up to this many pairs every choice is tried, if the buffers are few.
const ALL: usize = 6;

/// So many buffers are few.
const FEW: usize = 64;

/// How often a plan is made for a choice, at most, without a time limit.
const TRIALS: usize = 64;

/// Of each pair in place whether it is joined.
pub(super) fn choose(instance: &Instance, search: &Search) -> Vec<bool> {
    let pairs = instance.in_place().len();
    if pairs == 0 {
        return Vec::new();
    }
    let mut choice = Choice {
        instance,
        search,
        best: vec![true; pairs],
        peak: u64::MAX,
    };
    choice.attempt(vec![true; pairs]);
    choice.attempt(vec![false; pairs]);
    if pairs <= ALL && instance.len() <= FEW {
        for bits in 1..(1u32 << pairs) - 1 {
            choice.attempt((0..pairs).map(|pair| bits >> pair & 1 == 1).collect());
        }
    } else {
        choice.walk();
    }
    choice.best
}

struct Choice<'a> {
    instance: &'a Instance,
    search: &'a Search<'a>,
    best: Vec<bool>,
    peak: u64,
}

impl Choice<'_> {
    /// Whether there is nothing more to be gained, or no time.
    fn is_done(&self) -> bool {
        let late = |deadline| Instant::now() >= deadline;
        self.peak <= self.search.goal().min(self.search.bound)
            || self.search.half_way().is_some_and(late)
    }

    /// Plans with a choice; whether it is better than what there was.
    fn attempt(&mut self, joined: Vec<bool>) -> bool {
        if self.is_done() {
            return false;
        }
        let peaks = components(self.instance, |number| joined[number])
            .iter()
            .map(|component| {
                let found = best_fit_of_all(component, self.search.bound, self.search.deadline);
                found.map_or(u64::MAX, |placement| placement.peak)
            })
            .max();
        let better = peaks.is_some_and(|peak| peak < self.peak);
        if better {
            (self.best, self.peak) = (joined, peaks.unwrap_or(0));
        }
        better
    }

    fn walk(&mut self) {
        let trials = if self.search.deadline.is_some() {
            usize::MAX
        } else {
            TRIALS
        };
        let pairs = self.best.len();
        let mut rng = fastrand::Rng::with_seed(self.search.options.seed);
        let mut vain = 0;
        for _ in 0..trials {
            // Every pair has had its chances.
            if self.is_done() || vain > 2 * pairs {
                return;
            }
            let pair = rng.usize(0..pairs);
            let mut other = self.best.clone();
            other[pair] = !other[pair];
            vain = if self.attempt(other) { 0 } else { vain + 1 };
        }
    }
}

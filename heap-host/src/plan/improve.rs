//! Local improvement of a placement.
//!
//! Placing the items of a plan again by rising offset into the lowest gaps
//! never raises the peak, so every plan is as good as some order. The search
//! walks over orders: it takes an item that reaches the peak, follows what
//! holds it up down towards the bottom, and puts an item of that pile before
//! another one that blocks it. A change that does not raise the peak is kept,
//! so the walk drifts over plateaus (hill climbing over orders, as in the
//! allocator of Arm's Vela compiler); after many vain changes a few random
//! ones are forced (iterated local search).

use std::time::Instant;

use rayon::prelude::*;

use super::fit::{Placement, Run};
use super::problem::Component;
use super::space::{Fit, Space, space_for};

/// Walks side by side. It is fixed, so that a result does not depend on the
/// number of threads.
const CHAINS: u64 = 4;

/// After this many placements all walks go on from the best of them.
const ROUND: u64 = 400_000;

/// How long to search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// A peak that is good enough.
    pub(super) goal: u64,
    /// How many items may be placed, over all walks.
    pub(super) placements: u64,
    pub(super) deadline: Option<Instant>,
    pub(super) seed: u64,
}

/// The best placement found, `start` at worst.
pub(super) fn improve(component: &Component, start: Placement, effort: Effort) -> Placement {
    let mut best = start;
    let mut left = effort.placements;
    let mut seeds = fastrand::Rng::with_seed(effort.seed);
    // One round over a component that is too large for it would end before
    // the first change; below that the search has nothing to offer.
    let cost = component.items.len() as u64;
    while best.peak > effort.goal && left / CHAINS >= cost && !is_late(effort.deadline) {
        let round = (left / CHAINS).min(ROUND.max(cost));
        left -= round * CHAINS;
        let effort = Effort {
            placements: round,
            ..effort
        };
        let seeds: Vec<u64> = (0..CHAINS).map(|_| seeds.u64(..)).collect();
        let ends: Vec<Placement> = seeds
            .into_par_iter()
            .map(|seed| Walk::new(component, best.clone(), seed, effort.deadline).go(effort))
            .collect();
        // The walks drift, so an equal peak is taken as well; of several the
        // first walk's.
        let better =
            |best: Placement, end: Placement| if end.peak <= best.peak { end } else { best };
        best = ends.into_iter().rev().fold(best, better);
    }
    best
}

fn is_late(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// One walk over the orders of a component.
struct Walk<'a> {
    component: &'a Component,
    space: Box<dyn Space + Send>,
    rng: fastrand::Rng,
    order: Vec<u32>,
    deadline: Option<Instant>,
    now: Placement,
    trial: Vec<u64>,
}

impl<'a> Walk<'a> {
    fn new(
        component: &'a Component,
        start: Placement,
        seed: u64,
        deadline: Option<Instant>,
    ) -> Self {
        let mut order: Vec<u32> = component.free().collect();
        order.sort_by_key(|&index| start.offsets[index as usize]);
        let mut walk = Walk {
            component,
            space: space_for(component),
            rng: fastrand::Rng::with_seed(seed),
            order,
            deadline,
            trial: start.offsets.clone(),
            now: start,
        };
        // Settle: from now on `now` is what `order` gives.
        walk.attempt(0);
        walk
    }

    fn go(mut self, effort: Effort) -> Placement {
        let mut left = effort.placements;
        // As many vain changes as there are to choose from.
        let patience = self.order.len().saturating_mul(self.order.len());
        let (mut best, mut idle) = (self.now.clone(), 0);
        while best.peak > effort.goal && left > 0 && !is_late(self.deadline) {
            left = left.saturating_sub(self.change());
            idle += 1;
            if self.now.peak < best.peak {
                best = self.now.clone();
                idle = 0;
            } else if idle > patience {
                left = left.saturating_sub(self.kick(&best));
                idle = 0;
            }
        }
        // Of two equals the one that has drifted further.
        if self.now.peak <= best.peak {
            self.now
        } else {
            best
        }
    }

    /// Leaves a dead end: moves a few random items whatever that costs,
    /// starting from the best plan or from one as good.
    fn kick(&mut self, best: &Placement) -> u64 {
        if self.now.peak > best.peak {
            self.now = best.clone();
            self.order
                .sort_by_key(|&index| best.offsets[index as usize]);
        }
        let items = self.order.len();
        if items == 0 {
            return 1;
        }
        for _ in 0..self.rng.usize(1..5) {
            let (from, to) = (self.rng.usize(0..items), self.rng.usize(0..items));
            shift(&mut self.order, from, to);
        }
        self.now.peak = u64::MAX;
        let (placed, spent) = self.attempt(0);
        if !placed {
            // Late, or past the end of the address space.
            self.now = best.clone();
            self.order
                .sort_by_key(|&index| best.offsets[index as usize]);
        }
        spent
    }

    /// Tries one change and tells how many items were placed.
    fn change(&mut self) -> u64 {
        let Some((from, to)) = self.choose() else {
            return 1;
        };
        shift(&mut self.order, from, to);
        let (kept, spent) = self.attempt(from.min(to));
        if !kept {
            shift(&mut self.order, to, from);
        }
        spent
    }

    /// Places by `order`, of which everything before position `kept` is as
    /// it was. Keeps the result if the peak is no higher.
    fn attempt(&mut self, kept: usize) -> (bool, u64) {
        let run = Run {
            component: self.component,
            order: &self.order,
            fit: Fit::First,
            kept,
        };
        for &index in &self.order[..kept] {
            self.trial[index as usize] = self.now.offsets[index as usize];
        }
        let (mut spent, ceiling, deadline) = (0u64, self.now.peak, self.deadline);
        let peak = run.place(self.space.as_mut(), &mut self.trial, |peak| {
            spent += 1;
            peak <= ceiling && !(spent.is_multiple_of(64) && is_late(deadline))
        });
        if let Some(peak) = peak {
            self.now.peak = peak;
            std::mem::swap(&mut self.now.offsets, &mut self.trial);
        }
        (peak.is_some(), spent)
    }

    /// A position to take an item from, and one to put it to.
    fn choose(&mut self) -> Option<(usize, usize)> {
        let items = &self.component.items;
        let top = self.pick(|walk, index| walk.end(index) == walk.now.peak)?;
        let mut item = top;
        // Down the pile: each level with even chances.
        while self.rng.bool() {
            let Some(below) = self.pick(|walk, other| walk.holds_up(other, item)) else {
                break;
            };
            item = below;
        }
        let meets = |other: usize| items[other].meets(&items[item]) && other != item;
        let other = self.pick(|_, other| meets(other))?;
        let position = |index: usize| self.order.iter().position(|&i| i as usize == index);
        let (from, to) = (position(item)?, position(other)?);
        Some(if self.rng.u8(0..4) == 0 || from > to {
            (from, to)
        } else {
            (to, from)
        })
    }

    fn end(&self, index: usize) -> u64 {
        self.now.offsets[index] + self.component.items[index].size
    }

    /// Whether `item` lies right on `other`.
    fn holds_up(&self, other: usize, item: usize) -> bool {
        let items = &self.component.items;
        items[other].meets(&items[item])
            && items[item].align(self.end(other)) == Some(self.now.offsets[item])
    }

    /// A random item that passes `test`, each with the same chance.
    fn pick(&mut self, test: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        let passing: Vec<usize> = (0..self.component.items.len())
            .filter(|&index| test(self, index))
            .collect();
        self.rng.choice(passing)
    }
}

/// Moves the element at `from` to `to`; the ones between make room.
fn shift(order: &mut [u32], from: usize, to: usize) {
    if from < to {
        order[from..=to].rotate_left(1);
    } else {
        order[to..=from].rotate_right(1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::generate;
    use super::super::portfolio::best_fit_of_all;
    use super::super::problem::components;
    use super::*;

    fn effort(placements: u64) -> Effort {
        Effort {
            goal: 0,
            placements,
            deadline: None,
            seed: 5,
        }
    }

    fn start(component: &Component) -> Placement {
        best_fit_of_all(component, 0, None).unwrap()
    }

    /// No two items that meet share an address, and the peak is right.
    fn assert_sound(component: &Component, placement: &Placement) {
        let ends = component
            .items
            .iter()
            .zip(&placement.offsets)
            .map(|(i, o)| i.size + o);
        assert_eq!(ends.max(), Some(placement.peak));
        for (a, item) in component.items.iter().enumerate() {
            assert_eq!(placement.offsets[a] % item.alignment, 0);
            for (b, other) in component.items.iter().enumerate().skip(a + 1) {
                let (low, high) = (placement.offsets[a], placement.offsets[b]);
                let apart = low + item.size <= high || high + other.size <= low;
                assert!(apart || !item.meets(other), "{a} and {b}");
            }
        }
    }

    #[test]
    fn never_worse_always_sound_and_the_same_for_a_seed() {
        for seed in 0..6 {
            let component = components(&generate::random(seed, 60), |_| false).swap_remove(0);
            let before = start(&component);
            let after = improve(&component, before.clone(), effort(20_000));
            assert_sound(&component, &after);
            assert!(after.peak <= before.peak);
            let again = improve(&component, before, effort(20_000));
            assert_eq!(after.offsets, again.offsets);
        }
    }

    #[test]
    fn it_does_improve() {
        // Cut rectangles have an optimum that ordered fits miss.
        let gain: u64 = (0..5)
            .map(|seed| {
                let instance = generate::cut_rectangle(seed, 40, 64, 1 << 10);
                let component = components(&instance, |_| false).swap_remove(0);
                let before = start(&component);
                before.peak - improve(&component, before.clone(), effort(100_000)).peak
            })
            .sum();
        assert!(gain > 0);
    }

    #[test]
    fn a_deadline_that_has_passed_changes_nothing() {
        let component = components(&generate::random(1, 60), |_| false).swap_remove(0);
        let before = start(&component);
        let late = Effort {
            deadline: Some(Instant::now()),
            ..effort(u64::MAX)
        };
        assert_eq!(
            improve(&component, before.clone(), late).offsets,
            before.offsets
        );
    }

    #[test]
    fn shifting_back_undoes() {
        for from in 0..5 {
            for to in 0..5 {
                let mut order = [0, 1, 2, 3, 4];
                shift(&mut order, from, to);
                assert_eq!(order[to], from as u32);
                shift(&mut order, to, from);
                assert_eq!(order, [0, 1, 2, 3, 4]);
            }
        }
    }
}

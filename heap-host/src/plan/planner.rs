//! From an instance to a plan.

use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::bound::{LowerBound, lower_bound};
use super::exact;
use super::fingerprint::Fingerprint;
use super::fit::Placement;
use super::improve::{Effort, improve};
use super::instance::Instance;
use super::portfolio::best_fit_of_all;
use super::problem::{Component, components};
use super::verify::{self, Violation};

/// The effort of a plan without a limit: some tens of milliseconds.
const DEFAULT_NODES: u64 = 12_000;

/// Nodes of the exact search without a limit: some tens of milliseconds likewise
/// where there is no capacity, and some seconds where a capacity is not yet met.
const EXACT_NODES: u64 = 24_000;
const CAPACITY_NODES: u64 = 12_000_000;

/// How to plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The size of the arena in bytes. The search ends as soon as the plan
    /// fits; without a capacity it goes on to the lower bound.
    pub capacity: Option<u64>,
    /// When to stop searching. A quick placement, in O(n log n), comes first, so
    /// that there is a plan by then. [`Plan::timed_out`] tells whether the limit
    /// ended the search; if not, it reached the lower bound, or the capacity.
    pub time_limit: Option<Duration>,
    /// Changes the walk of the local improvement. Without a time limit the
    /// plan depends on the instance, the capacity, the seed and the node
    /// budget only, however many threads there are.
    pub seed: u64,
    /// How many buffers the local improvement may place, and how many nodes the
    /// exact search may visit. `None`: unlimited with a time limit; without one,
    /// enough for some tens of milliseconds, or for some seconds of exact search
    /// where a capacity is given and not met.
    pub node_budget: Option<u64>,
}

/// What is known about a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No plan has a lower peak: it equals the lower bound.
    Optimal,
    /// A valid plan; a better one may exist. With a capacity,
    /// [`Plan::fits`] tells whether it was reached.
    Feasible,
    /// The capacity is below the lower bound, so no plan fits; the
    /// [`LowerBound`] names the step and the buffers that prove it. The plan
    /// itself is valid in a larger arena.
    Infeasible,
}

impl Status {
    /// `optimal`, `feasible` or `infeasible`.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Optimal => "optimal",
            Status::Feasible => "feasible",
            Status::Infeasible => "infeasible",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Offsets for the buffers of one instance, in its order.
#[derive(Clone, Debug)]
pub struct Plan {
    offsets: Vec<u64>,
    peak: u64,
    lower_bound: LowerBound,
    capacity: Option<u64>,
    spaceless: Vec<usize>,
    fingerprint: Fingerprint,
    timed_out: bool,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Every order of placing them passed the end of the 64-bit address
    /// space.
    #[error(
        "the {buffers} buffers of this instance do not fit into 2^64 - 1 bytes (at least {needed} \
         are needed); use smaller sizes or alignments"
    )]
    AddressSpace {
        /// How many buffers take space.
        buffers: usize,
        /// The lower bound in bytes.
        needed: u64,
    },
}

/// A plan was used with another instance than it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the plan is stale: it was made for fingerprint {planned}, these buffers have {found}; \
     plan them again"
)]
pub struct StalePlan {
    /// The instance of the plan.
    pub planned: Fingerprint,
    /// The instance it was used with.
    pub found: Fingerprint,
}

/// Plans `instance`: the best of several ordered fits, then a little local
/// improvement, an exact search for a plan of the lower bound or within the
/// capacity, and more local improvement, until that, the time limit or the node
/// budget is reached.
///
/// The fits cost about O(n log^2 n) each and run on all threads of the
/// current rayon pool. The plan is always valid, also when it does not fit:
/// see [`Plan::status`] and [`Plan::fits`].
///
/// # Errors
///
/// [`PlanError::AddressSpace`] when offsets would pass 2^64 - 1.
pub fn plan(instance: &Instance, options: &Options) -> Result<Plan, PlanError> {
    // A limit past the end of the clock is none.
    let deadline = options
        .time_limit
        .and_then(|limit| Instant::now().checked_add(limit));
    let lower_bound = lower_bound(instance);
    let components = components(instance);
    let search = Search {
        options,
        deadline,
        bound: lower_bound.bytes,
    };
    let too_large = || PlanError::AddressSpace {
        buffers: components
            .iter()
            .map(|component| component.items.len())
            .sum(),
        needed: lower_bound.bytes,
    };
    let placements = search.place(&components).ok_or_else(too_large)?;
    let mut offsets = vec![0; instance.len()];
    for (component, placement) in components.iter().zip(&placements) {
        for (item, &offset) in component.items.iter().zip(&placement.offsets) {
            offsets[item.buffer] = offset;
        }
    }
    let timed_out = search.timed_out(&placements);
    let takes_space = |&index: &usize| instance.buffers()[index].takes_space();
    Ok(Plan {
        offsets,
        peak: placements
            .iter()
            .map(|placement| placement.peak)
            .max()
            .unwrap_or(0),
        lower_bound,
        capacity: options.capacity,
        spaceless: (0..instance.len())
            .filter(|index| !takes_space(index))
            .collect(),
        fingerprint: instance.fingerprint(),
        timed_out,
    })
}

/// The search over all components.
struct Search<'a> {
    options: &'a Options,
    deadline: Option<Instant>,
    bound: u64,
}

impl Search<'_> {
    fn place(&self, components: &[Component]) -> Option<Vec<Placement>> {
        let mut placements: Vec<Placement> = components
            .par_iter()
            .map(|component| best_fit_of_all(component, self.bound, self.deadline))
            .collect::<Option<_>>()?;
        let goal = self.goal();
        let open: Vec<usize> = (0..components.len())
            .filter(|&i| placements[i].peak > goal)
            .collect();
        let open_items: u64 = open.iter().map(|&i| components[i].items.len() as u64).sum();
        let improved: Vec<(usize, Placement)> = open
            .into_par_iter()
            .map(|i| {
                let placement = placements[i].clone();
                (i, self.improve(&components[i], placement, goal, open_items))
            })
            .collect();
        for (i, placement) in improved {
            placements[i] = placement;
        }
        Some(placements)
    }

    /// A better placement of one component, of all open ones with `open_items`.
    fn improve(
        &self,
        component: &Component,
        placement: Placement,
        goal: u64,
        open_items: u64,
    ) -> Placement {
        let effort = self.effort(goal, component.items.len() as u64, open_items);
        let little = Effort {
            placements: effort.placements.min(DEFAULT_NODES),
            ..effort
        };
        let placement = improve(component, placement, little);
        // Below the bound there is nothing to be found.
        if placement.peak <= goal || goal == u64::MAX {
            return placement;
        }
        let exact = exact::Effort {
            nodes: share(self.exact_nodes(), component.items.len() as u64, open_items),
            deadline: self.half_way(),
            seed: self.options.seed,
        };
        match exact::fit(component, goal, exact) {
            Some(found) => found,
            None => improve(
                component,
                placement,
                Effort {
                    placements: effort.placements - little.placements,
                    ..effort
                },
            ),
        }
    }

    /// Nodes of all exact searches together.
    fn exact_nodes(&self) -> u64 {
        let unlimited = match (self.deadline, self.options.capacity) {
            (Some(_), _) => u64::MAX,
            (None, Some(_)) => CAPACITY_NODES,
            (None, None) => EXACT_NODES,
        };
        self.options.node_budget.unwrap_or(unlimited)
    }

    /// Between now and the deadline: until then the search is exact. With a
    /// capacity it is until the deadline, since nothing else finds the last bytes.
    fn half_way(&self) -> Option<Instant> {
        let deadline = self.deadline?;
        if self.options.capacity.is_some() {
            return Some(deadline);
        }
        let now = Instant::now();
        Some(now + deadline.saturating_duration_since(now) / 2)
    }

    /// The peak that ends the improvement.
    fn goal(&self) -> u64 {
        match self.options.capacity {
            // No search will make it fit.
            Some(capacity) if capacity < self.bound => u64::MAX,
            Some(capacity) => capacity,
            None => self.bound,
        }
    }

    /// Whether the search ended without reaching what it aimed at, because of
    /// the time.
    fn timed_out(&self, placements: &[Placement]) -> bool {
        // Where nothing fits, the fits alone are tried, down to the bound.
        let aim = match self.goal() {
            u64::MAX => self.bound,
            goal => goal,
        };
        let open = placements.iter().any(|placement| placement.peak > aim);
        open && self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The share of one component of `items` out of `open_items`.
    fn effort(&self, goal: u64, items: u64, open_items: u64) -> Effort {
        let unlimited = if self.deadline.is_some() {
            u64::MAX
        } else {
            DEFAULT_NODES
        };
        let nodes = self.options.node_budget.unwrap_or(unlimited);
        Effort {
            goal,
            placements: share(nodes, items, open_items),
            deadline: self.deadline,
            seed: self.options.seed,
        }
    }
}

/// What `items` get of a budget for `open_items`.
fn share(nodes: u64, items: u64, open_items: u64) -> u64 {
    let share = u128::from(nodes) * u128::from(items) / u128::from(open_items.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

impl Plan {
    /// Bytes from the start of the arena, one per buffer of the instance.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The end in bytes of the highest buffer that takes space: the size the
    /// arena needs.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// The proved lower bound of the peak, and its proof.
    pub fn lower_bound(&self) -> &LowerBound {
        &self.lower_bound
    }

    /// The capacity that was asked for, in bytes.
    pub fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    /// Whether the peak is within the capacity; true without one.
    pub fn fits(&self) -> bool {
        self.capacity.is_none_or(|capacity| self.peak <= capacity)
    }

    /// What is proved about the plan.
    pub fn status(&self) -> Status {
        let bound = self.lower_bound.bytes;
        if self.capacity.is_some_and(|capacity| capacity < bound) {
            Status::Infeasible
        } else if self.peak == bound {
            Status::Optimal
        } else {
            Status::Feasible
        }
    }

    /// Whether the time limit ended the search: with more time, there may be a
    /// lower peak.
    pub fn timed_out(&self) -> bool {
        self.timed_out
    }

    /// Indices of the buffers that take no space at any step, because their
    /// size or their lifetime is zero. They have offset 0.
    pub fn spaceless(&self) -> &[usize] {
        &self.spaceless
    }

    /// The instance the plan was made for.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Checks that the plan was made for `instance`.
    ///
    /// # Errors
    ///
    /// [`StalePlan`] when any name, lifetime, size or alignment differs.
    pub fn check_for(&self, instance: &Instance) -> Result<(), StalePlan> {
        let (planned, found) = (self.fingerprint, instance.fingerprint());
        if planned == found {
            Ok(())
        } else {
            Err(StalePlan { planned, found })
        }
    }

    /// Verifies the plan with code that shares nothing with the planner: that
    /// it belongs to `instance`, that no two live buffers overlap, that
    /// offsets are aligned, and that the peak is what it says.
    ///
    /// # Errors
    ///
    /// The first fault found.
    pub fn verify(&self, instance: &Instance) -> Result<(), PlanFault> {
        self.check_for(instance)?;
        let peak = verify::verify(instance, &self.offsets)?;
        if peak != self.peak {
            return Err(PlanFault::Peak {
                stated: self.peak,
                found: peak,
            });
        }
        Ok(())
    }
}

/// Why a plan is not valid for an instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// It was made for another instance.
    #[error(transparent)]
    Stale(#[from] StalePlan),
    /// Its offsets are wrong.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// Its peak is not the end of its highest buffer.
    #[error("the plan states a peak of {stated} bytes, its highest buffer ends at {found}")]
    Peak {
        /// What the plan says.
        stated: u64,
        /// What its offsets say.
        found: u64,
    },
}

#[cfg(test)]
mod tests;

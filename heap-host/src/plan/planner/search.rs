//! The search over all components.

use std::time::Instant;

use rayon::prelude::*;

use super::super::exact;
use super::super::fit::Placement;
use super::super::improve::{Effort, improve};
use super::super::portfolio::best_fit_of_all;
use super::super::problem::Component;
use super::Options;

/// The effort of a plan without a limit: some tens of milliseconds.
const DEFAULT_NODES: u64 = 12_000;

/// Nodes of the exact search without a limit: some tens of milliseconds likewise
/// where there is no capacity, and some seconds where a capacity is not yet met.
const EXACT_NODES: u64 = 24_000;
const CAPACITY_NODES: u64 = 12_000_000;

/// The search over all components.
pub(super) struct Search<'a> {
    pub(super) options: &'a Options,
    pub(super) deadline: Option<Instant>,
    /// No plan has a lower peak.
    pub(super) bound: u64,
}

impl Search<'_> {
    pub(super) fn place(&self, components: &[Component]) -> Option<Vec<Placement>> {
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
    pub(super) fn half_way(&self) -> Option<Instant> {
        let deadline = self.deadline?;
        if self.options.capacity.is_some() {
            return Some(deadline);
        }
        let now = Instant::now();
        Some(now + deadline.saturating_duration_since(now) / 2)
    }

    /// The peak that ends the improvement.
    pub(super) fn goal(&self) -> u64 {
        match self.options.capacity {
            // No search will make it fit.
            Some(capacity) if capacity < self.bound => u64::MAX,
            Some(capacity) => capacity,
            None => self.bound,
        }
    }

    /// Whether the search ended without reaching what it aimed at, because of
    /// the time.
    pub(super) fn timed_out(&self, placements: &[Placement]) -> bool {
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

//! Exact search for a placement within a capacity.
//!
//! [`skyline`] is a depth-first search that would visit every placement worth
//! visiting. Which branch it takes first decides whether that ends within
//! milliseconds or never, and its times are heavy-tailed: so short searches
//! with different orders are restarted again and again, in lengths that rarely
//! double (after M. Luby, A. Sinclair and D. Zuckerman, "Optimal speedup of Las
//! Vegas algorithms", 1993; C. Gomes, B. Selman and H. Kautz, "Boosting
//! combinatorial search through randomization", 1998). Items that could not be
//! placed weigh more in later searches (after F. Boussemart and others,
//! "Boosting systematic search by weighting constraints", 2004).

mod skyline;

use std::time::Instant;

use rayon::prelude::*;

use super::fit::Placement;
use super::problem::Component;
use skyline::{End, Skyline};

/// Searches side by side, each with weights of its own. It is fixed, so that a
/// result does not depend on the number of threads.
const CHAINS: u64 = 4;

/// Nodes of the shortest search.
const SHORTEST: u64 = 2_000;

/// Searches are at most `2^DOUBLINGS` times as long.
const DOUBLINGS: u32 = 8;

/// By how much keys are changed at random, at most, in one search after the other.
const NOISE: [f64; 4] = [0.0, 0.1, 0.3, 0.5];

/// Larger components are not searched: a node costs a pass over all items, and
/// what is left to gain there is little.
const MOST_ITEMS: usize = 2_000;

/// How long to search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Nodes of all searches together.
    pub(super) nodes: u64,
    pub(super) deadline: Option<Instant>,
    pub(super) seed: u64,
}

/// A placement of all items within `capacity` bytes, if one is found. With
/// one `seed` and budget of nodes the same one, if no deadline passes.
pub(super) fn fit(component: &Component, capacity: u64, effort: Effort) -> Option<Placement> {
    if component.items.len() > MOST_ITEMS || !component.is_plain() {
        return None;
    }
    let mut chains: Vec<Chain> = (0..CHAINS)
        .map(|number| Chain::new(component, number, effort.seed))
        .collect();
    let mut left = effort.nodes;
    for round in 0u64.. {
        let nodes = SHORTEST << (round + 1).trailing_zeros().min(DOUBLINGS);
        if left < nodes * CHAINS || is_late(effort.deadline) {
            break;
        }
        left -= nodes * CHAINS;
        let ends: Vec<End> = chains
            .par_iter_mut()
            .map(|chain| chain.search(component, capacity, round, nodes, effort.deadline))
            .collect();
        // The first chain's that has one, whichever came first.
        for end in ends {
            match end {
                End::Found(placement) => return Some(placement),
                // No other order finds what is not there.
                End::Exhausted => return None,
                End::Stopped => {}
            }
        }
    }
    None
}

fn is_late(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// One sequence of searches.
struct Chain {
    number: u64,
    rng: fastrand::Rng,
    weights: Vec<f64>,
}

impl Chain {
    fn new(component: &Component, number: u64, seed: u64) -> Self {
        let mut seeds = fastrand::Rng::with_seed(seed);
        let seed = (0..=number).fold(0, |_, _| seeds.u64(..));
        Self {
            number,
            rng: fastrand::Rng::with_seed(seed),
            weights: vec![1.0; component.items.len()],
        }
    }

    fn search(
        &mut self,
        component: &Component,
        capacity: u64,
        round: u64,
        nodes: u64,
        deadline: Option<Instant>,
    ) -> End {
        let keys = self.keys(component, round);
        let mut skyline = Skyline::new(component, capacity, keys, &mut self.weights);
        let end = skyline.search(nodes, deadline);
        // Ratios are what counts; they should not grow for ever.
        if self.weights.iter().any(|&weight| weight > 1e6) {
            self.weights
                .iter_mut()
                .for_each(|weight| *weight = weight.sqrt());
        }
        end
    }

    /// What is tried first has the largest key: in the first round of each chain
    /// one of some orders that are good as a rule, later mostly with random factors.
    fn keys(&mut self, component: &Component, round: u64) -> Vec<f64> {
        let kind = (self.number + round) % 5;
        let power = self.rng.f64() * 1.6 - 0.1;
        let key = |sections: f64, size: f64| match kind {
            0 => sections.sqrt() * size,
            1 => sections * 1e12 + size,
            2 => sections * size,
            3 => size * 1e6 + sections,
            _ => sections.powf(power) * size,
        };
        // From none to much: what was learnt counts the more the less there is.
        let noise = NOISE[(round % NOISE.len() as u64) as usize];
        component
            .items
            .iter()
            .map(|item| {
                let factor = 1.0 - noise + 2.0 * noise * self.rng.f64();
                key((item.last - item.first) as f64, item.taken as f64) * factor
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;

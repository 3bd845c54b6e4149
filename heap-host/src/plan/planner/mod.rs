//! From an instance to a plan.

mod join;
mod outcome;
mod search;

use std::time::{Duration, Instant};

use super::bound::lower_bound;
use super::fit::Placement;
use super::instance::Instance;
use super::problem::{Component, components};
pub use outcome::{Plan, PlanError, PlanFault, StalePlan, Status};
use search::Search;

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
    let search = Search {
        options,
        deadline,
        bound: lower_bound.bytes,
    };
    let joined = join::choose(instance, &search);
    let components = components(instance, |number| joined[number]);
    let too_large = || PlanError::AddressSpace {
        buffers: components
            .iter()
            .map(|component| component.items.len())
            .sum(),
        needed: lower_bound.bytes,
    };
    let placements = search.place(&components).ok_or_else(too_large)?;
    let timed_out = search.timed_out(&placements);
    let takes_space = |&index: &usize| instance.buffers()[index].takes_space();
    Ok(Plan {
        offsets: offsets(instance, &components, &placements),
        peak: peak(&placements),
        lower_bound,
        capacity: options.capacity,
        spaceless: (0..instance.len())
            .filter(|index| !takes_space(index))
            .collect(),
        fingerprint: instance.fingerprint(),
        timed_out,
    })
}

fn peak(placements: &[Placement]) -> u64 {
    let peaks = placements.iter().map(|placement| placement.peak);
    peaks.max().unwrap_or(0)
}

/// The offsets of all buffers, also of those that take no space.
fn offsets(instance: &Instance, components: &[Component], placements: &[Placement]) -> Vec<u64> {
    let fixed = instance.buffers().iter().map(|buffer| buffer.fixed_offset);
    let mut offsets: Vec<u64> = fixed.map(Option::unwrap_or_default).collect();
    for (component, placement) in components.iter().zip(placements) {
        for (item, &offset) in component.items.iter().zip(&placement.offsets) {
            item.put(offset, &mut offsets);
        }
    }
    // A storage in which nothing takes space is in no component.
    for link in instance.aliases() {
        offsets[link.buffer] = offsets[link.root] + link.offset;
    }
    offsets
}

#[cfg(test)]
mod tests;

//! The best of several ordered fits.
//!
//! Placing buffers by falling size into the lowest gap is the usual planner
//! of inference runtimes (Pisarchyk and Lee, "Efficient Memory Management for
//! Deep Neural Net Inference", 2020, "greedy by size"). No order is the best
//! for all instances, so several are tried, with two ways to choose a gap.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use rayon::prelude::*;

use super::fit::{Placement, Run};
use super::problem::{Component, Item};
use super::quick::quick_fit;
use super::space::{Fit, space_for};

/// What comes first. Ties go to the larger size, then the longer life, then
/// the earlier start, then the place in the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Falling size.
    Size,
    /// Falling size times steps.
    Area,
    /// Falling number of steps.
    Lifetime,
    /// Rising first step.
    Start,
    /// Falling end.
    End,
    /// Falling number of items alive together with this one.
    Conflicts,
    /// Falling largest live sum during the life of the item.
    Contention,
}

/// All that is tried; among equal peaks the first one wins. Those in front
/// are the cheapest and the best on large instances.
const STRATEGIES: [(Order, Fit); 14] = [
    (Order::Size, Fit::First),
    (Order::Area, Fit::First),
    (Order::Contention, Fit::First),
    (Order::Lifetime, Fit::First),
    (Order::Size, Fit::Best),
    (Order::Area, Fit::Best),
    (Order::Contention, Fit::Best),
    (Order::Lifetime, Fit::Best),
    (Order::Start, Fit::Best),
    (Order::End, Fit::Best),
    (Order::Conflicts, Fit::First),
    (Order::Conflicts, Fit::Best),
    (Order::Start, Fit::First),
    (Order::End, Fit::First),
];

/// With more items than [`MANY`] only this many strategies run without a
/// deadline: the others cost ten times as much and hardly ever win there.
const CHEAP: usize = 4;

/// See [`CHEAP`].
const MANY: usize = 4096;

/// Components up to this size are not worth a thread.
const SEQUENTIAL: usize = 64;

/// Runs the strategies on `component` until one reaches `goal`, on all
/// threads.
///
/// With a deadline there is a quick placement first, and at the deadline every
/// strategy stops, or does not begin. Without one, or if it does not pass, the
/// result depends on the arguments only. `None` when all of them would pass
/// 2^64 - 1.
pub(super) fn best_fit_of_all(
    component: &Component,
    goal: u64,
    deadline: Option<Instant>,
) -> Option<Placement> {
    let race = Race::new(component, goal, deadline);
    let quick = deadline.and_then(|_| quick_fit(component));
    if let Some(quick) = &quick {
        race.best.store(quick.peak, Relaxed);
    }
    let few = component.items.len() > MANY && deadline.is_none();
    let indices = 0..if few { CHEAP } else { STRATEGIES.len() };
    let all = indices.clone();
    let placements: Vec<_> = if component.items.len() <= SEQUENTIAL {
        indices.map(|index| race.run(index)).collect()
    } else {
        indices
            .into_par_iter()
            .with_max_len(1)
            .map(|index| race.run(index))
            .collect()
    };
    let found = placements.into_iter().chain([quick]).flatten();
    let best = found.min_by_key(|placement| placement.peak);
    best.or_else(|| {
        // The deadline may have stopped the one that does not pass the end.
        let unlimited = Race::new(component, goal, None);
        deadline.and_then(|_| all.into_iter().find_map(|index| unlimited.run(index)))
    })
}

/// What the strategies know of each other. It only prunes runs that cannot
/// win, so relaxed loads do: a stale value prunes less and changes no result.
struct Race<'a> {
    component: &'a Component,
    goal: u64,
    deadline: Option<Instant>,
    /// The lowest peak that is known.
    best: AtomicU64,
    /// The first strategy that is known to reach the goal.
    winner: AtomicUsize,
}

impl<'a> Race<'a> {
    fn new(component: &'a Component, goal: u64, deadline: Option<Instant>) -> Self {
        Race {
            component,
            goal,
            deadline,
            best: AtomicU64::new(u64::MAX),
            winner: AtomicUsize::new(usize::MAX),
        }
    }

    fn run(&self, index: usize) -> Option<Placement> {
        let overtaken = || self.winner.load(Relaxed) < index;
        let late = || self.is_late();
        if overtaken() || late() {
            return None;
        }
        let (order, fit) = STRATEGIES[index];
        let order = order.of(self.component);
        // Of a million items the order takes its time, and so does the space.
        if late() {
            return None;
        }
        let mut space = space_for(self.component);
        let mut offsets = vec![0; self.component.items.len()];
        let run = Run {
            component: self.component,
            order: &order,
            fit,
            kept: 0,
        };
        let mut asked = 0u32;
        let peak = run.place(space.as_mut(), &mut offsets, |peak| {
            asked += 1;
            let stop = asked.is_multiple_of(16) && late();
            // An equal peak may still win, by a lower index.
            !stop && !overtaken() && peak <= self.best.load(Relaxed)
        })?;
        self.best.fetch_min(peak, Relaxed);
        if peak <= self.goal {
            self.winner.fetch_min(index, Relaxed);
        }
        Some(Placement { offsets, peak })
    }

    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }
}

impl Order {
    /// The items of `component` that are not pinned in this order, O(n log n).
    fn of(self, component: &Component) -> Vec<u32> {
        let items = &component.items;
        match self {
            Order::Size => sorted(component, |_| Reverse(0u8)),
            Order::Area => sorted(component, |i| Reverse(items[i].area())),
            Order::Lifetime => sorted(component, |i| Reverse(items[i].steps)),
            Order::Start => sorted(component, |i| items[i].first),
            Order::End => sorted(component, |i| Reverse(items[i].last)),
            Order::Conflicts => {
                let conflicts = conflicts(items);
                sorted(component, |i| Reverse(conflicts[i]))
            }
            Order::Contention => {
                let contention = contention(component);
                sorted(component, |i| Reverse(contention[i]))
            }
        }
    }
}

fn sorted<K: Ord>(component: &Component, key: impl Fn(usize) -> K) -> Vec<u32> {
    let mut order: Vec<u32> = component.free().collect();
    order.sort_by_cached_key(|&index| {
        let item = &component.items[index as usize];
        let ties = (Reverse(item.size), Reverse(item.steps), item.first, index);
        (key(index as usize), ties)
    });
    order
}

/// How many items each one meets, itself among them.
fn conflicts(items: &[Item]) -> Vec<usize> {
    let mut starts: Vec<_> = items.iter().map(|item| item.first).collect();
    let mut ends: Vec<_> = items.iter().map(|item| item.last).collect();
    starts.sort_unstable();
    ends.sort_unstable();
    let started = |item: &Item| starts.partition_point(|&start| start < item.last);
    let over = |item: &Item| ends.partition_point(|&end| end <= item.first);
    items
        .iter()
        .map(|item| started(item) - over(item))
        .collect()
}

/// The largest live sum during the life of each item.
fn contention(component: &Component) -> Vec<u64> {
    let mut changes = vec![0i128; component.sections + 1];
    for part in component.items.iter().flat_map(Item::parts) {
        let bytes = i128::from(part.to - part.from);
        changes[part.first] += bytes;
        changes[part.last] -= bytes;
    }
    let sums: Vec<u64> = changes
        .iter()
        .scan(0i128, |sum, change| {
            *sum += change;
            // The sum of all sizes fits in 64 bits.
            Some(u64::try_from(*sum).unwrap_or(u64::MAX))
        })
        .collect();
    let table = SparseMax::new(sums);
    component
        .items
        .iter()
        .map(|item| table.max(item.first, item.last))
        .collect()
}

/// Range maxima in O(1) after O(n log n): row k holds the maxima of 2^k
/// neighbours.
struct SparseMax {
    rows: Vec<Vec<u64>>,
}

impl SparseMax {
    fn new(values: Vec<u64>) -> Self {
        let mut rows = vec![values];
        let mut width = 1;
        while let Some(row) = rows.last().filter(|row| row.len() > width) {
            let next = (width..row.len())
                .map(|i| row[i - width].max(row[i]))
                .collect();
            rows.push(next);
            width *= 2;
        }
        SparseMax { rows }
    }

    /// The maximum of `first..last`, which is not empty.
    fn max(&self, first: usize, last: usize) -> u64 {
        let level = (last - first).ilog2() as usize;
        let row = &self.rows[level];
        row[first].max(row[last - (1 << level)])
    }
}

#[cfg(test)]
mod tests {
    use super::super::generate;
    use super::super::instance::{Buffer, Instance};
    use super::super::problem::components;
    use super::*;

    #[test]
    fn range_maxima() {
        let mut rng = fastrand::Rng::with_seed(3);
        for length in 1..40 {
            let values: Vec<u64> = (0..length).map(|_| rng.u64(0..50)).collect();
            let table = SparseMax::new(values.clone());
            for first in 0..length {
                for last in first + 1..=length {
                    assert_eq!(
                        Some(table.max(first, last)),
                        values[first..last].iter().max().copied()
                    );
                }
            }
        }
    }

    #[test]
    fn every_order_is_a_permutation_and_counts_are_right() {
        let instance = generate::random(5, 90);
        for component in components(&instance, |_| false) {
            let items = &component.items;
            for (order, _) in STRATEGIES {
                let mut order = order.of(&component);
                order.sort_unstable();
                assert!(order.iter().copied().eq((0..).take(items.len())));
            }
            let meets = |item: &Item| items.iter().filter(|other| other.meets(item)).count();
            assert!(conflicts(items).into_iter().eq(items.iter().map(meets)));
        }
    }

    #[test]
    fn no_strategy_goes_on_when_the_deadline_has_passed() {
        let component = components(&generate::random(9, 400), |_| false).swap_remove(0);
        let late = best_fit_of_all(&component, 0, Some(Instant::now())).unwrap();
        let quick = quick_fit(&component).unwrap();
        assert_eq!((late.peak, late.offsets), (quick.peak, quick.offsets));
        let race = Race::new(&component, 0, Some(Instant::now()));
        assert!((0..STRATEGIES.len()).all(|index| race.run(index).is_none()));
    }

    /// By start, `x` lies in the way of the last one, which has two places only;
    /// by size, it does not.
    #[test]
    fn a_deadline_does_not_make_an_instance_impossible() {
        let buffers = vec![
            Buffer::new("a", 0, 1, 1).aligned_to(1 << 63),
            Buffer::new("x", 0, 3, 1 << 61),
            Buffer::new("y", 1, 3, 1 << 62).aligned_to(1 << 63),
            Buffer::new("z", 1, 3, 1 << 62).aligned_to(1 << 63),
        ];
        let component = components(&Instance::new(buffers).unwrap(), |_| false).swap_remove(0);
        assert!(quick_fit(&component).is_none());
        let late = best_fit_of_all(&component, 0, Some(Instant::now()));
        assert_eq!(late.unwrap().peak, (1 << 63) + (1 << 62));
    }

    #[test]
    fn threads_do_not_change_the_winner() {
        let instance = generate::random(9, 400);
        let component = components(&instance, |_| false).swap_remove(0);
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| best_fit_of_all(&component, 0, None))
                .unwrap()
        };
        let alone = run(1);
        for threads in [2, 3, 8] {
            let other = run(threads);
            assert_eq!((alone.peak, &alone.offsets), (other.peak, &other.offsets));
        }
    }
}

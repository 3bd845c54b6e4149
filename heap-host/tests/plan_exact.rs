//! Plans and bounds against brute force on small instances.

use heap_host::plan::{self, Buffer, Instance, Options, Status, bound, csv, verify};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Whether two buffers are alive at one step and both take space.
fn meet(a: &Buffer, b: &Buffer) -> bool {
    a.takes_space() && b.takes_space() && a.lower < b.upper && b.lower < a.upper
}

fn is_free(buffers: &[Buffer], placed: &[(usize, u64)], next: usize, at: u64) -> bool {
    placed.iter().all(|&(other, offset)| {
        !meet(&buffers[other], &buffers[next])
            || at + buffers[next].size <= offset
            || offset + buffers[other].size <= at
    })
}

/// The least peak over all orders of placing each buffer as low as it goes.
/// Placing an optimal plan again by rising offset raises nobody, so one of
/// the orders is optimal.
fn least_peak(buffers: &[Buffer], placed: &mut Vec<(usize, u64)>, peak: u64, best: &mut u64) {
    if peak >= *best {
        return;
    }
    if placed.len() == buffers.len() {
        *best = peak;
        return;
    }
    for next in 0..buffers.len() {
        if placed.iter().any(|&(index, _)| index == next) {
            continue;
        }
        let mut offsets = (0..).step_by(buffers[next].alignment as usize);
        let at = offsets
            .find(|&at| is_free(buffers, placed, next, at))
            .unwrap();
        placed.push((next, at));
        least_peak(buffers, placed, peak.max(at + buffers[next].size), best);
        placed.pop();
    }
}

/// The least peak over all offsets whatever, up to `best`.
fn least_peak_by_offsets(
    buffers: &[Buffer],
    placed: &mut Vec<(usize, u64)>,
    peak: u64,
    best: &mut u64,
) {
    if peak >= *best {
        return;
    }
    let next = placed.len();
    let Some(buffer) = buffers.get(next) else {
        *best = peak;
        return;
    };
    for at in (0..*best).step_by(buffer.alignment as usize) {
        if is_free(buffers, placed, next, at) {
            placed.push((next, at));
            least_peak_by_offsets(buffers, placed, peak.max(at + buffer.size), best);
            placed.pop();
        }
    }
}

fn optimum(instance: &Instance) -> u64 {
    let live: Vec<_> = instance
        .buffers()
        .iter()
        .filter(|b| b.takes_space())
        .cloned()
        .collect();
    let mut best = u64::MAX;
    least_peak(&live, &mut Vec::new(), 0, &mut best);
    best
}

fn buffer(size: u64) -> impl Strategy<Value = (u64, u64, u64, u32)> {
    (0u64..8, 0u64..5, 0..=size, 0u32..4)
}

fn instance(rows: Vec<(u64, u64, u64, u32)>) -> Instance {
    let buffers = rows
        .into_iter()
        .enumerate()
        .map(|(i, (lower, steps, size, shift))| {
            Buffer::new(format!("b{i}"), lower, lower + steps, size).aligned_to(1 << shift)
        });
    Instance::new(buffers.collect()).unwrap()
}

fn instances(count: usize, size: u64) -> impl Strategy<Value = Instance> {
    proptest::collection::vec(buffer(size), 0..=count).prop_map(instance)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn orders_reach_what_offsets_reach(instance in instances(4, 5)) {
        let live: Vec<_> =
            instance.buffers().iter().filter(|b| b.takes_space()).cloned().collect();
        // Somewhere above every optimum: each buffer alone in its own part.
        let mut best: u64 = live.iter().map(|b| b.size + b.alignment).sum::<u64>() + 1;
        least_peak_by_offsets(&live, &mut Vec::new(), 0, &mut best);
        prop_assert_eq!(best, optimum(&instance));
    }

    #[test]
    fn bounds_peaks_and_statuses_are_true(instance in instances(7, 20)) {
        let plan = plan::plan(&instance, &Options::default()).unwrap();
        plan.verify(&instance).unwrap();
        let least = optimum(&instance);
        let bound = bound::lower_bound(&instance);
        prop_assert_eq!(plan.lower_bound(), &bound);
        prop_assert!(bound.bytes <= least, "bound {} above the optimum {}", bound.bytes, least);
        prop_assert!(plan.peak() >= least);
        let is_bound = plan.peak() == bound.bytes;
        prop_assert_eq!(plan.status() == Status::Optimal, is_bound);
        let live_sum = |step| {
            let live = instance.buffers().iter().filter(|b| b.is_live_at(step));
            live.map(|b| b.size).sum::<u64>()
        };
        prop_assert!(bound.bytes >= (0..16).map(live_sum).max().unwrap_or(0));
    }

    #[test]
    fn capacities_are_judged_rightly(instance in instances(6, 20), capacity in 0u64..80) {
        let options = Options { capacity: Some(capacity), ..Options::default() };
        let plan = plan::plan(&instance, &options).unwrap();
        plan.verify(&instance).unwrap();
        let least = optimum(&instance);
        match plan.status() {
            Status::Infeasible => prop_assert!(capacity < least && !plan.fits()),
            Status::Optimal => prop_assert_eq!(plan.peak(), least),
            Status::Feasible => prop_assert!(plan.peak() > plan.lower_bound().bytes),
        }
        prop_assert_eq!(plan.fits(), plan.peak() <= capacity);
        let within = verify::verify_within(&instance, plan.offsets(), capacity);
        prop_assert_eq!(within.is_ok(), plan.fits());
    }

    #[test]
    fn a_plan_survives_its_file(instance in instances(7, 20)) {
        let plan = plan::plan(&instance, &Options::default()).unwrap();
        let mut text = Vec::new();
        csv::format_plan(&instance, plan.offsets(), &mut text).unwrap();
        prop_assert_eq!(csv::parse_instance(&text, "plan").unwrap(), instance.clone());
        let (read, offsets) = csv::parse_plan(&text, "plan").unwrap();
        plan.check_for(&read).unwrap();
        prop_assert_eq!(&offsets[..], plan.offsets());
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(id|lower|upper|size|[0-9]{1,3}|[,\"\r\n ab-]){0,40}") {
        let with_header = format!("id,lower,upper,size\n{text}");
        for text in [&text, &with_header] {
            if let Err(error) = csv::parse_instance(text.as_bytes(), "text") {
                prop_assert!(error.line.is_some_and(|line| line >= 1));
            }
        }
    }
}

proptest! {
    // The search gives no guarantee, so the cases are always the same ones.
    #![proptest_config(ProptestConfig {
        cases: 1000,
        rng_seed: RngSeed::Fixed(20),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_search_finds_the_optimum_of_small_instances(instance in instances(6, 20)) {
        let options = Options { node_budget: Some(20_000), ..Options::default() };
        let plan = plan::plan(&instance, &options).unwrap();
        prop_assert_eq!(plan.peak(), optimum(&instance));
    }
}

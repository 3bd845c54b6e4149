use super::super::generate;
use super::super::instance::{Buffer, Instance};
use super::super::problem::components;
use super::*;

fn effort(nodes: u64) -> Effort {
    Effort {
        nodes,
        deadline: None,
        seed: 7,
    }
}

fn one(instance: &Instance) -> Component {
    components(instance, |_| false).swap_remove(0)
}

/// No two items that meet share an address, all are aligned and within.
fn assert_sound(component: &Component, placement: &Placement, capacity: u64) {
    for (a, item) in component.items.iter().enumerate() {
        let (start, end) = (placement.offsets[a], placement.offsets[a] + item.size);
        assert!(start.is_multiple_of(item.alignment) && end <= capacity);
        for (b, other) in component.items.iter().enumerate().skip(a + 1) {
            let (low, high) = (placement.offsets[b], placement.offsets[b] + other.size);
            assert!(end <= low || high <= start || !item.meets(other));
        }
    }
    let ends = component
        .items
        .iter()
        .zip(&placement.offsets)
        .map(|(item, offset)| item.size + offset);
    assert_eq!(ends.max(), Some(placement.peak));
}

#[test]
fn a_cut_rectangle_is_put_together_again() {
    for seed in 0..20 {
        let instance = generate::cut_rectangle(seed, 60, 64, 1 << 12);
        let component = one(&instance);
        let placement = fit(&component, 1 << 12, effort(2_000_000)).unwrap();
        assert_sound(&component, &placement, 1 << 12);
    }
}

#[test]
fn the_same_for_a_seed_on_any_number_of_threads() {
    let component = one(&generate::cut_rectangle(3, 80, 64, 1 << 12));
    let offsets = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap()
            .install(|| fit(&component, 1 << 12, effort(2_000_000)).map(|found| found.offsets))
    };
    let first = offsets(1);
    assert!(first.is_some());
    assert!(first == offsets(2) && first == offsets(4));
}

/// The least peak, by placing items in every order as low as they go.
fn least_peak(component: &Component) -> u64 {
    fn go(component: &Component, placed: &mut Vec<(usize, u64)>, peak: u64, best: &mut u64) {
        if peak >= *best {
            return;
        }
        if placed.len() == component.items.len() {
            *best = peak;
            return;
        }
        for index in 0..component.items.len() {
            if placed.iter().any(|&(other, _)| other == index) {
                continue;
            }
            let item = &component.items[index];
            let ends = placed
                .iter()
                .map(|&(other, offset)| offset + component.items[other].size);
            let starts = ends.chain([0]).filter_map(|end| item.align(end));
            let free = |&start: &u64| {
                placed.iter().all(|&(other, offset)| {
                    let other = &component.items[other];
                    !other.meets(item)
                        || start + item.size <= offset
                        || offset + other.size <= start
                })
            };
            let Some(start) = starts.filter(free).min() else {
                continue;
            };
            placed.push((index, start));
            go(component, placed, peak.max(start + item.size), best);
            placed.pop();
        }
    }
    let mut best = u64::MAX;
    go(component, &mut Vec::new(), 0, &mut best);
    best
}

#[test]
fn small_components_fit_exactly_where_brute_force_says() {
    let mut rng = fastrand::Rng::with_seed(11);
    for _ in 0..400 {
        let count = rng.usize(1..7);
        let buffers = (0..count).map(|index| {
            let lower = rng.u64(0..6);
            let upper = lower + rng.u64(1..6);
            let alignment = 1 << rng.u32(0..4);
            Buffer::new(format!("b{index}"), lower, upper, rng.u64(1..12)).aligned_to(alignment)
        });
        let instance = Instance::new(buffers.collect()).unwrap();
        for component in components(&instance, |_| false) {
            let least = least_peak(&component);
            let found = fit(&component, least, effort(100_000)).expect("brute force fits");
            assert_sound(&component, &found, least);
            assert!(fit(&component, least - 1, effort(100_000)).is_none());
        }
    }
}

#[test]
fn a_deadline_that_has_passed_ends_it() {
    let component = one(&generate::cut_rectangle(3, 80, 64, 1 << 12));
    let late = Effort {
        deadline: Some(Instant::now()),
        ..effort(u64::MAX)
    };
    assert!(fit(&component, 1 << 12, late).is_none());
}

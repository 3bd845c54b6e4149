//! The driver: statuses, capacities, limits, fingerprints.

use super::super::generate;
use super::super::instance::Buffer;
use super::*;

fn instance(buffers: &[(u64, u64, u64)]) -> Instance {
    let buffers = buffers.iter().enumerate();
    let buffers =
        buffers.map(|(i, &(lower, upper, size))| Buffer::new(format!("b{i}"), lower, upper, size));
    Instance::new(buffers.collect()).unwrap()
}

fn within(instance: &Instance, capacity: u64) -> Plan {
    let found = plan(
        instance,
        &Options {
            capacity: Some(capacity),
            ..Options::default()
        },
    );
    let found = found.unwrap();
    found.verify(instance).unwrap();
    found
}

/// The lower bound is 9 (4 + 4 + 2 bytes but the last one), yet no plan has
/// less than 10: the holes behind `x` and `y` are too odd for `z`.
fn gap_of_one() -> Instance {
    let odd = |name| Buffer::new(name, 0, 1, 3).aligned_to(4);
    let z = Buffer::new("z", 0, 1, 2).aligned_to(2);
    Instance::new(vec![odd("x"), odd("y"), z]).unwrap()
}

#[test]
fn nothing_to_plan() {
    let found = plan(&instance(&[]), &Options::default()).unwrap();
    assert_eq!(
        (found.peak(), found.status(), found.fits()),
        (0, Status::Optimal, true)
    );
    let spaceless = instance(&[(0, 5, 0), (3, 3, 8)]);
    let found = within(&spaceless, 0);
    assert_eq!(
        (found.peak(), found.status(), found.fits()),
        (0, Status::Optimal, true)
    );
    assert_eq!(found.spaceless(), [0, 1]);
}

#[test]
fn statuses_with_a_capacity() {
    let instance = gap_of_one();
    let bound = lower_bound(&instance);
    assert_eq!(bound.bytes, 9);
    let refused = within(&instance, bound.bytes - 1);
    assert_eq!(
        (refused.status(), refused.fits()),
        (Status::Infeasible, false)
    );
    assert_eq!(refused.lower_bound(), &bound);
    let open = within(&instance, bound.bytes);
    assert_eq!((open.status(), open.fits()), (Status::Feasible, false));
    let ample = within(&instance, 10);
    assert_eq!((ample.status(), ample.fits()), (Status::Feasible, true));
}

#[test]
fn the_proof_adds_up() {
    let instance = instance(&[(0, 4, 5), (3, 9, 6), (4, 5, 7), (3, 4, 0)]);
    let refused = within(&instance, 12);
    let bound = refused.lower_bound();
    assert_eq!(
        (bound.bytes, bound.step, &bound.buffers[..]),
        (13, Some(4), &[1, 2][..])
    );
}

#[test]
fn a_stale_plan_is_refused() {
    let planned = instance(&[(0, 4, 5)]);
    let changed = instance(&[(0, 4, 6)]);
    let found = plan(&planned, &Options::default()).unwrap();
    assert_eq!(found.check_for(&planned), Ok(()));
    let stale = found.check_for(&changed).unwrap_err();
    assert_eq!(stale.planned, planned.fingerprint());
    assert!(matches!(found.verify(&changed), Err(PlanFault::Stale(_))));
    let lying = Plan { peak: 6, ..found };
    assert_eq!(
        lying.verify(&planned),
        Err(PlanFault::Peak {
            stated: 6,
            found: 5
        })
    );
}

#[test]
fn the_address_space_ends() {
    let huge = |name: &str, size| Buffer::new(name, 0, 1, size).aligned_to(1 << 63);
    let two = Instance::new(vec![huge("a", 1), huge("b", 9)]).unwrap();
    let found = plan(&two, &Options::default()).unwrap();
    assert_eq!(
        (found.peak(), found.status()),
        ((1 << 63) + 1, Status::Optimal)
    );
    let three = Instance::new(vec![huge("a", 1), huge("b", 1), huge("c", 1)]).unwrap();
    let refused = plan(&three, &Options::default()).unwrap_err();
    assert_eq!(
        refused,
        PlanError::AddressSpace {
            buffers: 3,
            needed: u64::MAX
        }
    );
}

#[test]
fn a_seed_decides_and_threads_do_not() {
    let instance = generate::cut_rectangle(3, 120, 100, 10_000);
    let run = |threads, seed| {
        let options = Options {
            seed,
            node_budget: Some(60_000),
            ..Options::default()
        };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| plan(&instance, &options)).unwrap()
    };
    assert_eq!(run(1, 4).offsets(), run(1, 4).offsets());
    assert_eq!(run(1, 4).offsets(), run(5, 4).offsets());
    assert_ne!(run(1, 4).offsets(), run(1, 5).offsets());
}

#[test]
fn a_time_limit_is_kept() {
    let instance = generate::cut_rectangle(1, 300, 1000, 1 << 20);
    let limit = Duration::from_millis(300);
    let began = Instant::now();
    let options = Options {
        time_limit: Some(limit),
        ..Options::default()
    };
    let found = plan(&instance, &options).unwrap();
    let took = began.elapsed();
    found.verify(&instance).unwrap();
    // Generous above: the machine may be busy.
    assert!(took < limit * 4, "{took:?}");
    assert!(
        took >= limit || found.status() == Status::Optimal,
        "{took:?}"
    );
    assert_eq!(found.timed_out(), found.status() != Status::Optimal);
    let none = Options {
        time_limit: Some(Duration::ZERO),
        ..Options::default()
    };
    let first = plan(&instance, &none).unwrap();
    first.verify(&instance).unwrap();
    assert!(first.timed_out() && first.peak() >= found.peak());
    // What needs no search needs no time.
    let small = plan(&self::instance(&[(0, 4, 5), (3, 9, 6)]), &none);
    assert!(!small.unwrap().timed_out());
    assert!(!plan(&instance, &Options::default()).unwrap().timed_out());
    let endless = Options {
        time_limit: Some(Duration::MAX),
        ..Options::default()
    };
    assert!(plan(&generate::cut_rectangle(1, 3, 9, 99), &endless).is_ok());
}

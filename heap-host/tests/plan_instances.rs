//! Plans of shipped and generated instances, with the figures they must reach.

use std::path::PathBuf;
use std::time::Instant;

use heap_host::plan::{Instance, Options, Plan, Status, csv, generate, plan};

fn shipped(name: &str) -> Instance {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/planner")
        .join(name);
    csv::read_instance(&path).unwrap()
}

fn verified(instance: &Instance, options: &Options) -> Plan {
    let found = plan(instance, options).unwrap();
    found.verify(instance).unwrap();
    assert!(found.peak() >= found.lower_bound().bytes);
    found
}

/// How far the peak is above the lower bound, in per cent.
fn gap(plan: &Plan) -> f64 {
    let bound = plan.lower_bound().bytes as f64;
    100.0 * (plan.peak() as f64 - bound) / bound
}

#[test]
fn hlt1_static_is_planned_at_its_lower_bound() {
    let instance = shipped("hlt1_static.csv");
    assert_eq!(instance.len(), 242);
    let found = verified(&instance, &Options::default());
    let mib = found.lower_bound().bytes as f64 / f64::from(1 << 20);
    assert!((mib - 221.5).abs() < 0.05, "{mib}");
    assert!(gap(&found) < 1.0, "{}", gap(&found));
    assert!(found.peak() < instance.total_size() * 3 / 4);
}

#[test]
fn compiler_traces_are_planned_at_their_lower_bound() {
    for name in ["iree_first_61cafeb.csv", "iree_mobilebert_778b1cc.csv"] {
        let found = verified(&shipped(name), &Options::default());
        assert_eq!(found.status(), Status::Optimal, "{name}: {} %", gap(&found));
    }
}

#[test]
fn challenging_instances_are_planned_and_never_called_infeasible() {
    // Each has a plan of 1,048,576 bytes.
    for name in ["A", "C", "E", "G", "I", "K"] {
        let instance = shipped(&format!("{name}.1048576.csv"));
        let options = Options {
            capacity: Some(1 << 20),
            ..Options::default()
        };
        let found = verified(&instance, &options);
        assert_ne!(found.status(), Status::Infeasible, "{name}");
        assert!(gap(&found) < 50.0, "{name}: {} %", gap(&found));
        let too_small = found.lower_bound().bytes - 1;
        let options = Options {
            capacity: Some(too_small),
            ..Options::default()
        };
        assert_eq!(
            verified(&instance, &options).status(),
            Status::Infeasible,
            "{name}"
        );
    }
}

#[test]
fn pipelines_are_planned_near_their_lower_bound() {
    for seed in 0..10 {
        let found = verified(&generate::pipeline(seed, 1105), &Options::default());
        assert!(gap(&found) < 5.0, "seed {seed}: {} %", gap(&found));
    }
}

#[test]
fn large_instances_take_seconds_and_not_forever() {
    for instance in [generate::pipeline(1, 20_000), generate::training(1, 20_000)] {
        let began = Instant::now();
        let found = verified(&instance, &Options::default());
        assert!(gap(&found) < 2.0, "{} %", gap(&found));
        // A busy machine with checks on; in release it is about a second.
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    }
}

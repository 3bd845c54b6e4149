//! The LHCb HLT1 sequence, end to end.

use heap_host::runtime::{self, Configuration, Debug, Options};
use heap_host::sequence::{Scope, Sequence, shipped};

const MIB: f64 = 1048576.0;

fn hlt1() -> Sequence {
    shipped::hlt1_pp_default()
}

/// The defaults run to the end, and the report has the facts of the sequence.
#[test]
fn the_defaults_verify_without_a_split_or_a_read_back() {
    let report = runtime::run(&hlt1(), &Options::default(), &()).unwrap();
    assert!(report.verified);
    assert_eq!((report.events_done, report.events_failed), (1000, 0));
    // Seen in acts-project/vecmem#343 and celeritas-project/celeritas#1405: a
    // 4-byte read stalls the pipeline.
    assert_eq!(report.host_syncs_in_batch, 0);
    assert_eq!(report.leaked_bytes, 0);
    let counts = |scope, kind| report.buffers[scope][kind].count;
    assert_eq!(counts("device", "static"), 242);
    assert_eq!(counts("device", "dynamic"), 471);
    assert_eq!(counts("host", "static"), 375);
    assert_eq!(counts("host", "dynamic"), 17);
    let dynamic = report.dynamic;
    assert_eq!((dynamic.allocations, dynamic.frees), (471, 471));
    assert_eq!((dynamic.failed, dynamic.splits), (0, 0));
}

/// 221.5 MiB of 318.2, and no more than 1 % above the lower bound.
#[test]
fn the_static_peak_is_at_its_lower_bound() {
    let config = Configuration::new(&hlt1(), &Options::default()).unwrap();
    let arena = config.arena(Scope::Device);
    let (peak, bound) = (arena.plan.peak(), arena.plan.lower_bound().bytes);
    assert!(peak as f64 <= 1.01 * bound as f64, "{peak} over {bound}");
    assert!((peak as f64 / MIB - 221.5).abs() < 0.1, "{peak}");
    assert!((arena.sum_bytes as f64 / MIB - 318.2).abs() < 0.1);
}

/// No split in a pool of 1.15 times the live lower bound, metadata included:
/// several seeds, and several batches of each.
#[test]
fn a_pool_of_1_15_times_the_lower_bound_does_not_split() {
    let config = Configuration::new(&hlt1(), &Options::default()).unwrap();
    let bound = config.pool(Scope::Device).expected_live_bytes;
    assert!((bound as f64 / MIB - 185.9).abs() < 0.1, "{bound}");
    for seed in 0..2 {
        let options = Options {
            seed,
            batches: 2,
            pool_bytes: Some(bound * 115 / 100),
            ..Options::default()
        };
        let report = runtime::run(&hlt1(), &options, &()).unwrap();
        assert!(report.verified);
        assert_eq!((report.dynamic.splits, report.events_done), (0, 2000));
        let dynamic = report.dynamic;
        let ratio = dynamic.high_water_bytes as f64 / dynamic.lower_bound_bytes as f64;
        assert!(ratio < 1.02, "{ratio}");
    }
}

/// In half the memory each batch runs as halves, and each event once.
#[test]
fn half_the_pool_runs_halves() {
    let options = Options {
        pool_bytes: Some(112 << 20),
        ..Options::default()
    };
    let report = runtime::run(&hlt1(), &options, &()).unwrap();
    assert!(report.verified);
    assert_eq!((report.events_done, report.events_failed), (1000, 0));
    assert_eq!(report.dynamic.splits, 1);
    assert_eq!(report.dynamic.allocations, report.dynamic.frees);
    let failure = &report.failures[0];
    assert_eq!((failure.first_event, failure.events), (0, 1000));
    assert!(failure.needed_bytes > failure.largest_hole_bytes);
}

/// With guards, poison and the heap's own scan.
#[test]
fn all_debug_modes_are_clean() {
    let options = Options {
        events: Some(200),
        batches: 2,
        debug: Debug::ALL,
        ..Options::default()
    };
    let report = runtime::run(&hlt1(), &options, &()).unwrap();
    assert!(
        report.verified,
        "{:?} {:?}",
        report.findings, report.corruption
    );
    assert_eq!((report.dynamic.splits, report.leaked_bytes), (0, 0));
}

/// Two streams do what one does, with regions of their own.
///
/// Seen in rapidsai/rmm#2039: out of memory with two streams, fine with one.
#[test]
fn two_streams_report_what_one_does() {
    let run = |streams| {
        let options = Options {
            events: Some(100),
            batches: 6,
            streams,
            ..Options::default()
        };
        let mut report = runtime::run(&hlt1(), &options, &()).unwrap();
        (report.seconds, report.streams) = (0.0, 0);
        report
    };
    assert_eq!(run(1), run(2));
}

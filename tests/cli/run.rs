//! `dheap run`.

use serde_json::Value;

use super::common::{assert_fields, dheap, timeless};

/// Every field that the format promises, of a run.
const FIELDS: &str = "sequence:s events:u batches:u backend:s seed:u streams:u \
    buffers.host.static.count:u buffers.host.static.bytes:u \
    buffers.host.dynamic.count:u buffers.host.dynamic.bytes:u \
    buffers.device.static.count:u buffers.device.static.bytes:u \
    buffers.device.dynamic.count:u buffers.device.dynamic.bytes:u \
    static.peak_bytes:u static.lower_bound_bytes:u static.sum_bytes:u \
    dynamic.pool_bytes:u dynamic.high_water_bytes:u dynamic.lower_bound_bytes:u \
    dynamic.sum_bytes:u dynamic.allocations:u dynamic.frees:u dynamic.failed:u dynamic.splits:u \
    host.static.peak_bytes:u host.static.lower_bound_bytes:u host.static.sum_bytes:u \
    host.dynamic.pool_bytes:u host.dynamic.high_water_bytes:u \
    host_syncs_in_batch:u verified:b leaked_bytes:u events_done:u events_failed:u \
    failures:a failures_total:u failures_left_out:u seconds:f";

fn number(value: &Value, path: &str) -> u64 {
    let found = path.split('.').fold(value, |value, key| &value[key]);
    found
        .as_u64()
        .unwrap_or_else(|| panic!("{path} in {value}"))
}

#[test]
fn hlt1_runs_by_default_and_is_verified() {
    let report = dheap(&["--events", "40", "--json"]).done().json();
    assert_fields(&report, FIELDS);
    assert_eq!(report["sequence"], "hlt1_pp_default");
    assert_eq!(
        (report["backend"].as_str(), report["seed"].as_u64()),
        (Some("cpu"), Some(0))
    );
    assert_eq!(report["verified"], true);
    assert_eq!(
        (number(&report, "events_done"), number(&report, "batches")),
        (40, 1)
    );
    for zero in [
        "host_syncs_in_batch",
        "leaked_bytes",
        "events_failed",
        "dynamic.failed",
        "dynamic.splits",
    ] {
        assert_eq!(number(&report, zero), 0, "{zero}");
    }
    let counts = [
        "host.static",
        "host.dynamic",
        "device.static",
        "device.dynamic",
    ]
    .map(|kind| number(&report, &format!("buffers.{kind}.count")));
    assert_eq!(counts.iter().sum::<u64>(), 1105);
    assert_eq!(number(&report, "dynamic.allocations"), counts[3]);
    assert_eq!(number(&report, "dynamic.frees"), counts[3]);
    for part in ["static.peak_bytes", "dynamic.high_water_bytes"] {
        let bound = part.split_once('.').unwrap().0;
        assert!(number(&report, part) >= number(&report, &format!("{bound}.lower_bound_bytes")));
        assert!(number(&report, part) <= number(&report, &format!("{bound}.sum_bytes")));
    }
}

#[test]
fn the_run_command_is_the_default() {
    let default = timeless(dheap(&["--events", "3", "--json"]).done().json());
    let told = timeless(
        dheap(&["run", "hlt1_pp_default", "--events", "3", "--json"])
            .done()
            .json(),
    );
    assert_eq!(default, told);
}

#[test]
fn the_report_depends_on_the_seed_and_not_on_streams() {
    let run = |seed: &str, streams: &str| {
        let line = [
            "run",
            "quickstart",
            "--events",
            "50",
            "--batches",
            "6",
            "--json",
            "--seed",
            seed,
            "--streams",
            streams,
        ];
        let mut report = timeless(dheap(&line).done().json());
        report.as_object_mut().unwrap().remove("streams");
        report
    };
    assert_eq!(run("5", "1"), run("5", "1"));
    assert_eq!(run("5", "1"), run("5", "3"));
    assert_ne!(run("5", "1")["dynamic"], run("6", "1")["dynamic"]);
}

#[test]
fn a_table_for_people_has_what_they_look_for() {
    let text = dheap(&["run", "--events", "10", "--batches", "2"])
        .done()
        .stdout;
    for word in [
        "static host",
        "static device",
        "dynamic host",
        "dynamic device",
        "all",
        "1,105",
        "MiB",
        "bound",
        "peak",
        "batches split",
        "host syncs in batch",
        "verified",
        "yes",
        "seconds",
        "2 batches",
    ] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn a_pool_that_is_too_small_is_worked_around_and_told() {
    let default = dheap(&["run", "--events", "64", "--json"]).done().json();
    let small = (number(&default, "dynamic.lower_bound_bytes") * 6 / 10).to_string();
    let ran = dheap(&["run", "--events", "64", "--pool", &small, "--json"]).done();
    let report = ran.json();
    assert_eq!(
        (
            number(&report, "events_done"),
            number(&report, "events_failed")
        ),
        (64, 0)
    );
    assert!(number(&report, "dynamic.splits") > 0 && number(&report, "dynamic.failed") > 0);
    assert_eq!(number(&report, "dynamic.pool_bytes").to_string(), small);
    assert_fields(
        &report["failures"][0],
        "name:s algorithm:s needed_bytes:u free_bytes:u largest_hole_bytes:u pool_bytes:u",
    );
    let text = dheap(&["run", "--events", "64", "--pool", &small])
        .done()
        .stdout;
    for word in [
        "failures, ",
        "needs",
        "are free",
        "the largest hole has",
        "too small for whole batches",
        "largest part that went through",
    ] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn events_that_do_not_fit_alone_are_a_failure() {
    let ran = dheap(&[
        "run",
        "--events",
        "2",
        "--batches",
        "2",
        "--pool",
        "64KiB",
        "--json",
    ]);
    ran.failed(
        1,
        &[
            "4 events do not fit into the pool",
            "first: ",
            "buffer",
            "65536",
        ],
    );
    let report = ran.json();
    assert_eq!(
        (
            number(&report, "events_done"),
            number(&report, "events_failed")
        ),
        (0, 4)
    );
    assert_eq!(number(&report, "leaked_bytes"), 0);
}

/// What could not be done says more than what was halved on the way there.
#[test]
fn events_that_cannot_be_done_come_before_halved_batches() {
    let line = ["run", "--events", "40", "--pool", "64KiB", "--json"];
    let report = dheap(&line).json();
    let failures = report["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 32);
    let firsts: Vec<_> = failures.iter().map(|f| number(f, "first_event")).collect();
    assert_eq!(firsts, (0..32).collect::<Vec<_>>());
    assert!(failures.iter().all(|failure| failure["events"] == 1));
    // 40 single events, and 39 batches that were halved.
    assert_eq!(number(&report, "failures_total"), 79);
    assert_eq!(number(&report, "failures_left_out"), 47);

    let line = ["run", "--events", "4", "--pool", "64KiB", "--json"];
    let report = dheap(&line).json();
    let events = report["failures"].as_array().unwrap().iter();
    let events: Vec<_> = events.map(|failure| number(failure, "events")).collect();
    assert_eq!(events, [1, 1, 1, 1, 4, 2, 2]);
    assert_eq!(number(&report, "failures_left_out"), 0);
}

#[test]
fn debug_mode_passes_and_takes_its_guards() {
    let plain = dheap(&["run", "tiles", "--json"]).done().json();
    let debug = dheap(&["run", "tiles", "--debug", "--json"]).done().json();
    assert_eq!(debug["verified"], true);
    assert!(number(&debug, "static.peak_bytes") > number(&plain, "static.peak_bytes"));
}

#[test]
fn a_sequence_comes_from_a_file_as_well_as_by_name() {
    let file = timeless(
        dheap(&["run", "sequences/tiles.json", "--json"])
            .done()
            .json(),
    );
    assert_eq!(
        file,
        timeless(dheap(&["run", "tiles", "--json"]).done().json())
    );
}

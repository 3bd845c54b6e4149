//! `dheap stress`.

use super::common::{assert_fields, dheap, timeless};

#[test]
fn the_heap_passes() {
    for threads in ["1", "2", "3"] {
        let line = [
            "stress",
            "--threads",
            threads,
            "--ops",
            "9000",
            "--pool",
            "8MiB",
            "--json",
        ];
        let report = dheap(&line).done().json();
        assert_fields(
            &report,
            "ops:u allocations:u frees:u failed:u max_live_bytes:u errors:u leaked_bytes:u seconds:f",
        );
        assert_eq!(
            (report["ops"].as_u64(), report["errors"].as_u64()),
            (Some(9000), Some(0))
        );
        assert_eq!(report["leaked_bytes"], 0);
        assert_eq!(report["allocations"], report["frees"]);
        assert!(report["max_live_bytes"].as_u64().unwrap() > 4 << 20);
    }
}

#[test]
fn one_thread_is_deterministic() {
    let run = |seed| {
        let line = [
            "stress",
            "--threads",
            "1",
            "--ops",
            "3000",
            "--pool",
            "4MiB",
            "--json",
            "--seed",
            seed,
        ];
        timeless(dheap(&line).done().json())
    };
    assert_eq!(run("9"), run("9"));
    assert_ne!(run("9")["allocations"], run("8")["allocations"]);
}

#[test]
fn a_table_for_people_has_what_they_look_for() {
    let text = dheap(&["stress", "--ops", "0"]).done().stdout;
    for word in [
        "operations",
        "64.0 MiB",
        "errors",
        "leaked bytes",
        "seconds",
    ] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

//! `dheap selftest` and `dheap devices`.

use super::common::{assert_fields, dheap, timeless};

#[test]
fn the_heap_passes_on_the_cpu() {
    let ran = dheap(&["selftest", "--backend", "cpu", "--quick", "--json"]).done();
    let report = ran.json();
    assert_fields(
        &report,
        "backend:s device:s driver:0 note:0 pool_bytes:u seed:u passed:u failed:u skipped:u \
         tests:a seconds:f",
    );
    assert_eq!(
        (&report["backend"], &report["failed"]),
        (&"cpu".into(), &0.into())
    );
    let tests = report["tests"].as_array().unwrap();
    assert!(tests.len() >= 20, "{report}");
    for test in tests {
        assert_fields(test, "name:s what:s status:s detail:s seconds:f");
        assert!(
            test["what"]
                .as_str()
                .unwrap()
                .contains(|c: char| c.is_ascii_digit()),
            "{test}"
        );
    }
    // The one that may be: for want of memory.
    assert!(report["skipped"].as_u64().unwrap() <= 1, "{report}");
}

#[test]
fn only_what_is_named_runs_the_same_each_time() {
    let run = || {
        let line = [
            "selftest",
            "--backend",
            "cpu",
            "--quick",
            "--json",
            "--seed",
            "7",
        ];
        let only = ["--only", "batch", "--only", "soak", "--soak", "2e4"];
        timeless(dheap(&[&line[..], &only].concat()).done().json())
    };
    let report = run();
    let names: Vec<_> = report["tests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["name"])
        .collect();
    assert_eq!(names, ["batch", "soak"]);
    assert_eq!(report["passed"], 2);
    assert_eq!(run()["tests"][0]["what"], report["tests"][0]["what"]);
}

#[test]
fn the_table_says_what_was_done_on_what() {
    let line = ["selftest", "--quick", "--only", "masks", "--backend", "cpu"];
    let text = dheap(&line).done().stdout;
    for word in [
        "cpu:",
        "host threads",
        "seed 1",
        "quick",
        "masks",
        "1 passed, 0 failed",
    ] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn the_list_names_the_tests() {
    let text = dheap(&["selftest", "--list"]).done().stdout;
    let json = dheap(&["selftest", "--list", "--json"]).done().json();
    let tests = json["tests"].as_array().unwrap();
    assert_eq!(text.lines().count(), tests.len());
    for test in tests {
        assert!(text.contains(test["name"].as_str().unwrap()), "{test}");
    }
}

#[test]
fn bad_usage_is_told() {
    let refused = |line: &[&str], words: &[&str]| {
        dheap(&[&["selftest", "--backend", "cpu"], line].concat()).refused(words);
    };
    refused(
        &["--only", "exhaustoin"],
        &["exhaustoin", "did you mean \"exhaustion\"?"],
    );
    refused(&["--pool", "1MiB"], &["1048576", "32MiB"]);
    refused(&["--soak", "1.5"], &["--soak", "whole number"]);
    refused(&["--soak", "0"], &["whole number"]);
    dheap(&["selftest", "--backend", "gpu"]).refused(&["gpu", "cuda"]);
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_build_without_gpus_says_how_to_get_them() {
    let words = ["--features cuda"];
    dheap(&["selftest", "--backend", "cuda"]).refused(&words);
    dheap(&["devices"]).refused(&words);
    let line = ["selftest", "--quick", "--only", "masks", "--json"];
    let report = dheap(&line).done().json();
    assert_eq!(report["backend"], "cpu");
    assert!(report["note"].as_str().unwrap().contains("--features cuda"));
}

/// With or without a card: a list, or one sentence.
#[test]
#[cfg(feature = "cuda")]
fn devices_are_listed_or_it_is_told_why_not() {
    let ran = dheap(&["devices", "--json"]);
    if ran.code == 0 {
        let report = ran.json();
        let devices = report["devices"].as_array().unwrap();
        assert!(!devices.is_empty());
        assert_fields(&devices[0], "index:u name:s memory_bytes:u supported:b");
    } else {
        ran.failed(1, &["NVIDIA"]);
        dheap(&["selftest", "--backend", "cuda"]).failed(1, &["NVIDIA"]);
    }
}

#[test]
fn where_nothing_could_be_tested_nothing_is_proved() {
    let line = [
        "selftest",
        "--backend",
        "cpu",
        "--only",
        "random",
        "--pool",
        "100TiB",
    ];
    let ran = dheap(&[&line[..], &["--json"]].concat());
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
    assert!(ran.stdout.contains("\"skipped\":1"), "{ran:?}");
    assert!(
        ran.stderr.starts_with("error: nothing was tested"),
        "{ran:?}"
    );
}

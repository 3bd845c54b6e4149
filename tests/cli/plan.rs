//! `dheap plan`.

use std::fs;
use std::path::Path;

use device_heap::plan::{csv, verify};

use super::common::{assert_fields, dheap, dheap_at, timeless};

const TABLE: &str = "id,lower,upper,size,alignment\n\
    hits,0,2,4096,256\n\
    tracks,1,4,1000,\n\
    nothing,1,4,0,64\n\
    never,2,2,77,1\n\
    vertices,2,3,4096,4096\n";

/// A directory with `TABLE` in it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.csv"), TABLE).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_table_is_planned_and_written() {
    let folder = folder();
    let ran = dheap_at(
        folder.path(),
        &["plan", "in.csv", "--out", "out.csv", "--json"],
    )
    .done();
    let report = ran.json();
    assert_fields(
        &report,
        "buffers:u peak_bytes:u lower_bound_bytes:u status:s verified:b seconds:f \
         sum_bytes:u spaceless:u fits:b capacity_bytes:0 fingerprint:s timed_out:b",
    );
    assert_eq!(
        (report["buffers"].as_u64(), report["spaceless"].as_u64()),
        (Some(5), Some(2))
    );
    assert_eq!(
        (report["status"].as_str(), report["verified"].as_bool()),
        (Some("optimal"), Some(true))
    );

    let (instance, offsets) = csv::read_plan(&folder.path().join("out.csv")).unwrap();
    assert_eq!(
        instance,
        csv::parse_instance(TABLE.as_bytes(), "in.csv").unwrap()
    );
    let peak = verify::verify(&instance, &offsets).unwrap();
    assert_eq!(report["peak_bytes"].as_u64(), Some(peak));
    assert_eq!(names(folder.path()), ["in.csv", "out.csv"]);

    // A plan is a table as well, and what it holds is planned alike.
    let again = dheap_at(folder.path(), &["plan", "out.csv", "--json"])
        .done()
        .json();
    assert_eq!(
        (&again["peak_bytes"], &again["fingerprint"]),
        (&report["peak_bytes"], &report["fingerprint"])
    );
}

#[test]
fn a_capacity_that_is_met_is_fine() {
    let folder = folder();
    let line = [
        "plan",
        "in.csv",
        "--capacity",
        "16KiB",
        "--time-limit",
        "0.5",
        "--json",
    ];
    let report = dheap_at(folder.path(), &line).done().json();
    assert_eq!(
        (report["fits"].as_bool(), report["capacity_bytes"].as_u64()),
        (Some(true), Some(16384))
    );
}

#[test]
fn what_cannot_fit_is_infeasible_and_leaves_no_file() {
    let folder = folder();
    fs::write(folder.path().join("old.csv"), "old").unwrap();
    for out in ["new.csv", "old.csv"] {
        let line = [
            "plan",
            "in.csv",
            "--capacity",
            "5000",
            "--out",
            out,
            "--json",
        ];
        let ran = dheap_at(folder.path(), &line);
        ran.failed(
            1,
            &[
                "in.csv: no plan fits into 5000 bytes",
                "buffers alive at step",
            ],
        );
        let report = ran.json();
        assert_eq!(
            (report["status"].as_str(), report["fits"].as_bool()),
            (Some("infeasible"), Some(false))
        );
    }
    assert_eq!(names(folder.path()), ["in.csv", "old.csv"]);
    assert_eq!(
        fs::read_to_string(folder.path().join("old.csv")).unwrap(),
        "old"
    );
}

#[test]
fn a_sequence_that_cannot_fit_names_file_arena_and_algorithm() {
    dheap(&["plan", "quickstart", "--capacity", "1MB"]).failed(
        1,
        &[
            "quickstart, device arena: no plan fits into 1000000 bytes",
            "buffers alive at algorithm \"decode_hits\" (step 3) need",
        ],
    );
    let line = ["plan", "tiles", "--scope", "host", "--capacity", "1"];
    dheap(&line).failed(
        1,
        &["tiles, host arena: no plan fits", "alive at algorithm \""],
    );
}

/// Much more than the fits take, and there is a plan all the same.
#[test]
fn a_time_limit_ends_the_search_and_is_told() {
    use std::fmt::Write;
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("id,lower,upper,size\n");
    for i in 0..60_000u64 {
        let (lower, size) = (i * 7919 % 20_000, i * 104_729 % 100_003 + 1);
        let upper = lower + i * 31 % 2_000 + 1;
        writeln!(text, "b{i},{lower},{upper},{size}").unwrap();
    }
    fs::write(folder.path().join("big.csv"), text).unwrap();
    let line = ["plan", "big.csv", "--time-limit", "0.2", "--json"];
    let report = dheap_at(folder.path(), &line).done().json();
    assert_eq!(report["timed_out"], true, "{report}");
    assert_eq!(report["verified"], true);
    // Several seconds without a limit; generous, as the machine may be busy.
    assert!(report["seconds"].as_f64().unwrap() < 2.0, "{report}");
    let line = ["plan", "big.csv", "--time-limit", "0"];
    let text = dheap_at(folder.path(), &line).done().stdout;
    assert!(
        text.contains("big.csv: the time limit ended the search"),
        "{text}"
    );
    // A limit that is not reached changes nothing.
    let plan = |line: &[&str]| timeless(dheap(line).done().json());
    let limited = plan(&["plan", "tiles", "--time-limit", "60", "--json"]);
    assert_eq!(limited, plan(&["plan", "tiles", "--json"]));
    assert_eq!(limited["timed_out"], false);
}

/// A rectangle cut into pieces, which ordered fits do not put together.
#[test]
fn a_capacity_is_met_exactly_and_the_plan_is_the_same_on_any_number_of_threads() {
    use std::fmt::Write;
    let instance = device_heap::plan::generate::cut_rectangle(5, 120, 200, 1 << 16);
    let mut text = String::from("id,lower,upper,size\n");
    for buffer in instance.buffers() {
        let (lower, upper, size) = (buffer.lower, buffer.upper, buffer.size);
        writeln!(text, "{},{lower},{upper},{size}", buffer.name).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cut.csv"), text).unwrap();
    let plan = |threads: &str| {
        let line = "plan cut.csv --capacity 65536 --seed 3 --nodes 3000000 --json --threads";
        let line: Vec<&str> = line.split(' ').chain([threads]).collect();
        let line = [&line[..], &["--out", "plan.csv"]].concat();
        let report = dheap_at(folder.path(), &line).done().json();
        assert_eq!(report["status"], "optimal", "{report}");
        assert_eq!(report["peak_bytes"], 65536);
        fs::read_to_string(folder.path().join("plan.csv")).unwrap()
    };
    assert_eq!(plan("1"), plan("3"));
}

#[test]
fn a_bad_row_leaves_the_old_plan() {
    let folder = folder();
    fs::write(folder.path().join("old.csv"), "old").unwrap();
    fs::write(
        folder.path().join("bad.csv"),
        "id,lower,upper,size\na,3,2,1\n",
    )
    .unwrap();
    let ran = dheap_at(folder.path(), &["plan", "bad.csv", "--out", "old.csv"]);
    ran.refused(&["bad.csv:2", "'a'"]);
    assert_eq!(
        fs::read_to_string(folder.path().join("old.csv")).unwrap(),
        "old"
    );
    assert_eq!(names(folder.path()), ["bad.csv", "in.csv", "old.csv"]);
}

#[test]
fn places_where_no_plan_can_be_written_are_refused_first() {
    let folder = folder();
    fs::create_dir(folder.path().join("sub")).unwrap();
    for (out, word) in [
        ("sub", "is a directory"),
        ("missing/out.csv", "no existing directory"),
        ("in.csv", "is the input itself"),
        ("./sub/../in.csv", "is the input itself"),
    ] {
        dheap_at(folder.path(), &["plan", "in.csv", "--out", out]).refused(&["--out", out, word]);
    }
    assert_eq!(
        fs::read_to_string(folder.path().join("in.csv")).unwrap(),
        TABLE
    );
}

#[test]
fn a_sequence_has_two_arenas() {
    let folder = tempfile::tempdir().unwrap();
    let device = dheap_at(
        folder.path(),
        &["plan", "hlt1_pp_default", "--out", "device.csv", "--json"],
    );
    let device = device.done().json();
    assert_fields(
        &device,
        "scope:s other.scope:s other.peak_bytes:u other.status:s",
    );
    assert_eq!(
        (device["scope"].as_str(), device["buffers"].as_u64()),
        (Some("device"), Some(242))
    );
    let (peak, bound) = (&device["peak_bytes"], &device["lower_bound_bytes"]);
    assert!(
        peak.as_f64().unwrap() <= 1.01 * bound.as_f64().unwrap(),
        "{device}"
    );

    let line = [
        "plan",
        "hlt1_pp_default",
        "--scope",
        "host",
        "--out",
        "host.csv",
        "--json",
    ];
    let host = dheap_at(folder.path(), &line).done().json();
    assert_eq!(host["scope"], "host");
    assert_eq!(host["peak_bytes"], device["other"]["peak_bytes"]);
    for (name, report) in [("device.csv", &device), ("host.csv", &host)] {
        let (instance, offsets) = csv::read_plan(&folder.path().join(name)).unwrap();
        let peak = verify::verify(&instance, &offsets).unwrap();
        assert_eq!(Some(peak), report["peak_bytes"].as_u64());
        assert_eq!(instance.len() as u64, report["buffers"].as_u64().unwrap());
    }
    // What a run reserves is what was planned.
    let run = dheap(&[
        "run",
        "--events",
        "1000",
        "--batches",
        "1",
        "--json",
        "--pool",
        "16KiB",
    ]);
    assert_eq!(run.json()["static"]["peak_bytes"], device["peak_bytes"]);
}

#[test]
fn plans_are_deterministic() {
    let plan = || timeless(dheap(&["plan", "hlt1_pp_default", "--json"]).done().json());
    assert_eq!(plan(), plan());
}

#[test]
fn a_table_for_people_has_what_they_look_for() {
    let text = dheap(&["plan", "tiles"]).done().stdout;
    for word in [
        "device",
        "host",
        "peak MiB",
        "bound MiB",
        "optimal",
        "verified",
        "yes",
    ] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn a_file_without_a_telling_name_is_told_by_its_contents() {
    let folder = folder();
    fs::copy(folder.path().join("in.csv"), folder.path().join("table")).unwrap();
    let tiles = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/sequences/tiles.json")).unwrap();
    fs::write(folder.path().join("sequence"), tiles).unwrap();
    let table = dheap_at(folder.path(), &["plan", "table", "--json"])
        .done()
        .json();
    assert!(table.get("scope").is_none());
    let sequence = dheap_at(folder.path(), &["plan", "sequence", "--json"])
        .done()
        .json();
    assert_eq!(sequence["scope"], "device");
}

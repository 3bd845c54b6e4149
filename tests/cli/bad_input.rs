//! Bad input and usage: exit code 2, one clear line, nothing done.

use std::fs;

use super::common::{dheap, dheap_at};

const MAX: &str = "18446744073709551615";
const OVER: &str = "18446744073709551616";

#[test]
fn bad_usage_is_refused_in_one_line() {
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["--bacth"],
            &["unexpected argument '--bacth'", "--batches"],
        ),
        (&["plann", "x.csv"], &["'plann'", "'plan'"]),
        (&["plan"], &["<FILE>"]),
        (&["plan", "a", "b"], &["unexpected argument 'b'"]),
        (&["run", "tiles", "tiles"], &["unexpected argument 'tiles'"]),
        (
            &["--events", "3", "stress"],
            &["--events", "before the command stress"],
        ),
        (
            &["--json", "plan", "tiles"],
            &["--json", "before the command plan"],
        ),
        (
            &["run", "--backend", "cuda"],
            &["'cuda'", "the backend cpu only"],
        ),
        (&["run", "--events"], &["--events <N>"]),
        (
            &["run", "--events", "0"],
            &["--events <N>", "must be at least 1"],
        ),
        (
            &["run", "--events", "-1"],
            &["--events <N>", "must be at least 1"],
        ),
        (&["run", "--events", "1.5"], &["'1.5'", "--events"]),
        (&["run", "--events", OVER], &[OVER, "--events", "too large"]),
        (
            &["run", "--events", "1", "--events", "2"],
            &["--events <N>", "multiple times"],
        ),
        (
            &["run", "--batches", "0"],
            &["--batches <N>", "must be at least 1"],
        ),
        (
            &["run", "--streams", "0"],
            &["--streams <N>", "must be at least 1"],
        ),
        (&["run", "--seed", "x"], &["'x'", "--seed", "whole number"]),
        (&["run", "--seed", "-1"], &["--seed", "must be at least 0"]),
        (
            &["run", "--pool", "-1"],
            &["'-1'", "--pool", "like 4096 or 64MiB"],
        ),
        (&["stress", "--pool", "-1MiB"], &["'-1MiB'", "like 4096"]),
        (
            &["plan", "tiles", "--capacity", "-5"],
            &["'-5'", "like 4096"],
        ),
        (&["stress", "--ops", "-5"], &["--ops", "must be at least 0"]),
        (&["run", "--pool", "--json"], &["--pool", "like 4096"]),
        (&["run", "--pool", "64M"], &["'64M'", "KiB, MiB", "MB"]),
        (&["run", "--pool", "64 XiB"], &["'XiB' is no unit"]),
        (
            &["run", "--pool", "1.0000001KiB"],
            &["whole number of bytes"],
        ),
        (&["run", "--pool", "99999999TiB"], &[MAX]),
        (&["run", "--pool", ""], &["like 4096 or 64MiB"]),
        (&["plan", "tiles", "--capacity", "big"], &["'big'", "64MiB"]),
        (
            &["plan", "tiles", "--time-limit", "-3"],
            &["'-3'", "a time in seconds"],
        ),
        (
            &["plan", "tiles", "--time-limit", "nan"],
            &["seconds", "2.5"],
        ),
        (
            &["plan", "tiles", "--scope", "disk"],
            &["'disk'", "device, host"],
        ),
        (&["stress", "--threads", "0"], &["must be at least 1"]),
        (&["stress", "--threads", "1025"], &["must be at most 1024"]),
        (&["stress", "--ops", "many"], &["'many'", "--ops"]),
    ];
    for (args, words) in cases {
        dheap(args).refused(words);
    }
}

#[test]
fn impossible_values_are_refused_before_anything_runs() {
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["run", "--events", "1001"],
            &["1001", "at most 1000", "hlt1_pp_default"],
        ),
        (&["run", "tiles", "--events", MAX], &["at most 64"]),
        (&["run", "tiles", "--batches", MAX], &["fewer batches"]),
        (
            &["run", "tiles", "--pool", "0"],
            &["0 bytes", "this sequence needs about"],
        ),
        (
            &["run", "tiles", "--pool", "4KiB"],
            &["4096 bytes", "too short", "this sequence needs about"],
        ),
        (
            &["run", "tiles", "--pool", MAX, "--streams", "2"],
            &["fewer streams or a smaller pool"],
        ),
        (&["stress", "--pool", "0"], &["0 bytes is too short"]),
        (
            &["stress", "--pool", "4096"],
            &["4096 bytes is too short", "need"],
        ),
    ];
    for (args, words) in cases {
        dheap(args).refused(words);
    }
}

/// More than the address space of any process, so refused everywhere.
#[test]
fn memory_that_the_machine_has_not_got_is_a_failure_of_the_work() {
    for args in [&["stress"][..], &["run", "tiles"]] {
        let line = [args, &["--pool", "250TiB"]].concat();
        let ran = dheap(&line);
        ran.failed(1, &["274877906944000 bytes", "ask for less"]);
        assert_eq!(ran.stdout, "");
        // A program reads one object, whatever happened.
        let ran = dheap(&[&line[..], &["--json"]].concat());
        ran.failed(1, &["274877906944000 bytes", "ask for less"]);
        assert_eq!(
            ran.stderr,
            format!("error: {}\n", ran.json()["error"].as_str().unwrap())
        );
    }
}

/// Three buffers, two places.
#[test]
fn a_plan_that_passes_the_address_space_is_a_failure_of_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let row = |id| format!("{id},0,1,1,9223372036854775808\n");
    let text = ["a", "b", "c"].map(row).concat();
    let text = format!("id,lower,upper,size,alignment\n{text}");
    fs::write(folder.path().join("in.csv"), text).unwrap();
    let words = &["in.csv", "do not fit into 2^64 - 1 bytes"];
    let ran = dheap_at(folder.path(), &["plan", "in.csv"]);
    ran.failed(1, words);
    assert_eq!(ran.stdout, "");
    let ran = dheap_at(folder.path(), &["plan", "in.csv", "--json"]);
    ran.failed(1, words);
    let object = ran.json();
    assert_eq!(object.as_object().unwrap().len(), 1, "{object}");
    assert!(ran.stderr.contains(object["error"].as_str().unwrap()));
}

/// Bad input leaves standard output empty, also for programs.
#[test]
fn bad_input_prints_nothing_for_programs() {
    for args in [
        &["run", "none.json", "--json"][..],
        &["run", "tiles", "--events", "65", "--json"],
        &["run", "--events", "0", "--json"],
        &["plan", "none.csv", "--json"],
        &["stress", "--pool", "0", "--json"],
        &["stress", "--pool", "x", "--json"],
    ] {
        dheap(args).refused(&[]);
    }
}

#[test]
fn names_that_nobody_has_are_answered_with_near_ones() {
    for command in ["run", "plan"] {
        dheap(&[command, "tile"]).refused(&["tile cannot be read", "did you mean tiles?"]);
        dheap(&[command, "hlt1_pp_defualt"]).refused(&["did you mean hlt1_pp_default?"]);
        let far = dheap(&[command, "nothing_like_it"]);
        assert!(!far.stderr.contains("did you mean"), "{far:?}");
    }
}

#[test]
fn a_table_of_buffers_is_planned_and_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let table = "id,lower,upper,size\na,0,1,5\n";
    fs::write(folder.path().join("table"), table).unwrap();
    fs::write(folder.path().join("table.csv"), table).unwrap();
    fs::write(folder.path().join("faulty.CSV"), "id\n").unwrap();
    for name in ["table", "table.csv", "faulty.CSV"] {
        let hint = format!("dheap plan {name}");
        dheap_at(folder.path(), &["run", name]).refused(&[name, "is a table of buffers", &hint]);
    }
    fs::write(folder.path().join("other"), "text").unwrap();
    dheap_at(folder.path(), &["run", "other"]).refused(&["other:1", "no valid JSON"]);
}

#[test]
fn a_sequence_without_events_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let text = include_str!("../../sequences/tiles.json").replace("\"max\": 64", "\"max\": 0");
    fs::write(folder.path().join("zero.json"), text).unwrap();
    let ran = dheap_at(folder.path(), &["run", "zero.json", "--events", "1"]);
    ran.refused(&["zero.json", "raise its parameter \"events\" from 0"]);
    assert!(!ran.stderr.contains("at most 0"), "{ran:?}");
}

#[test]
fn a_table_of_buffers_has_one_arena() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.csv"), "id,lower,upper,size\n").unwrap();
    dheap_at(folder.path(), &["plan", "in.csv", "--scope", "host"])
        .refused(&["--scope is for sequences"]);
}

/// A file's text, the command that reads it, and words of the error beside the
/// file's name.
const FILES: &[(&str, &str, &[&str])] = &[
    ("empty.json", "", &["no valid JSON"]),
    ("broken.json", "{\"format\": ", &["empty", "no valid JSON"]),
    ("list.json", "[]", &["must be"]),
    (
        "format.json",
        "{\"format\": \"x\", \"version\": 1}",
        &["format"],
    ),
    (
        "version.json",
        "{\"format\": \"device-heap-sequence\", \"version\": 2, \"name\": \"x\", \"parameters\": [], \"algorithms\": []}",
        &["version", "2", "1"],
    ),
    (
        "unknown.json",
        "{\"format\": \"device-heap-sequence\", \"version\": 1, \"nmae\": \"x\"}",
        &["nmae", "name"],
    ),
    (
        "twice.json",
        "{\"format\": \"device-heap-sequence\", \"version\": 1, \"name\": \"x\", \"name\": \"y\"}",
        &["name", "twice"],
    ),
    (
        "zero.json",
        "{\"format\": \"device-heap-sequence\", \"version\": 1, \"name\": \"x\", \"parameters\": [{\"name\": \"events\", \"max\": 18446744073709551616}], \"algorithms\": []}",
        &[":1:", "max", "18446744073709551615"],
    ),
];

#[test]
fn bad_sequences_are_refused_by_both_commands() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, words) in FILES {
        fs::write(folder.path().join(name), text).unwrap();
        for command in ["run", "plan"] {
            let ran = dheap_at(folder.path(), &[command, name]);
            let words: Vec<&str> = words
                .iter()
                .copied()
                .filter(|&word| word != "empty")
                .collect();
            ran.refused(&[&[*name], &words[..]].concat());
        }
    }
}

#[test]
fn bad_tables_are_refused_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let head = "id,lower,upper,size,alignment\n";
    for (rows, words) in [
        ("", &["header is missing"][..]),
        ("a,b,c\n", &["header"]),
        ("id,lower,upper,size,colour\n", &[":1", "colour"]),
        ("id,lower,upper\n", &[":1", "size"]),
        ("H\na,0,1,5\n", &[":2", "'a'"]),
        ("Ha,0,1,x,1\n", &[":2", "'a'", "size", "'x'"]),
        ("Ha,0,1,-5,1\n", &[":2", "'a'", "negative"]),
        (
            "Ha,0,1,18446744073709551616,1\n",
            &[":2", "too large", "18446744073709551615"],
        ),
        ("Ha,0,1,5,1\n\na,0,1,5,1\n", &[":4", "'a'", "2"]),
        ("Ha,5,1,5,1\n", &[":2", "'a'", "5 or more"]),
        ("Ha,0,1,5,0\n", &[":2", "'a'", "power of two"]),
        ("Ha,0,1,5,48\n", &[":2", "'a'", "48", "power of two"]),
        (
            "Ha,0,1,18446744073709551615,1\nb,0,1,1,1\n",
            &[":3", "'b'", "sum"],
        ),
        ("H\"a,0,1,5,1\n", &[":2", "quote"]),
        ("Ha\0b,0,1,5,1\n", &[":2", "a\\0b", "control character"]),
        (
            "Hc,0,1,5,1\n\"a\nb\",0,1,5,1\n",
            &[":3", "a\\nb", "control character"],
        ),
        ("H\u{1b}[0m,0,1,5,1\n", &[":2", "\\u{1b}[0m"]),
    ] {
        let text = rows.replace("H\n", head).replacen('H', head, 1);
        fs::write(folder.path().join("bad.csv"), text).unwrap();
        let ran = dheap_at(folder.path(), &["plan", "bad.csv"]);
        ran.refused(&[&["bad.csv"], words].concat());
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub.json")).unwrap();
    fs::write(folder.path().join("binary.json"), [0xff, 0xfe, 0, 1]).unwrap();
    fs::write(
        folder.path().join("binary.csv"),
        [b'i', b'd', 0xff, 0xfe, 0, 1],
    )
    .unwrap();
    for command in ["run", "plan"] {
        let ran = |file| dheap_at(folder.path(), &[command, file]);
        ran("none.json").refused(&["none.json", "No such file", "quickstart"]);
        ran("sub.json").refused(&["sub.json", "is a directory"]);
        ran("binary.json").refused(&["binary.json", "UTF-8"]);
        ran("").refused(&["a value is required"]);
    }
    dheap_at(folder.path(), &["plan", "binary.csv"]).refused(&["binary.csv"]);
}

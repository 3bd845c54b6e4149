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
            &["'cuda'", "only the backend cpu"],
        ),
        (&["run", "--events"], &["--events <N>"]),
        (
            &["run", "--events", "0"],
            &["--events <N>", "0 is not in 1.."],
        ),
        (&["run", "--events", "-1"], &["-1"]),
        (&["run", "--events", "1.5"], &["'1.5'", "--events"]),
        (&["run", "--events", OVER], &[OVER, "--events", "too large"]),
        (
            &["run", "--events", "1", "--events", "2"],
            &["--events <N>", "multiple times"],
        ),
        (
            &["run", "--batches", "0"],
            &["--batches <N>", "0 is not in 1.."],
        ),
        (
            &["run", "--streams", "0"],
            &["--streams <N>", "0 is not in 1..=1024"],
        ),
        (&["run", "--seed", "x"], &["'x'", "--seed"]),
        (&["run", "--pool", "64M"], &["'64M'", "KiB, MiB", "MB"]),
        (&["run", "--pool", "64 XiB"], &["'XiB' is no unit"]),
        (
            &["run", "--pool", "1.0000001KiB"],
            &["whole number of bytes"],
        ),
        (&["run", "--pool", "99999999TiB"], &[MAX]),
        (&["run", "--pool", ""], &["like 4096 or 64MiB"]),
        (&["plan", "tiles", "--capacity", "big"], &["'big'", "64MiB"]),
        (&["plan", "tiles", "--time-limit", "-3"], &["-3"]),
        (
            &["plan", "tiles", "--time-limit", "nan"],
            &["seconds", "2.5"],
        ),
        (
            &["plan", "tiles", "--scope", "disk"],
            &["'disk'", "device, host"],
        ),
        (&["stress", "--threads", "0"], &["0 is not in 1..=1024"]),
        (
            &["stress", "--threads", "1025"],
            &["1025 is not in 1..=1024"],
        ),
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
        let ran = dheap(&[args, &["--pool", "250TiB"]].concat());
        ran.failed(1, &["274877906944000 bytes", "ask for less"]);
        assert_eq!(ran.stdout, "");
    }
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

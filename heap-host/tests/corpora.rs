//! Replays the fuzzer's inputs in `fuzz/corpus`, with no fuzzer.

use std::path::Path;

use heap_host::fuzzing;

/// Runs `target` on every file of its corpus; the last one named in the
/// output is the one that failed.
fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(name);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{} has to be there: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no file", folder.display());
    for file in files {
        println!("{}", file.display());
        target(&std::fs::read(&file).unwrap());
    }
}

#[test]
fn plan() {
    replay("plan", fuzzing::plan);
}

#[test]
fn plan_csv() {
    replay("plan_csv", fuzzing::plan_csv);
}

#[test]
fn sequence_json() {
    replay("sequence_json", fuzzing::sequence_json);
}

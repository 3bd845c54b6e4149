//! Help, version, and that the examples in the help are true.

use std::process::{Command, Stdio};

use super::common::{command, dheap, dheap_at};

const COMMANDS: [&[&str]; 5] = [
    &["--help"],
    &["run", "--help"],
    &["plan", "--help"],
    &["stress", "--help"],
    &["selftest", "--help"],
];

#[test]
fn help_and_version_go_to_standard_output() {
    for line in COMMANDS {
        let help = dheap(line).done().stdout;
        assert!(
            help.contains("Usage: dheap") && help.contains("Examples:"),
            "{help}"
        );
    }
    let version = dheap(&["--version"]).done().stdout;
    assert_eq!(version, format!("dheap {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_help_names_every_option_and_exit_code() {
    let help = dheap(&["--help"]).stdout;
    for word in [
        "run",
        "plan",
        "stress",
        "--json",
        "64MiB",
        "0 done",
        "1 the work failed",
        "2 bad input",
    ] {
        assert!(help.contains(word), "{word}");
    }
    for (name, options) in [
        (
            "run",
            "--events --batches --seed --backend --pool --streams --json",
        ),
        (
            "plan",
            "--capacity --time-limit --seed --nodes --threads --out --json --scope <FILE>",
        ),
        ("stress", "--threads --ops --pool --seed --json"),
        (
            "selftest",
            "--backend --device --pool --seed --only --list --soak --quick --json",
        ),
        ("devices", "--json"),
    ] {
        let help = dheap(&[name, "--help"]).stdout;
        for option in options.split(' ') {
            assert!(help.contains(option), "{name} {option}");
        }
    }
}

#[test]
fn the_help_says_what_is_done_where_nothing_is_said() {
    let words = |line: &[&str]| {
        let help = dheap(line).stdout;
        help.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let plan = words(&["plan", "--help"]);
    for word in [
        "[default: device]",
        "A quick placement is made first and always finished",
        "at most so long",
    ] {
        assert!(plan.contains(word), "{word}: {plan}");
    }
    assert!(words(&["--help"]).contains("standard output has one JSON object for 0 and 1"));
}

/// Every line `  dheap ...` under "Examples:", without its comment.
fn examples() -> Vec<Vec<String>> {
    let mut examples = Vec::new();
    for line in COMMANDS {
        let help = dheap(line).stdout;
        let (_, tail) = help.split_once("Examples:\n").expect("there are examples");
        let lines = tail.lines().take_while(|line| line.starts_with("  dheap"));
        examples.extend(lines.map(|line| {
            let told = line.trim_start().split("  ").next().unwrap_or_default();
            told.split(' ')
                .skip(1)
                .map(String::from)
                .collect::<Vec<_>>()
        }));
    }
    examples.sort();
    examples.dedup();
    examples
}

#[test]
fn the_examples_of_the_help_work() {
    let folder = tempfile::tempdir().unwrap();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/sequences/quickstart.json");
    std::fs::create_dir(folder.path().join("sequences")).unwrap();
    std::fs::copy(shipped, folder.path().join("sequences/quickstart.json")).unwrap();
    std::fs::write(
        folder.path().join("buffers.csv"),
        "id,lower,upper,size\na,0,2,100\nb,1,3,50\n",
    )
    .unwrap();
    let examples = examples();
    assert!(examples.len() >= 12, "{examples:?}");
    for example in examples {
        let args: Vec<&str> = example.iter().map(String::as_str).collect();
        let ran = dheap_at(folder.path(), &args).done();
        assert!(!ran.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_fault() {
    for args in [
        &["stress", "--ops", "100"][..],
        &["--help"],
        &["plan", "tiles", "--json"],
    ] {
        let mut command = command(".".as_ref(), args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(
            (ended.status.code(), ended.stderr),
            (Some(0), vec![]),
            "{args:?}"
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = command(".".as_ref(), &["stress", "--ops", "10"]);
    let ended = command
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(
        told.starts_with("error: the result cannot be written"),
        "{told}"
    );
}

#[test]
fn log_lines_go_to_standard_error_only() {
    let mut command: Command = command(".".as_ref(), &["stress", "--ops", "10", "--json", "-vv"]);
    let ended = command.env("RUST_LOG", "trace").output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    let out = String::from_utf8(ended.stdout).unwrap();
    assert!(
        serde_json::from_str::<serde_json::Value>(&out).is_ok(),
        "{out}"
    );
    let ended = command.env("RUST_LOG", "a=b=c").output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(
        told.starts_with("error: RUST_LOG is not understood"),
        "{told}"
    );
}

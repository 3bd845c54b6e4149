//! Closures that the host calls, and names that they are registered by.

mod runtime_support;

use heap_host::runtime::{CpuBackend, Options, Probe, RunError};
use runtime_support::{assert_clean, executor, tracks};

/// A panic on the host says where, and the next batch starts clean.
#[test]
fn a_panic_in_a_sink_or_a_probe_is_named() {
    let options = Options {
        outputs: vec!["hits".into()],
        ..Options::default()
    };
    let mut first = executor(options.clone());
    first
        .on_output("hits", |events, _| assert!(events.start > 0, "no zeros"))
        .unwrap();
    let error = first.run_batch(0, 90).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the on_output of \"hits\" failed for events 0 to 89: it panicked: no zeros"
    );
    assert_clean(&first.run_batch(1, 90).unwrap(), 90);

    let mut second = executor(options);
    let mut calls = 0;
    let probe = move |_: &mut Probe<'_, CpuBackend>| {
        calls += 1;
        assert!(calls > 1, "the first");
    };
    second.probe("decode", probe).unwrap();
    let error = second.run_batch(5, 2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the probe of \"decode\" failed for events 5 to 6: it panicked: the first"
    );
    assert_clean(&second.run_batch(5, 2).unwrap(), 2);
}

/// Names that nobody has are answered with those that are near.
#[test]
fn unknown_names_have_suggestions() {
    let outputs = vec!["hits".into()];
    let mut executor = executor(Options {
        outputs,
        ..Options::default()
    });
    let told = |error: RunError| error.to_string();
    let algorithm = told(executor.on("decoed", |_| Ok(())).unwrap_err());
    assert!(
        algorithm.ends_with("(did you mean \"decode\"?)"),
        "{algorithm}"
    );
    let output = told(executor.on_output("hit", |_, _| {}).unwrap_err());
    assert!(output.ends_with("(did you mean \"hits\"?)"), "{output}");
    let wrong = Options {
        outputs: vec!["htis".into()],
        ..Options::default()
    };
    let wrong = wrong.validate(&tracks()).unwrap_err().to_string();
    assert!(wrong.ends_with("(did you mean \"hits\"?)"), "{wrong}");
}

//! A small sequence that has one of everything that the runtime's tests need.
#![allow(dead_code, reason = "each test file uses a part of what they share")]

use heap_host::runtime::{BatchOutcome, Debug, Executor, Options, RunError};
use heap_host::sequence::{BufferSpec, Sequence, SequenceBuilder};

/// The largest batch of [`tracks`].
pub(crate) const EVENTS: u64 = 100;

/// Counts hits, decodes them, makes tracks of some, and selects events:
/// `count` -> `decode` -> `seed` -> `fit` -> `select`.
///
/// Per event: 20 hits of 16 bytes, 3 tracks of 48 bytes.
pub(crate) fn tracks() -> Sequence {
    let mut b = SequenceBuilder::new("tracks");
    let events = b.parameter("events", EVENTS);

    let count = b.algorithm("count");
    let counts = BufferSpec::device_static("counts").element_bytes(4);
    let counts = b.write(count, counts.per(events, 1));
    let hits_total = b.total("T.hits", count, 20);

    let decode = b.algorithm("decode");
    b.read(decode, counts);
    let hits = BufferSpec::device_dynamic("hits").element_bytes(16);
    let hits = b.write(decode, hits.per(hits_total, 1));
    let scratch = BufferSpec::device_dynamic("scratch").element_bytes(1);
    b.write(decode, scratch.per(hits_total, 3).constant(100).temporary());

    let seed = b.algorithm("seed");
    b.read(seed, hits);
    let flags = BufferSpec::device_dynamic("flags").element_bytes(1);
    let flags = b.write(seed, flags.per(hits_total, 1).fill(0xff));
    let tracks_total = b.total("T.tracks", seed, 3);

    let fit = b.algorithm("fit");
    b.read_all(fit, [hits, flags]);
    let tracks = BufferSpec::device_dynamic("tracks").element_bytes(48);
    let tracks = b.write(fit, tracks.per(tracks_total, 1));
    let view = BufferSpec::device_static("view").element_bytes(16);
    let view = b.write(fit, view.constant(1).keeps_alive(tracks));

    let select = b.algorithm("select");
    b.read(select, view);
    let decisions = BufferSpec::host_static("decisions").element_bytes(1);
    b.write(select, decisions.per(events, 1));
    let summary = BufferSpec::host_dynamic("summary").element_bytes(8);
    b.write(select, summary.per(tracks_total, 1));
    b.build().expect("the sequence is valid")
}

/// An executor of [`tracks`] with all debug modes.
pub(crate) fn executor(options: Options) -> Executor {
    let options = Options {
        debug: Debug::ALL,
        ..options
    };
    Executor::configure(&tracks(), &options).expect("the options are valid")
}

/// Nothing was lost, done twice or wrong.
pub(crate) fn assert_clean(outcome: &BatchOutcome, events: u64) {
    assert!(
        outcome.verified(),
        "{:?} {:?} {:?}",
        outcome.findings,
        outcome.leaks,
        outcome.corruption
    );
    let failed = outcome.events_failed.len() as u64;
    assert_eq!(outcome.events_done + failed, events);
    for used in [outcome.device, outcome.host] {
        assert_eq!(used.allocations, used.frees);
    }
}

/// Runs a batch of all events and hands back the text of its first finding.
pub(crate) fn first_finding(executor: &mut Executor) -> String {
    let outcome = executor.run_batch(0, EVENTS).expect("the batch runs");
    let finding = outcome.findings.first();
    finding.expect("the fault is found").to_string()
}

/// Runs a batch of all events, which fails.
pub(crate) fn error(executor: &mut Executor) -> RunError {
    executor.run_batch(0, EVENTS).expect_err("the batch fails")
}

//! Pools that are too small: what is reported, and that no event is lost or
//! done twice.

mod runtime_support;

use std::sync::Arc;

use heap_host::runtime::{
    BatchOutcome, Executor, FailureReason, KernelContext, Options, Placement,
};
use heap_host::sequence::{BufferSpec, Sequence, SequenceBuilder};
use parking_lot::Mutex;
use runtime_support::{assert_clean, tracks};

const KIB: u64 = 1024;

/// One dynamic buffer of a KiB per item, and an output with a number for each
/// event.
fn items(events: u64) -> Sequence {
    let mut b = SequenceBuilder::new("items");
    let max = b.parameter("events", events);
    let count = b.algorithm("count");
    let total = b.total("items", count, 4);
    let make = b.algorithm("make");
    let made = BufferSpec::device_dynamic("made").element_bytes(KIB);
    let made = b.write(make, made.per(total, 1));
    let write = b.algorithm("write");
    b.read(write, made);
    let ledger = BufferSpec::host_static("ledger").element_bytes(8);
    b.write(write, ledger.per(max, 1));
    b.build().unwrap()
}

fn options(pool_bytes: u64) -> Options {
    Options {
        pool_bytes: Some(pool_bytes),
        outputs: vec!["ledger".into()],
        ..Options::default()
    }
}

/// An executor whose events have so many items each, and the ledger of the
/// events that came out.
fn with_ledger(
    events: u64,
    pool_bytes: u64,
    items_of: fn(u64) -> u64,
) -> (Executor, Arc<Mutex<Vec<u64>>>) {
    let mut executor = Executor::configure(&items(events), &options(pool_bytes)).unwrap();
    let count =
        move |ctx: &KernelContext<'_>| Ok(ctx.set_counts("items", ctx.events().map(items_of))?);
    executor.on("count", count).unwrap();
    let write = |ctx: &KernelContext<'_>| {
        let mut ledger = ctx.write::<u64>("ledger")?;
        for (entry, event) in ledger.iter_mut().zip(ctx.events()) {
            *entry = event;
        }
        Ok(())
    };
    executor.on("write", write).unwrap();
    let ledger = Arc::new(Mutex::new(Vec::new()));
    let entries = Arc::clone(&ledger);
    executor
        .on_output("ledger", move |events, bytes| {
            let numbers = bytes
                .chunks_exact(8)
                .map(|b| u64::from_ne_bytes(b.try_into().unwrap()));
            let numbers: Vec<u64> = numbers.collect();
            assert_eq!(numbers, events.collect::<Vec<_>>());
            entries.lock().extend(numbers);
        })
        .unwrap();
    (executor, ledger)
}

/// Every event that is done is in the ledger once, and no other one.
#[test]
fn no_event_is_lost_or_done_twice() {
    // 4 to 10 KiB an event; whole batches of 64 need about 450 KiB.
    for pool in [200 * KIB, 128 * KIB, 80 * KIB, 64 * KIB] {
        let (mut executor, ledger) = with_ledger(64, pool, |event| 4 + event * 7 % 7);
        for batch in 0..3 {
            let outcome = executor.run_batch(batch * 64, 64).unwrap();
            assert_clean(&outcome, 64);
            assert!(outcome.splits > 0 && outcome.events_failed.is_empty());
        }
        assert_eq!(*ledger.lock(), (0..192).collect::<Vec<u64>>());
    }
}

/// Seen in AliceO2Group/AliceO2#14311 (its maintainers test it so): from a pool
/// that fits everything to one that fits nothing, all clean, whatever remains.
#[test]
fn a_shrinking_pool_stays_clean_until_nothing_fits() {
    let mut done = Vec::new();
    for pool in (1..=48).rev().map(|tenth| tenth * 10 * KIB) {
        let options = Options {
            pool_bytes: Some(pool),
            ..Options::default()
        };
        let Ok(mut executor) = Executor::configure(&tracks(), &options) else {
            continue;
        };
        let outcome = executor.run_batch(0, 100).unwrap();
        assert_clean(&outcome, 100);
        done.push((outcome.events_done, outcome.splits));
    }
    assert_eq!(done[0], (100, 0), "the largest pool fits all");
    assert!(done.iter().any(|&(_, splits)| splits > 1));
    assert!(
        done.is_sorted_by(|larger, smaller| larger.0 >= smaller.0),
        "{done:?}"
    );
}

/// Seen in pytorch/pytorch#35901, #29554, #13751 and arbor-sim/arbor#2032: the
/// message says what was asked for, what was free and in how large a piece.
#[test]
fn a_failure_names_buffer_step_and_figures() {
    let (mut executor, _) = with_ledger(8, 128 * KIB, |_| 100);
    let outcome = executor.run_batch(0, 8).unwrap();
    let failure = &outcome.failures[0];
    assert_eq!((&*failure.name, &*failure.algorithm), ("made", "make"));
    assert_eq!(failure.reason, FailureReason::NoRoom);
    assert_eq!(failure.needed_bytes, 800 * KIB);
    assert_eq!(failure.pool_bytes, 128 * KIB);
    assert_eq!(failure.free_bytes, failure.largest_hole_bytes);
    assert_eq!(failure.largest_of_free, 1.0);
    let text = failure.to_string();
    for part in [
        "8 events from 0 on",
        "\"made\"",
        "\"make\"",
        "819200",
        "131072",
        "100 %",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // Seen in pytorch/pytorch#173049: a hint that does not apply.
    assert!(!text.contains("in pieces"), "{text}");
    assert_eq!(outcome.events_done, 8, "one at a time they fit");
    assert_eq!(outcome.splits, 7);
}

/// Eight MiB, of which every second one is free when two are wanted in one
/// piece.
fn comb() -> Sequence {
    let mut b = SequenceBuilder::new("comb");
    b.parameter("events", 1);
    let count = b.algorithm("count");
    let total = b.total("items", count, 1);
    let buffer = |name: String, mib: u64| {
        BufferSpec::device_dynamic(name)
            .element_bytes(mib << 20)
            .per(total, 1)
    };
    let first = b.algorithm("first");
    let pieces: Vec<_> = (0..8)
        .map(|index| b.write(first, buffer(format!("piece_{index}"), 1)))
        .collect();
    let second = b.algorithm("second");
    b.write(second, buffer("large".into(), 2));
    let end = b.algorithm("end");
    b.read_all(end, pieces.into_iter().step_by(2));
    b.build().unwrap()
}

fn run_comb(placement: Placement) -> BatchOutcome {
    let options = Options {
        pool_bytes: Some(8448 * KIB),
        placement,
        ..Options::default()
    };
    let mut executor = Executor::configure(&comb(), &options).unwrap();
    executor
        .on("count", |ctx| Ok(ctx.set_total("items", 1)?))
        .unwrap();
    let outcome = executor.run_batch(0, 1).unwrap();
    assert_clean(&outcome, 1);
    outcome
}

/// Seen in pytorch/pytorch#35901: half of the memory is free, but in pieces,
/// and nobody says so.
#[test]
fn a_failure_says_where_memory_is_in_pieces() {
    let outcome = run_comb(Placement::Best);
    let failure = &outcome.failures[0];
    assert!(failure.free_bytes >= 4 << 20, "{failure}");
    assert!(failure.largest_hole_bytes < 2 << 20, "{failure}");
    assert!((0.2..0.5).contains(&failure.largest_of_free), "{failure}");
    assert!(
        failure
            .to_string()
            .ends_with("; enough is free, but in pieces"),
        "{failure}"
    );
}

/// With lifetimes known, long lives lie at one end, and what the short ones
/// leave is one hole.
#[test]
fn placement_by_lifetime_keeps_the_hole_whole() {
    for placement in [Placement::Auto, Placement::Border(0)] {
        assert_eq!(run_comb(placement).events_done, 1);
    }
}

/// Seen in MohamedElashri/inference: an event beyond a limit is silently
/// emptied. Here it is reported by its number, and all others are done.
#[test]
fn an_event_that_cannot_fit_alone_is_named() {
    let (mut executor, ledger) =
        with_ledger(32, 128 * KIB, |event| if event == 21 { 1001 } else { 2 });
    let outcome = executor.run_batch(0, 32).unwrap();
    assert_clean(&outcome, 32);
    assert_eq!(outcome.events_failed, [21]);
    assert_eq!(outcome.events_done, 31);
    let others: Vec<u64> = (0..32).filter(|&event| event != 21).collect();
    assert_eq!(*ledger.lock(), others);
    let last = outcome.failures.last().unwrap().to_string();
    assert!(last.starts_with("event 21: buffer \"made\""), "{last}");
    // The next batch starts clean.
    let outcome = executor.run_batch(100, 32).unwrap();
    assert_eq!((outcome.events_done, outcome.splits), (32, 0));
}

/// Seen in rapidsai/rmm#2451 and AliceO2Group/AliceO2#6418: a product of count
/// and size wraps, and a small buffer is handed out.
#[test]
fn sizes_and_totals_beyond_64_bits_are_failures() {
    let huge = |event| if event == 3 { 1 << 61 } else { 1 };
    let (mut executor, ledger) = with_ledger(8, 128 * KIB, huge);
    let outcome = executor.run_batch(0, 8).unwrap();
    assert_eq!(outcome.events_failed, [3]);
    assert_eq!(outcome.failures[0].reason, FailureReason::SizeOverflow);
    assert_eq!(ledger.lock().len(), 7);

    let (mut executor, _) = with_ledger(2, 128 * KIB, |_| u64::MAX);
    let outcome = executor.run_batch(0, 2).unwrap();
    assert_eq!(outcome.failures[0].reason, FailureReason::TotalOverflow);
    assert_eq!(outcome.failures[0].name, "items");
    assert_eq!(outcome.events_failed, [0, 1]);
}

/// A pool in host memory fails, and is reported, like one in device memory.
#[test]
fn a_small_host_pool_splits_too() {
    let options = Options {
        host_pool_bytes: Some(16 * KIB),
        ..Options::default()
    };
    let mut b = SequenceBuilder::new("host");
    b.parameter("events", 16);
    let count = b.algorithm("count");
    let total = b.total("items", count, 1);
    let make = b.algorithm("make");
    let made = BufferSpec::host_dynamic("made").element_bytes(KIB);
    b.write(make, made.per(total, 1));
    let mut executor = Executor::configure(&b.build().unwrap(), &options).unwrap();
    let outcome = executor.run_batch(0, 16).unwrap();
    assert_clean(&outcome, 16);
    assert!(outcome.splits > 0, "{outcome:?}");
    assert_eq!(
        (outcome.events_done, outcome.failures[0].pool_bytes),
        (16, 16 * KIB)
    );
    assert!(outcome.host.failed > 0 && outcome.device.allocations == 0);
}

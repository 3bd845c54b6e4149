//! Many batches, many streams: nothing drifts, nothing is left behind.

mod runtime_support;

use std::collections::HashMap;

use heap_host::runtime::{self, BatchOutcome, Configuration, Executor, KernelContext, Options};
use heap_host::sequence::{BufferSpec, Scope, SequenceBuilder};
use runtime_support::{EVENTS, assert_clean, executor, tracks};

/// The same events have the same high water, however many batches came before.
///
/// Seen in rapidsai/rmm#35 and llnl/Umpire#539: pools that grow with every
/// cycle, and counters that drift.
#[test]
fn equal_batches_of_ten_thousand_have_equal_high_water() {
    let mut executor = Executor::configure(&tracks(), &Options::default()).unwrap();
    let mut seen: HashMap<(u64, u64), BatchOutcome> = HashMap::new();
    for batch in 0..10_000u64 {
        let events = batch * 37 % (EVENTS + 1);
        let first = 1000 * (batch % 3);
        let outcome = executor.run_batch(first, events).unwrap();
        assert_clean(&outcome, events);
        let before = seen
            .entry((first, events))
            .or_insert_with(|| outcome.clone());
        assert_eq!(*before, outcome, "batch {batch}");
    }
    assert_eq!(seen.len(), 303);
    for scope in [Scope::Host, Scope::Device] {
        assert_eq!(executor.leaked_bytes(scope), 0);
    }
}

/// Seen in JuliaGPU/CUDA.jl#1230 and NVIDIA/warp#1418: each replay of the same
/// work leaks, or frees too early from the third one on.
#[test]
fn a_thousand_replays_leave_use_and_addresses_as_they_were() {
    let mut executor = executor(Options::default());
    let addresses = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&addresses);
    executor
        .after("fit", move |ctx| {
            let pointer = |name| ctx.pointer(name).map(|pointer| pointer as usize);
            seen.lock()
                .push([pointer("hits")?, pointer("tracks")?, pointer("view")?]);
            Ok(())
        })
        .unwrap();
    for _ in 0..1000 {
        assert_clean(&executor.run_batch(5, EVENTS).unwrap(), EVENTS);
    }
    let addresses = addresses.lock();
    assert_eq!(addresses.len(), 1000);
    assert!(addresses.iter().all(|address| *address == addresses[0]));
}

/// Seen in NVIDIA/TensorRT-LLM#15265: a fault that shows at batch 1088 only,
/// when two streams hand memory to each other. Here no stream's buffer is ever
/// in another's region.
#[test]
fn streams_have_regions_of_their_own() {
    let options = Options {
        batches: 1200,
        streams: 4,
        seed: 9,
        ..Options::default()
    };
    let report = runtime::run(&tracks(), &options, &()).unwrap();
    assert!(report.verified);
    assert_eq!((report.batches, report.events_done), (1200, 1200 * EVENTS));
    assert_eq!(report.dynamic.allocations, report.dynamic.frees);
    assert_eq!((report.leaked_bytes, report.host_syncs_in_batch), (0, 0));
}

/// Seen in NVIDIA/cuml#2632: what streams leave when they are taken down.
#[test]
fn a_hundred_executors_come_and_go() {
    let sequence = tracks();
    for seed in 0..100 {
        let options = Options {
            seed,
            ..Options::default()
        };
        let mut executor = Executor::configure(&sequence, &options).unwrap();
        assert_clean(&executor.run_batch(seed, EVENTS).unwrap(), EVENTS);
    }
}

/// The counts of an event do not depend on the batch it is in.
#[test]
fn a_batch_and_its_halves_have_the_same_events() {
    let total = tracks().total_named("T.hits").unwrap();
    let offsets = |batches: &[(u64, u64)]| {
        let mut executor = executor(Options::default());
        let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
        let counts = std::sync::Arc::clone(&seen);
        executor
            .after("decode", move |ctx| {
                let offsets = ctx.offsets(total)?;
                counts
                    .lock()
                    .extend(offsets.windows(2).map(|pair| pair[1] - pair[0]));
                Ok(())
            })
            .unwrap();
        for &(first, events) in batches {
            executor.run_batch(first, events).unwrap();
        }
        seen.lock().clone()
    };
    let whole = offsets(&[(40, 100)]);
    assert_eq!(whole, offsets(&[(40, 50), (90, 25), (115, 25)]));
    let mean = whole.iter().sum::<u64>() as f64 / 100.0;
    assert!((15.0..25.0).contains(&mean), "{mean}");
    assert!(whole.iter().any(|&count| count != whole[0]));
}

#[test]
fn no_events_are_legal() {
    let mut executor = executor(Options::default());
    let outcome = executor.run_batch(3, 0).unwrap();
    assert_clean(&outcome, 0);
    assert!(outcome.device.allocations > 0, "constant parts are there");
    let report = runtime::run(
        &tracks(),
        &Options {
            events: Some(0),
            batches: 2,
            ..Options::default()
        },
        &(),
    )
    .unwrap();
    assert!(report.verified);
    assert_eq!(report.events_done, 0);
}

#[test]
fn no_batches_are_legal() {
    let options = Options {
        batches: 0,
        streams: 3,
        ..Options::default()
    };
    let report = runtime::run(&tracks(), &options, &()).unwrap();
    assert!(report.verified);
    assert_eq!((report.batches, report.events_done), (0, 0));
}

/// Totals of zero, buffers of no elements, elements of no bytes, and a sequence
/// without anything in it.
#[test]
fn nothing_at_all_is_legal() {
    let mut b = SequenceBuilder::new("nothing");
    let events = b.parameter("events", 10);
    let empty = b.clone().build().unwrap();
    let count = b.algorithm("count");
    let total = b.total("items", count, 0);
    let make = b.algorithm("make");
    let none = b.write(
        make,
        BufferSpec::device_dynamic("none")
            .element_bytes(8)
            .per(total, 1),
    );
    let weightless = BufferSpec::device_static("weightless").element_bytes(0);
    let weightless = b.write(make, weightless.per(events, 3));
    let read = b.algorithm("read");
    b.read_all(read, [none, weightless]);
    for sequence in [empty, b.build().unwrap()] {
        let mut executor = Executor::configure(&sequence, &Options::default()).unwrap();
        let outcome = executor.run_batch(0, 10).unwrap();
        assert_clean(&outcome, 10);
        assert_eq!(outcome.events_done, 10);
    }
}

/// Progress is told batch by batch.
#[test]
fn progress_hears_of_every_batch() {
    use std::sync::atomic::{AtomicU64, Ordering};
    #[derive(Default)]
    struct Heard {
        batches: AtomicU64,
        events: AtomicU64,
    }
    impl runtime::Progress for Heard {
        fn begin(&self, batches: u64) {
            self.batches.fetch_add(batches, Ordering::Relaxed);
        }
        fn batch_done(&self, outcome: &BatchOutcome) {
            self.events
                .fetch_add(outcome.events_done, Ordering::Relaxed);
        }
    }
    let heard = Heard::default();
    let options = Options {
        batches: 5,
        streams: 2,
        ..Options::default()
    };
    runtime::run(&tracks(), &options, &heard).unwrap();
    assert_eq!(heard.batches.into_inner(), 5);
    assert_eq!(heard.events.into_inner(), 5 * EVENTS);
}

/// Seen in cms-sw/cmssw#51712: a deadlock where one stream allocates while
/// another one waits in a free. Two streams meet in every kernel of a sequence.
#[test]
fn streams_may_wait_for_each_other_in_kernels() {
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(2));
    let config = Configuration::new(&tracks(), &Options::default()).unwrap();
    let config = std::sync::Arc::new(config);
    std::thread::scope(|scope| {
        for stream in 0..2 {
            let (barrier, config) = (barrier.clone(), config.clone());
            scope.spawn(move || {
                let mut executor: Executor = Executor::with_configuration(config).unwrap();
                for algorithm in ["count", "decode", "seed", "fit", "select"] {
                    let barrier = barrier.clone();
                    let meet = move |_: &KernelContext<'_>| {
                        barrier.wait();
                        Ok(())
                    };
                    executor.after(algorithm, meet).unwrap();
                }
                for batch in 0..50 {
                    let outcome = executor.run_batch(stream * 1000 + batch, EVENTS).unwrap();
                    assert_clean(&outcome, EVENTS);
                }
            });
        }
    });
}

/// The keys that `dheap run --json` promises.
#[test]
fn a_report_has_the_promised_keys() {
    let report = runtime::run(&tracks(), &Options::default(), &()).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    let has = |object: &serde_json::Value, keys: &str| {
        for key in keys.split_whitespace() {
            assert!(object.get(key).is_some(), "no {key} in {object}");
        }
    };
    has(
        &json,
        "sequence events batches backend seed buffers static dynamic host",
    );
    has(
        &json,
        "host_syncs_in_batch verified leaked_bytes events_done events_failed seconds",
    );
    for scope in ["host", "device"] {
        for kind in ["static", "dynamic"] {
            has(&json["buffers"][scope][kind], "count bytes");
        }
    }
    has(&json["static"], "peak_bytes lower_bound_bytes sum_bytes");
    has(
        &json["host"]["static"],
        "peak_bytes lower_bound_bytes sum_bytes",
    );
    for dynamic in [&json["dynamic"], &json["host"]["dynamic"]] {
        has(
            dynamic,
            "pool_bytes high_water_bytes lower_bound_bytes sum_bytes",
        );
        has(dynamic, "allocations frees failed splits");
    }
}

//! Kernels of one's own: what they may do, and what they are refused.

mod runtime_support;

use std::sync::Arc;

use heap_host::runtime::{
    AccessError, Configuration, Debug, Executor, KernelContext, Length, Options, RunError,
};
use heap_host::sequence::{BufferId, BufferSpec, Scope, Sequence, SequenceBuilder};
use parking_lot::Mutex;
use runtime_support::{EVENTS, assert_clean, executor, tracks};

/// What a kernel is told when it asks for `f`.
fn refusal(algorithm: &str, ask: fn(&KernelContext<'_>) -> Result<(), AccessError>) -> AccessError {
    let mut executor = executor(Options::default());
    let seen = Arc::new(Mutex::new(None));
    let told = Arc::clone(&seen);
    executor
        .after(algorithm, move |ctx| {
            *told.lock() = ask(ctx).err();
            Ok(())
        })
        .unwrap();
    assert_clean(&executor.run_batch(0, EVENTS).unwrap(), EVENTS);
    let seen = seen.lock().take();
    seen.expect("the kernel was refused")
}

#[test]
fn reads_and_writes_are_kept_apart() {
    let not_read = refusal("seed", |ctx| ctx.read::<u8>("flags").map(drop));
    assert!(
        matches!(not_read, AccessError::NotRead { .. }),
        "{not_read}"
    );
    let not_written = refusal("seed", |ctx| ctx.write::<u8>("hits").map(drop));
    assert!(
        matches!(not_written, AccessError::NotWritten { .. }),
        "{not_written}"
    );
    let ended = refusal("select", |ctx| ctx.elements("hits").map(drop));
    assert!(matches!(ended, AccessError::NotLive { .. }), "{ended}");
    let early = refusal("decode", |ctx| ctx.elements("tracks").map(drop));
    assert!(matches!(early, AccessError::NotLive { .. }), "{early}");
    let unknown = refusal("seed", |ctx| ctx.read::<u8>("hots").map(drop));
    assert_eq!(
        unknown.to_string(),
        "buffer \"hots\" is not in sequence \"tracks\" (did you mean \"hits\"?)"
    );
    let unknown = refusal("seed", |ctx| ctx.total("T.hit").map(drop));
    assert_eq!(
        unknown.to_string(),
        "total \"T.hit\" is not in sequence \"tracks\" (did you mean \"T.hits\"?)"
    );
    let unknown = refusal("seed", |ctx| ctx.elements(BufferId::new(99)).map(drop));
    assert_eq!(
        unknown.to_string(),
        "buffer number 99 is not in sequence \"tracks\""
    );
}

#[test]
fn an_output_is_lent_once_at_a_time() {
    let refused = refusal("seed", |ctx| {
        let first = ctx.write::<u8>("flags")?;
        let second = ctx.write::<u8>("flags").map(drop);
        drop(first);
        ctx.write::<u8>("flags")?[0] ^= 0;
        second
    });
    assert!(matches!(refused, AccessError::InUse { .. }), "{refused}");
}

#[test]
fn types_must_fit_elements_and_alignment() {
    let refused = refusal("seed", |ctx| ctx.read::<[u64; 3]>("hits").map(drop));
    assert!(
        matches!(refused, AccessError::Type { size: 24, .. }),
        "{refused}"
    );
    let mut executor = executor(Options::default());
    executor
        .after("seed", |ctx| {
            let hits = ctx.elements("hits")? as usize;
            assert_eq!(ctx.read::<[u64; 2]>("hits")?.len(), hits);
            assert_eq!(ctx.read::<u32>("hits")?.len(), 4 * hits);
            assert_eq!(ctx.total("T.hits")? as usize, hits);
            Ok(())
        })
        .unwrap();
    assert_clean(&executor.run_batch(0, EVENTS).unwrap(), EVENTS);
}

#[test]
fn totals_are_there_after_their_algorithm_and_set_by_it_alone() {
    let early = refusal("decode", |ctx| ctx.total("T.tracks").map(drop));
    assert!(
        matches!(early, AccessError::TotalTooEarly { .. }),
        "{early}"
    );
    let foreign = refusal("decode", |ctx| ctx.set_total("T.tracks", 1));
    assert!(
        matches!(foreign, AccessError::NotComputed { .. }),
        "{foreign}"
    );
    let counts = refusal("count", |ctx| ctx.set_counts("T.hits", [1, 2, 3]));
    assert_eq!(
        counts,
        AccessError::Counts {
            total: "T.hits".into(),
            counts: 3,
            events: EVENTS
        }
    );
}

/// Seen in drsnuggles8/OloEngineBase#547: a view does not keep alive what it
/// points into. Here the view's reader finds the target through it.
#[test]
fn a_view_reaches_what_it_keeps_alive() {
    let mut executor = executor(Options::default());
    executor
        .on("fit", |ctx| {
            let address = ctx.pointer("tracks")? as u64;
            ctx.write::<u64>("view")?
                .copy_from_slice(&[address, ctx.elements("tracks")?]);
            ctx.fill("tracks", 7)?;
            Ok(())
        })
        .unwrap();
    executor
        .on("select", |ctx| {
            let view = ctx.read::<u64>("view")?;
            let tracks = ctx.read::<[u8; 48]>("tracks")?;
            assert_eq!(view, [tracks.as_ptr() as u64, tracks.len() as u64]);
            assert!(tracks.iter().all(|track| *track == [7; 48]));
            ctx.fill("decisions", 1)?;
            Ok(())
        })
        .unwrap();
    assert_clean(&executor.run_batch(0, EVENTS).unwrap(), EVENTS);
}

/// Fills and copies whose sizes only the device knows.
#[test]
fn fills_and_copies_of_dynamic_buffers() {
    let mut b = SequenceBuilder::new("copies");
    b.parameter("events", 10);
    let count = b.algorithm("count");
    let total = b.total("items", count, 3);
    let buffer = |name: &str| {
        BufferSpec::device_dynamic(name)
            .element_bytes(4)
            .per(total, 1)
    };
    let make = b.algorithm("make");
    let source = b.write(make, buffer("source").fill(0x11));
    let change = b.algorithm("change");
    b.read(change, source);
    let copy = b.write(change, buffer("copy").copy_of(source));
    let by_hand = b.write(change, buffer("by_hand"));
    let other = b.write(change, buffer("other_size").constant(1));
    let last = b.algorithm("last");
    b.read_all(last, [source, copy, by_hand, other]);
    let sequence = b.build().unwrap();

    // Built-in kernels verify what the fill and copy steps left.
    let options = Options {
        debug: Debug::ALL,
        ..Options::default()
    };
    let mut executor = Executor::configure(&sequence, &options).unwrap();
    assert_clean(&executor.run_batch(0, 10).unwrap(), 10);

    executor
        .on("make", |ctx| {
            let mut source = ctx.write::<u32>("source")?;
            assert!(
                source.iter().all(|&word| word == 0x1111_1111),
                "the fill step ran"
            );
            source
                .iter_mut()
                .zip(5..)
                .for_each(|(word, value)| *word = value);
            Ok(())
        })
        .unwrap();
    executor
        .on("change", |ctx| {
            assert_eq!(ctx.read::<u32>("source")?, &*ctx.write::<u32>("copy")?);
            ctx.copy("source", "by_hand")?;
            ctx.fill("other_size", 3)?;
            let sizes = ctx.copy("source", "other_size");
            assert!(matches!(sizes, Err(AccessError::CopySize { .. })));
            Ok(())
        })
        .unwrap();
    executor
        .on("last", |ctx| {
            let source = ctx.read::<u32>("source")?;
            assert_eq!(source.len() as u64, ctx.total("items")?);
            assert_eq!(source, ctx.read::<u32>("copy")?);
            assert_eq!(source, ctx.read::<u32>("by_hand")?);
            Ok(())
        })
        .unwrap();
    assert_clean(&executor.run_batch(10, 10).unwrap(), 10);
}

/// Seen in acts-project/vecmem#223: the host asks for a size before the device
/// knows it. Here such a size is of a type that the host cannot ask.
#[test]
fn a_size_that_only_the_device_knows_cannot_be_asked_for_on_the_host() {
    let sequence = tracks();
    let config = Configuration::new(&sequence, &Options::default()).unwrap();
    let id = |name| sequence.buffer_named(name).unwrap();
    assert_eq!(config.length(id("counts"), 40), Ok(Length::Known(40)));
    let Ok(Length::OnDevice(length)) = config.length(id("hits"), 40) else {
        panic!("the size of hits depends on a total");
    };
    let mut executor = executor(Options::default());
    executor
        .after("decode", move |ctx| {
            assert_eq!(length.elements(ctx)?, ctx.total("T.hits")?);
            Ok(())
        })
        .unwrap();
    assert_clean(&executor.run_batch(0, 40).unwrap(), 40);
}

/// Seen in ROCm/rocm-systems#7092: what is used after the batch must say so.
#[test]
fn an_output_lives_to_the_end_and_is_delivered() {
    let options = Options {
        outputs: vec!["hits".into(), "counts".into()],
        ..Options::default()
    };
    let mut executor = executor(options);
    executor
        .on("decode", |ctx| Ok(ctx.fill("hits", 0x42)?))
        .unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hits = Arc::clone(&seen);
    executor
        .on_output("hits", move |events, bytes| {
            assert!(bytes.iter().all(|&byte| byte == 0x42));
            hits.lock().push((events, bytes.len()));
        })
        .unwrap();
    let outcome = executor.run_batch(10, 90).unwrap();
    assert_clean(&outcome, 90);
    assert_eq!(outcome.host_syncs, 0, "delivery comes after the batch");
    let seen = seen.lock();
    assert_eq!((seen.len(), &seen[0].0), (1, &(10..100)));
    assert!(seen[0].1.is_multiple_of(16) && seen[0].1 > 90 * 16);
    let refused = executor.on_output("flags", |_, _| {}).unwrap_err();
    assert_eq!(
        refused,
        RunError::NotAnOutput {
            name: "flags".into(),
            nearest: None
        }
    );
}

/// The figures of a batch whose sizes are known, against a count by hand.
#[test]
fn figures_are_those_of_a_count_by_hand() {
    let mut executor = Executor::configure(&tracks(), &Options::default()).unwrap();
    executor
        .on("count", |ctx| Ok(ctx.set_counts("T.hits", ctx.events())?))
        .unwrap();
    executor
        .on("seed", |ctx| {
            Ok(ctx.set_counts("T.tracks", ctx.events().map(|_| 2))?)
        })
        .unwrap();
    let outcome = executor.run_batch(0, 10).unwrap();
    assert_clean(&outcome, 10);
    // 45 hits and 20 tracks. decode: hits and scratch; seed: hits and flags;
    // fit: hits, flags and tracks; select: tracks, and its summary on the host.
    let (hits, scratch, flags, tracks) = (45 * 16, 100 + 3 * 45, 45, 20 * 48);
    let device = outcome.device;
    assert_eq!(device.sum_bytes, hits + scratch + flags + tracks);
    assert_eq!(device.lower_bound_bytes, hits + flags + tracks);
    assert_eq!((device.allocations, device.frees, device.failed), (4, 4, 0));
    let host = outcome.host;
    assert_eq!(
        (host.sum_bytes, host.lower_bound_bytes, host.allocations),
        (160, 160, 1)
    );
}

/// Seen in linebender/vello#257 and NVIDIA/cub#302: counts of a byte whose sum
/// is more than a byte.
#[test]
fn counts_of_any_width_have_64_bit_totals() {
    let mut executor = executor(Options::default());
    let counts = [100u8, 28, 1];
    executor
        .on("count", move |ctx| {
            Ok(ctx.set_counts("T.hits", counts.map(u64::from))?)
        })
        .unwrap();
    executor
        .after("decode", |ctx| {
            assert_eq!(ctx.offsets("T.hits")?, [0, 100, 128, 129]);
            Ok(())
        })
        .unwrap();
    assert_clean(&executor.run_batch(0, 3).unwrap(), 3);
}

/// A kernel that replaces another one makes its outputs its own: built-in
/// readers leave them alone, and verify the others.
#[test]
fn built_in_and_own_kernels_mix() {
    for algorithm in ["count", "decode", "seed", "fit", "select"] {
        let mut executor = executor(Options::default());
        executor
            .on(algorithm, |ctx| match ctx.algorithm() {
                "count" => Ok(ctx.set_total("T.hits", 77)?),
                "seed" => Ok(ctx.set_total("T.tracks", 0)?),
                _ => Ok(()),
            })
            .unwrap();
        assert_clean(&executor.run_batch(0, EVENTS).unwrap(), EVENTS);
    }
    let mut executor = executor(Options::default());
    let unknown = executor.on("track", |_| Ok(())).unwrap_err().to_string();
    assert!(unknown.contains("no algorithm \"track\""), "{unknown}");
}

/// Kernels may be shared among threads, and use them.
#[test]
fn a_kernel_may_use_threads() {
    use rayon::prelude::*;
    let sequence: Sequence = tracks();
    let options = Options {
        debug: Debug::ALL,
        ..Options::default()
    };
    let mut executor = Executor::configure(&sequence, &options).unwrap();
    executor
        .on("decode", |ctx| {
            let mut hits = ctx.write::<[u32; 4]>("hits")?;
            hits.par_iter_mut()
                .enumerate()
                .for_each(|(index, hit)| *hit = [index as u32; 4]);
            Ok(())
        })
        .unwrap();
    executor
        .after("fit", |ctx| {
            let hits = ctx.read::<[u32; 4]>("hits")?;
            let right = |(index, hit): (usize, &[u32; 4])| *hit == [index as u32; 4];
            assert!(hits.par_iter().enumerate().all(right));
            Ok(())
        })
        .unwrap();
    assert_clean(&executor.run_batch(0, EVENTS).unwrap(), EVENTS);
    assert_eq!(executor.leaked_bytes(Scope::Device), 0);
}

//! Random sequences: whatever a sequence may have, it runs clean.

mod runtime_support;

use heap_host::runtime::{Debug, Executor, Options, Placement};
use heap_host::sequence::arbitrary::{Sizes, random};
use runtime_support::assert_clean;

fn sizes(seed: u64) -> Sizes {
    Sizes {
        algorithms: 2 + (seed % 30) as usize,
        writes: 1 + (seed % 7) as usize,
        events: 1 + seed * 13 % 80,
        elements: 4 << (seed % 8),
        ..Sizes::default()
    }
}

/// In all debug modes, with batches of every size up to the largest.
#[test]
fn random_sequences_verify_in_all_debug_modes() {
    for seed in 0..60 {
        let sequence = random(seed, sizes(seed));
        let options = Options {
            seed,
            debug: Debug::ALL,
            ..Options::default()
        };
        let mut executor = Executor::configure(&sequence, &options).unwrap();
        let max = sequence.max_events();
        let mut first = 0;
        for events in [max, 1, max / 2, 0, max] {
            let outcome = executor.run_batch(first, events).unwrap();
            assert_clean(&outcome, events);
            assert_eq!(outcome.host_syncs, 0);
            first += events;
        }
    }
}

/// In pools from ample to nearly nothing, and wherever buffers are put.
#[test]
fn random_sequences_stay_clean_in_small_pools() {
    let mut splits = 0;
    for seed in 0..40 {
        let sequence = random(seed, sizes(seed));
        for pool in [1 << 20, 200 << 10, 50 << 10, 20 << 10] {
            let options = Options {
                seed,
                pool_bytes: Some(pool),
                host_pool_bytes: Some((pool / 2).max(12 << 10)),
                placement: match seed % 3 {
                    0 => Placement::Auto,
                    1 => Placement::Border((seed % 10) as u32),
                    _ => Placement::Best,
                },
                debug: Debug {
                    check_heap: true,
                    guards: seed % 2 == 0,
                    ..Debug::default()
                },
                ..Options::default()
            };
            let mut executor = Executor::configure(&sequence, &options).unwrap();
            for batch in 0..2 {
                let max = sequence.max_events();
                let outcome = executor.run_batch(batch * max, max).unwrap();
                assert_clean(&outcome, max);
                splits += outcome.splits;
            }
        }
    }
    assert!(splits > 0, "no pool was small enough to test anything");
}

/// Every buffer as an output: nothing ends before the batch does, and each
/// part of a batch hands every buffer out once.
#[test]
fn all_buffers_may_be_outputs() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    for seed in 0..20 {
        let sequence = random(seed, sizes(seed));
        let kept = sequence.buffers().iter().filter(|buffer| !buffer.temporary);
        let outputs: Vec<String> = kept.map(|buffer| buffer.name.clone()).collect();
        let options = Options {
            outputs: outputs.clone(),
            debug: Debug::ALL,
            ..Options::default()
        };
        let mut executor = Executor::configure(&sequence, &options).unwrap();
        let delivered = Arc::new(AtomicU64::new(0));
        for name in &outputs {
            let delivered = Arc::clone(&delivered);
            let count = move |_, _: &[u8]| {
                delivered.fetch_add(1, Ordering::Relaxed);
            };
            executor.on_output(name, count).unwrap();
        }
        let max = sequence.max_events();
        assert_clean(&executor.run_batch(0, max).unwrap(), max);
        assert_eq!(delivered.load(Ordering::Relaxed), outputs.len() as u64);
    }
}

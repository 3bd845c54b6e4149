//! The figures of the README's table, measured: the shipped HLT1 sequence on
//! the CPU backend.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use device_heap::runtime::{self, Configuration, Executor, Options, Report};
use device_heap::sequence::{Scope, Sequence, shipped};

/// Batches of the search for drift.
const BATCHES: u64 = 10_000;

/// Seeds for which the smallest pool is looked for.
const SEEDS: u64 = 3;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let sequence = shipped::hlt1_pp_default();
    static_peak(&sequence)?;
    planning_time(&sequence)?;
    for seed in 0..SEEDS {
        smallest_pool(&sequence, seed)?;
    }
    drift(&sequence)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn static_peak(sequence: &Sequence) -> Result<()> {
    let config = Configuration::new(sequence, &Options::default())?;
    let arena = config.arena(Scope::Device);
    let (peak, bound) = (arena.plan.peak(), arena.plan.lower_bound().bytes);
    println!(
        "static peak              {:.1} MiB of {:.1}, {:.4} times its lower bound",
        mib(peak),
        mib(arena.sum_bytes),
        peak as f64 / bound as f64
    );
    Ok(())
}

/// Everything between a sequence and its first batch: both arenas planned and
/// verified, both pools simulated.
fn planning_time(sequence: &Sequence) -> Result<()> {
    let options = Options::default();
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..21 {
        let start = Instant::now();
        Configuration::new(sequence, &options)?;
        times.push(start.elapsed());
    }
    times.sort();
    println!(
        "planning                 {:.1} ms for {} buffers (median of {})",
        1e3 * times[times.len() / 2].as_secs_f64(),
        sequence.buffers().len(),
        times.len()
    );
    Ok(())
}

/// Bisects for the smallest pool in which a batch of 1,000 events is not split,
/// down to 64 KiB.
fn smallest_pool(sequence: &Sequence, seed: u64) -> Result<()> {
    let run = |pool_bytes: u64| -> Result<Report> {
        let options = Options {
            pool_bytes: Some(pool_bytes),
            seed,
            ..Options::default()
        };
        let report = runtime::run(sequence, &options, &())?;
        assert!(report.verified && report.leaked_bytes == 0, "{report:?}");
        Ok(report)
    };
    let ample = 2 * Configuration::default_pool(sequence, &Options::default(), Scope::Device)?;
    let bound = run(ample)?.dynamic.lower_bound_bytes;
    let (mut low, mut high) = (bound, ample);
    while high - low > 64 << 10 {
        let middle = low + (high - low) / 2;
        if run(middle)?.dynamic.splits == 0 {
            high = middle;
        } else {
            low = middle;
        }
    }
    println!(
        "smallest pool, seed {seed}    {:.1} MiB with metadata, {:.4} times the live lower bound of \
         {:.1} MiB",
        mib(high),
        high as f64 / bound as f64,
        mib(bound)
    );
    Ok(())
}

/// Batches of varying size, each size with the same events every time: equal
/// batches must have equal high water.
fn drift(sequence: &Sequence) -> Result<()> {
    let options = Options {
        events: Some(8),
        ..Options::default()
    };
    let config = Arc::new(Configuration::new(sequence, &options)?);
    let mut executor: Executor = Executor::with_configuration(config)?;
    let mut seen = BTreeMap::new();
    let mut different = 0;
    for batch in 0..BATCHES {
        let events = 1 + (batch * 5 + batch / 7) % 8;
        let outcome = executor.run_batch(events * 1000, events)?;
        assert!(
            outcome.verified() && outcome.events_done == events,
            "{outcome:?}"
        );
        let high_water = outcome.device.high_water_bytes;
        different += u64::from(*seen.entry(events).or_insert(high_water) != high_water);
    }
    println!(
        "drift                    {different} of {BATCHES} batches of {} sizes differ in high water \
         from the first of their size; {} bytes left",
        seen.len(),
        executor.leaked_bytes(Scope::Device)
    );
    Ok(())
}

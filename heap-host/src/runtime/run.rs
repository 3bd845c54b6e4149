//! A whole run: all batches, on all streams.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::sequence::Sequence;

use super::backend::Backend;
use super::configuration::{Configuration, SCOPES};
use super::cpu::CpuBackend;
use super::error::RunError;
use super::executor::Executor;
use super::options::Options;
use super::outcome::BatchOutcome;
use super::report::{Report, Tally};

/// Hears how far a run is, from any thread.
pub trait Progress: Sync {
    /// The run begins.
    fn begin(&self, batches: u64) {
        let _ = batches;
    }

    /// One batch more is done.
    fn batch_done(&self, outcome: &BatchOutcome) {
        let _ = outcome;
    }
}

/// Nobody listens.
impl Progress for () {}

/// Runs [`Options::batches`] batches of `sequence` with built-in kernels on the
/// CPU.
///
/// Batches are the same whichever stream runs them, so the report does not
/// depend on the number of streams, but for the time.
///
/// # Errors
/// [`RunError`] if the sequence cannot be set up so. A batch that does not fit,
/// or whose contents are wrong, is no error here: the report says so.
pub fn run(
    sequence: &Sequence,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Report, RunError> {
    let config = Arc::new(Configuration::new(sequence, options)?);
    let mut streams: Vec<Executor<CpuBackend>> = (0..options.streams)
        .map(|_| Executor::with_configuration(Arc::clone(&config)))
        .collect::<Result<_, _>>()?;
    progress.begin(options.batches);
    let start = Instant::now();
    let work = Work::new(&config, progress);
    work.spread(&mut streams)?;
    let seconds = start.elapsed().as_secs_f64();
    let mut tally = work.merged.into_inner().tally;
    for stream in &mut streams {
        let left = SCOPES.map(|scope| stream.leaked_bytes(scope));
        tally.leaked_bytes += left.iter().sum::<u64>();
    }
    Ok(tally.report(&config, CpuBackend::NAME, seconds))
}

/// The batches of a run, which streams take one by one.
struct Work<'a> {
    config: &'a Configuration,
    progress: &'a dyn Progress,
    next: AtomicU64,
    /// A stream has failed, so the others need not go on.
    stop: AtomicBool,
    merged: Mutex<Merged>,
}

/// Outcomes are added up in the order of their batches, whichever stream is
/// first.
#[derive(Default)]
struct Merged {
    tally: Tally,
    next: u64,
    early: BTreeMap<u64, BatchOutcome>,
}

impl<'a> Work<'a> {
    fn new(config: &'a Configuration, progress: &'a dyn Progress) -> Self {
        Self {
            config,
            progress,
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            merged: Mutex::default(),
        }
    }

    /// One thread for each stream; the only stream runs on this one.
    fn spread(&self, streams: &mut [Executor<CpuBackend>]) -> Result<(), RunError> {
        if let [stream] = streams {
            return self.run(stream);
        }
        std::thread::scope(|scope| {
            let spawn = |stream| scope.spawn(move || self.run(stream));
            let threads: Vec<_> = streams.iter_mut().map(spawn).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<(), RunError>>| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            // All are joined before the first error is returned.
            let results: Vec<_> = threads.into_iter().map(join).collect();
            results.into_iter().collect()
        })
    }

    fn run(&self, stream: &mut Executor<CpuBackend>) -> Result<(), RunError> {
        let events = self.config.max_events();
        loop {
            // Relaxed: a number that each stream gets once, and a hint.
            let batch = self.next.fetch_add(1, Ordering::Relaxed);
            if batch >= self.config.options().batches || self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let outcome = stream.run_batch(batch * events, events).inspect_err(|_| {
                self.stop.store(true, Ordering::Relaxed);
            })?;
            self.progress.batch_done(&outcome);
            self.merged.lock().add(batch, outcome);
        }
    }
}

impl Merged {
    fn add(&mut self, batch: u64, outcome: BatchOutcome) {
        self.early.insert(batch, outcome);
        while let Some(outcome) = self.early.remove(&self.next) {
            self.tally.add(outcome);
            self.next += 1;
        }
    }
}

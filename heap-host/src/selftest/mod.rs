//! Proof that the heap works on this machine: what a user runs first.
//!
//! Each test is written once, against a `Rig`: what a machine does with arrays
//! of requests. There are two, host threads and (feature `cuda`) a card; both
//! call the same functions of `heap_kernels::exercise`. Addresses and statuses
//! come back to the host, which checks them itself: blocks lie in the pool, are
//! aligned and do not overlap, every status is the one that is due, and in the
//! end the heap is as it was.
//!
//! ```
//! use heap_host::selftest::{self, Backend, Options};
//!
//! let mut options = Options::new(Backend::Cpu);
//! options.quick = true;
//! options.only = vec!["alignments".into()];
//! let report = selftest::run(&options, &mut |_| ())?;
//! assert_eq!((report.passed, report.failed), (1, 0));
//! # Ok::<(), selftest::SelftestError>(())
//! ```

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod expect;
#[cfg(test)]
mod planted;
mod rig;
mod tests;
mod trial;

use std::time::Instant;

use serde::Serialize;

use crate::sequence::suggest;
use rig::{End, Machine};
use trial::Trial;

/// The smallest pool that the tests make sense in: 32 MiB.
pub const MIN_POOL: u64 = 32 << 20;

/// What to test on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// A card where there is one, else the CPU.
    #[default]
    Auto,
    /// A card.
    Cuda,
    /// Host threads.
    Cpu,
}

/// What to test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What to test on.
    pub backend: Backend,
    /// The card's number, from 0.
    pub device: u32,
    /// Bytes of a usual pool; `None`: 2 GiB on a card, 256 MiB on a CPU, 64
    /// MiB where it should be quick. Some tests need pools of other lengths.
    pub pool_bytes: Option<u64>,
    /// Determines all sizes and patterns.
    pub seed: u64,
    /// Names of the only tests to run; empty: all.
    pub only: Vec<String>,
    /// Random operations of a test of its own, none without.
    pub soak: Option<u64>,
    /// A thirtieth of the requests, for tools that slow everything down.
    pub quick: bool,
}

impl Options {
    /// Everything at its default, on this backend; seed 1.
    #[must_use]
    pub fn new(backend: Backend) -> Self {
        Self {
            backend,
            seed: 1,
            ..Self::default()
        }
    }
}

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All was as it should be.
    Passed,
    /// Something was not.
    Failed,
    /// It cannot be done on this machine.
    Skipped,
}

/// One test.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// Its name, as [`Options::only`] takes it.
    pub name: &'static str,
    /// What was done, in numbers.
    pub what: String,
    /// What became of it.
    pub status: Status,
    /// What was wrong, why it was skipped, or what else was found.
    pub detail: String,
    /// Wall time.
    pub seconds: f64,
}

/// All tests. The same for equal [`Options`] on one machine, but for the
/// seconds and for what depends on who comes first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// `cuda` or `cpu`.
    pub backend: &'static str,
    /// The card, or the number of host threads.
    pub device: String,
    /// The driver's CUDA version.
    pub driver: Option<String>,
    /// Why the CPU was taken, where that was not asked for.
    pub note: Option<String>,
    /// Bytes of a usual pool.
    pub pool_bytes: u64,
    /// The seed.
    pub seed: u64,
    /// Whether numbers were shrunk.
    pub quick: bool,
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that were skipped.
    pub skipped: usize,
    /// Each of them.
    pub tests: Vec<Row>,
    /// Wall time of all.
    pub seconds: f64,
}

/// How far the tests are.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// The machine was chosen: backend and device.
    Chosen(&'a str, &'a str),
    /// The test of this name begins.
    Started(&'static str),
    /// The soak has done so many of so many operations.
    Soaked(u64, u64),
    /// A test has ended.
    Ended(&'a Row),
}

/// Why nothing was tested.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SelftestError {
    /// No test has this name.
    #[error(
        "there is no test {name:?}{}; --list shows all",
        suggest::hint(suggestion)
    )]
    UnknownTest {
        /// The name.
        name: String,
        /// The nearest one that there is.
        suggestion: Option<String>,
    },
    /// The pool is too small.
    #[error("a pool of {0} bytes is too small for the tests; choose {MIN_POOL} (32MiB) or more")]
    Pool(u64),
    /// This program was built without GPUs.
    #[error(
        "this build of the program has no GPU backend; build it with --features cuda, or use --backend cpu"
    )]
    NotBuilt,
    /// The machine cannot start the threads.
    #[error("the threads of the CPU backend cannot be started: {0}")]
    Threads(String),
    /// The card cannot be used.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Gpu(#[from] crate::cuda::GpuError),
}

/// Names of all tests, and what they are about.
pub fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    tests::ALL.iter().map(|test| (test.name, test.about))
}

/// Runs the tests; `progress` hears how far they are.
///
/// # Errors
/// [`SelftestError`] where nothing could be run. What the heap does wrong is
/// in the report.
pub fn run(
    options: &Options,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report, SelftestError> {
    check_options(options)?;
    let (machine, note) = machine(options)?;
    let mut report = run_on(&*machine, options, progress);
    report.note = note;
    Ok(report)
}

fn check_options(options: &Options) -> Result<(), SelftestError> {
    for name in &options.only {
        if !list().any(|(known, _)| known == name) {
            return Err(SelftestError::UnknownTest {
                name: name.clone(),
                suggestion: suggest::nearest(name, list().map(|(known, _)| known)),
            });
        }
    }
    match options.pool_bytes {
        Some(bytes) if bytes < MIN_POOL => Err(SelftestError::Pool(bytes)),
        _ => Ok(()),
    }
}

/// The tests on one machine.
fn run_on(
    machine: &dyn Machine,
    options: &Options,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Report {
    let start = Instant::now();
    let facts = machine.facts();
    progress(Progress::Chosen(facts.backend, &facts.device));
    let usual = match (options.quick, facts.backend) {
        (true, _) => 64 << 20,
        (false, "cpu") => 256 << 20,
        (false, _) => 2 << 30,
    };
    let pool_bytes = options.pool_bytes.unwrap_or(usual);
    let chosen = |name: &str| {
        let named = options.only.iter().any(|only| only == name);
        let soak = name == tests::SOAK;
        named || (soak && options.soak.is_some()) || (!soak && options.only.is_empty())
    };
    let mut rows = Vec::new();
    for test in tests::ALL.iter().filter(|test| chosen(test.name)) {
        progress(Progress::Started(test.name));
        let row = run_test(test, machine, options, pool_bytes, progress);
        progress(Progress::Ended(&row));
        rows.push(row);
    }
    let count = |status| rows.iter().filter(|row| row.status == status).count();
    Report {
        backend: facts.backend,
        device: facts.device,
        driver: facts.driver,
        note: None,
        pool_bytes,
        seed: options.seed,
        quick: options.quick,
        passed: count(Status::Passed),
        failed: count(Status::Failed),
        skipped: count(Status::Skipped),
        tests: rows,
        seconds: start.elapsed().as_secs_f64(),
    }
}

fn run_test(
    test: &tests::Test,
    machine: &dyn Machine,
    options: &Options,
    pool_bytes: u64,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Row {
    let start = Instant::now();
    let mut trial = Trial {
        machine,
        seed: options.seed,
        quick: options.quick,
        pool_bytes,
        soak: options.soak,
        what: String::new(),
        detail: String::new(),
        tick: progress,
    };
    let (status, detail) = match (test.run)(&mut trial) {
        Ok(()) => (Status::Passed, trial.detail),
        Err(End::Failed(reason)) => (Status::Failed, reason),
        Err(End::Skipped(reason)) => (Status::Skipped, reason),
    };
    Row {
        name: test.name,
        what: trial.what,
        status,
        detail,
        seconds: start.elapsed().as_secs_f64(),
    }
}

type Chosen = (Box<dyn Machine>, Option<String>);

fn cpu(note: Option<String>) -> Result<Chosen, SelftestError> {
    let cpu = cpu::Cpu::new().map_err(SelftestError::Threads)?;
    Ok((Box::new(cpu), note))
}

#[cfg(not(feature = "cuda"))]
fn machine(options: &Options) -> Result<Chosen, SelftestError> {
    match options.backend {
        Backend::Cuda => Err(SelftestError::NotBuilt),
        Backend::Auto => cpu(Some(
            "no card was looked for: this build has no GPU backend (--features cuda)".into(),
        )),
        Backend::Cpu => cpu(None),
    }
}

#[cfg(feature = "cuda")]
fn machine(options: &Options) -> Result<Chosen, SelftestError> {
    use crate::cuda::GpuError;

    if options.backend == Backend::Cpu {
        return cpu(None);
    }
    match cuda::Card::open(options.device) {
        Ok(card) => Ok((Box::new(card), None)),
        Err(
            error @ (GpuError::NoDriver { .. }
            | GpuError::NoDevice { .. }
            | GpuError::TooOld { .. }),
        ) if options.backend == Backend::Auto => cpu(Some(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    fn quick() -> Options {
        Options {
            quick: true,
            pool_bytes: Some(MIN_POOL),
            ..Options::new(Backend::Cpu)
        }
    }

    #[test]
    fn the_heap_passes_on_host_threads() {
        let options = Options {
            soak: Some(100_000),
            ..quick()
        };
        let report = run(&options, &mut |_| ()).unwrap();
        let failed = report
            .tests
            .iter()
            .filter(|row| row.status == Status::Failed);
        let failed: Vec<_> = failed.collect();
        assert!(failed.is_empty(), "{failed:#?}");
        assert_eq!(report.passed + report.skipped, list().count());
        assert!(report.skipped <= 1, "{report:#?}");
    }

    #[test]
    fn unknown_names_and_small_pools_are_refused() {
        let mut options = quick();
        options.only = vec!["exhaustoin".into()];
        let error = run(&options, &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("did you mean \"exhaustion\"?"), "{error}");
        options = quick();
        options.pool_bytes = Some(1 << 20);
        assert_eq!(
            run(&options, &mut |_| ()),
            Err(SelftestError::Pool(1 << 20))
        );
    }

    #[test]
    fn only_what_is_named_runs_and_the_soak_needs_its_operations() {
        let mut options = quick();
        options.only = vec!["batch".into(), "soak".into()];
        let mut names = Vec::new();
        let report = run(&options, &mut |progress| {
            if let Progress::Started(name) = progress {
                names.push(name);
            }
        });
        let report = report.unwrap();
        assert_eq!(names, ["batch", "soak"]);
        assert_eq!((report.passed, report.skipped), (1, 1));
        assert!(report.tests[1].detail.contains("--soak"));
    }
}

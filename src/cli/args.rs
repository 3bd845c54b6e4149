//! What can be said on the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use device_heap::sequence::Scope;

use super::bench::BenchArgs;
use super::{devices, number, selftest, size};

const EXAMPLES: &str = "\
Examples:
  dheap selftest --quick                  prove the heap on this machine
  dheap                                   the HLT1 sequence, 1,000 events, 1 batch
  dheap run --events 100 --batches 20     the same with other batches
  dheap run sequences/quickstart.json     a sequence of your own
  dheap plan buffers.csv --out plan.csv   offsets for buffers with lifetimes
  dheap stress --threads 4 --ops 500000   random operations, checked

Sizes are bytes, or have a unit: KiB, MiB, GiB, TiB (powers of 1,024) or kB, MB,
GB, TB (powers of 1,000), like 64MiB or 1.5GiB.

Exit codes: 0 done; 1 the work failed (not verified, does not fit); 2 bad input
or usage. With --json, standard output has one JSON object for 0 and 1: the
report, or {\"error\": \"...\"} where the work failed before there was one; for 2
it is empty. The sentence for people is on standard error.";

const RUN_EXAMPLES: &str = "\
Examples:
  dheap run                               the HLT1 sequence, 1,000 events, 1 batch
  dheap run tiles --json                  a shipped sequence by name, for programs
  dheap run --events 100 --batches 20 --streams 2
  dheap run --pool 150MiB                 too small: the batch is halved until it fits
  dheap run sequences/quickstart.json --debug";

const PLAN_EXAMPLES: &str = "\
Examples:
  dheap plan buffers.csv --out plan.csv
  dheap plan buffers.csv --capacity 1MiB --time-limit 2
  dheap plan buffers.csv --seed 7 --nodes 1000000 --threads 2
  dheap plan sequences/quickstart.json --json
  dheap plan hlt1_pp_default --scope host --out host.csv

A CSV has the columns id,lower,upper,size and, where wanted, alignment; a
lifetime is the half-open range lower..upper of steps.";

const STRESS_EXAMPLES: &str = "\
Examples:
  dheap stress
  dheap stress --threads 4 --ops 500000 --pool 256MiB --seed 7
  dheap stress --ops 5000 --json";

const BENCH_EXAMPLES: &str = "\
Examples (in a build with --features cuda):
  dheap bench
  dheap bench --threads 1048576 --rounds 20 --no-driver
  dheap bench --csv > bench.csv";

/// Two memory pools for GPU pipelines: a static arena planned from lifetimes,
/// and a heap that allocates and frees on the device.
///
/// Without a command it runs the HLT1 sequence, as `run` does.
#[derive(Debug, Parser)]
#[command(name = "dheap", version, after_help = EXAMPLES)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) run: RunOptions,
    /// Say more on standard error; twice for more (RUST_LOG overrides)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(super) verbose: u8,
}

impl Cli {
    /// Whether standard output is for a program.
    pub(super) fn json(&self) -> bool {
        match &self.command {
            None => self.run.json,
            Some(Command::Run(args)) => args.options.json,
            Some(Command::Plan(args)) => args.json,
            Some(Command::Stress(args)) => args.json,
            Some(Command::Bench(args)) => args.json,
            Some(Command::Selftest(args)) => args.json,
            Some(Command::Devices(args)) => args.json,
        }
    }

    /// Parses a command line, the program's name first.
    ///
    /// # Errors
    ///
    /// What clap says, help among it; and options of `run` in front of a
    /// command.
    pub(super) fn parse_line(
        line: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches_from(line)?;
        if let (Some(command), Some(option)) = (matches.subcommand_name(), misplaced(&matches)) {
            let message = format!(
                "--{option} stands before the command {command}; write it behind, if it is an \
                 option of {command}"
            );
            return Err(Self::command().error(ErrorKind::ArgumentConflict, message));
        }
        Self::from_arg_matches(&matches)
    }
}

/// An option of `run` that was given without a command.
fn misplaced(matches: &ArgMatches) -> Option<&str> {
    let mut ids = matches.ids().map(clap::Id::as_str);
    ids.find(|&id| {
        id != "verbose"
            && matches.try_contains_id(id).is_ok()
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    })
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a sequence and check every buffer's contents at every read
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Plan the offsets of a static arena from lifetimes
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(PlanArgs),
    /// Try the heap with random operations, checked against a shadow model
    #[command(after_help = STRESS_EXAMPLES)]
    Stress(StressArgs),
    /// Measure the heap on a card, beside what bounds it
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Prove the heap on this machine: on a card where there is one
    #[command(after_help = selftest::EXAMPLES)]
    Selftest(selftest::SelftestArgs),
    /// List the GPUs of this machine
    #[command(after_help = devices::EXAMPLES)]
    Devices(devices::DevicesArgs),
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// A sequence file, or the name of a shipped sequence [default:
    /// hlt1_pp_default]
    pub(super) sequence: Option<PathBuf>,
    #[command(flatten)]
    pub(super) options: RunOptions,
}

#[derive(Debug, Args)]
pub(super) struct RunOptions {
    /// Events in a batch, at most what the sequence allows [default: 1000, or
    /// the sequence's maximum where that is less]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = number::positive)]
    pub(super) events: Option<u64>,
    /// Batches to run
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true, value_parser = number::positive)]
    pub(super) batches: u64,
    /// Seed of the events' occupancies
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true, value_parser = number::any)]
    pub(super) seed: u64,
    /// What to run on: cpu, or auto, which is the CPU as well so far
    #[arg(long, value_name = "NAME", default_value = "cpu", value_parser = backend)]
    pub(super) backend: String,
    /// Dynamic pool of each stream, metadata included [default: one that fits]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = size::parse)]
    pub(super) pool: Option<u64>,
    /// Batches under way at a time, each with memory of its own
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true, value_parser = number::threads)]
    pub(super) streams: u32,
    /// Also guard bands, poisoned memory and a scan of the heap after each
    /// batch
    #[arg(long)]
    pub(super) debug: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// A sequence (.json, or a shipped one's name) or a table of buffers (.csv)
    pub(super) file: PathBuf,
    /// Bytes of the arena: the search ends when the plan fits
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = size::parse)]
    pub(super) capacity: Option<u64>,
    /// Search for at most so long, both arenas of a sequence together. A quick
    /// placement is made first and always finished, so there is a plan; reading
    /// the file and verifying the plan come on top [default: a fixed effort,
    /// which gives the same plan each time]
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = seconds)]
    pub(super) time_limit: Option<Duration>,
    /// Seed of the search: another one may find another plan
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true, value_parser = number::any)]
    pub(super) seed: u64,
    /// Effort of the search instead of a time: with one seed and effort the plan
    /// is the same each time, however many threads there are [default: some tens
    /// of milliseconds, some seconds while a capacity is not met]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = number::any)]
    pub(super) nodes: Option<u64>,
    /// Threads that search [default: as many as the machine runs at once]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = number::threads)]
    pub(super) threads: Option<u32>,
    /// Write the plan: the rows of the CSV with a column offset. A regular file
    /// is replaced, a link followed, and anything else left as it is
    #[arg(long, value_name = "PLAN.csv")]
    pub(super) out: Option<PathBuf>,
    /// Which arena of a sequence --capacity and --out are about [default:
    /// device]
    #[arg(long, value_name = "SCOPE")]
    pub(super) scope: Option<ScopeArg>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

/// The two kinds of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ScopeArg {
    Device,
    Host,
}

impl From<ScopeArg> for Scope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::Device => Scope::Device,
            ScopeArg::Host => Scope::Host,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct StressArgs {
    /// Threads that use the heap at the same time [default: as many as the
    /// machine runs at once]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = number::threads)]
    pub(super) threads: Option<u32>,
    /// Operations of all threads together
    #[arg(long, value_name = "N", default_value_t = 200_000, allow_hyphen_values = true, value_parser = number::any)]
    pub(super) ops: u64,
    /// The pool, metadata included
    #[arg(long, value_name = "BYTES", default_value = "64MiB", allow_hyphen_values = true, value_parser = size::parse)]
    pub(super) pool: u64,
    /// Seed of the operations
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true, value_parser = number::any)]
    pub(super) seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

fn backend(name: &str) -> Result<String, String> {
    match name {
        "cpu" => Ok(name.into()),
        // A card is taken where there is one that can: so far sequences run on
        // the CPU only.
        "auto" => Ok("cpu".into()),
        "cuda" => {
            Err("sequences run on the backend cpu only; selftest and bench use a card".into())
        }
        _ => Err("there are the backends cpu and auto".into()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.trim().parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "a time in seconds is needed, 0 or more, like 2.5".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_are_finite_and_not_negative() {
        assert_eq!(seconds("2.5"), Ok(Duration::from_millis(2500)));
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        for text in ["-1", "nan", "inf", "1e300", "", "1s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_command_is_run() {
        let cli = Cli::parse_line(["dheap", "--events", "7", "--json", "-v"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(
            (cli.run.events, cli.run.json, cli.verbose),
            (Some(7), true, 1)
        );
    }

    #[test]
    fn verbosity_may_come_before_the_command_and_after() {
        for line in [["dheap", "-v", "stress"], ["dheap", "stress", "-v"]] {
            assert_eq!(Cli::parse_line(line).unwrap().verbose, 1, "{line:?}");
        }
    }

    #[test]
    fn options_of_run_do_not_go_before_another_command() {
        assert!(Cli::parse_line(["dheap", "--events", "7", "stress"]).is_err());
    }
}

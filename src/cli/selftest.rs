//! `dheap selftest`.

use clap::{Args, ValueEnum};
use device_heap::selftest::{self, Backend, Options, Progress, Report, Row, SelftestError, Status};
use indicatif::ProgressBar;

use super::error::CliError;
use super::output::{mib, print, print_json};
use super::{number, progress, size};

pub(super) const EXAMPLES: &str = "\
Examples:
  dheap selftest --quick                  a card where there is one, else the CPU
  dheap selftest --quick --backend cpu --only exhaustion --only random
  dheap selftest --backend cpu --only soak --soak 1e6 --json
  dheap selftest --list

Exit codes: 0 nothing failed; 1 a test failed, or the card cannot be used; 2 bad
usage, or a backend that this build does not have.";

#[derive(Debug, Args)]
pub(super) struct SelftestArgs {
    /// What to test on
    #[arg(long, value_name = "NAME", value_enum, default_value_t = BackendArg::Auto)]
    backend: BackendArg,
    /// The GPU's number, as `dheap devices` counts
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true, value_parser = number::index)]
    device: u32,
    /// A usual pool, metadata included; some tests need other ones [default:
    /// 2GiB on a GPU, 256MiB on a CPU, 64MiB with --quick]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = size::parse)]
    pool: Option<u64>,
    /// Seed of all sizes and patterns
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true, value_parser = number::any)]
    seed: u64,
    /// Run only this test; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Name the tests, and run none
    #[arg(long)]
    list: bool,
    /// Also random work of so many operations, like 1e9
    #[arg(long, value_name = "OPERATIONS", allow_hyphen_values = true, value_parser = operations)]
    soak: Option<u64>,
    /// A thirtieth of the requests, for tools that slow everything down
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BackendArg {
    Auto,
    Cuda,
    Cpu,
}

impl From<BackendArg> for Backend {
    fn from(backend: BackendArg) -> Self {
        match backend {
            BackendArg::Auto => Self::Auto,
            BackendArg::Cuda => Self::Cuda,
            BackendArg::Cpu => Self::Cpu,
        }
    }
}

/// A whole number, in digits or like 1e9 or 2.5e6.
fn operations(text: &str) -> Result<u64, String> {
    let wrong = || "a whole number from 1 on is needed, like 1000000 or 1e9".to_owned();
    if let Ok(number) = text.replace('_', "").parse::<u64>() {
        return if number > 0 { Ok(number) } else { Err(wrong()) };
    }
    // Numbers up to 2^53 are exact.
    let number = text.parse::<f64>().map_err(|_| wrong())?;
    if number >= 1.0 && number <= (1u64 << 53) as f64 && number.fract() == 0.0 {
        Ok(number as u64)
    } else {
        Err(wrong())
    }
}

pub(super) fn selftest(args: &SelftestArgs) -> Result<(), CliError> {
    if args.list {
        return list(args.json);
    }
    let options = Options {
        backend: args.backend.into(),
        device: args.device,
        pool_bytes: args.pool,
        seed: args.seed,
        only: args.only.clone(),
        soak: args.soak,
        quick: args.quick,
    };
    let bar = progress::spinner("selftest");
    let report = selftest::run(&options, &mut |progress| show(&bar, progress));
    bar.finish_and_clear();
    let report = report.map_err(refused)?;
    if args.json {
        print_json(&report)?;
    } else {
        print(&table(&report))?;
    }
    judge(&report)
}

/// Whether something was tested, and nothing failed.
fn judge(report: &Report) -> Result<(), CliError> {
    let told = |status: Status| {
        let first = report.tests.iter().find(|row| row.status == status);
        first.map_or(String::new(), |row| format!("{}: {}", row.name, row.detail))
    };
    if report.failed > 0 {
        let all = report.tests.len();
        let (failed, first) = (report.failed, told(Status::Failed));
        return Err(CliError::reported(format!(
            "{failed} of {all} tests failed; first: {first}"
        )));
    }
    if report.passed == 0 {
        return Err(CliError::reported(format!(
            "nothing was tested; first: {}",
            told(Status::Skipped)
        )));
    }
    Ok(())
}

/// Names on standard output.
fn list(json: bool) -> Result<(), CliError> {
    if json {
        let tests: Vec<_> = selftest::list()
            .map(|(name, about)| serde_json::json!({ "name": name, "about": about }))
            .collect();
        return print_json(&serde_json::json!({ "tests": tests }));
    }
    let line = |(name, about): (&str, &str)| format!(" {name:14}{about}\n");
    print(&selftest::list().map(line).collect::<String>())
}

fn show(bar: &ProgressBar, progress: Progress<'_>) {
    match progress {
        Progress::Started(name) => bar.set_message(name),
        Progress::Soaked(done, of) => {
            bar.set_message(format!("soak: {} %", done.saturating_mul(100) / of.max(1)));
        }
        Progress::Ended(row) => {
            // With -v also where nobody watches: what a run that is cut short
            // has come to.
            tracing::info!("{}", line(row));
            bar.println(line(row));
        }
        _ => {}
    }
}

/// What is the user's to change is bad usage, the rest is the machine's fault.
fn refused(error: SelftestError) -> CliError {
    match error {
        SelftestError::UnknownTest { .. } | SelftestError::Pool(_) | SelftestError::NotBuilt => {
            CliError::usage(error)
        }
        #[cfg(feature = "cuda")]
        SelftestError::Gpu(device_heap::cuda::GpuError::NoSuchDevice { .. }) => {
            CliError::usage(error)
        }
        error => CliError::work(error),
    }
}

fn line(row: &Row) -> String {
    let status = match row.status {
        Status::Passed => "passed",
        Status::Failed => "FAILED",
        Status::Skipped => "skipped",
    };
    let detail = match row.detail.as_str() {
        "" => String::new(),
        detail => format!("; {detail}"),
    };
    let (name, seconds, what) = (row.name, row.seconds, &row.what);
    format!(" {status:8} {name:13} {seconds:8.3} s  {what}{detail}")
}

fn table(report: &Report) -> String {
    let driver = report.driver.as_ref().map(|driver| format!(", {driver}"));
    let mut text = format!(
        " {}: {}{}; pool {} MiB, seed {}{}\n",
        report.backend,
        report.device,
        driver.unwrap_or_default(),
        mib(report.pool_bytes),
        report.seed,
        if report.quick { ", quick" } else { "" }
    );
    if let Some(note) = &report.note {
        text += &format!(" {note}\n");
    }
    text.push('\n');
    for row in &report.tests {
        text += &line(row);
        text.push('\n');
    }
    text + &format!(
        "\n {} passed, {} failed, {} skipped in {:.1} s\n",
        report.passed, report.failed, report.skipped, report.seconds
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_whole_numbers() {
        for (text, number) in [
            ("1", 1),
            ("1000000000", 1_000_000_000),
            ("1e9", 1_000_000_000),
            ("2.5e6", 2_500_000),
            ("1_000", 1000),
        ] {
            assert_eq!(operations(text), Ok(number));
        }
        for text in ["0", "-1", "1.5", "nan", "inf", "1e30", "", "many"] {
            assert!(operations(text).is_err(), "{text}");
        }
    }
}

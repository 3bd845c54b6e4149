//! `dheap bench`.

use clap::{Args, ValueEnum};

use super::error::CliError;
use super::{number, size};

/// What a time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Machine {
    Cuda,
}

#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// What to measure on
    #[arg(long, value_name = "NAME", default_value = "cuda")]
    pub(super) backend: Machine,
    /// The card, counted from 0
    #[arg(long, value_name = "N", default_value = "0", allow_hyphen_values = true, value_parser = number::index)]
    pub(super) device: u32,
    /// The pool, metadata included
    #[arg(long, value_name = "BYTES", default_value = "16GiB", allow_hyphen_values = true, value_parser = size::parse)]
    pub(super) pool: u64,
    /// Rounds after the first; their median is shown
    #[arg(long, value_name = "N", default_value = "10", allow_hyphen_values = true, value_parser = number::rounds)]
    pub(super) rounds: u32,
    /// Numbers of threads, each with one block [default: 1, 32, 1024, 16384,
    /// 131072, 1048576]
    #[arg(long, value_name = "N", value_delimiter = ',', allow_hyphen_values = true, value_parser = number::lanes)]
    pub(super) threads: Vec<u64>,
    /// Leave out the driver's own malloc and free
    #[arg(long)]
    pub(super) no_driver: bool,
    /// Print comma-separated values instead of a table
    #[arg(long)]
    pub(super) csv: bool,
    /// Print one JSON object instead of a table
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,
}

pub(super) fn bench(args: &BenchArgs) -> Result<(), CliError> {
    match args.backend {
        Machine::Cuda => on_card::bench(args),
    }
}

#[cfg(not(feature = "cuda"))]
mod on_card {
    use super::{BenchArgs, CliError};

    pub(super) fn bench(_: &BenchArgs) -> Result<(), CliError> {
        Err(CliError::Usage(
            "this build has no backend cuda; build with --features cuda (cargo bench measures the \
             heap on host threads)"
                .into(),
        ))
    }
}

#[cfg(feature = "cuda")]
mod on_card {
    use device_heap::cuda::{self, BenchOptions, BenchReport, BenchRow};

    use super::{BenchArgs, CliError};
    use crate::cli::output::{grouped, print, print_json, table};
    use crate::cli::progress;

    pub(super) fn bench(args: &BenchArgs) -> Result<(), CliError> {
        let gpu = cuda::open_for_bench(args.device).map_err(|error| match error {
            cuda::GpuError::NoSuchDevice { .. } => CliError::usage(error),
            error => CliError::work(error),
        })?;
        let mut options = BenchOptions {
            pool_bytes: args.pool,
            rounds: args.rounds,
            driver: !args.no_driver,
            ..BenchOptions::default()
        };
        if !args.threads.is_empty() {
            options.threads.clone_from(&args.threads);
        }
        let spinner = progress::spinner("measuring");
        let report = cuda::bench(&gpu, &options, &mut |row| {
            let message = format!("{}, {} B, {} threads", row.what, row.bytes, row.threads);
            spinner.set_message(message);
        });
        spinner.finish_and_clear();
        let report = report.map_err(CliError::work)?;
        if args.csv {
            print(&csv(&report)?)?;
        } else if args.json {
            print_json(&report)?;
        } else {
            print(&text(&report))?;
        }
        if report.is_right() {
            return Ok(());
        }
        let wrong = report.rows.iter().find(|row| row.wrong > 0);
        let row = wrong.map_or(String::new(), |row| {
            let BenchRow {
                what,
                bytes,
                threads,
                wrong,
                ..
            } = row;
            format!(": {what}, {bytes} B, {threads} threads: {wrong} wrong")
        });
        Err(CliError::reported(format!(
            "some rounds were not right{row}"
        )))
    }

    fn csv(report: &BenchReport) -> Result<String, CliError> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in &report.rows {
            writer.serialize(row).map_err(CliError::work)?;
        }
        let bytes = writer.into_inner().map_err(CliError::work)?;
        String::from_utf8(bytes).map_err(CliError::work)
    }

    fn text(report: &BenchReport) -> String {
        let header = [
            "what", "bytes", "threads", "first us", "alloc us", "/ W", "first us", "free us",
            "/ W", "wrong",
        ];
        let number = |value: Option<f64>, digits: usize| {
            value.map_or(String::new(), |value| format!("{value:.digits$}"))
        };
        let row = |row: &BenchRow| {
            [
                row.what.into(),
                row.bytes.clone(),
                grouped(row.threads),
                number(row.alloc_first_us, 1),
                number(row.alloc_us, 1),
                number(row.alloc_w, 2),
                number(row.free_first_us, 1),
                number(row.free_us, 1),
                number(row.free_w, 2),
                grouped(row.wrong),
            ]
        };
        let BenchReport {
            device,
            cuda,
            pool_bytes,
            rounds,
            rows,
        } = report;
        format!(
            "{device}, CUDA {cuda}, a pool of {} bytes, median of {rounds} rounds after the first; \
             W is the time to write one pointer per thread\n\n{}",
            grouped(*pool_bytes),
            table(header, rows.iter().map(row).collect())
        )
    }
}

//! `dheap stress`.

use device_heap::pool::MemoryError;
use device_heap::stress::{self, Options, Report, StressError};

use super::args::StressArgs;
use super::error::CliError;
use super::output::{facts, grouped, print, print_json, with_unit};
use super::progress;

pub(super) fn stress(args: &StressArgs) -> Result<(), CliError> {
    let defaults = Options::default();
    let options = Options {
        threads: args.threads.unwrap_or(defaults.threads),
        ops: args.ops,
        pool_bytes: args.pool,
        seed: args.seed,
    };
    let bar = progress::bar(options.ops, "stress");
    let report = stress::run(&options, &|done| bar.inc(done));
    bar.finish_and_clear();
    let report = report.map_err(|error| match error {
        StressError::Memory(MemoryError::Refused { .. }) => CliError::work(error),
        error => CliError::usage(error),
    })?;
    if args.json {
        print_json(&report)?;
    } else {
        print(&table(&report))?;
    }
    if report.passed() {
        return Ok(());
    }
    let first = report.first_error.as_deref().unwrap_or("memory was leaked");
    let (errors, leaked) = (report.errors, report.leaked_bytes);
    Err(CliError::reported(format!(
        "the heap failed: {errors} errors, {leaked} bytes leaked; first: {first}"
    )))
}

fn table(report: &Report) -> String {
    facts(&[
        ("threads", report.threads.to_string()),
        ("pool", with_unit(report.pool_bytes)),
        ("seed", report.seed.to_string()),
        ("operations", grouped(report.ops)),
        ("allocations", grouped(report.allocations)),
        ("frees", grouped(report.frees)),
        ("reallocations", grouped(report.reallocations)),
        ("requests refused", grouped(report.failed)),
        ("wrong frees refused", grouped(report.refused_frees)),
        ("largest live sum", with_unit(report.max_live_bytes)),
        ("errors", grouped(report.errors)),
        ("leaked bytes", grouped(report.leaked_bytes)),
        ("seconds", format!("{:.3}", report.seconds)),
    ])
}

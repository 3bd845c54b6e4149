//! `dheap run`.

use std::path::Path;

use device_heap::runtime::{
    self, BackendError, BatchOutcome, BufferSum, Debug, DynamicReport, Options, Progress, Report,
    RunError, StaticReport,
};
use device_heap::sequence::{Kind, Scope, Sequence, shipped};
use indicatif::ProgressBar;

use super::args::{RunArgs, RunOptions};
use super::error::CliError;
use super::output::{facts, grouped, mib, print, print_json, ratio, table, yes};
use super::{input, progress};

/// Events of a batch where nothing is said, and the sequence allows so many.
const EVENTS: u64 = 1000;

/// Failures, findings and leaks that the tables describe.
const DESCRIBED: usize = 5;

pub(super) fn run(args: &RunArgs) -> Result<(), CliError> {
    let sequence = match &args.sequence {
        Some(path) => input::sequence(path)?,
        None => shipped::hlt1_pp_default(),
    };
    let options = options(&args.options, &sequence);
    let bar = EventBar(progress::bar(0, "events"));
    let report = runtime::run(&sequence, &options, &bar);
    bar.0.finish_and_clear();
    let report = report.map_err(|error| refused(&error, args.sequence.as_deref()))?;
    if args.options.json {
        print_json(&report)?;
    } else {
        print(&text(&report))?;
    }
    judge(&report)
}

fn options(args: &RunOptions, sequence: &Sequence) -> Options {
    Options {
        events: Some(args.events.unwrap_or(EVENTS.min(sequence.max_events()))),
        batches: args.batches,
        seed: args.seed,
        pool_bytes: args.pool,
        streams: args.streams,
        debug: if args.debug {
            Debug::ALL
        } else {
            Debug::default()
        },
        ..Options::default()
    }
}

/// Too little memory in the machine is no fault of the input.
fn refused(error: &RunError, file: Option<&Path>) -> CliError {
    let message = match file {
        Some(file) => format!("{}: {error}", file.display()),
        None => error.to_string(),
    };
    match error {
        RunError::Config(_) | RunError::Backend(BackendError::Pool { .. }) => {
            CliError::usage(message)
        }
        _ => CliError::work(message),
    }
}

/// Whether the run was what it must be.
fn judge(report: &Report) -> Result<(), CliError> {
    let mut wrong = Vec::new();
    if report.events_failed > 0 {
        wrong.push(format!(
            "{} events do not fit into the pool, even alone",
            report.events_failed
        ));
    }
    if let Some(corruption) = &report.corruption {
        wrong.push(corruption.clone());
    }
    if report.findings_total > 0 {
        wrong.push(format!("{} faults in buffers", report.findings_total));
    }
    if report.leaked_bytes > 0 {
        wrong.push(format!("{} bytes were leaked", report.leaked_bytes));
    }
    if report.host_syncs_in_batch > 0 {
        wrong.push(format!(
            "the host read device memory {} times within batches",
            report.host_syncs_in_batch
        ));
    }
    if !report.verified && wrong.is_empty() {
        wrong.push("the contents of the buffers were not verified".into());
    }
    if wrong.is_empty() {
        return Ok(());
    }
    // What happened first says the most.
    let first = [
        report.failures.first().map(ToString::to_string),
        report.findings.first().map(ToString::to_string),
        report.leaks.first().map(ToString::to_string),
    ];
    let first = first.into_iter().flatten().next();
    let first = first.map_or(String::new(), |first| format!("; first: {first}"));
    Err(CliError::reported(format!("{}{first}", wrong.join(", "))))
}

struct EventBar(ProgressBar);

impl Progress for EventBar {
    fn begin(&self, batches: u64) {
        self.0.set_length(batches);
    }

    fn batch_done(&self, _outcome: &BatchOutcome) {
        self.0.inc(1);
    }
}

fn text(report: &Report) -> String {
    let mut text = format!(
        " {}: {} x {} events, seed {}, {}\n\n",
        report.sequence,
        batches(report.batches),
        grouped(report.events),
        report.seed,
        report.backend
    );
    text += &buffers(report);
    text.push('\n');
    text += &memory(report);
    if report.dynamic.splits > 0 {
        text += " The pool was too small for whole batches: dynamic sums and bounds are those of\n \
                 the largest part that went through.\n";
    }
    text.push('\n');
    text += &outcome(report);
    text += &described("failures", &report.failures, report.failures_total);
    text += &described("faults", &report.findings, report.findings_total);
    text += &described("leaks", &report.leaks, report.leaks.len() as u64);
    text
}

fn batches(count: u64) -> String {
    if count == 1 {
        "1 batch".into()
    } else {
        format!("{} batches", grouped(count))
    }
}

/// The table that this work began with.
fn buffers(report: &Report) -> String {
    let sum = |scope: Scope, kind: Kind| {
        let kinds = report.buffers.get(scope.as_str());
        let sum = kinds.and_then(|kinds| kinds.get(kind.as_str()));
        sum.copied().unwrap_or_default()
    };
    let rows = [
        ("static host", sum(Scope::Host, Kind::Static)),
        ("static device", sum(Scope::Device, Kind::Static)),
        ("dynamic host", sum(Scope::Host, Kind::Dynamic)),
        ("dynamic device", sum(Scope::Device, Kind::Dynamic)),
    ];
    let all = rows
        .iter()
        .fold(BufferSum::default(), |all, (_, sum)| BufferSum {
            count: all.count + sum.count,
            bytes: all.bytes.saturating_add(sum.bytes),
        });
    let row =
        |(name, sum): &(&str, BufferSum)| [String::from(*name), grouped(sum.count), mib(sum.bytes)];
    let rows = std::iter::once(&("all", all))
        .chain(&rows)
        .map(row)
        .collect();
    table(["buffers", "count", "MiB"], rows)
}

/// Peaks beside their lower bounds.
fn memory(report: &Report) -> String {
    let arena = |name: &str, arena: &StaticReport| {
        [
            name.into(),
            mib(arena.sum_bytes),
            mib(arena.lower_bound_bytes),
            mib(arena.peak_bytes),
            ratio(arena.peak_bytes, arena.lower_bound_bytes),
            mib(arena.peak_bytes),
        ]
    };
    let pool = |name: &str, pool: &DynamicReport| {
        [
            name.into(),
            mib(pool.sum_bytes),
            mib(pool.lower_bound_bytes),
            mib(pool.high_water_bytes),
            ratio(pool.high_water_bytes, pool.lower_bound_bytes),
            mib(pool.pool_bytes),
        ]
    };
    table(
        ["MiB", "sum", "bound", "peak", "peak/bound", "reserved"],
        vec![
            arena("static host", &report.host.static_memory),
            arena("static device", &report.static_memory),
            pool("dynamic host", &report.host.dynamic),
            pool("dynamic device", &report.dynamic),
        ],
    )
}

fn outcome(report: &Report) -> String {
    let (device, host) = (&report.dynamic, &report.host.dynamic);
    facts(&[
        ("events done", grouped(report.events_done)),
        ("events failed", grouped(report.events_failed)),
        ("batches split", grouped(device.splits)),
        (
            "allocations",
            grouped(device.allocations + host.allocations),
        ),
        ("frees", grouped(device.frees + host.frees)),
        ("failed requests", grouped(device.failed + host.failed)),
        ("host syncs in batch", grouped(report.host_syncs_in_batch)),
        ("leaked bytes", grouped(report.leaked_bytes)),
        ("verified", yes(report.verified)),
        ("seconds", format!("{:.3}", report.seconds)),
    ])
}

/// The first of several items, one in a line.
fn described<T: std::fmt::Display>(what: &str, items: &[T], total: u64) -> String {
    if items.is_empty() {
        return String::new();
    }
    let shown = items.len().min(DESCRIBED);
    let mut text = format!("\n {what}, {shown} of {total}:\n");
    for item in &items[..shown] {
        text += &format!("  {item}\n");
    }
    text
}

//! `dheap plan`.

use std::path::Path;
use std::time::{Duration, Instant};

use device_heap::plan::{self, Instance, Options, Plan, csv};
use device_heap::runtime::{self, Configuration};
use device_heap::sequence::{Scope, Sequence};
use serde::Serialize;

use super::args::PlanArgs;
use super::error::CliError;
use super::input::{self, Planned};
use super::output::{grouped, mib, print, print_json, ratio, table, yes};
use super::progress;

/// One arena, planned.
struct Arena {
    name: &'static str,
    /// The file, and of a sequence the arena in it.
    place: String,
    instance: Instance,
    plan: Plan,
    /// Where the lower bound is, in words.
    fullest: String,
    facts: Facts,
}

/// What is told about an arena.
#[derive(Clone, Debug, Serialize)]
struct Facts {
    buffers: u64,
    /// Buffers that take no space at any step.
    spaceless: u64,
    sum_bytes: u64,
    peak_bytes: u64,
    lower_bound_bytes: u64,
    status: &'static str,
    capacity_bytes: Option<u64>,
    fits: bool,
    verified: bool,
    /// The time limit ended the search.
    timed_out: bool,
    seconds: f64,
}

/// What `--json` prints: the facts of the arena that was asked for, and of a
/// sequence's other one.
#[derive(Debug, Serialize)]
struct Report<'a> {
    file: String,
    #[serde(flatten)]
    main: &'a Facts,
    fingerprint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<Other<'a>>,
}

#[derive(Debug, Serialize)]
struct Other<'a> {
    scope: &'static str,
    #[serde(flatten)]
    facts: &'a Facts,
}

pub(super) fn plan(args: &PlanArgs) -> Result<(), CliError> {
    if let Some(out) = &args.out {
        check_target(out, &args.file)?;
    }
    let planned = input::planned(&args.file)?;
    let spinner = progress::spinner("planning");
    let arenas = arenas(planned, args);
    spinner.finish_and_clear();
    let arenas = arenas?;
    let main = &arenas[0];
    let verdict = judge(main);
    // Before the report, which says that all went well.
    if let (Ok(()), Some(out)) = (&verdict, &args.out) {
        csv::write_plan(out, &main.instance, main.plan.offsets()).map_err(CliError::work)?;
    }
    if args.json {
        print_json(&report(&arenas, &args.file))?;
    } else {
        print(&text(&arenas))?;
    }
    verdict
}

/// The arena that was asked for, and then a sequence's other one.
fn arenas(planned: Planned, args: &PlanArgs) -> Result<Vec<Arena>, CliError> {
    let limit = args.time_limit.map(|limit| (Instant::now(), limit));
    match planned {
        Planned::Table(_) if args.scope.is_some() => Err(CliError::Usage(
            "--scope is for sequences; a table of buffers has one arena, so leave it out".into(),
        )),
        Planned::Table(instance) => {
            let place = args.file.display().to_string();
            let arena = arena("arena", place, instance, args.capacity, limit, args)?;
            Ok(vec![arena])
        }
        Planned::Sequence(sequence) => {
            let scope = args.scope.map_or(Scope::Device, Scope::from);
            let other = match scope {
                Scope::Device => Scope::Host,
                Scope::Host => Scope::Device,
            };
            [(scope, args.capacity), (other, None)]
                .into_iter()
                .map(|(scope, capacity)| {
                    let place = format!("{}, {scope} arena", args.file.display());
                    let instance = static_buffers(&sequence, scope)?;
                    let arena = arena(scope.as_str(), place, instance, capacity, limit, args)?;
                    Ok(arena.at_algorithm(&sequence))
                })
                .collect()
        }
    }
}

/// Plans an arena in what is left of the time limit since it began.
fn arena(
    name: &'static str,
    place: String,
    instance: Instance,
    capacity: Option<u64>,
    limit: Option<(Instant, Duration)>,
    args: &PlanArgs,
) -> Result<Arena, CliError> {
    let options = Options {
        capacity,
        time_limit: limit.map(|(began, limit)| limit.saturating_sub(began.elapsed())),
        seed: args.seed,
        node_budget: args.nodes,
    };
    let threads = rayon::ThreadPoolBuilder::new()
        .num_threads(args.threads.map_or(0, |threads| threads as usize))
        .build()
        .map_err(|error| CliError::work(format!("the threads cannot be started: {error}")))?;
    let start = Instant::now();
    let plan = threads
        .install(|| plan::plan(&instance, &options))
        .map_err(|error| CliError::work(format!("{place}: {error}")))?;
    let seconds = start.elapsed().as_secs_f64();
    plan.verify(&instance)
        .map_err(|fault| CliError::work(format!("{place}: the plan is not valid: {fault}")))?;
    let facts = Facts {
        buffers: instance.len() as u64,
        spaceless: plan.spaceless().len() as u64,
        sum_bytes: instance.total_size(),
        peak_bytes: plan.peak(),
        lower_bound_bytes: plan.lower_bound().bytes,
        status: plan.status().as_str(),
        capacity_bytes: capacity,
        fits: plan.fits(),
        verified: true,
        timed_out: plan.timed_out(),
        seconds,
    };
    Ok(Arena {
        name,
        place,
        instance,
        fullest: format!("step {}", plan.lower_bound().step.unwrap_or(0)),
        plan,
        facts,
    })
}

impl Arena {
    /// Steps of a sequence are its algorithms.
    fn at_algorithm(mut self, sequence: &Sequence) -> Self {
        let step = self.plan.lower_bound().step;
        let step = step.and_then(|step| usize::try_from(step).ok());
        if let Some(algorithm) = step.and_then(|step| sequence.algorithms().get(step)) {
            self.fullest = format!("algorithm {:?} ({})", algorithm.name, self.fullest);
        }
        self
    }
}

/// The static buffers of a scope, at the sequence's largest batch.
fn static_buffers(sequence: &Sequence, scope: Scope) -> Result<Instance, CliError> {
    Configuration::static_instance(sequence, &runtime::Options::default(), scope)
        .map_err(CliError::usage)
}

/// Whether the plan is what was asked for.
fn judge(arena: &Arena) -> Result<(), CliError> {
    let (plan, capacity) = (&arena.plan, arena.facts.capacity_bytes);
    let Some(capacity) = capacity.filter(|_| !plan.fits()) else {
        return Ok(());
    };
    let (place, bound) = (&arena.place, plan.lower_bound());
    Err(CliError::reported(if bound.bytes > capacity {
        format!(
            "{place}: no plan fits into {capacity} bytes: the {} buffers alive at {} need {}",
            bound.buffers.len(),
            arena.fullest,
            bound.bytes
        )
    } else {
        format!(
            "{place}: the best plan found needs {} bytes and does not fit into {capacity}; a \
             longer --time-limit may find one (at least {} bytes are needed)",
            plan.peak(),
            bound.bytes
        )
    }))
}

/// Where a plan cannot be written, there is no use in making it.
fn check_target(out: &Path, file: &Path) -> Result<(), CliError> {
    csv::check_target(out).map_err(|error| CliError::usage(format!("--out {error}")))?;
    let same = match (out.canonicalize(), file.canonicalize()) {
        (Ok(out), Ok(file)) => out == file,
        _ => false,
    };
    if same {
        return Err(CliError::usage(format!(
            "--out {} is the input itself; name another file",
            out.display()
        )));
    }
    Ok(())
}

fn report<'a>(arenas: &'a [Arena], file: &Path) -> Report<'a> {
    let main = &arenas[0];
    let other = arenas.get(1);
    Report {
        file: file.display().to_string(),
        main: &main.facts,
        fingerprint: main.plan.fingerprint().to_string(),
        scope: other.is_some().then_some(main.name),
        other: other.map(|arena| Other {
            scope: arena.name,
            facts: &arena.facts,
        }),
    }
}

fn text(arenas: &[Arena]) -> String {
    let header = [
        "arena",
        "buffers",
        "sum MiB",
        "peak MiB",
        "bound MiB",
        "peak/bound",
        "status",
        "verified",
        "seconds",
    ];
    let row = |arena: &Arena| {
        let facts = &arena.facts;
        [
            arena.name.into(),
            grouped(facts.buffers),
            mib(facts.sum_bytes),
            mib(facts.peak_bytes),
            mib(facts.lower_bound_bytes),
            ratio(facts.peak_bytes, facts.lower_bound_bytes),
            facts.status.into(),
            yes(facts.verified),
            format!("{:.3}", facts.seconds),
        ]
    };
    let mut text = table(header, arenas.iter().map(row).collect());
    for arena in arenas.iter().filter(|arena| arena.facts.timed_out) {
        text += &format!(
            "\n {}: the time limit ended the search; more time may find a lower peak\n",
            arena.place
        );
    }
    text
}

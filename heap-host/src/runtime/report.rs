//! What `run` reports.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::sequence::{Kind, Scope};

use super::configuration::{Configuration, SCOPES};
use super::failure::Failure;
use super::finding::{Finding, LeakedBuffer};
use super::outcome::{BatchOutcome, PoolUse};

/// How many failures, and findings, a report describes; all are counted.
const DESCRIBED: usize = 32;

/// What a run did, and where the memory went. `static_memory` and `dynamic`
/// are device memory; `host` has the host scope's.
///
/// Serialises to the object that `dheap run --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Name of the sequence.
    pub sequence: String,
    /// Events of a batch.
    pub events: u64,
    /// Batches run.
    pub batches: u64,
    /// Where it ran.
    pub backend: String,
    /// Seed of the built-in kernels' counts.
    pub seed: u64,
    /// Batches under way at a time.
    pub streams: u32,
    /// By scope, then by kind: how many buffers there are, and their bytes:
    /// static ones at the largest batch, dynamic ones in the largest batch
    /// run.
    pub buffers: BTreeMap<&'static str, BTreeMap<&'static str, BufferSum>>,
    /// The static arena in device memory.
    #[serde(rename = "static")]
    pub static_memory: StaticReport,
    /// The dynamic pool in device memory.
    pub dynamic: DynamicReport,
    /// The same in host memory.
    pub host: HostReport,
    /// Bytes of the heaps' metadata, both scopes.
    pub metadata_bytes: u64,
    /// Bytes of the control block.
    pub control_bytes: u64,
    /// Reads of device memory by the host while a batch was under way.
    pub host_syncs_in_batch: u64,
    /// Whether every check of contents and lifetimes passed.
    pub verified: bool,
    /// Bytes in the dynamic pools that nobody freed.
    pub leaked_bytes: u64,
    /// Events that went through.
    pub events_done: u64,
    /// Events that cannot go through even alone.
    pub events_failed: u64,
    /// Attempts that failed, up to 32: first those of single events, which
    /// could not be done, then those of more events, which were halved; each
    /// kind in the order of the batches.
    pub failures: Vec<Failure>,
    /// How many there were.
    pub failures_total: u64,
    /// How many of them are left out of `failures`.
    pub failures_left_out: u64,
    /// Faults that were found, the first ones.
    pub findings: Vec<Finding>,
    /// How many there were.
    pub findings_total: u64,
    /// Buffers that nobody freed.
    pub leaks: Vec<LeakedBuffer>,
    /// An invariant of a heap that does not hold.
    pub corruption: Option<String>,
    /// Time for all batches, without planning and setting up.
    pub seconds: f64,
}

/// Buffers of one scope and kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BufferSum {
    /// How many.
    pub count: u64,
    /// Their requested bytes.
    pub bytes: u64,
}

/// A static arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StaticReport {
    /// Bytes of the arena.
    pub peak_bytes: u64,
    /// No arena can be smaller.
    pub lower_bound_bytes: u64,
    /// Requested bytes of all buffers.
    pub sum_bytes: u64,
}

/// A dynamic pool. Sizes are those of one stream, in its largest batch; counts
/// are of all streams and batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DynamicReport {
    /// Bytes of the pool, metadata included.
    pub pool_bytes: u64,
    /// The largest number of bytes of pages in use.
    pub high_water_bytes: u64,
    /// The largest live sum of exactly requested bytes.
    pub lower_bound_bytes: u64,
    /// Requested bytes of all buffers.
    pub sum_bytes: u64,
    /// Blocks handed out.
    pub allocations: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Requests that were not met.
    pub failed: u64,
    /// How often a batch was halved.
    pub splits: u64,
}

/// The host scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostReport {
    /// The static arena.
    #[serde(rename = "static")]
    pub static_memory: StaticReport,
    /// The dynamic pool.
    pub dynamic: DynamicReport,
}

/// Adds up batches.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    batches: u64,
    device: PoolUse,
    host: PoolUse,
    splits: u64,
    host_syncs: u64,
    events_done: u64,
    events_failed: u64,
    /// Failures of single events.
    given_up: Vec<Failure>,
    /// Failures of more events.
    halved: Vec<Failure>,
    failures_total: u64,
    findings: Vec<Finding>,
    findings_total: u64,
    leaks: Vec<LeakedBuffer>,
    corruption: Option<String>,
    pub(super) leaked_bytes: u64,
}

impl Tally {
    pub(super) fn add(&mut self, outcome: BatchOutcome) {
        self.batches += 1;
        self.device.merge(&outcome.device);
        self.host.merge(&outcome.host);
        self.splits += outcome.splits;
        self.host_syncs += outcome.host_syncs;
        self.events_done += outcome.events_done;
        self.events_failed += outcome.events_failed.len() as u64;
        self.failures_total += outcome.failures.len() as u64;
        self.findings_total += outcome.findings_total;
        self.leaked_bytes += outcome.leaks.iter().map(|leak| leak.bytes).sum::<u64>();
        self.corruption = self.corruption.take().or(outcome.corruption);
        let failures = outcome.failures.into_iter();
        let (halved, given_up) = failures.partition(|failure| failure.events > 1);
        keep(&mut self.halved, halved);
        keep(&mut self.given_up, given_up);
        keep(&mut self.findings, outcome.findings);
        keep(&mut self.leaks, outcome.leaks);
    }

    pub(super) fn report(mut self, config: &Configuration, backend: &str, seconds: f64) -> Report {
        let dynamic = |scope: Scope, used: &PoolUse, splits| DynamicReport {
            pool_bytes: config.pool(scope).bytes,
            high_water_bytes: used.high_water_bytes,
            lower_bound_bytes: used.lower_bound_bytes,
            sum_bytes: used.sum_bytes,
            allocations: used.allocations,
            frees: used.frees,
            failed: used.failed,
            splits,
        };
        let static_memory = |scope: Scope| {
            let arena = config.arena(scope);
            StaticReport {
                peak_bytes: arena.plan.peak(),
                lower_bound_bytes: arena.plan.lower_bound().bytes,
                sum_bytes: arena.sum_bytes,
            }
        };
        let mut failures = std::mem::take(&mut self.given_up);
        keep(&mut failures, std::mem::take(&mut self.halved));
        Report {
            sequence: config.sequence.name().into(),
            events: config.max_events(),
            batches: self.batches,
            backend: backend.into(),
            seed: config.options.seed,
            streams: config.options.streams,
            buffers: self.buffers(config),
            static_memory: static_memory(Scope::Device),
            dynamic: dynamic(Scope::Device, &self.device, self.splits),
            host: HostReport {
                static_memory: static_memory(Scope::Host),
                dynamic: dynamic(Scope::Host, &self.host, 0),
            },
            metadata_bytes: SCOPES
                .iter()
                .map(|&scope| config.pool(scope).metadata_bytes)
                .sum(),
            control_bytes: config.control_bytes(),
            host_syncs_in_batch: self.host_syncs,
            verified: self.findings_total == 0 && self.corruption.is_none(),
            leaked_bytes: self.leaked_bytes,
            events_done: self.events_done,
            events_failed: self.events_failed,
            failures_total: self.failures_total,
            failures_left_out: self.failures_total - failures.len() as u64,
            failures,
            findings: self.findings,
            findings_total: self.findings_total,
            leaks: self.leaks,
            corruption: self.corruption,
            seconds,
        }
    }

    fn buffers(
        &self,
        config: &Configuration,
    ) -> BTreeMap<&'static str, BTreeMap<&'static str, BufferSum>> {
        let sum = |scope: Scope, kind: Kind| {
            let all = config.sequence.buffers().iter();
            let count = all
                .filter(|buffer| buffer.scope == scope && buffer.kind == kind)
                .count();
            let bytes = match (kind, scope) {
                (Kind::Static, _) => config.arena(scope).sum_bytes,
                (Kind::Dynamic, Scope::Device) => self.device.sum_bytes,
                (Kind::Dynamic, Scope::Host) => self.host.sum_bytes,
            };
            (
                kind.as_str(),
                BufferSum {
                    count: count as u64,
                    bytes,
                },
            )
        };
        let kinds = |scope| {
            [Kind::Static, Kind::Dynamic]
                .map(|kind| sum(scope, kind))
                .into()
        };
        SCOPES.map(|scope| (scope.as_str(), kinds(scope))).into()
    }
}

/// Failures and the like, as many as a report describes.
fn keep<T>(all: &mut Vec<T>, more: Vec<T>) {
    let room = DESCRIBED.saturating_sub(all.len());
    all.extend(more.into_iter().take(room));
}

//! What became of a batch.

use serde::Serialize;

use crate::sequence::Scope;

use super::configuration::Configuration;
use super::control::{Image, MAX_FINDINGS, Words};
use super::failure::Failure;
use super::finding::{Finding, LeakedBuffer};
use super::record::{Count, Header};

/// What happened in one scope's dynamic pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PoolUse {
    /// The largest number of bytes of pages in use, in any attempt.
    pub high_water_bytes: u64,
    /// The largest live sum of exactly requested bytes, in any attempt that
    /// went through.
    pub lower_bound_bytes: u64,
    /// Requested bytes of all buffers, in the attempt where they were most.
    pub sum_bytes: u64,
    /// Blocks handed out, in all attempts.
    pub allocations: u64,
    /// Blocks freed, in all attempts.
    pub frees: u64,
    /// Requests that were not met.
    pub failed: u64,
}

/// What became of one batch, with all attempts at its parts.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BatchOutcome {
    /// Events that went through, each exactly once.
    pub events_done: u64,
    /// Events that cannot go through even alone, ascending.
    pub events_failed: Vec<u64>,
    /// How often a part was halved.
    pub splits: u64,
    /// Every attempt that failed, in order.
    pub failures: Vec<Failure>,
    /// The first faults that checks found.
    pub findings: Vec<Finding>,
    /// How many there were.
    pub findings_total: u64,
    /// Buffers that nobody freed.
    pub leaks: Vec<LeakedBuffer>,
    /// What the heap's invariant scan found, if asked for.
    pub corruption: Option<String>,
    /// How often the host read device memory between an upload and the end of
    /// its last step.
    pub host_syncs: u64,
    /// The dynamic pool in device memory.
    pub device: PoolUse,
    /// The dynamic pool in host memory.
    pub host: PoolUse,
}

impl BatchOutcome {
    /// Whether nothing wrong was found in memory.
    pub fn verified(&self) -> bool {
        self.findings_total == 0 && self.leaks.is_empty() && self.corruption.is_none()
    }

    /// Adds what one attempt left.
    pub(super) fn add_attempt(&mut self, config: &Configuration, image: &Image) {
        let good = image.header(Header::Failure) == 0;
        self.device.add_attempt(image, Scope::Device, good);
        self.host.add_attempt(image, Scope::Host, good);
        let findings = image.header(Header::Findings);
        self.findings_total += findings;
        let described = (0..findings.min(MAX_FINDINGS)).map(|index| image.finding(index));
        self.findings
            .extend(described.map(|raw| Finding::new(&config.sequence, &raw)));
    }
}

impl PoolUse {
    fn add_attempt(&mut self, image: &Image, scope: Scope, good: bool) {
        let count = |count| image.count(scope, count);
        self.high_water_bytes = self.high_water_bytes.max(count(Count::HighWater));
        if good {
            self.lower_bound_bytes = self.lower_bound_bytes.max(count(Count::PeakLive));
            self.sum_bytes = self.sum_bytes.max(count(Count::Sum));
        }
        self.allocations += count(Count::Allocations);
        self.frees += count(Count::Frees);
        self.failed += count(Count::Failed);
    }

    /// Adds another batch: counts add up, sizes are those of the largest.
    pub(super) fn merge(&mut self, other: &Self) {
        self.high_water_bytes = self.high_water_bytes.max(other.high_water_bytes);
        self.lower_bound_bytes = self.lower_bound_bytes.max(other.lower_bound_bytes);
        self.sum_bytes = self.sum_bytes.max(other.sum_bytes);
        self.allocations += other.allocations;
        self.frees += other.frees;
        self.failed += other.failed;
    }
}

//! What became of a batch.

use std::fmt;

use serde::Serialize;

use crate::sequence::{BufferId, Scope, Sequence};

use super::configuration::Configuration;
use super::control::{
    Cause, Count, FindingKind, Header, Image, MAX_FINDINGS, NOBODY, RawFinding, Status, Words,
};
use super::cpu::Poison;

/// A part of a batch that did not go through for lack of memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Failure {
    /// Its first event.
    pub first_event: u64,
    /// How many events it had. One that cannot go through alone is given up.
    pub events: u64,
    /// The algorithm whose buffer did not fit.
    pub algorithm: String,
    /// The buffer, or the total whose value does not fit 64 bits.
    pub name: String,
    /// What happened.
    pub reason: FailureReason,
    /// Bytes needed at once, a guard included; the largest `u64` if more.
    pub needed_bytes: u64,
    /// Bytes that were free in the pool.
    pub free_bytes: u64,
    /// The largest hole, in bytes.
    pub largest_hole_bytes: u64,
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// The largest hole as a part of what is free: 1 where all is in one
    /// piece, and where nothing is free.
    pub largest_of_free: f64,
}

/// Why a part of a batch did not go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureReason {
    /// The pool had no hole of that size.
    NoRoom,
    /// The size of a buffer exceeds 64 bits.
    SizeOverflow,
    /// The sum of a total exceeds 64 bits.
    TotalOverflow,
}

/// A fault in what is in memory, or in a lifetime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingFault,
    /// The algorithm that found it; for a guard, the one that ran last.
    pub algorithm: String,
    /// The buffer.
    pub buffer: String,
    /// The event that owns the place, if one does.
    pub event: Option<u64>,
    /// The element, counted from the start of its event's part of the buffer;
    /// for a guard, the byte behind the buffer's end.
    pub index: u64,
    /// What should be there.
    pub expected: u64,
    /// What is there.
    pub found: u64,
}

/// What is wrong with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingFault {
    /// Its contents are not what its writer left.
    Mismatch,
    /// Something wrote behind its end.
    Guard,
    /// It was read, but nobody had written it.
    Unwritten,
    /// It was read, but it was not live.
    NotLive,
    /// Its block could not be freed.
    BadFree,
}

/// A buffer that nobody freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeakedBuffer {
    /// The buffer.
    pub buffer: String,
    /// The algorithm that wrote it.
    pub algorithm: String,
    /// Its requested bytes.
    pub bytes: u64,
}

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

impl Failure {
    /// What the failure record says; for a cause that halving may cure.
    pub(super) fn new(config: &Configuration, image: &Image, reason: FailureReason) -> Self {
        let sequence = &config.sequence;
        let header = |word| image.header(word);
        let (free, largest) = (header(Header::FailedFree), header(Header::FailedLargest));
        let buffer = header(Header::FailedBuffer);
        let name = if buffer == NOBODY {
            let total = header(Header::FailedTotal) as usize;
            sequence.totals()[total].name.clone()
        } else {
            sequence.buffers()[buffer as usize].name.clone()
        };
        let scope = sequence
            .buffers()
            .get(buffer as usize)
            .map_or(Scope::Device, |b| b.scope);
        Self {
            first_event: header(Header::FirstEvent),
            events: header(Header::Events),
            algorithm: sequence.algorithms()[header(Header::FailedAlgorithm) as usize]
                .name
                .clone(),
            name,
            reason,
            needed_bytes: header(Header::FailedBytes),
            free_bytes: free,
            largest_hole_bytes: largest,
            pool_bytes: config.pool(scope).bytes,
            largest_of_free: if free == 0 {
                1.0
            } else {
                largest as f64 / free as f64
            },
        }
    }
}

impl FailureReason {
    pub(super) fn of(cause: Cause) -> Option<Self> {
        match cause {
            Cause::NoRoom => Some(Self::NoRoom),
            Cause::Overflow => Some(Self::SizeOverflow),
            Cause::TotalOverflow => Some(Self::TotalOverflow),
            Cause::NoTotal | Cause::Kernel => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            first_event,
            events,
            algorithm,
            name,
            ..
        } = self;
        match events {
            1 => write!(f, "event {first_event}: ")?,
            _ => write!(f, "{events} events from {first_event} on: ")?,
        }
        match self.reason {
            FailureReason::NoRoom => self.no_room(f),
            FailureReason::SizeOverflow => write!(
                f,
                "the size of buffer {name:?} of algorithm {algorithm:?} exceeds 64 bits"
            ),
            FailureReason::TotalOverflow => write!(
                f,
                "the total {name:?} that algorithm {algorithm:?} computes exceeds 64 bits"
            ),
        }
    }
}

impl Failure {
    fn no_room(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            algorithm,
            name,
            needed_bytes,
            free_bytes,
            ..
        } = self;
        write!(
            f,
            "buffer {name:?} of algorithm {algorithm:?} needs {needed_bytes} bytes; of the pool's \
             {} bytes {free_bytes} are free, the largest hole has {} ({:.0} % of what is free)",
            self.pool_bytes,
            self.largest_hole_bytes,
            100.0 * self.largest_of_free
        )?;
        if needed_bytes <= free_bytes {
            f.write_str("; enough is free, but in pieces")?;
        }
        Ok(())
    }
}

impl Finding {
    fn new(sequence: &Sequence, raw: &RawFinding) -> Self {
        Self {
            kind: match raw.kind {
                FindingKind::Mismatch => FindingFault::Mismatch,
                FindingKind::Guard => FindingFault::Guard,
                FindingKind::Unwritten => FindingFault::Unwritten,
                FindingKind::NotLive => FindingFault::NotLive,
                FindingKind::BadFree => FindingFault::BadFree,
            },
            algorithm: sequence.algorithms()[raw.algorithm as usize].name.clone(),
            buffer: sequence.buffers()[raw.buffer as usize].name.clone(),
            event: (raw.event != NOBODY).then_some(raw.event),
            index: raw.index,
            expected: raw.expected,
            found: raw.found,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            algorithm,
            buffer,
            index,
            expected,
            found,
            ..
        } = self;
        match self.kind {
            FindingFault::Mismatch => {
                write!(
                    f,
                    "algorithm {algorithm:?} reads buffer {buffer:?}: element {index}"
                )?;
                if let Some(event) = self.event {
                    write!(f, " of event {event}")?;
                }
                write!(f, " is wrong, {found:#018x} instead of {expected:#018x}")?;
                match Poison::of_word(*found) {
                    Some(poison) => write!(f, " (memory that {poison})"),
                    None => Ok(()),
                }
            }
            FindingFault::Guard => write!(
                f,
                "byte {index} behind the end of buffer {buffer:?} was written, {found:#04x} over \
                 {expected:#04x}; algorithm {algorithm:?} ran last"
            ),
            FindingFault::Unwritten => write!(
                f,
                "algorithm {algorithm:?} reads buffer {buffer:?}, which nobody has written"
            ),
            FindingFault::NotLive => write!(
                f,
                "algorithm {algorithm:?} relies on buffer {buffer:?}, which is not live"
            ),
            FindingFault::BadFree => write!(
                f,
                "after algorithm {algorithm:?} buffer {buffer:?} could not be freed at {index}"
            ),
        }
    }
}

impl fmt::Display for LeakedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            buffer,
            algorithm,
            bytes,
        } = self;
        write!(
            f,
            "buffer {buffer:?} of algorithm {algorithm:?} ({bytes} bytes) was never freed"
        )
    }
}

/// Dynamic buffers that are still there at the end of a batch.
pub(super) fn leaks(config: &Configuration, image: &Image) -> Vec<LeakedBuffer> {
    let sequence = &config.sequence;
    let leaked = |(index, buffer): (usize, &crate::sequence::Buffer)| {
        let handle = image.handle(BufferId::new(index));
        let dynamic = buffer.kind == crate::sequence::Kind::Dynamic;
        (dynamic && handle.status == Status::Live).then(|| LeakedBuffer {
            buffer: buffer.name.clone(),
            algorithm: sequence.algorithm(buffer.writer).name.clone(),
            bytes: handle.bytes,
        })
    };
    sequence
        .buffers()
        .iter()
        .enumerate()
        .filter_map(leaked)
        .collect()
}

//! Parts of batches that did not fit.

use std::fmt;

use serde::Serialize;

use crate::sequence::Scope;

use super::configuration::Configuration;
use super::control::{Image, Words};
use super::record::{Cause, Header, NOBODY};

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

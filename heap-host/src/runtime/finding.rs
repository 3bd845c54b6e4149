//! What checks found wrong in memory.

use std::fmt;

use serde::Serialize;

use crate::sequence::{Buffer, BufferId, Kind, Sequence};

use super::configuration::Configuration;
use super::control::{Image, Words};
use super::cpu::Poison;
use super::record::{FindingKind, NOBODY, RawFinding, Status};

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

impl Finding {
    pub(super) fn new(sequence: &Sequence, raw: &RawFinding) -> Self {
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
    let leaked = |(index, buffer): (usize, &Buffer)| {
        let handle = image.handle(BufferId::new(index));
        let dynamic = buffer.kind == Kind::Dynamic;
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

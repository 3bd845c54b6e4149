//! The records of a control block, as words.

use crate::sequence::{BufferId, TotalId};

/// No algorithm or buffer.
pub(super) const NOBODY: u64 = u64::MAX;

/// The words at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Header {
    FirstEvent,
    Events,
    /// 0 while the batch is going well, else a [`Cause`].
    Failure,
    FailedBuffer,
    FailedAlgorithm,
    FailedTotal,
    FailedBytes,
    FailedFree,
    FailedLargest,
    /// How many findings there were.
    Findings,
    Len,
}

/// Counters of one scope's dynamic buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Count {
    Allocations,
    Frees,
    Failed,
    /// Requested bytes that are live now.
    Live,
    /// The largest of these.
    PeakLive,
    /// Requested bytes of all allocations.
    Sum,
    /// The largest number of the pool's bytes in use, after any step.
    HighWater,
    Len,
}

/// Why a batch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Cause {
    /// The pool has no room.
    NoRoom = 1,
    /// A buffer's number of bytes does not fit 64 bits.
    Overflow = 2,
    /// A total does not fit 64 bits.
    TotalOverflow = 3,
    /// A user's kernel did not set a total.
    NoTotal = 4,
    /// A user's kernel said so, or panicked.
    Kernel = 5,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum FindingKind {
    Mismatch = 1,
    Guard = 2,
    Unwritten = 3,
    NotLive = 4,
    BadFree = 5,
}

/// State of a buffer in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Status {
    /// Its turn has not come.
    Absent = 0,
    /// It is there.
    Live = 1,
    /// It was, or its writer was, given up.
    Failed = 2,
    /// It was there.
    Freed = 3,
}

/// State of a total in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum TotalState {
    Unset = 0,
    /// The counts of all events are there, not yet scanned.
    Counted = 1,
    /// The sum is there, not yet any offsets.
    Summed = 2,
    /// The sum and the offsets are there.
    Ready = 3,
}

/// Where a dynamic or static buffer is, as the device keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle {
    pub(super) address: u64,
    pub(super) elements: u64,
    pub(super) bytes: u64,
    pub(super) status: Status,
}

/// A fault that a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawFinding {
    pub(super) kind: FindingKind,
    pub(super) algorithm: u64,
    pub(super) buffer: u64,
    pub(super) event: u64,
    pub(super) index: u64,
    pub(super) expected: u64,
    pub(super) found: u64,
}

pub(super) const HANDLE: u64 = 4;
pub(super) const TOTAL: u64 = 2;
pub(super) const FINDING: u64 = 7;

/// What could not be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FailedRequest {
    pub(super) buffer: Option<BufferId>,
    pub(super) total: Option<TotalId>,
    pub(super) bytes: u64,
    pub(super) free: u64,
    pub(super) largest: u64,
}

impl Handle {
    pub(super) fn words(self) -> [u64; HANDLE as usize] {
        [self.address, self.elements, self.bytes, self.status as u64]
    }
}

impl RawFinding {
    pub(super) fn words(self) -> [u64; FINDING as usize] {
        let Self {
            kind,
            algorithm,
            buffer,
            event,
            index,
            expected,
            found,
        } = self;
        [
            kind as u64,
            algorithm,
            buffer,
            event,
            index,
            expected,
            found,
        ]
    }
}

impl From<u64> for Status {
    fn from(word: u64) -> Self {
        match word {
            0 => Self::Absent,
            1 => Self::Live,
            2 => Self::Failed,
            _ => Self::Freed,
        }
    }
}

impl From<u64> for TotalState {
    fn from(word: u64) -> Self {
        match word {
            0 => Self::Unset,
            1 => Self::Counted,
            2 => Self::Summed,
            _ => Self::Ready,
        }
    }
}

impl From<u64> for FindingKind {
    fn from(word: u64) -> Self {
        match word {
            1 => Self::Mismatch,
            2 => Self::Guard,
            3 => Self::Unwritten,
            4 => Self::NotLive,
            _ => Self::BadFree,
        }
    }
}

impl Cause {
    /// The cause that a batch's header states, if it failed.
    pub(super) fn of(word: u64) -> Option<Self> {
        match word {
            0 => None,
            1 => Some(Self::NoRoom),
            2 => Some(Self::Overflow),
            3 => Some(Self::TotalOverflow),
            4 => Some(Self::NoTotal),
            _ => Some(Self::Kernel),
        }
    }
}

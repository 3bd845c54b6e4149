//! The last steps of a run.

use std::fmt;
use std::vec::Vec;

/// Kind of one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Load,
    Store,
    CompareExchange,
    FetchAdd,
    FetchAnd,
    FetchOr,
    FetchMax,
    Fill,
    Copy,
}

/// One access: what was asked of which word, and what was found there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) warp: u32,
    pub(super) lane: u32,
    pub(super) access: Access,
    pub(super) at: u64,
    /// The expected word; of a copy, the source.
    pub(super) current: u64,
    pub(super) value: u64,
    pub(super) found: u64,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            warp,
            lane,
            access,
            at,
            current,
            value,
            found,
        } = *self;
        write!(f, "warp {warp} lane {lane}: ")?;
        match access {
            Access::Load => write!(f, "load [{at:#x}] is {found:#x}"),
            Access::Store => write!(f, "store [{at:#x}] := {value:#x}"),
            Access::CompareExchange => {
                let outcome = if found == current { "done" } else { "lost" };
                let was = found;
                write!(
                    f,
                    "exchange [{at:#x}] {current:#x} by {value:#x}, {outcome}, was {was:#x}"
                )
            }
            Access::Fill => write!(f, "fill [{at:#x}] {value} bytes"),
            Access::Copy => write!(f, "copy [{current:#x}] to [{at:#x}] {value} bytes"),
            fetch => write!(f, "{fetch:?} [{at:#x}] {value:#x}, was {found:#x}"),
        }
    }
}

/// The last steps, and a digest of all.
pub(super) struct Trace {
    ring: Vec<Step>,
    next: usize,
    digest: u64,
}

impl Trace {
    const KEPT: usize = 48;

    pub(super) fn new() -> Self {
        Self {
            ring: Vec::with_capacity(Self::KEPT),
            next: 0,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    pub(super) fn record(&mut self, step: Step) {
        let who = u64::from(step.warp) << 8 | u64::from(step.lane);
        for part in [who, step.at, step.value, step.found] {
            // FNV-1a over words: equal only for equal runs, for all that tests need.
            self.digest = (self.digest ^ part).wrapping_mul(0x100_0000_01b3);
        }
        if self.ring.len() < Self::KEPT {
            self.ring.push(step);
        } else {
            self.ring[self.next] = step;
        }
        self.next = (self.next + 1) % Self::KEPT;
    }

    pub(super) const fn digest(&self) -> u64 {
        self.digest
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (newer, older) = self.ring.split_at(self.next.min(self.ring.len()));
        for step in older.iter().chain(newer) {
            writeln!(f, "  {step}")?;
        }
        Ok(())
    }
}

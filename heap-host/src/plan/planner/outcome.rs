//! What comes out.

use super::super::bound::LowerBound;
use super::super::fingerprint::Fingerprint;
use super::super::instance::Instance;
use super::super::verify::{self, Violation};

/// What is known about a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No plan has a lower peak: it equals the lower bound.
    Optimal,
    /// A valid plan; a better one may exist. With a capacity,
    /// [`Plan::fits`] tells whether it was reached.
    Feasible,
    /// The capacity is below the lower bound, so no plan fits; the
    /// [`LowerBound`] names the step and the buffers that prove it. The plan
    /// itself is valid in a larger arena.
    Infeasible,
}

impl Status {
    /// `optimal`, `feasible` or `infeasible`.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Optimal => "optimal",
            Status::Feasible => "feasible",
            Status::Infeasible => "infeasible",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Offsets for the buffers of one instance, in its order.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) offsets: Vec<u64>,
    pub(super) peak: u64,
    pub(super) lower_bound: LowerBound,
    pub(super) capacity: Option<u64>,
    pub(super) spaceless: Vec<usize>,
    pub(super) fingerprint: Fingerprint,
    pub(super) timed_out: bool,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Every order of placing them passed the end of the 64-bit address
    /// space.
    #[error(
        "the {buffers} buffers of this instance do not fit into 2^64 - 1 bytes (at least {needed} \
         are needed); use smaller sizes or alignments"
    )]
    AddressSpace {
        /// How many buffers take space.
        buffers: usize,
        /// The lower bound in bytes.
        needed: u64,
    },
}

/// A plan was used with another instance than it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the plan is stale: it was made for fingerprint {planned}, these buffers have {found}; \
     plan them again"
)]
pub struct StalePlan {
    /// The instance of the plan.
    pub planned: Fingerprint,
    /// The instance it was used with.
    pub found: Fingerprint,
}

impl Plan {
    /// Bytes from the start of the arena, one per buffer of the instance.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The end in bytes of the highest buffer that takes space: the size the
    /// arena needs.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// The proved lower bound of the peak, and its proof.
    pub fn lower_bound(&self) -> &LowerBound {
        &self.lower_bound
    }

    /// The capacity that was asked for, in bytes.
    pub fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    /// Whether the peak is within the capacity; true without one.
    pub fn fits(&self) -> bool {
        self.capacity.is_none_or(|capacity| self.peak <= capacity)
    }

    /// What is proved about the plan.
    pub fn status(&self) -> Status {
        let bound = self.lower_bound.bytes;
        if self.capacity.is_some_and(|capacity| capacity < bound) {
            Status::Infeasible
        } else if self.peak == bound {
            Status::Optimal
        } else {
            Status::Feasible
        }
    }

    /// Whether the time limit ended the search: with more time, there may be a
    /// lower peak.
    pub fn timed_out(&self) -> bool {
        self.timed_out
    }

    /// Indices of the buffers that take no space at any step, because their
    /// size or their lifetime is zero. They have offset 0.
    pub fn spaceless(&self) -> &[usize] {
        &self.spaceless
    }

    /// The instance the plan was made for.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Checks that the plan was made for `instance`.
    ///
    /// # Errors
    ///
    /// [`StalePlan`] when any name, lifetime, size or alignment differs.
    pub fn check_for(&self, instance: &Instance) -> Result<(), StalePlan> {
        let (planned, found) = (self.fingerprint, instance.fingerprint());
        if planned == found {
            Ok(())
        } else {
            Err(StalePlan { planned, found })
        }
    }

    /// Verifies the plan with code that shares nothing with the planner: that
    /// it belongs to `instance`, that no two live buffers overlap, that
    /// offsets are aligned, and that the peak is what it says.
    ///
    /// # Errors
    ///
    /// The first fault found.
    pub fn verify(&self, instance: &Instance) -> Result<(), PlanFault> {
        self.check_for(instance)?;
        let peak = verify::verify(instance, &self.offsets)?;
        if peak != self.peak {
            return Err(PlanFault::Peak {
                stated: self.peak,
                found: peak,
            });
        }
        Ok(())
    }
}

/// Why a plan is not valid for an instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// It was made for another instance.
    #[error(transparent)]
    Stale(#[from] StalePlan),
    /// Its offsets are wrong.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// Its peak is not the end of its highest buffer.
    #[error("the plan states a peak of {stated} bytes, its highest buffer ends at {found}")]
    Peak {
        /// What the plan says.
        stated: u64,
        /// What its offsets say.
        found: u64,
    },
}

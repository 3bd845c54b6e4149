//! A whole sequence, valid by construction.

use std::collections::HashMap;

use super::count::CountOverflow;
use super::error::SequenceError;
use super::model::{
    Algorithm, AlgorithmId, Buffer, BufferId, Parameter, ParameterId, Total, TotalId,
};
use super::validate;

/// Ordered algorithms with declared buffers.
///
/// Comes from a [`SequenceBuilder`](super::SequenceBuilder) or a sequence
/// file, and is valid whichever it was. Two sequences are equal if all their
/// parts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub(super) parts: Parts,
    pub(super) names: Names,
    pub(super) events: ParameterId,
}

/// What a sequence is made of, not yet checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) source: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) totals: Vec<Total>,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) buffers: Vec<Buffer>,
}

/// From names to ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) parameters: HashMap<String, ParameterId>,
    pub(super) totals: HashMap<String, TotalId>,
    pub(super) algorithms: HashMap<String, AlgorithmId>,
    pub(super) buffers: HashMap<String, BufferId>,
}

impl Sequence {
    /// The sequence's name.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// Where the sequence comes from; may be empty.
    pub fn source(&self) -> &str {
        &self.parts.source
    }

    /// The batch parameters, in the order of their ids.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parts.parameters
    }

    /// The totals, in the order of their ids.
    pub fn totals(&self) -> &[Total] {
        &self.parts.totals
    }

    /// The algorithms, in program order, which is the order of their ids.
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.parts.algorithms
    }

    /// The buffers, in the order of their ids, which is that of their writers.
    pub fn buffers(&self) -> &[Buffer] {
        &self.parts.buffers
    }

    /// One parameter.
    ///
    /// # Panics
    /// If the id is not of this sequence; so do the next three.
    pub fn parameter(&self, id: ParameterId) -> &Parameter {
        &self.parts.parameters[id.index()]
    }

    /// One total.
    pub fn total(&self, id: TotalId) -> &Total {
        &self.parts.totals[id.index()]
    }

    /// One algorithm.
    pub fn algorithm(&self, id: AlgorithmId) -> &Algorithm {
        &self.parts.algorithms[id.index()]
    }

    /// One buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.parts.buffers[id.index()]
    }

    /// The parameter of this name.
    pub fn parameter_named(&self, name: &str) -> Option<ParameterId> {
        self.names.parameters.get(name).copied()
    }

    /// The total of this name.
    pub fn total_named(&self, name: &str) -> Option<TotalId> {
        self.names.totals.get(name).copied()
    }

    /// The algorithm of this name.
    pub fn algorithm_named(&self, name: &str) -> Option<AlgorithmId> {
        self.names.algorithms.get(name).copied()
    }

    /// The buffer of this name.
    pub fn buffer_named(&self, name: &str) -> Option<BufferId> {
        self.names.buffers.get(name).copied()
    }

    /// The parameter by which a batch is halved, named [`EVENTS`](super::EVENTS).
    pub fn events(&self) -> ParameterId {
        self.events
    }

    /// The largest batch, in events.
    pub fn max_events(&self) -> u64 {
        self.parameter(self.events).max
    }

    /// The same sequence for batches of up to `max` events.
    ///
    /// # Errors
    /// If a size overflows for such a batch.
    pub fn with_max_events(&self, max: u64) -> Result<Self, SequenceError> {
        let mut parts = self.parts.clone();
        parts.parameters[self.events.index()].max = max;
        validate::sequence(parts, self.names.clone())
            .map_err(|located| SequenceError::in_program(self.name(), located.problem))
    }

    /// The parameters of a batch of `events`: every other one at its maximum.
    pub fn parameters_at(&self, events: u64) -> Vec<u64> {
        let mut values: Vec<u64> = self.parts.parameters.iter().map(|p| p.max).collect();
        values[self.events.index()] = events;
        values
    }

    /// The expected totals of a batch of `events`, each rounded up.
    ///
    /// # Errors
    /// If one does not fit 64 bits, which happens for no batch up to
    /// [`max_events`](Self::max_events).
    pub fn expected_totals(&self, events: u64) -> Result<Vec<u64>, CountOverflow> {
        self.parts
            .totals
            .iter()
            .map(|total| total.expected(events))
            .collect()
    }
}

//! A sequence described in Rust.

use super::count::Count;
use super::error::{Located, Place, Problem, SequenceError};
use super::model::{
    Algorithm, AlgorithmId, Buffer, BufferId, Parameter, ParameterId, Total, TotalId, Variable,
};
use super::ratio::Ratio;
use super::spec::{BufferSpec, Coefficient, CoefficientError};
use super::validate;
use super::whole::{Names, Parts, Sequence};

/// Collects the parts of a [`Sequence`].
///
/// Each method that declares something returns its id, by which later ones
/// refer to it. Algorithms run in the order in which they are declared, and
/// buffers are declared in the order of their algorithms. Nothing fails before
/// [`build`](Self::build), which checks everything.
///
/// ```
/// use heap_host::sequence::{BufferSpec, SequenceBuilder};
///
/// let mut b = SequenceBuilder::new("tracks");
/// let events = b.parameter("events", 1000);
///
/// let count = b.algorithm("count_hits");
/// let counts = BufferSpec::device_static("hit_counts").elements_of::<u32>().per(events, 1);
/// let counts = b.write(count, counts);
///
/// let scan = b.algorithm("scan_hits");
/// b.read(scan, counts);
/// let offsets = BufferSpec::device_static("hit_offsets").elements_of::<u32>();
/// let offsets = b.write(scan, offsets.constant(1).per(events, 1));
/// let hits_total = b.total("T.hits", scan, "948.2");
///
/// let decode = b.algorithm("decode_hits");
/// b.read(decode, offsets);
/// b.write(decode, BufferSpec::device_dynamic("hits").element_bytes(16).per(hits_total, 1));
///
/// let sequence = b.build()?;
/// assert_eq!(sequence.buffers().len(), 3);
/// # Ok::<(), heap_host::sequence::SequenceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SequenceBuilder {
    parts: Parts,
    /// The first thing that could not even be put down.
    fault: Option<Problem>,
}

impl SequenceBuilder {
    /// A sequence without any parts.
    pub fn new(name: impl Into<String>) -> Self {
        let parts = Parts {
            name: name.into(),
            ..Parts::default()
        };
        Self { parts, fault: None }
    }

    /// Says where the sequence comes from, in free text.
    pub fn source(&mut self, source: impl Into<String>) {
        self.parts.source = source.into();
    }

    /// Declares a batch parameter and its largest value. One must be named
    /// `events`: the number of events by which a batch is sized and halved.
    pub fn parameter(&mut self, name: impl Into<String>, max: u64) -> ParameterId {
        let id = ParameterId::new(self.parts.parameters.len());
        self.parts.parameters.push(Parameter {
            name: name.into(),
            max,
        });
        id
    }

    /// Declares the next algorithm.
    pub fn algorithm(&mut self, name: impl Into<String>) -> AlgorithmId {
        let id = AlgorithmId::new(self.parts.algorithms.len());
        self.parts.algorithms.push(Algorithm {
            name: name.into(),
            label: String::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            computes: Vec::new(),
        });
        id
    }

    /// Labels an algorithm, in free text.
    pub fn label(&mut self, algorithm: AlgorithmId, label: impl Into<String>) {
        if let Some(algorithm) = self.algorithm_mut(algorithm, "a label") {
            algorithm.label = label.into();
        }
    }

    /// Declares a total that `computed_by` computes, and what is expected of it
    /// for each event: an integer, a [`Ratio`], or a decimal as text (`"0.34"`).
    pub fn total(
        &mut self,
        name: impl Into<String>,
        computed_by: AlgorithmId,
        expected_per_event: impl Coefficient,
    ) -> TotalId {
        let id = TotalId::new(self.parts.totals.len());
        let name = name.into();
        let expected_per_event = expected_per_event.ratio().unwrap_or_else(|error| {
            self.bad_coefficient(
                format!("total {name:?}"),
                "\"expected_per_event\"".into(),
                error,
            )
        });
        self.parts.totals.push(Total {
            name,
            computed_by,
            expected_per_event,
        });
        id
    }

    /// Lets an algorithm read a buffer that an earlier one writes.
    pub fn read(&mut self, reader: AlgorithmId, buffer: BufferId) {
        if let Some(algorithm) = self.algorithm_mut(reader, "a read") {
            algorithm.reads.push(buffer);
        }
    }

    /// Lets an algorithm read several buffers.
    pub fn read_all(&mut self, reader: AlgorithmId, buffers: impl IntoIterator<Item = BufferId>) {
        if let Some(algorithm) = self.algorithm_mut(reader, "a read") {
            algorithm.reads.extend(buffers);
        }
    }

    /// Declares a buffer that an algorithm writes.
    pub fn write(&mut self, writer: AlgorithmId, spec: BufferSpec) -> BufferId {
        let id = BufferId::new(self.parts.buffers.len());
        let count = self.count(&spec);
        self.parts.buffers.push(Buffer {
            name: spec.name,
            scope: spec.scope,
            kind: spec.kind,
            temporary: spec.temporary,
            element_bytes: spec.element_bytes,
            alignment: spec.alignment,
            count,
            writer,
            keeps_alive: spec.keeps_alive,
            live_until: spec.live_until,
            init: spec.init,
        });
        id
    }

    /// Lets a buffer live to the end of `until` at least; for an algorithm
    /// that was not declared yet when the buffer was.
    pub fn live_until(&mut self, buffer: BufferId, until: AlgorithmId) {
        if let Some(buffer) = self.buffer_mut(buffer, "a live_until") {
            buffer.live_until = Some(until);
        }
    }

    /// Lets `view` keep `target` alive; for a buffer of the same algorithm
    /// that was not declared yet when the view was.
    pub fn keep_alive(&mut self, view: BufferId, target: BufferId) {
        if let Some(buffer) = self.buffer_mut(view, "a keep_alive") {
            buffer.keeps_alive.push(target);
        }
    }

    /// Checks everything and makes the sequence.
    ///
    /// # Errors
    /// The first rule that the parts break.
    pub fn build(mut self) -> Result<Sequence, SequenceError> {
        let name = self.parts.name.clone();
        let located = match self.fault.take() {
            Some(problem) => Err(Located::new(Place::Whole, problem)),
            None => Names::of(&self.parts).and_then(|names| validate::sequence(self.parts, names)),
        };
        located.map_err(|located| SequenceError::in_program(&name, located.problem))
    }

    fn count(&mut self, spec: &BufferSpec) -> Count {
        let owner = || format!("buffer {:?}", spec.name);
        let mut terms = Vec::with_capacity(spec.terms.len());
        for (variable, coefficient) in &spec.terms {
            let ratio = coefficient.clone().unwrap_or_else(|error| {
                let key = format!("the coefficient of {:?}", self.variable_name(*variable));
                self.bad_coefficient(owner(), key, error)
            });
            terms.push((*variable, ratio));
        }
        Count::new(spec.constant, terms).unwrap_or_else(|variable| {
            let variable = self.variable_name(variable);
            self.fail(Problem::DuplicateVariable {
                buffer: spec.name.clone(),
                variable,
            });
            Count::default()
        })
    }

    fn variable_name(&self, variable: Variable) -> String {
        let name = match variable {
            Variable::Parameter(id) => self.parts.parameters.get(id.index()).map(|p| &p.name),
            Variable::Total(id) => self.parts.totals.get(id.index()).map(|total| &total.name),
        };
        name.cloned().unwrap_or_default()
    }

    fn bad_coefficient(&mut self, owner: String, key: String, error: CoefficientError) -> Ratio {
        self.fail(Problem::WrongValue {
            owner,
            key,
            found: format!("{:?}", error.text),
            expected: error.reason.expected().into(),
        });
        Ratio::ZERO
    }

    fn algorithm_mut(&mut self, id: AlgorithmId, owner: &str) -> Option<&mut Algorithm> {
        if id.index() >= self.parts.algorithms.len() {
            self.fail(Problem::ForeignId {
                owner: owner.into(),
                what: "algorithm",
            });
        }
        self.parts.algorithms.get_mut(id.index())
    }

    fn buffer_mut(&mut self, id: BufferId, owner: &str) -> Option<&mut Buffer> {
        if id.index() >= self.parts.buffers.len() {
            self.fail(Problem::ForeignId {
                owner: owner.into(),
                what: "buffer",
            });
        }
        self.parts.buffers.get_mut(id.index())
    }

    fn fail(&mut self, problem: Problem) {
        self.fault.get_or_insert(problem);
    }
}

//! What a batch does, step by step, as data.
//!
//! A program is made once, at configuration. Walking it takes no value from
//! the device: every step finds its sizes and addresses there by itself.

use heap_kernels::Place;

use crate::sequence::{AlgorithmId, BufferId, Init, Kind, LiveRange, Scope, Sequence, TotalId};

use super::options::Debug;

/// One step of a batch. On a card each is one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The live ranges of these static buffers begin (debug modes only):
    /// poison them and set their guards.
    Open {
        /// The writer.
        algorithm: AlgorithmId,
        /// Static buffers.
        buffers: Vec<BufferId>,
    },
    /// Allocate the dynamic buffers of an algorithm, in this order, with sizes
    /// from totals, and fill their handles.
    Allocate {
        /// The writer.
        algorithm: AlgorithmId,
        /// Largest first, as far as expected.
        requests: Vec<Allocation>,
    },
    /// Set all bytes of a buffer.
    Fill {
        /// The buffer.
        buffer: BufferId,
        /// The byte.
        byte: u8,
    },
    /// Copy a buffer onto another one of the same size.
    Copy {
        /// The source.
        from: BufferId,
        /// The target.
        to: BufferId,
    },
    /// Run an algorithm.
    Kernel {
        /// Which one.
        algorithm: AlgorithmId,
    },
    /// Turn the counts of a total's events into offsets and their sum.
    Scan {
        /// Which total.
        total: TotalId,
    },
    /// Look at the guards of all live buffers (debug modes only).
    Inspect {
        /// The algorithm that ran last.
        algorithm: AlgorithmId,
        /// What is live.
        buffers: Vec<BufferId>,
    },
    /// Free the dynamic buffers that nobody needs after this algorithm.
    Free {
        /// The last one that needs them.
        algorithm: AlgorithmId,
        /// Dynamic buffers.
        buffers: Vec<BufferId>,
    },
    /// The live ranges of these static buffers end (debug modes only).
    Close {
        /// The last one that needs them.
        algorithm: AlgorithmId,
        /// Static buffers.
        buffers: Vec<BufferId>,
    },
}

/// What an allocate step asks its pool for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The buffer, whose count tells its size.
    pub buffer: BufferId,
    /// The end of the pool that its live range suggests.
    pub place: Place,
}

/// The steps of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// From the upload to the last algorithm.
    pub steps: Vec<Step>,
    /// What frees the outputs, after they were delivered.
    pub release: Vec<Step>,
}

/// What a program is made from.
pub(super) struct Source<'a> {
    pub(super) sequence: &'a Sequence,
    /// Of each buffer; an output's ends at the number of algorithms.
    pub(super) ranges: &'a [LiveRange],
    /// The order in which an algorithm's dynamic buffers are allocated: of
    /// each buffer its expected bytes.
    pub(super) expected: &'a [u64],
    /// By scope.
    pub(super) placements: [super::Placement; 2],
    pub(super) debug: Debug,
}

impl Program {
    pub(super) fn new(source: &Source<'_>) -> Self {
        let mut program = Self::default();
        let ends = source.ends();
        for (index, declared) in source.sequence.algorithms().iter().enumerate() {
            let algorithm = AlgorithmId::new(index);
            source.begin(algorithm, &mut program.steps);
            program.steps.push(Step::Kernel { algorithm });
            program
                .steps
                .extend(declared.computes.iter().map(|&total| Step::Scan { total }));
            source.inspect(algorithm, &mut program.steps);
            source.end(algorithm, &ends[index], &mut program.steps);
        }
        if let (Some(last), Some(outputs)) = (ends.len().checked_sub(2), ends.last()) {
            source.end(AlgorithmId::new(last), outputs, &mut program.release);
        }
        program
    }
}

impl Source<'_> {
    /// The buffers that end with each algorithm, and, at last, the outputs.
    fn ends(&self) -> Vec<Vec<BufferId>> {
        let mut ends = vec![Vec::new(); self.sequence.algorithms().len() + 1];
        for (index, range) in self.ranges.iter().enumerate() {
            ends[range.last as usize].push(BufferId::new(index));
        }
        ends
    }

    fn of_kind(&self, buffers: &[BufferId], kind: Kind) -> Vec<BufferId> {
        let of_kind = |id: &BufferId| self.sequence.buffer(*id).kind == kind;
        buffers.iter().copied().filter(of_kind).collect()
    }

    fn watches(&self) -> bool {
        self.debug.guards || self.debug.poison
    }

    /// What comes before the kernel.
    fn begin(&self, algorithm: AlgorithmId, steps: &mut Vec<Step>) {
        let writes = &self.sequence.algorithm(algorithm).writes;
        let buffers = self.of_kind(writes, Kind::Static);
        if self.watches() && !buffers.is_empty() {
            steps.push(Step::Open { algorithm, buffers });
        }
        let requests = self.requests(writes);
        if !requests.is_empty() {
            steps.push(Step::Allocate {
                algorithm,
                requests,
            });
        }
        steps.extend(writes.iter().filter_map(|&id| self.initial(id)));
    }

    fn requests(&self, writes: &[BufferId]) -> Vec<Allocation> {
        let mut dynamic = self.of_kind(writes, Kind::Dynamic);
        dynamic.sort_by_key(|id| std::cmp::Reverse(self.expected[id.index()]));
        let request = |buffer: BufferId| {
            let LiveRange { first, last } = self.ranges[buffer.index()];
            let scope: Scope = self.sequence.buffer(buffer).scope;
            let place = self.placements[scope as usize].place(last - first);
            Allocation { buffer, place }
        };
        dynamic.into_iter().map(request).collect()
    }

    fn initial(&self, buffer: BufferId) -> Option<Step> {
        match self.sequence.buffer(buffer).init {
            Init::None => None,
            Init::Fill(byte) => Some(Step::Fill { buffer, byte }),
            Init::CopyOf(from) => Some(Step::Copy { from, to: buffer }),
        }
    }

    fn inspect(&self, algorithm: AlgorithmId, steps: &mut Vec<Step>) {
        if !self.debug.guards {
            return;
        }
        let at = algorithm.index() as u32;
        let live = |(index, range): (usize, &LiveRange)| {
            (range.first <= at && at <= range.last).then(|| BufferId::new(index))
        };
        let buffers = self.ranges.iter().enumerate().filter_map(live).collect();
        steps.push(Step::Inspect { algorithm, buffers });
    }

    fn end(&self, algorithm: AlgorithmId, ends: &[BufferId], steps: &mut Vec<Step>) {
        let buffers = self.of_kind(ends, Kind::Dynamic);
        if !buffers.is_empty() {
            steps.push(Step::Free { algorithm, buffers });
        }
        let buffers = self.of_kind(ends, Kind::Static);
        if self.watches() && !buffers.is_empty() {
            steps.push(Step::Close { algorithm, buffers });
        }
    }
}

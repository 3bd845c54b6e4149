//! Kernels for algorithms that exist as a description only: they fill what the
//! algorithm writes, verify what it reads, and count its totals.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use crate::runtime::configuration::Configuration;
use crate::runtime::control::Words;
use crate::runtime::occupancy::occupancy;
use crate::runtime::pattern;
use crate::runtime::record::{FindingKind, Header, NOBODY, RawFinding, TotalState};
use crate::sequence::{AlgorithmId, BufferId, Init, Kind, Sequence, TotalId};

use super::device::Device;
use super::division::{Division, Piece, Task};
use super::kernel::Kernels;

/// Below so many bytes, threads cost more than they save.
const SPREAD_BYTES: u64 = 256 << 10;

/// The buffers whose contents each algorithm relies on.
///
/// Besides those that it reads: what a view among these points into, however
/// indirectly; what lives until this algorithm (somebody has a raw pointer
/// into it); and its own temporaries.
#[derive(Clone, Debug)]
pub(super) struct Touches(Vec<Vec<BufferId>>);

impl Touches {
    pub(super) fn new(config: &Configuration) -> Self {
        let sequence = config.sequence();
        let ends = ends(config);
        let of = |index: usize| {
            let algorithm = AlgorithmId::new(index);
            let mut touched = with_kept(sequence, &sequence.algorithm(algorithm).reads);
            touched.extend(&ends[index]);
            touched.sort_unstable();
            touched.dedup();
            touched
        };
        Self((0..sequence.algorithms().len()).map(of).collect())
    }

    fn of(&self, algorithm: AlgorithmId) -> &[BufferId] {
        &self.0[algorithm.index()]
    }
}

/// The buffers that end with each algorithm and are used there.
fn ends(config: &Configuration) -> Vec<Vec<BufferId>> {
    let sequence = config.sequence();
    // Outputs end behind the last algorithm, where their bytes are delivered.
    let mut ends = vec![Vec::new(); sequence.algorithms().len() + 1];
    for (index, range) in config.live_ranges().iter().enumerate() {
        if range.last > range.first || sequence.buffers()[index].temporary {
            ends[range.last as usize].push(BufferId::new(index));
        }
    }
    ends
}

/// `buffers` and what they keep alive, transitively, in any order.
pub(super) fn with_kept(sequence: &Sequence, buffers: &[BufferId]) -> Vec<BufferId> {
    let mut found = HashSet::new();
    let mut stack = buffers.to_vec();
    while let Some(id) = stack.pop() {
        if found.insert(id) {
            stack.extend(&sequence.buffer(id).keeps_alive);
        }
    }
    found.into_iter().collect()
}

/// A piece of work of one thread.
type Work<'a> = (Division<'a>, Task);

impl<'a> Device<'a> {
    /// Runs the built-in kernel of an algorithm.
    ///
    /// Outputs are filled before inputs are verified, so that an output that
    /// lies where a live input does is seen at once.
    pub(super) fn builtin(&self, algorithm: AlgorithmId, kernels: &Kernels, touches: &Touches) {
        let declared = self.config.sequence.algorithm(algorithm);
        for &output in &declared.writes {
            self.verify_initial(algorithm, output, kernels);
        }
        self.fill_patterns(&declared.writes);
        let patterned = |id: &BufferId| kernels.is_builtin(self.writer(*id));
        let touched: Vec<BufferId> = touches
            .of(algorithm)
            .iter()
            .copied()
            .filter(patterned)
            .collect();
        self.verify_patterns(algorithm, &touched, None);
        for &total in &declared.computes {
            self.count(total);
        }
    }

    fn writer(&self, buffer: BufferId) -> AlgorithmId {
        self.config.sequence.buffer(buffer).writer
    }

    fn division(&self, buffer: BufferId) -> Option<Division<'a>> {
        let handle = self.live(buffer)?;
        let sequence = &self.config.sequence;
        Some(self.divisions.of(&self.control, sequence, buffer, handle))
    }

    /// The counts of all events of the batch.
    fn count(&self, total: TotalId) {
        let seed = self.config.options.seed;
        let expected = self.config.sequence.total(total).expected_per_event;
        let first = self.control.header(Header::FirstEvent);
        let (_, counts) = self
            .control
            .table(total)
            .split_last()
            .expect("a table has its end");
        for (event, word) in counts.iter().enumerate() {
            let event = first.wrapping_add(event as u64);
            // Relaxed: the scan is a step of its own.
            let count = occupancy(seed, total.index() as u64, event, expected);
            word.store(count, Ordering::Relaxed);
        }
        self.control.set_total(total, TotalState::Counted, 0);
    }

    fn fill_patterns(&self, buffers: &[BufferId]) {
        let divisions = buffers.iter().filter_map(|&id| self.division(id));
        let work: Vec<Work<'a>> = divisions.flat_map(Division::tasks).collect();
        let fill = |(division, task): &Work<'a>| {
            for piece in division.pieces(task.clone()) {
                let address = division.handle.address + piece.start;
                // SAFETY: the pieces of all tasks are disjoint parts of live
                // buffers, which only this kernel writes.
                let bytes = unsafe { self.bytes_mut(address, piece.end - piece.start) };
                pattern::fill(bytes, piece.base);
            }
        };
        if total_bytes(&work) < SPREAD_BYTES {
            work.iter().for_each(fill);
        } else {
            work.par_iter().for_each(fill);
        }
    }

    /// Verifies whole buffers, each against its own pattern, or against that of
    /// `original` which it is a copy of; notes the first difference.
    fn verify_patterns(
        &self,
        algorithm: AlgorithmId,
        buffers: &[BufferId],
        original: Option<BufferId>,
    ) {
        let mut work = Vec::new();
        for &id in buffers {
            match self.division(id) {
                Some(division) => work.extend(division.tasks()),
                None => self.note_dead(algorithm, id),
            }
        }
        let check = |(division, task): &Work<'a>| self.verify_task(*division, task, original);
        let found = if total_bytes(&work) < SPREAD_BYTES {
            work.iter().find_map(check)
        } else {
            work.par_iter().find_map_first(check)
        };
        if let Some(finding) = found {
            let algorithm = algorithm.index() as u64;
            self.control.find(RawFinding {
                algorithm,
                ..finding
            });
        }
    }

    fn verify_task(
        &self,
        division: Division<'a>,
        task: &Task,
        original: Option<BufferId>,
    ) -> Option<RawFinding> {
        let shown = division.with_pattern_of(original.unwrap_or(division.buffer));
        shown.pieces(task.clone()).find_map(|piece| {
            let address = division.handle.address + piece.start;
            // SAFETY: a part of a live buffer; kernels that write it have run
            // before, and fills of this kernel are done.
            let bytes = unsafe { self.bytes(address, piece.end - piece.start) };
            let difference = pattern::verify(bytes, piece.base)?;
            Some(mismatch(division, piece, difference))
        })
    }

    /// What the fill or copy step in front of this kernel left.
    fn verify_initial(&self, algorithm: AlgorithmId, output: BufferId, kernels: &Kernels) {
        match self.config.sequence.buffer(output).init {
            Init::None => {}
            Init::Fill(byte) => self.verify_filled(algorithm, output, byte),
            Init::CopyOf(original) => {
                if kernels.is_builtin(self.writer(original)) {
                    self.verify_patterns(algorithm, &[output], Some(original));
                }
            }
        }
    }

    fn verify_filled(&self, algorithm: AlgorithmId, buffer: BufferId, byte: u8) {
        let Some(handle) = self.live(buffer) else {
            return;
        };
        // SAFETY: a live buffer that nobody writes now.
        let bytes = unsafe { self.contents(handle) };
        if let Some(at) = bytes.iter().position(|&found| found != byte) {
            self.control.find(RawFinding {
                kind: FindingKind::Mismatch,
                algorithm: algorithm.index() as u64,
                buffer: buffer.index() as u64,
                event: NOBODY,
                index: at as u64 / self.config.sequence.buffer(buffer).element_bytes.max(1),
                expected: byte.into(),
                found: bytes[at].into(),
            });
        }
    }

    /// A buffer that should be there is not: its life was too short.
    fn note_dead(&self, algorithm: AlgorithmId, buffer: BufferId) {
        let declared = self.config.sequence.buffer(buffer);
        debug_assert!(declared.kind == Kind::Dynamic || self.control.failed());
        self.control.find(RawFinding {
            kind: FindingKind::NotLive,
            algorithm: algorithm.index() as u64,
            buffer: buffer.index() as u64,
            event: NOBODY,
            index: 0,
            expected: 0,
            found: 0,
        });
    }
}

fn total_bytes(work: &[Work<'_>]) -> u64 {
    // A buffer of several tasks is large enough to be counted more than once.
    let bytes = work.iter().map(|(division, _)| division.handle.bytes);
    bytes.fold(0, u64::saturating_add)
}

fn mismatch(division: Division<'_>, piece: Piece, found: pattern::Difference) -> RawFinding {
    RawFinding {
        kind: FindingKind::Mismatch,
        algorithm: NOBODY,
        buffer: division.buffer.index() as u64,
        event: piece.event.unwrap_or(NOBODY),
        index: division.element(piece.part, piece.start + found.byte),
        expected: found.expected,
        found: found.found,
    }
}

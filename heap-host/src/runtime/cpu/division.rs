//! Which event owns which elements of a buffer, for the built-in kernels.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::control::{Control, Words};
use crate::runtime::pattern;
use crate::runtime::record::{Handle, Header};
use crate::sequence::{Buffer, BufferId, Sequence, TotalId, Variable};

/// Bytes of a built-in kernel's unit of work.
const TASK_BYTES: u64 = 512 << 10;

/// How a buffer's elements are divided among the events of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// All belong to the batch as a whole.
    Whole,
    /// Every event owns as many, as far as possible.
    Even,
    /// In proportion to a total's counts.
    By(TotalId),
}

/// The rule of each buffer, in the order of their ids.
#[derive(Clone, Debug)]
pub(super) struct Divisions(Vec<Rule>);

/// A buffer of the current batch, divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division<'a> {
    pub(super) buffer: BufferId,
    pub(super) handle: Handle,
    element_bytes: u64,
    first_event: u64,
    parts: Parts<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Parts<'a> {
    Whole,
    Even {
        events: u64,
    },
    By {
        offsets: &'a [AtomicU64],
        total: u64,
    },
}

/// A contiguous piece of one event's part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The owner; `None` for the batch as a whole.
    pub(super) event: Option<u64>,
    /// Where the event's part begins in the buffer, in bytes.
    pub(super) part: u64,
    /// Where the piece begins and ends in the buffer, in bytes.
    pub(super) start: u64,
    pub(super) end: u64,
    /// The first word of the piece's pattern.
    pub(super) base: u64,
}

/// A run of pieces that one thread handles.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// The parts of these events, counted from the batch's first.
    Events(Range<u64>),
    /// These bytes of a part that is the whole buffer.
    Bytes(Range<u64>),
}

impl Divisions {
    pub(super) fn new(sequence: &Sequence) -> Self {
        let rule = |buffer: &Buffer| {
            let events = Variable::Parameter(sequence.events());
            match leading_total(sequence, buffer) {
                Some(total) => Rule::By(total),
                None if buffer.count.terms.iter().any(|term| term.0 == events) => Rule::Even,
                None => Rule::Whole,
            }
        };
        Self(sequence.buffers().iter().map(rule).collect())
    }

    /// A buffer with its parts in the current batch.
    pub(super) fn of<'a>(
        &self,
        control: &Control<'a>,
        sequence: &Sequence,
        buffer: BufferId,
        handle: Handle,
    ) -> Division<'a> {
        let events = control.header(Header::Events);
        let even = if events > 1 {
            Parts::Even { events }
        } else {
            Parts::Whole
        };
        let parts = match self.0[buffer.index()] {
            Rule::Whole => Parts::Whole,
            Rule::Even => even,
            Rule::By(_) if events <= 1 => Parts::Whole,
            Rule::By(id) => match control.total(id).1 {
                0 => even,
                total => Parts::By {
                    offsets: control.table(id),
                    total,
                },
            },
        };
        Division {
            buffer,
            handle,
            element_bytes: sequence.buffer(buffer).element_bytes,
            first_event: control.header(Header::FirstEvent),
            parts,
        }
    }
}

/// The total that a buffer's size is expected to depend on most.
fn leading_total(sequence: &Sequence, buffer: &Buffer) -> Option<TotalId> {
    let weight = |id: TotalId, ratio: crate::sequence::Ratio| {
        let value = |r: crate::sequence::Ratio| r.numerator() as f64 / r.denominator() as f64;
        value(ratio) * value(sequence.total(id).expected_per_event)
    };
    let totals = buffer
        .count
        .terms
        .iter()
        .filter_map(|&(variable, ratio)| match variable {
            Variable::Total(id) => Some((id, weight(id, ratio))),
            Variable::Parameter(_) => None,
        });
    totals.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(id, _)| id)
}

impl<'a> Division<'a> {
    /// The same parts, with the contents of another buffer's.
    pub(super) fn with_pattern_of(self, buffer: BufferId) -> Self {
        Self { buffer, ..self }
    }

    /// The buffer, cut into tasks of about [`TASK_BYTES`].
    pub(super) fn tasks(self) -> impl Iterator<Item = (Division<'a>, Task)> {
        let bytes = self.handle.bytes;
        let tasks = bytes.div_ceil(TASK_BYTES);
        let task = move |index: u64| {
            let (from, to) = (u128::from(index), u128::from(index) + 1);
            match self.events() {
                None => {
                    let start = index * TASK_BYTES;
                    Task::Bytes(start..bytes.min(start.saturating_add(TASK_BYTES)))
                }
                Some(events) => {
                    let cut = |at| (at * u128::from(events) / u128::from(tasks)) as u64;
                    Task::Events(cut(from)..cut(to))
                }
            }
        };
        (0..tasks).map(move |index| (self, task(index)))
    }

    fn events(&self) -> Option<u64> {
        match self.parts {
            Parts::Whole => None,
            Parts::Even { events } => Some(events),
            Parts::By { offsets, .. } => Some(offsets.len() as u64 - 1),
        }
    }

    /// The pieces of a task, none of them empty.
    pub(super) fn pieces(self, task: Task) -> impl Iterator<Item = Piece> {
        let (events, bytes) = match task {
            Task::Events(events) => (events, 0..0),
            Task::Bytes(bytes) => (0..0, bytes),
        };
        let mut start = self.boundary(events.start);
        let parts = events.map(move |event| {
            let part = start;
            start = self.boundary(event + 1);
            self.part(self.first_event.wrapping_add(event), part, start)
        });
        let whole = (!bytes.is_empty()).then(|| self.slice(bytes));
        parts.filter(|piece| piece.start < piece.end).chain(whole)
    }

    fn part(&self, event: u64, start: u64, end: u64) -> Piece {
        Piece {
            event: Some(event),
            part: start,
            start,
            end,
            base: pattern::base(self.buffer.index() as u64, event),
        }
    }

    fn slice(&self, bytes: Range<u64>) -> Piece {
        let base = pattern::base(self.buffer.index() as u64, self.first_event);
        Piece {
            event: None,
            part: 0,
            start: bytes.start,
            end: bytes.end,
            base: pattern::advance(base, bytes.start / 8),
        }
    }

    /// Where the part of the batch's `event`-th event begins, in bytes; that of
    /// the event behind the last one is the end.
    fn boundary(&self, event: u64) -> u64 {
        let elements = self.handle.elements;
        let (numerator, denominator) = match self.parts {
            Parts::Whole => return 0,
            Parts::Even { events } => (event, events),
            // Relaxed: written by a step before this one.
            Parts::By { offsets, total } => {
                (offsets[event as usize].load(Ordering::Relaxed), total)
            }
        };
        let element = match elements.checked_mul(numerator) {
            Some(product) => product / denominator,
            None => (u128::from(elements) * u128::from(numerator) / u128::from(denominator)) as u64,
        };
        element * self.element_bytes
    }

    /// The number of the element that a byte of the buffer is in, counted from
    /// the start of its event's part.
    pub(super) fn element(&self, part: u64, byte: u64) -> u64 {
        (byte - part) / self.element_bytes.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::record::Status;

    fn division(parts: Parts<'_>, elements: u64, element_bytes: u64) -> Division<'_> {
        let bytes = elements * element_bytes;
        let handle = Handle {
            address: 0,
            elements,
            bytes,
            status: Status::Live,
        };
        let buffer = BufferId::new(3);
        Division {
            buffer,
            handle,
            element_bytes,
            first_event: 100,
            parts,
        }
    }

    fn pieces(division: Division<'_>) -> Vec<Piece> {
        let tasks = division.tasks();
        tasks
            .flat_map(|(division, task)| division.pieces(task))
            .collect()
    }

    /// Every byte is in exactly one piece, in order.
    fn assert_covered(division: Division<'_>) {
        let mut end = 0;
        for piece in pieces(division) {
            assert_eq!(piece.start, end);
            end = piece.end;
        }
        assert_eq!(end, division.handle.bytes);
    }

    #[test]
    fn every_byte_has_one_owner() {
        let offsets = [0, 0, 7, 7, 20].map(AtomicU64::new);
        for elements in [0, 1, 3, 20, 23, 1_000_003] {
            for element_bytes in [0, 1, 12] {
                let parts = Parts::By {
                    offsets: &offsets,
                    total: 20,
                };
                assert_covered(division(parts, elements, element_bytes));
                assert_covered(division(Parts::Even { events: 5 }, elements, element_bytes));
                assert_covered(division(Parts::Whole, elements, element_bytes));
            }
        }
    }

    #[test]
    fn parts_follow_the_offsets() {
        let offsets = [0, 0, 7, 7, 20].map(AtomicU64::new);
        let parts = Parts::By {
            offsets: &offsets,
            total: 20,
        };
        let owners: Vec<_> = pieces(division(parts, 40, 8))
            .iter()
            .map(|piece| (piece.event.unwrap(), piece.start, piece.end))
            .collect();
        assert_eq!(owners, [(101, 0, 112), (103, 112, 320)]);
    }

    #[test]
    fn a_large_buffer_is_cut_into_tasks() {
        let whole = division(Parts::Whole, (2 << 20) + 5, 1);
        assert_eq!(whole.tasks().count(), 5);
        let even = division(Parts::Even { events: 1000 }, 1 << 20, 2);
        assert_eq!(even.tasks().count(), 4);
        assert_covered(even);
    }

    #[test]
    fn products_beyond_64_bits_are_exact() {
        let offsets = [0, 1 << 40, 1 << 41].map(AtomicU64::new);
        let parts = Parts::By {
            offsets: &offsets,
            total: 1 << 41,
        };
        let huge = division(parts, 1 << 40, 1);
        assert_eq!(huge.boundary(1), 1 << 39);
        assert_eq!(huge.boundary(2), 1 << 40);
    }
}

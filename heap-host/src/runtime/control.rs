//! The control block: all that host and device tell each other about a batch.
//!
//! It is an array of 64-bit words in device memory. The host writes it before
//! a batch and reads it afterwards; in between it is the device's.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sequence::{AlgorithmId, BufferId, ParameterId, Scope, Sequence, TotalId};

use super::record::{
    Cause, Count, FINDING, FailedRequest, FindingKind, HANDLE, Handle, Header, NOBODY, RawFinding,
    Status, TOTAL, TotalState,
};

/// How many findings a batch can describe; all are counted.
pub(super) const MAX_FINDINGS: u64 = 16;

/// Where each part is, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ControlLayout {
    parameters: u64,
    handles: u64,
    totals: u64,
    offsets: u64,
    /// Words of one total's offsets.
    stride: u64,
    len: u64,
}

impl ControlLayout {
    /// For batches of up to `max_events`; `None` if that does not fit 64 bits.
    pub(super) fn new(sequence: &Sequence, max_events: u64) -> Option<Self> {
        let parameters = Header::Len as u64 + 2 * Count::Len as u64 + MAX_FINDINGS * FINDING;
        let handles = parameters + sequence.parameters().len() as u64;
        let totals = handles + HANDLE * sequence.buffers().len() as u64;
        let offsets = totals + TOTAL * sequence.totals().len() as u64;
        let stride = max_events.checked_add(1)?;
        let table = stride.checked_mul(sequence.totals().len() as u64)?;
        let len = offsets.checked_add(table)?;
        len.checked_mul(8)?;
        Some(Self {
            parameters,
            handles,
            totals,
            offsets,
            stride,
            len,
        })
    }

    /// Bytes of the whole block.
    pub(super) fn bytes(&self) -> u64 {
        self.len * 8
    }

    /// Words that the host writes and reads: all but the offsets.
    pub(super) fn shared_words(&self) -> usize {
        self.offsets as usize
    }

    fn count(&self, scope: Scope, count: Count) -> u64 {
        Header::Len as u64 + scope as u64 * Count::Len as u64 + count as u64
    }

    fn finding(&self, index: u64) -> u64 {
        Header::Len as u64 + 2 * Count::Len as u64 + index * FINDING
    }

    pub(super) fn parameter(&self, id: ParameterId) -> u64 {
        self.parameters + id.index() as u64
    }

    pub(super) fn handle(&self, id: BufferId) -> u64 {
        self.handles + id.index() as u64 * HANDLE
    }

    pub(super) fn total(&self, id: TotalId) -> u64 {
        self.totals + id.index() as u64 * TOTAL
    }

    /// The offsets of a total: one per event, and the end.
    pub(super) fn offsets(&self, id: TotalId, events: u64) -> std::ops::Range<usize> {
        let start = self.offsets + id.index() as u64 * self.stride;
        start as usize..(start + events + 1) as usize
    }
}

/// A control block whose words can be loaded.
pub(super) trait Words {
    fn layout(&self) -> &ControlLayout;
    fn load(&self, at: u64) -> u64;

    fn header(&self, header: Header) -> u64 {
        self.load(header as u64)
    }

    fn count(&self, scope: Scope, count: Count) -> u64 {
        self.load(self.layout().count(scope, count))
    }

    fn total(&self, id: TotalId) -> (TotalState, u64) {
        let at = self.layout().total(id);
        (TotalState::from(self.load(at)), self.load(at + 1))
    }

    fn handle(&self, id: BufferId) -> Handle {
        let at = self.layout().handle(id);
        Handle {
            address: self.load(at),
            elements: self.load(at + 1),
            bytes: self.load(at + 2),
            status: Status::from(self.load(at + 3)),
        }
    }

    fn finding(&self, index: u64) -> RawFinding {
        let at = self.layout().finding(index);
        let word = |field| self.load(at + field);
        RawFinding {
            kind: FindingKind::from(word(0)),
            algorithm: word(1),
            buffer: word(2),
            event: word(3),
            index: word(4),
            expected: word(5),
            found: word(6),
        }
    }
}

/// The shared words, on the host.
#[derive(Clone, Debug)]
pub(super) struct Image {
    layout: ControlLayout,
    pub(super) words: Vec<u64>,
}

impl Image {
    /// As a batch begins: nothing is there, nothing was counted.
    pub(super) fn blank(layout: ControlLayout) -> Self {
        let words = vec![0; layout.shared_words()];
        Self { layout, words }
    }

    /// What the device left.
    pub(super) fn new(layout: ControlLayout, words: Vec<u64>) -> Self {
        debug_assert_eq!(words.len(), layout.shared_words());
        Self { layout, words }
    }

    pub(super) fn set_header(&mut self, header: Header, value: u64) {
        self.words[header as usize] = value;
    }

    pub(super) fn set_parameter(&mut self, id: ParameterId, value: u64) {
        self.words[self.layout.parameter(id) as usize] = value;
    }

    pub(super) fn set_handle(&mut self, id: BufferId, handle: Handle) {
        let at = self.layout.handle(id) as usize;
        self.words[at..at + HANDLE as usize].copy_from_slice(&handle.words());
    }
}

impl Words for Image {
    fn layout(&self) -> &ControlLayout {
        &self.layout
    }
    fn load(&self, at: u64) -> u64 {
        self.words[at as usize]
    }
}

/// The whole block, on the device.
///
/// All accesses are relaxed: steps follow one another, and the lanes of one
/// step only add to counters, take the maximum, or write words of their own;
/// the end of the step's parallel part orders these before what follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control<'device> {
    layout: &'device ControlLayout,
    words: &'device [AtomicU64],
}

impl<'device> Control<'device> {
    pub(super) fn new(layout: &'device ControlLayout, words: &'device [AtomicU64]) -> Self {
        debug_assert_eq!(words.len() as u64 * 8, layout.bytes());
        Self { layout, words }
    }

    pub(super) fn set(&self, at: u64, value: u64) {
        self.words[at as usize].store(value, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) -> bool {
        self.header(Header::Failure) != 0
    }

    /// Notes a failure, if it is the batch's first. `free` and `largest` are
    /// those of the pool that had no room.
    pub(super) fn fail(&self, cause: Cause, algorithm: AlgorithmId, failure: FailedRequest) {
        if self.failed() {
            return;
        }
        self.set(Header::Failure as u64, cause as u64);
        self.set(Header::FailedAlgorithm as u64, algorithm.index() as u64);
        let buffer = failure.buffer.map_or(NOBODY, |id| id.index() as u64);
        self.set(Header::FailedBuffer as u64, buffer);
        let total = failure.total.map_or(NOBODY, |id| id.index() as u64);
        self.set(Header::FailedTotal as u64, total);
        self.set(Header::FailedBytes as u64, failure.bytes);
        self.set(Header::FailedFree as u64, failure.free);
        self.set(Header::FailedLargest as u64, failure.largest);
    }

    pub(super) fn add(&self, scope: Scope, count: Count, value: u64) -> u64 {
        let word = &self.words[self.layout.count(scope, count) as usize];
        word.fetch_add(value, Ordering::Relaxed).wrapping_add(value)
    }

    pub(super) fn raise(&self, scope: Scope, count: Count, value: u64) {
        let word = &self.words[self.layout.count(scope, count) as usize];
        word.fetch_max(value, Ordering::Relaxed);
    }

    pub(super) fn set_handle(&self, id: BufferId, handle: Handle) {
        let at = self.layout.handle(id);
        for (field, word) in handle.words().into_iter().enumerate() {
            self.set(at + field as u64, word);
        }
    }

    pub(super) fn set_status(&self, id: BufferId, status: Status) {
        self.set(self.layout.handle(id) + 3, status as u64);
    }

    pub(super) fn set_total(&self, id: TotalId, state: TotalState, value: u64) {
        let at = self.layout.total(id);
        self.set(at, state as u64);
        self.set(at + 1, value);
    }

    /// The total's table: counts of the events before its scan, offsets after
    /// it, with one word more than there are events.
    pub(super) fn table(&self, id: TotalId) -> &'device [AtomicU64] {
        &self.words[self.layout.offsets(id, self.header(Header::Events))]
    }

    /// Counts a finding, and describes it where there is room.
    pub(super) fn find(&self, finding: RawFinding) {
        let count = &self.words[Header::Findings as usize];
        let index = count.fetch_add(1, Ordering::Relaxed);
        if index < MAX_FINDINGS {
            let at = self.layout.finding(index);
            for (field, word) in finding.words().into_iter().enumerate() {
                self.set(at + field as u64, word);
            }
        }
    }
}

impl Words for Control<'_> {
    fn layout(&self) -> &ControlLayout {
        self.layout
    }
    fn load(&self, at: u64) -> u64 {
        self.words[at as usize].load(Ordering::Relaxed)
    }
}

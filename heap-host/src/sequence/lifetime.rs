//! Lifetimes: from the writer to the last reader, and beyond.

use super::model::{BufferId, Init};
use super::whole::Sequence;

/// The algorithms during which a buffer is live, by index, both inclusive.
///
/// A buffer that nobody reads lives in its writer alone: `first == last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LiveRange {
    /// The writer.
    pub first: u32,
    /// The last algorithm that needs the buffer.
    pub last: u32,
}

impl LiveRange {
    /// Whether the two are live in a common algorithm.
    pub const fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The live range of every buffer, in the order of their ids.
///
/// A buffer lives from its writer to its last reader (a copy of it at another
/// buffer's start is a read by that buffer's writer), to `live_until` where
/// that is later, and as long as any buffer that keeps it alive, however
/// indirectly.
///
/// Takes time linear in algorithms, buffers, reads and views: buffers are
/// visited in descending order of their own last use, each passing its end on
/// to what it keeps alive; the first end that reaches a buffer is its latest,
/// so none is visited twice.
pub fn live_ranges(sequence: &Sequence) -> Vec<LiveRange> {
    let mut last = own_ends(sequence);
    extend_through_views(sequence, &mut last);
    let writers = sequence
        .buffers()
        .iter()
        .map(|buffer| buffer.writer.index() as u32);
    writers
        .zip(last)
        .map(|(first, last)| LiveRange { first, last })
        .collect()
}

/// The last use of each buffer, views apart.
fn own_ends(sequence: &Sequence) -> Vec<u32> {
    let buffers = sequence.buffers();
    let mut last: Vec<u32> = buffers
        .iter()
        .map(|buffer| buffer.writer.index() as u32)
        .collect();
    let mut extend = |id: BufferId, end: usize| {
        let last = &mut last[id.index()];
        *last = (*last).max(end as u32);
    };
    for (reader, algorithm) in sequence.algorithms().iter().enumerate() {
        algorithm
            .reads
            .iter()
            .for_each(|&read| extend(read, reader));
    }
    for (index, buffer) in buffers.iter().enumerate() {
        if let Some(end) = buffer.live_until {
            extend(BufferId::new(index), end.index());
        }
        if let Init::CopyOf(source) = buffer.init {
            extend(source, buffer.writer.index());
        }
    }
    last
}

/// Carries ends along `keeps_alive`, transitively.
fn extend_through_views(sequence: &Sequence, last: &mut [u32]) {
    let mut visited = vec![false; last.len()];
    let mut stack = Vec::new();
    for view in views_by_descending_end(sequence, last) {
        stack.push(view);
        while let Some(id) = stack.pop() {
            if std::mem::replace(&mut visited[id.index()], true) {
                continue;
            }
            for &kept in &sequence.buffer(id).keeps_alive {
                let end = last[id.index()];
                last[kept.index()] = last[kept.index()].max(end);
                stack.push(kept);
            }
        }
    }
}

fn views_by_descending_end(sequence: &Sequence, last: &[u32]) -> Vec<BufferId> {
    let buffers = sequence.buffers().iter().enumerate();
    let views = buffers.filter(|(_, buffer)| !buffer.keeps_alive.is_empty());
    let mut views: Vec<BufferId> = views.map(|(index, _)| BufferId::new(index)).collect();
    views.sort_by_key(|id| std::cmp::Reverse(last[id.index()]));
    views
}

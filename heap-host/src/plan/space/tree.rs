//! A segment tree over sections whose nodes hold merged address ranges.
//!
//! A node of the tree stands for a range of sections. It keeps two sets of
//! addresses: `all`, taken by items alive in the *whole* range (kept only at
//! the O(log s) canonical nodes of each item), and `any`, taken by items
//! alive *somewhere* in it. For the sections of an item, the taken addresses
//! are the union of `any` of its canonical nodes and `all` of the nodes above
//! those: O(log s) sets. Touching ranges merge, so a well packed plan keeps
//! its sets short however many items are alive together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::super::problem::{Item, Part};
use super::ranges::{Cursor, Ranges};
use super::{BestGap, Fit, Space};

/// A query costs O(log s) searches for each gap that is too small, an
/// insertion O(log s) searches.
pub(in super::super) struct TreeSpace {
    /// Sections rounded up to a power of two; the leaf of section s is node
    /// `leaves + s`, the root node 1, the children of n are 2n and 2n + 1.
    leaves: usize,
    nodes: Vec<Node>,
}

#[derive(Default)]
struct Node {
    all: Ranges,
    any: Ranges,
}

/// How a node lies to the sections of an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Wholly inside, its parent not.
    Canonical,
    /// Partly inside.
    Above,
}

impl TreeSpace {
    /// Empty, for sections `0..sections`.
    pub(in super::super) fn new(sections: usize) -> Self {
        let leaves = sections.next_power_of_two();
        let nodes = std::iter::repeat_with(Node::default)
            .take(2 * leaves)
            .collect();
        TreeSpace { leaves, nodes }
    }

    /// The taken addresses of all sections of a part, as sets to unite.
    fn taken(&self, part: &Part) -> Vec<Cursor<'_>> {
        let mut sets = Vec::with_capacity(4 * self.leaves.ilog2() as usize + 2);
        visit(self.leaves, part, |node, role| {
            let Node { all, any } = &self.nodes[node];
            let set = if role == Role::Canonical { any } else { all };
            if !set.is_empty() {
                sets.push(set.cursor());
            }
        });
        sets
    }

    /// Lets the sets take turns to push the offset up, until a whole round
    /// leaves it where it is.
    fn first_fit(&self, item: &Item) -> Option<u64> {
        let sets_of = |part: Part| self.taken(&part).into_iter().map(move |set| (part, set));
        let mut sets: Vec<(Part, Cursor)> = item.parts().flat_map(sets_of).collect();
        let mut offset = 0u64;
        let (mut turn, mut content) = (0, 0);
        while content < sets.len() {
            offset.checked_add(item.size)?;
            let (part, set) = &mut sets[turn];
            match set.blocker(offset + part.from, offset + part.to) {
                Some(blocker) => {
                    offset = item.align(blocker.end - part.from)?;
                    content = 0;
                }
                None => {
                    content += 1;
                    turn = (turn + 1) % sets.len();
                }
            }
        }
        offset.checked_add(item.size).map(|_| offset)
    }

    /// Merges the sets by their starts, for an item that is one part.
    fn best_fit(&self, item: &Item) -> Option<u64> {
        let sets = item.parts().next().map(|part| self.taken(&part));
        let mut sets = sets.unwrap_or_default();
        let mut gaps = BestGap::new(item);
        // Everything below `top` is taken or has been offered.
        let mut top = 0u64;
        let first = |(set, cursor): (usize, &mut Cursor<'_>)| {
            cursor
                .after(0)
                .map(|range| Reverse((range.start, range.end, set)))
        };
        let mut heap: BinaryHeap<_> = sets.iter_mut().enumerate().filter_map(first).collect();
        while let Some(mut head) = heap.peek_mut() {
            let Reverse((start, end, set)) = *head;
            if start > top {
                gaps.offer(top, start);
                if gaps.is_perfect() {
                    break;
                }
            }
            top = top.max(end);
            match sets[set].after(top) {
                Some(range) => *head = Reverse((range.start, range.end, set)),
                None => drop(PeekMut::pop(head)),
            }
        }
        gaps.finish(top)
    }
}

/// Visits the canonical nodes of a part and the nodes above them, each once.
fn visit(leaves: usize, part: &Part, mut see: impl FnMut(usize, Role)) {
    let (mut low, mut high) = (leaves + part.first, leaves + part.last);
    let (first, end) = (low, high);
    while low < high {
        if low & 1 == 1 {
            see(low, Role::Canonical);
            low += 1;
        }
        if high & 1 == 1 {
            high -= 1;
            see(high, Role::Canonical);
        }
        low >>= 1;
        high >>= 1;
    }
    // The nodes above lie on the ways from the two outermost leaves to the
    // root: those that are not wholly inside.
    let partly = |node: usize, height: u32| node << height < first || (node + 1) << height > end;
    for height in 1..=leaves.trailing_zeros() {
        let (left, right) = (first >> height, (end - 1) >> height);
        if partly(left, height) {
            see(left, Role::Above);
        }
        if right != left && partly(right, height) {
            see(right, Role::Above);
        }
    }
}

impl Space for TreeSpace {
    fn clear(&mut self) {
        for node in &mut self.nodes {
            node.all.clear();
            node.any.clear();
        }
    }

    fn find(&self, item: &Item, fit: Fit) -> Option<u64> {
        match fit {
            Fit::Best if item.in_parts().is_none() => self.best_fit(item),
            _ => self.first_fit(item),
        }
    }

    fn insert(&mut self, item: &Item, offset: u64) {
        let nodes = &mut self.nodes;
        for part in item.parts() {
            let (start, end) = (offset + part.from, offset.saturating_add(part.taken));
            visit(self.leaves, &part, |node, role| {
                if role == Role::Canonical {
                    nodes[node].all.insert(start, end);
                }
                nodes[node].any.insert(start, end);
            });
        }
    }
}

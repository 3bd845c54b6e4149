//! Finds the first step at which two live buffers overlap that must not.

use std::collections::BTreeMap;
use std::collections::HashMap;

use smallvec::SmallVec;

use super::super::instance::Instance;
use super::{Place, Violation};

/// Bytes of a buffer that are in use from `lower` to `upper`.
struct Rectangle {
    lower: u64,
    upper: u64,
    start: u64,
    end: u64,
    buffer: usize,
}

pub(super) fn sweep(instance: &Instance, offsets: &[u64]) -> Result<(), Violation> {
    let buffers = instance.buffers();
    let rectangles: Vec<Rectangle> = (0..buffers.len())
        .flat_map(|buffer| {
            buffers[buffer].pieces().map(move |piece| Rectangle {
                lower: piece.lower,
                upper: piece.upper,
                start: offsets[buffer] + piece.from,
                end: offsets[buffer] + piece.to,
                buffer,
            })
        })
        .collect();
    let mut by_lower: Vec<&Rectangle> = rectangles.iter().collect();
    by_lower.sort_by_key(|rectangle| (rectangle.lower, rectangle.buffer));
    let mut by_upper: Vec<&Rectangle> = rectangles.iter().collect();
    by_upper.sort_by_key(|rectangle| rectangle.upper);
    let mut leaving = by_upper.into_iter().peekable();
    let relations = Relations::new(instance);
    let mut arena = Arena::default();
    for rectangle in by_lower {
        while let Some(gone) = leaving.next_if(|other| other.upper <= rectangle.lower) {
            arena.remove(gone);
        }
        let may_share = |other| relations.may_share(rectangle.buffer, other, offsets);
        if let Some(other) = arena.first_with(rectangle, |other| !may_share(other)) {
            return Err(overlap(instance, offsets, rectangle, other));
        }
        arena.insert(rectangle);
    }
    Ok(())
}

fn overlap(instance: &Instance, offsets: &[u64], rectangle: &Rectangle, other: usize) -> Violation {
    let place = |index: usize| {
        let buffer = &instance.buffers()[index];
        Box::new(Place {
            index,
            name: buffer.name.clone(),
            offset: offsets[index],
            end: offsets[index].saturating_add(buffer.size),
        })
    };
    let (here, there) = (place(rectangle.buffer), place(other));
    let (lower, upper) = if there.offset <= here.offset {
        (there, here)
    } else {
        (here, there)
    };
    Violation::Overlap {
        lower,
        upper,
        step: rectangle.lower,
    }
}

/// Who may share bytes with whom.
struct Relations {
    /// The root of an alias.
    roots: HashMap<usize, usize>,
    /// The buffer in whose place another one may be.
    in_place: HashMap<usize, usize>,
}

impl Relations {
    fn new(instance: &Instance) -> Self {
        let aliases = instance.aliases().iter();
        let pairs = instance.in_place().iter();
        Relations {
            roots: aliases.map(|link| (link.buffer, link.root)).collect(),
            in_place: pairs.map(|link| (link.buffer, link.of)).collect(),
        }
    }

    fn may_share(&self, a: usize, b: usize, offsets: &[u64]) -> bool {
        let root = |index| *self.roots.get(&index).unwrap_or(&index);
        let pair = |later, earlier| self.in_place.get(&later) == Some(&earlier);
        root(a) == root(b) || (offsets[a] == offsets[b] && (pair(a, b) || pair(b, a)))
    }
}

/// The live bytes, as disjoint segments by their starts, each with the buffers
/// that have it: one, but for those that may share.
#[derive(Default)]
struct Arena {
    segments: BTreeMap<u64, Segment>,
}

#[derive(Clone, PartialEq, Eq)]
struct Segment {
    end: u64,
    owners: SmallVec<[usize; 1]>,
}

impl Arena {
    /// The first buffer that passes `test` and has a byte of the rectangle's.
    fn first_with(&self, rectangle: &Rectangle, test: impl Fn(usize) -> bool) -> Option<usize> {
        let below = self.segments.range(..rectangle.start).next_back();
        let below = below.filter(|(_, segment)| segment.end > rectangle.start);
        let within = self.segments.range(rectangle.start..rectangle.end);
        below
            .into_iter()
            .chain(within)
            .flat_map(|(_, segment)| segment.owners.iter().copied())
            .find(|&owner| test(owner))
    }

    fn insert(&mut self, rectangle: &Rectangle) {
        let (start, end) = (rectangle.start, rectangle.end);
        self.split(start);
        self.split(end);
        // What is there already gets one owner more, what is not begins.
        let mut holes = Vec::new();
        let mut at = start;
        for (&from, segment) in self.segments.range_mut(start..end) {
            if at < from {
                holes.push((at, from));
            }
            segment.owners.push(rectangle.buffer);
            at = segment.end;
        }
        if at < end {
            holes.push((at, end));
        }
        for (from, end) in holes {
            let owners = SmallVec::from_elem(rectangle.buffer, 1);
            self.segments.insert(from, Segment { end, owners });
        }
    }

    /// Sees to it that no segment has bytes on both sides of `address`.
    fn split(&mut self, address: u64) {
        let below = self.segments.range_mut(..address).next_back();
        let Some((_, segment)) = below.filter(|(_, segment)| segment.end > address) else {
            return;
        };
        let upper = segment.clone();
        segment.end = address;
        self.segments.insert(address, upper);
    }

    fn remove(&mut self, rectangle: &Rectangle) {
        let within = self.segments.range(rectangle.start..rectangle.end);
        let starts: SmallVec<[u64; 2]> = within.map(|(&start, _)| start).collect();
        for start in starts {
            let Some(segment) = self.segments.get_mut(&start) else {
                continue;
            };
            segment.owners.retain(|owner| *owner != rectangle.buffer);
            if segment.owners.is_empty() {
                self.segments.remove(&start);
            } else {
                self.join(start);
            }
        }
        self.join(rectangle.end);
    }

    /// Undoes a split at `address` whose sides have the same owners again.
    fn join(&mut self, address: u64) {
        let Some(upper) = self.segments.get(&address) else {
            return;
        };
        let end = upper.end;
        let same = |(_, segment): &(&u64, &Segment)| {
            segment.end == address && segment.owners == upper.owners
        };
        let below = self.segments.range(..address).next_back().filter(same);
        if let Some((&start, _)) = below {
            self.segments.remove(&address);
            if let Some(segment) = self.segments.get_mut(&start) {
                segment.end = end;
            }
        }
    }
}

//! Buffers that have one place together.
//!
//! Aliases lie in the storage of their root, and a buffer may take over the place
//! of another. What belongs together is one rigid [`Storage`]: its parts keep
//! their distances, whatever its offset is.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::buffer::{Buffer, Piece};
use super::error::InstanceError;
use super::{InPlaceLink, Instance};

/// What has one offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Storage {
    /// Buffers, and where they begin, in bytes from the start of the storage.
    pub(in super::super) members: Vec<(usize, u64)>,
    /// Bytes that are in use, from the start of the storage; no two pieces share
    /// a byte at one step. By first steps.
    pub(in super::super) pieces: Vec<Piece>,
    /// Bytes, a power of two, of which the offset must be a multiple.
    pub(in super::super) alignment: u64,
    pub(in super::super) fixed: Option<u64>,
}

/// The storages of an instance: one for each buffer that is alone and in use all
/// its life, and those in which there is more to be said.
pub(in super::super) struct Storages {
    pub(in super::super) plain: Vec<usize>,
    pub(in super::super) rich: Vec<Storage>,
}

impl Storages {
    /// The storages of `instance`, if of its pairs in place those are joined for
    /// whose number in [`Instance::in_place`] `join` says so, and which can be.
    /// O(n + k^2) for k buffers that belong together.
    pub(in super::super) fn new(instance: &Instance, join: impl Fn(usize) -> bool) -> Self {
        let mut groups = Groups::new(instance);
        for link in &instance.aliases {
            groups.unite(link.root, link.buffer, i128::from(link.offset));
        }
        for (number, link) in instance.in_place.iter().enumerate() {
            if join(number) || both_fixed(instance, link) {
                groups.join(link);
            }
        }
        let buffers = &instance.buffers;
        // One that could not be joined is alone as before.
        let grouped = |index: usize| {
            let group = groups.of.get(&index);
            group.is_some_and(|&group| groups.members[group].len() > 1)
        };
        let is_plain = |buffer: &Buffer| buffer.gaps.is_empty() && buffer.fixed_offset.is_none();
        let (alone, _): (Vec<usize>, Vec<usize>) =
            (0..buffers.len()).partition(|&index| !grouped(index));
        let (plain, cut): (Vec<usize>, Vec<usize>) = alone
            .into_iter()
            .partition(|&index| is_plain(&buffers[index]));
        let joined = groups.members.iter().filter(|members| members.len() > 1);
        let mut rich: Vec<Storage> = joined
            .cloned()
            .chain(cut.into_iter().map(|index| vec![(index, 0)]))
            .map(|members| storage(buffers, members))
            .collect();
        rich.sort_by_key(|storage| storage.members[0].0);
        Storages { plain, rich }
    }
}

/// Both lie at one place, so they can do nothing else.
fn both_fixed(instance: &Instance, link: &InPlaceLink) -> bool {
    let offset = |index: usize| {
        let alias = instance
            .aliases
            .binary_search_by_key(&index, |alias| alias.buffer);
        match alias.map(|at| instance.aliases[at]) {
            Ok(alias) => instance.buffers[alias.root]
                .fixed_offset
                .and_then(|offset| offset.checked_add(alias.offset)),
            Err(_) => instance.buffers[index].fixed_offset,
        }
    };
    offset(link.buffer).is_some() && offset(link.buffer) == offset(link.of)
}

/// Buffers that belong together so far.
struct Groups<'a> {
    buffers: &'a [Buffer],
    /// The group of a buffer, if there is one.
    of: HashMap<usize, usize>,
    /// Buffers with where they begin, from wherever that is counted. Empty: it
    /// has become a part of another.
    members: Vec<Vec<(usize, i128)>>,
    may_share: HashSet<(usize, usize)>,
}

impl<'a> Groups<'a> {
    fn new(instance: &'a Instance) -> Self {
        let pairs = instance.in_place.iter();
        Groups {
            buffers: &instance.buffers,
            of: HashMap::new(),
            members: Vec::new(),
            may_share: pairs.map(|link| (link.of, link.buffer)).collect(),
        }
    }

    fn group(&mut self, index: usize) -> usize {
        let Groups { of, members, .. } = self;
        *of.entry(index).or_insert_with(|| {
            members.push(vec![(index, 0)]);
            members.len() - 1
        })
    }

    /// Where a buffer begins in its group.
    fn place(&self, group: usize, index: usize) -> i128 {
        let here = self.members[group]
            .iter()
            .find(|&&(other, _)| other == index);
        here.map_or(0, |&(_, place)| place)
    }

    /// From now on `b` begins `distance` bytes from where `a` begins.
    fn unite(&mut self, a: usize, b: usize, distance: i128) {
        let (into, from) = (self.group(a), self.group(b));
        if into == from {
            return;
        }
        let shift = self.place(into, a) + distance - self.place(from, b);
        for (index, place) in std::mem::take(&mut self.members[from]) {
            self.of.insert(index, into);
            self.members[into].push((index, place + shift));
        }
    }

    /// Lets a buffer take over the place of another, if nothing is against it.
    fn join(&mut self, link: &InPlaceLink) {
        let takes_space = |index: usize| self.buffers[index].takes_space();
        if !takes_space(link.of) || !takes_space(link.buffer) {
            return;
        }
        let (into, from) = (self.group(link.of), self.group(link.buffer));
        if into != from && self.can_unite(into, from, link) {
            self.unite(link.of, link.buffer, 0);
        }
    }

    fn can_unite(&self, into: usize, from: usize, link: &InPlaceLink) -> bool {
        let shift = self.place(into, link.of) - self.place(from, link.buffer);
        let moved = || {
            let members = self.members[from].iter();
            members.map(|&(index, place)| (index, place + shift))
        };
        let stayed = || self.members[into].iter().copied();
        let start = moved().chain(stayed()).map(|(_, place)| place).min();
        let start = start.unwrap_or(0);
        let aligned = |(index, place): (usize, i128)| {
            (place - start) % i128::from(self.buffers[index].alignment) == 0
        };
        let fits = |(index, place): (usize, i128)| {
            u64::try_from(place - start + i128::from(self.buffers[index].size)).is_ok()
        };
        let mut fixed = moved().chain(stayed()).filter_map(|(index, place)| {
            let offset = self.buffers[index].fixed_offset?;
            Some(i128::from(offset) - (place - start))
        });
        let first = fixed.next();
        first.is_none_or(|first| first >= 0)
            && fixed.all(|other| Some(other) == first)
            && moved()
                .chain(stayed())
                .all(|member| aligned(member) && fits(member))
            && moved().all(|a| stayed().all(|b| self.can_lie(a, b)))
    }

    /// Whether two buffers can have these places.
    fn can_lie(&self, (a, at): (usize, i128), (b, other): (usize, i128)) -> bool {
        let shared = |x, y| self.may_share.contains(&(x, y));
        if at == other && (shared(a, b) || shared(b, a)) {
            return true;
        }
        let meet = |p: &Piece, q: &Piece| {
            let (p_from, p_to) = (at + i128::from(p.from), at + i128::from(p.to));
            let (q_from, q_to) = (other + i128::from(q.from), other + i128::from(q.to));
            p.lower < q.upper && q.lower < p.upper && p_from < q_to && q_from < p_to
        };
        self.buffers[a]
            .pieces()
            .all(|p| self.buffers[b].pieces().all(|q| !meet(&p, &q)))
    }
}

/// The storage of buffers with these places.
fn storage(buffers: &[Buffer], mut members: Vec<(usize, i128)>) -> Storage {
    members.sort_unstable();
    let start = members.iter().map(|&(_, place)| place).min().unwrap_or(0);
    // Whoever united them has seen to it that no place is too far.
    let place = |at: i128| u64::try_from(at - start).unwrap_or(u64::MAX);
    let members: Vec<(usize, u64)> = members
        .into_iter()
        .map(|(index, at)| (index, place(at)))
        .collect();
    let alignment = members.iter().map(|&(index, _)| buffers[index].alignment);
    let fixed = members
        .iter()
        .find_map(|&(index, at)| Some(buffers[index].fixed_offset?.saturating_sub(at)));
    let all = members.iter().flat_map(|&(index, at)| {
        buffers[index].pieces().map(move |piece| Piece {
            from: at + piece.from,
            to: at + piece.to,
            ..piece
        })
    });
    let pieces = if members.len() == 1 {
        all.collect()
    } else {
        united(all.collect())
    };
    Storage {
        alignment: alignment.max().unwrap_or(1),
        fixed,
        pieces,
        members,
    }
}

/// The same bytes at the same steps, none of them twice.
fn united(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut events: Vec<(u64, bool, usize)> = pieces
        .iter()
        .enumerate()
        .flat_map(|(index, piece)| [(piece.lower, true, index), (piece.upper, false, index)])
        .collect();
    events.sort_unstable();
    let (mut active, mut done) = (Vec::<usize>::new(), Vec::new());
    // What is in use until now.
    let mut open = Vec::<Piece>::new();
    let mut events = events.into_iter().peekable();
    while let Some((step, begins, index)) = events.next() {
        if begins {
            active.push(index);
        } else {
            active.retain(|&other| other != index);
        }
        if events.peek().is_some_and(|&(next, _, _)| next == step) {
            continue;
        }
        let mut ranges: Vec<(u64, u64)> = active
            .iter()
            .map(|&index| (pieces[index].from, pieces[index].to))
            .collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let meets = next.0 <= last.1;
            if meets {
                last.1 = last.1.max(next.1);
            }
            meets
        });
        // What stays as it is goes on; the rest ends here, and begins.
        open.retain_mut(|piece| {
            let stays = ranges.contains(&(piece.from, piece.to));
            if stays {
                ranges.retain(|&range| range != (piece.from, piece.to));
            } else {
                done.push(Piece {
                    upper: step,
                    ..*piece
                });
            }
            stays
        });
        open.extend(ranges.into_iter().map(|(from, to)| Piece {
            lower: step,
            upper: step,
            from,
            to,
        }));
    }
    done.sort_unstable_by_key(|piece| (piece.lower, piece.from));
    done
}

/// No two buffers are fixed to the same bytes at the same time: O(f log f) for f
/// pieces that are fixed.
pub(super) fn check_fixed(instance: &Instance) -> Result<(), InstanceError> {
    let buffers = &instance.buffers;
    if buffers.iter().all(|buffer| buffer.fixed_offset.is_none()) {
        return Ok(());
    }
    let storages = Storages::new(instance, |_| false).rich;
    let mut events = Vec::new();
    for (number, storage) in storages.iter().enumerate() {
        let Some(offset) = storage.fixed else {
            continue;
        };
        for piece in &storage.pieces {
            let end = offset
                .checked_add(piece.to)
                .ok_or_else(|| past_the_end(buffers, storage, offset))?;
            let bytes = (offset + piece.from, end);
            // At one step ends come first.
            events.push((piece.upper, false, bytes, number));
            events.push((piece.lower, true, bytes, number));
        }
    }
    events.sort_unstable();
    let owner = |number: usize| storages[number].members[0].0;
    // The bytes taken, by arena and start; disjoint.
    let mut taken = BTreeMap::<(&[String], u64), (u64, usize)>::new();
    for (step, begins, (start, end), number) in events {
        let arena = &buffers[owner(number)].arenas[..];
        if !begins {
            taken.remove(&(arena, start));
            continue;
        }
        let before = taken.range(..(arena, end)).next_back();
        if let Some((&(other_arena, _), &(other_end, other))) = before
            && other_arena == arena
            && other_end > start
        {
            let (first, second) = (
                owner(number).min(owner(other)),
                owner(number).max(owner(other)),
            );
            return Err(InstanceError::FixedOverlap {
                index: second,
                name: buffers[second].name.clone(),
                other: buffers[first].name.clone(),
                step,
            });
        }
        taken.insert((arena, start), (end, number));
    }
    Ok(())
}

fn past_the_end(buffers: &[Buffer], storage: &Storage, offset: u64) -> InstanceError {
    let (index, _) = storage.members[0];
    InstanceError::BadFixedOffset {
        index,
        name: buffers[index].name.clone(),
        offset,
        reason: "so that an alias in its storage ends past 2^64 - 1".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rich(buffers: Vec<Buffer>) -> Vec<Storage> {
        let instance = Instance::new(buffers).unwrap();
        Storages::new(&instance, |_| true).rich
    }

    fn piece(lower: u64, upper: u64, from: u64, to: u64) -> Piece {
        Piece {
            lower,
            upper,
            from,
            to,
        }
    }

    #[test]
    fn aliases_are_one_storage() {
        let found = rich(vec![
            Buffer::new("a", 0, 4, 10).aligned_to(8),
            Buffer::new("b", 2, 9, 4).alias_of("c", 2),
            Buffer::new("c", 3, 5, 8).alias_of("a", 4),
            Buffer::new("d", 0, 9, 1),
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].members, [(0, 0), (1, 6), (2, 4)]);
        assert_eq!(
            found[0].pieces,
            [
                piece(0, 3, 0, 10),
                piece(3, 4, 0, 12),
                piece(4, 5, 4, 12),
                piece(5, 9, 6, 10)
            ]
        );
        assert_eq!(found[0].alignment, 8);
    }

    #[test]
    fn a_place_is_taken_over_by_one_only() {
        let found = rich(vec![
            Buffer::new("a", 0, 4, 10),
            Buffer::new("b", 3, 9, 4).in_place_of("a"),
            Buffer::new("c", 3, 9, 4).in_place_of("a"),
        ]);
        let joined: Vec<_> = found.iter().filter(|s| s.members.len() > 1).collect();
        assert_eq!(joined.len(), 1);
        assert_eq!(joined[0].members, [(0, 0), (1, 0)]);
        assert_eq!(joined[0].pieces, [piece(0, 4, 0, 10), piece(4, 9, 0, 4)]);
    }
}

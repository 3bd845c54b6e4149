//! An instance as the search sees it: only what takes space, on compressed
//! steps, split into components that share no step.

use super::instance::{Instance, Storage, Storages};

/// What has one offset and takes space: a buffer, or several that lie together.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Its index in the instance; of several the first one's.
    pub(super) buffer: usize,
    /// Bytes, at least 1.
    pub(super) size: u64,
    /// The size rounded up to the least alignment in the component: what no
    /// other item can use. (At the end of the address space it saturates.)
    pub(super) taken: u64,
    /// Bytes, a power of two.
    pub(super) alignment: u64,
    /// How many steps it lives, at least 1.
    pub(super) steps: u64,
    /// The first section in which it is alive.
    pub(super) first: usize,
    /// The first section after its life.
    pub(super) last: usize,
    /// What there is to be said of one that is not a single buffer in use all its
    /// life, at a place that is free to choose.
    pub(super) extra: Option<Box<Extra>>,
}

/// See [`Item::extra`].
#[derive(Clone, Debug)]
pub(super) struct Extra {
    /// The bytes that are in use, at least one part; no two share a byte in one section.
    pub(super) parts: Vec<Part>,
    /// The buffers, and where each begins, in bytes from the start of the item.
    pub(super) members: Vec<(usize, u64)>,
    /// The only offset that it may have.
    pub(super) fixed: Option<u64>,
}

/// Bytes of an item that are in use during some sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) first: usize,
    pub(super) last: usize,
    /// The first byte, from the start of the item.
    pub(super) from: u64,
    /// The byte after the last.
    pub(super) to: u64,
    /// `to`, rounded up as [`Item::taken`] is.
    pub(super) taken: u64,
}

impl Item {
    /// Whether both are alive in one section; of items with gaps, whether they
    /// may be.
    pub(super) fn meets(&self, other: &Item) -> bool {
        self.first < other.last && other.first < self.last
    }

    /// The first aligned address at `address` or later, if there is one.
    pub(super) fn align(&self, address: u64) -> Option<u64> {
        let mask = self.alignment - 1;
        address.checked_add(mask).map(|sum| sum & !mask)
    }

    /// The address after the bytes that the item takes at `offset`.
    pub(super) fn taken_end(&self, offset: u64) -> u64 {
        offset.saturating_add(self.taken)
    }

    /// Size times steps; of an item in parts, at most.
    pub(super) fn area(&self) -> u128 {
        u128::from(self.size) * u128::from(self.steps)
    }

    /// The bytes in use.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> {
        let whole = self.extra.is_none().then_some(Part {
            first: self.first,
            last: self.last,
            from: 0,
            to: self.size,
            taken: self.taken,
        });
        let parts = self.extra.iter().flat_map(|extra| &extra.parts).copied();
        whole.into_iter().chain(parts)
    }

    /// The parts, where they are more than one piece from the start.
    pub(super) fn in_parts(&self) -> Option<&[Part]> {
        let extra = self.extra.as_ref()?;
        let whole = extra.parts.len() == 1 && extra.parts[0].from == 0;
        (!whole).then_some(&extra.parts[..])
    }

    pub(super) fn fixed(&self) -> Option<u64> {
        self.extra.as_ref()?.fixed
    }

    /// Writes the offsets of the buffers of an item at `offset`.
    pub(super) fn put(&self, offset: u64, offsets: &mut [u64]) {
        match &self.extra {
            None => offsets[self.buffer] = offset,
            Some(extra) => {
                for &(buffer, place) in &extra.members {
                    offsets[buffer] = offset + place;
                }
            }
        }
    }
}

/// Items whose lifetimes hang together. Components share no step, so each is
/// planned alone and the peak of the plan is the largest of their peaks.
#[derive(Clone, Debug)]
pub(super) struct Component {
    /// In the order of their first sections, then of the instance.
    pub(super) items: Vec<Item>,
    /// Sections are numbered from 0 to here.
    pub(super) sections: usize,
    /// The items whose offsets are fixed, ascending.
    pub(super) pinned: Vec<u32>,
}

impl Component {
    /// Whether every item is one buffer, in use all its life, and free to lie
    /// anywhere.
    pub(super) fn is_plain(&self) -> bool {
        self.items.iter().all(|item| item.extra.is_none())
    }

    /// The items whose offsets are to be found.
    pub(super) fn free(&self) -> impl Iterator<Item = u32> {
        let free = |&index: &u32| self.items[index as usize].fixed().is_none();
        (0..).take(self.items.len()).filter(free)
    }
}

/// Splits `instance`, in O(n log n), where of its pairs in place those are joined
/// for whose number `join` says so, and which can be.
///
/// A section is the time between two different first steps. That is exact:
/// when two lifetimes meet, the later of their first steps lies in both.
pub(super) fn components(instance: &Instance, join: impl Fn(usize) -> bool) -> Vec<Component> {
    let items = items(instance, join);
    let mut components = Vec::<Component>::new();
    // Sections before `base` belong to earlier components.
    let (mut base, mut end) = (0, 0);
    for mut item in items {
        if item.first >= end {
            base = item.first;
            components.push(Component {
                items: Vec::new(),
                sections: 0,
                pinned: Vec::new(),
            });
        }
        end = end.max(item.last);
        item.shift(base);
        if let Some(component) = components.last_mut() {
            component.sections = end - base;
            if item.fixed().is_some() {
                component.pinned.push(component.items.len() as u32);
            }
            component.items.push(item);
        }
    }
    components.iter_mut().for_each(round_up);
    components
}

impl Item {
    /// Counts sections from `base`.
    fn shift(&mut self, base: usize) {
        self.first -= base;
        self.last -= base;
        for part in self.extra.iter_mut().flat_map(|extra| &mut extra.parts) {
            part.first -= base;
            part.last -= base;
        }
    }

    /// What divides all addresses at which the item or a part of it can begin.
    fn granularity(&self) -> u64 {
        let starts = self
            .parts()
            .fold(self.fixed().unwrap_or(0), |all, part| all | part.from);
        self.alignment.min(1 << starts.trailing_zeros().min(63))
    }
}

/// Without rounding, the odd bytes between neighbours would look like gaps,
/// which no item can use and every search would have to pass.
fn round_up(component: &mut Component) {
    let granularity = component.items.iter().map(Item::granularity).min();
    let granularity = granularity.unwrap_or(1);
    let round = |bytes: u64| {
        bytes
            .checked_next_multiple_of(granularity)
            .unwrap_or(u64::MAX)
    };
    for item in &mut component.items {
        item.taken = round(item.size);
        for part in item.extra.iter_mut().flat_map(|extra| &mut extra.parts) {
            part.taken = round(part.to);
        }
    }
}

fn items(instance: &Instance, join: impl Fn(usize) -> bool) -> Vec<Item> {
    let buffers = instance.buffers();
    let Storages {
        mut plain,
        mut rich,
    } = Storages::new(instance, join);
    plain.retain(|&index| buffers[index].takes_space());
    rich.retain(|storage| !storage.pieces.is_empty());
    let lowers = plain.iter().map(|&index| buffers[index].lower);
    let pieces = rich.iter().flat_map(|storage| &storage.pieces);
    let mut starts: Vec<u64> = lowers.chain(pieces.map(|piece| piece.lower)).collect();
    starts.sort_unstable();
    starts.dedup();
    let section = |step: u64| starts.partition_point(|&start| start < step);
    let plain = plain.into_iter().map(|index| {
        let buffer = &buffers[index];
        Item {
            buffer: index,
            size: buffer.size,
            taken: buffer.size,
            alignment: buffer.alignment,
            steps: buffer.upper - buffer.lower,
            first: section(buffer.lower),
            last: section(buffer.upper),
            extra: None,
        }
    });
    let rich = rich.into_iter().map(|storage| rich_item(storage, section));
    let mut items: Vec<Item> = plain.chain(rich).collect();
    items.sort_unstable_by_key(|item| (item.first, item.buffer));
    items
}

fn rich_item(storage: Storage, section: impl Fn(u64) -> usize) -> Item {
    let parts: Vec<Part> = storage
        .pieces
        .iter()
        .map(|piece| Part {
            first: section(piece.lower),
            last: section(piece.upper),
            from: piece.from,
            to: piece.to,
            taken: piece.to,
        })
        .collect();
    let size = parts.iter().map(|part| part.to).max().unwrap_or(0);
    let lower = storage.pieces.iter().map(|piece| piece.lower).min();
    let upper = storage.pieces.iter().map(|piece| piece.upper).max();
    Item {
        buffer: storage.members[0].0,
        size,
        taken: size,
        alignment: storage.alignment,
        steps: upper.unwrap_or(0) - lower.unwrap_or(0),
        first: parts.iter().map(|part| part.first).min().unwrap_or(0),
        last: parts.iter().map(|part| part.last).max().unwrap_or(0),
        extra: Some(Box::new(Extra {
            parts,
            members: storage.members,
            fixed: storage.fixed,
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::super::instance::Buffer;
    use super::*;

    fn split(lifetimes: &[(u64, u64)]) -> Vec<Vec<(usize, usize, usize)>> {
        let buffers = lifetimes.iter().enumerate();
        let buffers = buffers
            .map(|(i, &(l, u))| Buffer::new(format!("b{i}"), l, u, 1))
            .collect();
        components(&Instance::new(buffers).unwrap(), |_| false)
            .iter()
            .map(|c| {
                c.items
                    .iter()
                    .map(|i| (i.buffer, i.first, i.last))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn sections_keep_who_meets_whom() {
        let lifetimes = [(0, 10), (5, 7), (7, 30), (10, 12), (29, 30)];
        let parts = split(&lifetimes);
        assert_eq!(parts.len(), 1);
        for &(a, first, last) in &parts[0] {
            for &(b, other_first, other_last) in &parts[0] {
                let ((l, u), (m, v)) = (lifetimes[a], lifetimes[b]);
                assert_eq!(
                    l < v && m < u,
                    first < other_last && other_first < last,
                    "{a} {b}"
                );
            }
        }
    }

    #[test]
    fn only_what_nobody_can_use_is_taken() {
        let taken = |alignments: &[u64]| -> Vec<u64> {
            let buffers = alignments.iter().enumerate();
            let buffer = |(i, &a)| Buffer::new(format!("b{i}"), 0, 1, 5).aligned_to(a);
            let instance = Instance::new(buffers.map(buffer).collect()).unwrap();
            components(&instance, |_| false)[0]
                .items
                .iter()
                .map(|item| item.taken)
                .collect()
        };
        assert_eq!(taken(&[256, 4]), [8, 8]);
        assert_eq!(taken(&[256, 1]), [5, 5]);
    }

    #[test]
    fn components_share_no_step() {
        assert_eq!(
            split(&[(20, 30), (0, 5), (5, 9), (6, 20), (31, 31)]),
            vec![vec![(1, 0, 1)], vec![(2, 0, 2), (3, 1, 2)], vec![(0, 0, 1)]]
        );
        assert_eq!(split(&[]), Vec::<Vec<_>>::new());
    }
}

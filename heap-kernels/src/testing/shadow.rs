//! An independent model of a heap: which blocks are live, and what is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use crate::{FreeError, Geometry};

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Bytes that were asked for.
    pub size: u64,
    /// Bytes that it has.
    pub usable: u64,
    /// Names the pattern of its contents.
    pub key: u64,
}

/// A lane's part of a block that a warp shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset in the pool.
    pub offset: u64,
    /// Bytes that were asked for.
    pub size: u64,
    /// Names the pattern of its contents.
    pub key: u64,
}

#[derive(Debug)]
struct Entry {
    block: Block,
    /// Index in `Shadow::order`; none while a warp's block is being given out.
    index: Option<usize>,
    parts: Vec<Part>,
}

/// Live blocks of one heap by offset, and those that were freed.
#[derive(Debug)]
pub struct Shadow {
    base: u64,
    from: u64,
    to: u64,
    live: BTreeMap<u64, Entry>,
    /// Offsets of the blocks that programs can name.
    order: Vec<u64>,
    freed: BTreeSet<u64>,
    freed_order: Vec<u64>,
}

impl Shadow {
    /// The model of an empty heap whose pool starts at address `base`.
    #[must_use]
    pub fn new(base: u64, geometry: &Geometry) -> Self {
        let from = geometry.metadata_bytes();
        Self {
            base,
            from,
            to: from + geometry.page_bytes(),
            live: BTreeMap::new(),
            order: Vec::new(),
            freed: BTreeSet::new(),
            freed_order: Vec::new(),
        }
    }

    /// A block was handed out.
    ///
    /// # Panics
    ///
    /// If that is wrong: it is too small, misaligned, not in the pages, or not
    /// free.
    pub fn insert(&mut self, offset: u64, block: Block, align: u64) {
        self.check(offset, &block, align);
        let index = Some(self.order.len());
        self.order.push(offset);
        self.live.insert(
            offset,
            Entry {
                block,
                index,
                parts: Vec::new(),
            },
        );
    }

    fn check(&self, offset: u64, block: &Block, align: u64) {
        let end = offset.checked_add(block.usable);
        assert!(
            offset >= self.from && end.is_some_and(|end| end <= self.to),
            "{block:?} at {offset:#x} is not in the pages {:#x}..{:#x}",
            self.from,
            self.to
        );
        assert!(
            block.usable >= block.size,
            "{block:?} at {offset:#x} is too small"
        );
        let align = align.max(16);
        let address = self.base + offset;
        assert!(
            address.is_multiple_of(align),
            "{block:?} at address {address:#x} is not aligned to {align}"
        );
        let below = self.live.range(..=offset).next_back();
        let above = self.live.range(offset..).next();
        for (&start, entry) in below.into_iter().chain(above) {
            let apart = start + entry.block.usable <= offset || start >= offset + block.usable;
            assert!(
                apart,
                "{block:?} at {offset:#x} overlaps the live {:?} at {start:#x}",
                entry.block
            );
        }
    }

    /// A lane got its part of a block; the first to come brings the block. Says
    /// whether it was the first.
    /// Programs cannot name it before [`settle`](Self::settle).
    ///
    /// # Panics
    ///
    /// If the block is wrong as in [`insert`](Self::insert), or the part is not
    /// in it, misaligned, or not free.
    pub fn insert_part(&mut self, base: u64, usable: u64, part: Part) -> bool {
        let new = !self.live.contains_key(&base);
        if new {
            let block = Block {
                size: 0,
                usable,
                key: 0,
            };
            self.check(base, &block, 16);
            self.live.insert(
                base,
                Entry {
                    block,
                    index: None,
                    parts: Vec::new(),
                },
            );
        }
        let Some(entry) = self.live.get_mut(&base) else {
            return new;
        };
        assert!(
            entry.index.is_none(),
            "a part of another block was handed out: {part:?}"
        );
        assert!(part.offset.is_multiple_of(16), "misaligned: {part:?}");
        let end = part.offset.checked_add(part.size);
        assert!(
            part.offset >= base && end.is_some_and(|end| end <= base + usable),
            "{part:?} is not in its block of {usable:#x} bytes at {base:#x}"
        );
        let apart = |other: &Part| {
            other.offset + other.size <= part.offset || part.offset + part.size <= other.offset
        };
        if let Some(other) = entry.parts.iter().find(|other| !apart(other)) {
            panic!("{part:?} overlaps {other:?}");
        }
        entry.parts.push(part);
        new
    }

    /// Nobody is at work: warps' blocks are complete.
    pub fn settle(&mut self) {
        for (&offset, entry) in &mut self.live {
            if entry.index.is_none() {
                entry.index = Some(self.order.len());
                self.order.push(offset);
            }
        }
    }

    /// Offset of the `which`-th live block (modulo their number).
    #[must_use]
    pub fn nth(&self, which: usize) -> Option<u64> {
        self.order
            .get(which.checked_rem(self.order.len())?)
            .copied()
    }

    /// Bytes of the live block at `offset`, zero where there is none.
    #[must_use]
    pub fn usable(&self, offset: u64) -> u64 {
        self.live.get(&offset).map_or(0, |entry| entry.block.usable)
    }

    /// Takes the `which`-th live block (modulo their number) out of the model.
    pub fn take(&mut self, which: usize) -> Option<Taken> {
        let offset = self.nth(which)?;
        self.take_at(offset)
    }

    /// Takes the live block at `offset` out of the model.
    pub fn take_at(&mut self, offset: u64) -> Option<Taken> {
        let entry = self.live.remove(&offset)?;
        let index = entry.index?;
        self.order.swap_remove(index);
        if let Some(moved) = self.order.get(index) {
            self.live.get_mut(moved)?.index = Some(index);
        }
        Some(Taken {
            offset,
            block: entry.block,
            parts: entry.parts,
        })
    }

    /// Puts back what was taken.
    pub fn put_back(&mut self, taken: Taken) {
        let Taken {
            offset,
            block,
            parts,
        } = taken;
        self.insert(offset, block, 16);
        if let Some(entry) = self.live.get_mut(&offset) {
            entry.parts = parts;
        }
    }

    /// A block that was taken is about to be freed.
    pub fn note_freed(&mut self, offset: u64) {
        if self.freed.insert(offset) {
            self.freed_order.push(offset);
        }
    }

    /// The `which`-th offset at which a block was freed.
    #[must_use]
    pub fn freed(&self, which: usize) -> Option<u64> {
        self.freed_order
            .get(which.checked_rem(self.freed_order.len())?)
            .copied()
    }

    /// An offset outside of the pages, derived from any number.
    #[must_use]
    pub fn outside(&self, number: u64) -> u64 {
        if (self.from..self.to).contains(&number) {
            number % self.from
        } else {
            number
        }
    }

    /// An offset in the pages, derived from any number.
    #[must_use]
    pub fn inside(&self, number: u64) -> u64 {
        self.from + number % (self.to - self.from)
    }

    /// What a free of `offset` may answer while nobody is at work; nothing if
    /// a live block begins there.
    #[must_use]
    pub fn refusals(&self, offset: u64) -> &'static [FreeError] {
        if !(self.from..self.to).contains(&offset) {
            return &[FreeError::OutsidePool];
        }
        let before = self.live.range(..=offset).next_back();
        let within = before.filter(|(start, entry)| *start + entry.block.usable > offset);
        match (within, self.freed.contains(&offset)) {
            (Some((start, _)), _) if *start == offset => &[],
            (Some(_), true) => &[FreeError::InsideBlock, FreeError::DoubleFree],
            (Some(_), false) => &[FreeError::InsideBlock],
            (None, true) => &[FreeError::DoubleFree],
            // A free slot or a tail of a slab may be there, or nothing.
            (None, false) => &[FreeError::NeverAllocated, FreeError::InsideBlock],
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.live.clear();
        self.order.clear();
        self.freed.clear();
        self.freed_order.clear();
    }

    /// Number of live blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.live.len() as u64
    }

    /// Bytes of live blocks, as they are usable.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.live.values().map(|entry| entry.block.usable).sum()
    }

    /// All live blocks and their parts.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Block, &[Part])> {
        self.live
            .iter()
            .map(|(&offset, entry)| (offset, entry.block, &entry.parts[..]))
    }
}

/// A block taken out of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Where it is.
    pub offset: u64,
    /// The block.
    pub block: Block,
    /// The lanes' parts of it, where a warp shared it.
    pub parts: Vec<Part>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn shadow() -> Shadow {
        Shadow::new(
            1 << 20,
            &Geometry::new(1 << 20, &Config::default()).unwrap(),
        )
    }

    const fn block(usable: u64) -> Block {
        Block {
            size: usable,
            usable,
            key: 0,
        }
    }

    #[test]
    fn blocks_side_by_side_are_fine() {
        let mut shadow = shadow();
        let at = shadow.inside(0);
        for i in [3, 1, 0, 2] {
            shadow.insert(at + i * 64, block(64), 64);
        }
        assert_eq!((shadow.blocks(), shadow.bytes()), (4, 256));
        let taken = shadow.take(1).unwrap();
        assert_eq!(taken.offset, at + 64);
        shadow.put_back(taken);
        assert!((0..4).all(|_| shadow.take(7).is_some()));
        assert_eq!(shadow.take(0), None);
    }

    #[test]
    #[should_panic(expected = "overlaps the live")]
    fn an_overlap_below_is_noticed() {
        let mut shadow = shadow();
        let at = shadow.inside(0);
        shadow.insert(at, block(64), 16);
        shadow.insert(at + 48, block(16), 16);
    }

    #[test]
    #[should_panic(expected = "overlaps the live")]
    fn an_overlap_above_is_noticed() {
        let mut shadow = shadow();
        let at = shadow.inside(0);
        shadow.insert(at + 48, block(16), 16);
        shadow.insert(at, block(64), 16);
    }

    #[test]
    #[should_panic(expected = "is not aligned to 64")]
    fn a_misaligned_block_is_noticed() {
        let mut shadow = shadow();
        let at = shadow.inside(0);
        shadow.insert(at + 16, block(64), 64);
    }

    #[test]
    #[should_panic(expected = "is not in the pages")]
    fn a_block_past_the_end_is_noticed() {
        let mut shadow = shadow();
        let last = shadow.inside(u64::MAX - 1).next_multiple_of(4096) - 4096;
        let size = shadow.to - last + 1;
        shadow.insert(last, block(size), 16);
    }

    #[test]
    #[should_panic(expected = "overlaps Part")]
    fn parts_that_overlap_are_noticed() {
        let mut shadow = shadow();
        let at = shadow.inside(0);
        for offset in [at, at + 16] {
            shadow.insert_part(
                at,
                64,
                Part {
                    offset,
                    size: 17,
                    key: 0,
                },
            );
        }
    }

    #[test]
    fn refusals_know_the_past() {
        let mut shadow = shadow();
        let at = shadow.inside(0);
        shadow.insert(at, block(64), 16);
        shadow.note_freed(at + 32);
        shadow.note_freed(at + 64);
        assert_eq!(shadow.refusals(0), [FreeError::OutsidePool]);
        assert_eq!(shadow.refusals(at), []);
        assert_eq!(shadow.refusals(at + 1), [FreeError::InsideBlock]);
        assert_eq!(
            shadow.refusals(at + 32),
            [FreeError::InsideBlock, FreeError::DoubleFree]
        );
        assert_eq!(shadow.refusals(at + 64), [FreeError::DoubleFree]);
        assert_eq!(
            shadow.refusals(shadow.outside(at)),
            [FreeError::OutsidePool]
        );
    }
}

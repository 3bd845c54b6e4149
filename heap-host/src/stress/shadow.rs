//! What is live, as the users of the heap see it.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Bytes for which one bit stands; blocks are multiples of it.
pub(super) const GRANULE: u64 = 16;

/// Messages that are kept.
const KEPT: usize = 1;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) offset: u64,
    /// Bytes asked for.
    pub(super) size: u64,
    /// Bytes it has, all of them with the pattern.
    pub(super) usable: u64,
    /// Determines the pattern.
    pub(super) tag: u64,
}

/// Two bits per granule of the pool.
pub(super) struct Map {
    /// Whether it is part of a live block.
    live: Vec<AtomicU64>,
    /// Whether a block that began there was freed.
    freed: Vec<AtomicU64>,
}

impl Map {
    pub(super) fn new(pool_bytes: u64) -> Self {
        let words = pool_bytes.div_ceil(GRANULE * 64);
        let zeros = || (0..words).map(|_| AtomicU64::new(0)).collect();
        Self {
            live: zeros(),
            freed: zeros(),
        }
    }

    /// Whether a block that began at `offset` was freed.
    pub(super) fn was_freed(&self, offset: u64) -> bool {
        let (granule, rest) = (offset / GRANULE, offset % GRANULE);
        let word = self.freed[(granule / 64) as usize].load(Ordering::Relaxed);
        rest == 0 && word >> (granule % 64) & 1 == 1
    }

    /// Marks a block live; whether no byte of it was.
    pub(super) fn claim(&self, block: &Block) -> bool {
        // Relaxed: each bit changes hands with its block, through the heap.
        masks(block).fold(true, |free, (word, mask)| {
            self.live[word].fetch_or(mask, Ordering::Relaxed) & mask == 0 && free
        })
    }

    /// Marks a block dead; whether every byte of it was live.
    pub(super) fn release(&self, block: &Block) -> bool {
        let granule = block.offset / GRANULE;
        self.freed[(granule / 64) as usize].fetch_or(1 << (granule % 64), Ordering::Relaxed);
        masks(block).fold(true, |live, (word, mask)| {
            self.live[word].fetch_and(!mask, Ordering::Relaxed) & mask == mask && live
        })
    }
}

/// The words of a block's granules, and which bits.
fn masks(block: &Block) -> impl Iterator<Item = (usize, u64)> {
    let (first, last) = (
        block.offset / GRANULE,
        (block.offset + block.usable) / GRANULE,
    );
    (first / 64..last.div_ceil(64)).map(move |word| {
        let low = first.saturating_sub(word * 64);
        let high = (last - word * 64).min(64);
        let mask = u64::MAX >> (64 - (high - low)) << low;
        (word as usize, mask)
    })
}

/// Deviations of the heap from the model.
#[derive(Default)]
pub(super) struct Faults {
    count: AtomicU64,
    messages: Mutex<Vec<String>>,
}

impl Faults {
    #[cold]
    pub(super) fn note(&self, message: impl FnOnce() -> String) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut messages = self.messages.lock();
        if messages.len() < KEPT {
            messages.push(message());
        }
    }

    /// Notes a fault where `holds` is false; returns `holds`.
    pub(super) fn ensure(&self, holds: bool, message: impl FnOnce() -> String) -> bool {
        if !holds {
            self.note(message);
        }
        holds
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn first(&self) -> Option<String> {
        self.messages.lock().first().cloned()
    }
}

/// What was done, by one thread or by all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) ops: u64,
    pub(super) allocations: u64,
    pub(super) frees: u64,
    pub(super) reallocations: u64,
    /// Reallocations that returned another block.
    pub(super) moves: u64,
    pub(super) failed: u64,
    pub(super) refused_frees: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.allocations += other.allocations;
        self.frees += other.frees;
        self.reallocations += other.reallocations;
        self.moves += other.moves;
        self.failed += other.failed;
        self.refused_frees += other.refused_frees;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(offset: u64, usable: u64) -> Block {
        Block {
            offset,
            size: usable,
            usable,
            tag: 0,
        }
    }

    #[test]
    fn masks_cover_each_granule_once() {
        for first in [0, 1, 63, 64, 65, 130] {
            for len in [1, 2, 62, 63, 64, 65, 128, 200] {
                let granules: u64 = masks(&block(first * GRANULE, len * GRANULE))
                    .map(|(word, mask)| {
                        assert!(word as u64 >= first / 64);
                        u64::from(mask.count_ones())
                    })
                    .sum();
                assert_eq!(granules, len, "{first} {len}");
            }
        }
    }

    #[test]
    fn an_overlap_of_one_granule_is_seen() {
        let map = Map::new(1 << 16);
        assert!(map.claim(&block(1008, 1040)));
        assert!(map.claim(&block(2048, 16)));
        assert!(!map.claim(&block(2032, 16)));
        assert!(!map.was_freed(1008));
        assert!(map.release(&block(1008, 1040)));
        assert!(map.was_freed(1008) && !map.was_freed(1009) && !map.was_freed(1024));
        assert!(!map.release(&block(1008, 16)));
    }

    #[test]
    fn only_the_first_fault_keeps_its_words() {
        let faults = Faults::default();
        assert!(faults.ensure(true, || unreachable!()));
        assert!(!faults.ensure(false, || "first".into()));
        faults.note(|| "second".into());
        assert_eq!(
            (faults.count(), faults.first().unwrap()),
            (2, "first".into())
        );
    }
}

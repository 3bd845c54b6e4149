//! Slots: bits of a slab, claimed up to 32 at a time.

use crate::layout::Pool;
use crate::layout::words::SlabKind;
use crate::mem::{Fault, Mem, Order};

/// Looks at a slab's words this often before the credits are given back. One
/// look suffices while nobody else claims there.
const PASSES: u32 = 4;

/// Where a lane begins to look for free slots, so that others begin elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) word: u32,
    pub(super) bit: u32,
}

impl Hint {
    /// For who takes credits of a slab of `slots` slots that had `before`.
    ///
    /// While a slab fills for the first time since it was empty, the slots from
    /// there on are free, as many as the credits taken: 32 neighbouring credits
    /// stand for one half of a word. Which half is scattered over the slab, one
    /// to one: where slots are freed and taken in any order the credits hardly
    /// change, and all lanes would look where all have been before.
    #[inline]
    pub(super) const fn new(before: i32, slots: u32) -> Self {
        let taken = slots.saturating_sub(before as u32);
        let halves = slots.div_ceil(32);
        // Fibonacci hashing on as many low bits as are whole: an odd number has
        // an inverse modulo a power of two.
        let low = (halves & halves.wrapping_neg()).wrapping_sub(1);
        let group = taken / 32;
        let half = group & !low | group.wrapping_mul(0x9e37_79b1) & low;
        Self {
            word: half / 2,
            bit: half % 2 * 32 + taken % 32,
        }
    }

    /// The bits of `count` slots from here on, of a slab of `slots` slots, as far
    /// as the word has them. `count` is 1 to 32.
    #[inline]
    pub(super) const fn mask(self, count: u32, slots: u32) -> u64 {
        ((1 << count) - 1) << self.bit & valid(self.word, slots)
    }
}

/// The `count` lowest set bits of `bits`, or all of them.
#[inline]
pub(crate) const fn lowest(bits: u64, count: u32) -> u64 {
    if bits.count_ones() <= count {
        return bits;
    }
    bits & ((1 << select(bits, count)) - 1)
}

/// Position of the set bit of `bits` that has `rank` set bits below it; there
/// is one. Halves the word six times, without branches: lanes of different
/// ranks stay together.
#[inline]
pub(crate) const fn select(bits: u64, rank: u32) -> u32 {
    let (mut bits, mut rank, mut position) = (bits, rank, 0);
    let mut half = 32;
    while half > 0 {
        let low = (bits & ((1 << half) - 1)).count_ones();
        if rank >= low {
            rank -= low;
            bits >>= half;
            position += half;
        }
        half /= 2;
    }
    position
}

/// The bits of word `word` that stand for slots, of `slots` in all.
#[inline]
pub(crate) const fn valid(word: u32, slots: u32) -> u64 {
    let left = slots.saturating_sub(word * 64);
    if left >= 64 {
        u64::MAX
    } else {
        (1 << left) - 1
    }
}

impl<M: Mem> Pool<M> {
    /// Claims up to `credits` slots in one word of the slab at `page`, looking
    /// from word `hint` on. The caller holds as many credits, so there are as
    /// many clear bits; nothing only where others took each that was seen.
    pub(super) fn claim_slots(
        &self,
        kind: SlabKind,
        page: u64,
        credits: u32,
        hint: Hint,
    ) -> Option<(u32, u64)> {
        let slots = self.slots(kind) as u32;
        let words = slots.div_ceil(64);
        for step in 0..words * PASSES {
            let word = (hint.word + step) % words;
            let hint = Hint { word, ..hint };
            let won = self.claim_in_word(page, hint, slots, credits);
            if won != 0 {
                return Some((word, won));
            }
        }
        None
    }

    /// Claims up to `count` slots in the word that `hint` names, of the slab of
    /// `slots` slots at `page`; which.
    pub(super) fn claim_in_word(&self, page: u64, hint: Hint, slots: u32, count: u32) -> u64 {
        let at = self.slot_word_at(page, u64::from(hint.word));
        let free = !self.mem.load(at, Order::Relaxed) & valid(hint.word, slots);
        if free == 0 {
            return 0;
        }
        let wanted = lowest(free.rotate_right(hint.bit), count).rotate_left(hint.bit);
        self.claim_bits(at, wanted)
    }

    /// Claims those slots of `wanted` in the word at `at` that are free; which.
    #[inline]
    pub(super) fn claim_bits(&self, at: u64, wanted: u64) -> u64 {
        // AcqRel. Acquire: what the last owner did to the slot came before
        // its bit was cleared. Release: a double free that takes this bit
        // for another slab's sees, at its second look, which slab it is.
        let old = self.mem.fetch_or(at, wanted, Order::AcqRel);
        if M::FAULT as u8 == Fault::BlindClaim as u8 {
            wanted
        } else {
            wanted & !old
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lowest_and_select_agree(bits: u64, count in 0u32..70) {
            let low = lowest(bits, count);
            prop_assert_eq!(low & bits, low);
            prop_assert_eq!(low.count_ones(), count.min(bits.count_ones()));
            let rest = bits & !low;
            prop_assert!(rest == 0 || low == 0 || low.ilog2() < rest.trailing_zeros());
            for rank in 0..low.count_ones() {
                prop_assert!(low >> select(bits, rank) & 1 == 1);
            }
        }
    }

    #[test]
    fn a_slab_that_fills_is_covered_once() {
        for (slots, count) in [(36, 1), (64, 32), (144, 4), (512, 32), (585, 9), (1024, 16)] {
            let mut words = std::vec![0u64; usize::try_from(slots / 64 + 1).unwrap()];
            for taken in (0..slots).step_by(count) {
                let hint = Hint::new((slots - taken) as i32, slots);
                let mask = hint.mask(count as u32, slots);
                let seen = &mut words[hint.word as usize];
                // Where a group crosses the end of a half it may meet another.
                assert!(*seen & mask == 0 || 32 % count != 0, "{slots} by {count}");
                *seen |= mask;
            }
            let all: u32 = words.iter().map(|word| word.count_ones()).sum();
            assert!(all * 2 >= slots && (slots % 64 != 0 || 32 % count != 0 || all == slots));
        }
    }

    #[test]
    fn the_last_word_stands_for_the_last_slots() {
        assert_eq!(valid(0, 1), 1);
        assert_eq!(valid(0, 64), u64::MAX);
        assert_eq!(valid(1, 65), 1);
        assert_eq!(valid(0, 65), u64::MAX);
        assert_eq!(valid(2, 65), 0);
    }
}

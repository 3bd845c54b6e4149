//! Slots: bits of a slab, claimed up to 32 at a time.

use crate::layout::Pool;
use crate::mem::{Fault, Mem, Order};

/// Looks at a slab's words this often before the credits are given back. One
/// look suffices while nobody else claims there.
const PASSES: u32 = 4;

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
    let left = slots - word * 64;
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
        class: u32,
        page: u64,
        credits: u32,
        hint: u32,
    ) -> Option<(u32, u64)> {
        let slots = self.slots(class) as u32;
        let words = slots.div_ceil(64);
        for step in 0..words * PASSES {
            let word = (hint + step) % words;
            let won = self.claim_in_word(page, word, slots, credits);
            if won != 0 {
                return Some((word, won));
            }
        }
        None
    }

    /// Claims up to `count` slots in word `word` of the slab of `slots` slots
    /// at `page`; which.
    #[inline]
    pub(super) fn claim_in_word(&self, page: u64, word: u32, slots: u32, count: u32) -> u64 {
        let at = self.slot_word_at(page, u64::from(word));
        let free = !self.mem.load(at, Order::Relaxed) & valid(word, slots);
        if free == 0 {
            return 0;
        }
        let wanted = lowest(free, count);
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
    fn the_last_word_stands_for_the_last_slots() {
        assert_eq!(valid(0, 1), 1);
        assert_eq!(valid(0, 64), u64::MAX);
        assert_eq!(valid(1, 65), 1);
        assert_eq!(valid(0, 65), u64::MAX);
    }
}

//! The packed 64-bit words, each a type with named fields.

/// Top of a stack of slabs: the descriptor on it, and a tag that moves on with
/// every push and pop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head(pub(crate) u64);

impl Head {
    /// The head with `top` on it that follows this one.
    #[inline]
    pub(crate) const fn next(self, top: Option<u32>, step: u64) -> Self {
        let tag = (self.0 >> 32).wrapping_add(step) << 32;
        Self(tag | encode_link(top))
    }

    #[inline]
    pub(crate) const fn top(self) -> Option<u32> {
        decode_link(self.0)
    }
}

/// A descriptor index plus one, so that zero means none.
#[inline]
const fn encode_link(descriptor: Option<u32>) -> u64 {
    match descriptor {
        // Geometry keeps descriptor indexes below u32::MAX.
        Some(index) => index as u64 + 1,
        None => 0,
    }
}

#[inline]
const fn decode_link(word: u64) -> Option<u32> {
    (word as u32).checked_sub(1)
}

/// What a descriptor says of its slab in one word that every operation can
/// add to: credits on top, then class and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    /// No slab, on no stack.
    pub(crate) const FREE: Self = Self(0);
    /// The slab exists, or is being formed or retired.
    pub(crate) const USED: u64 = 1;
    /// On a stack, or in the hands of whoever will push or has popped it.
    pub(crate) const LISTED: u64 = 2;
    /// Retired.
    pub(crate) const DEAD: u64 = 4;

    const CLASS_SHIFT: u32 = 8;
    pub(crate) const CLASS: u64 = 0xff << Self::CLASS_SHIFT;

    #[inline]
    pub(crate) const fn new(credits: i32, class: u32, flags: u64) -> Self {
        Self(Self::credit(credits) | (class as u64) << Self::CLASS_SHIFT | flags)
    }

    /// The word to add for `credits` more.
    #[inline]
    pub(crate) const fn credit(credits: i32) -> u64 {
        (credits as u32 as u64) << 32
    }

    /// Free slots that nobody has a right to; negative while a lane asks for
    /// more than there are.
    #[inline]
    pub(crate) const fn credits(self) -> i32 {
        (self.0 >> 32) as i32
    }

    #[inline]
    pub(crate) const fn class(self) -> u32 {
        ((self.0 & Self::CLASS) >> Self::CLASS_SHIFT) as u32
    }

    #[inline]
    pub(crate) const fn has(self, flags: u64) -> bool {
        self.0 & flags == flags
    }

    /// A slab that may have credits: formed (or being formed), not retired.
    #[inline]
    pub(crate) const fn alive(self) -> bool {
        self.0 & (Self::USED | Self::DEAD) == Self::USED
    }

    #[inline]
    pub(crate) const fn plus(self, credits: i32) -> Self {
        Self(self.0.wrapping_add(Self::credit(credits)))
    }
}

/// A descriptor's second word: where the slab starts, and what is below it on
/// its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(pub(crate) u64);

impl Link {
    #[inline]
    pub(crate) const fn new(page: u32, below: Option<u32>) -> Self {
        Self((page as u64) << 32 | encode_link(below))
    }
    #[inline]
    pub(crate) const fn page(self) -> u32 {
        (self.0 >> 32) as u32
    }
    #[inline]
    pub(crate) const fn below(self) -> Option<u32> {
        decode_link(self.0)
    }
}

/// What a page is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageUse {
    /// Free, or behind the first page of a run.
    Nothing,
    /// First page of a run of `pages`.
    Run { pages: u64 },
    /// The `index`-th page of a slab.
    Slab {
        class: u32,
        index: u32,
        descriptor: u32,
    },
}

/// [`PageUse`] as a word: kind 2 bits; a slab's class 8, index 22 and
/// descriptor 32; a run's length 62.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageWord(pub(crate) u64);

impl PageWord {
    const RUN: u64 = 1;
    const SLAB: u64 = 2;
    const INDEX_BITS: u32 = 22;

    #[inline]
    pub(crate) const fn run(pages: u64) -> Self {
        Self(Self::RUN << 62 | pages)
    }

    #[inline]
    pub(crate) const fn slab(class: u32, index: u32, descriptor: u32) -> Self {
        Self(Self::SLAB << 62 | (class as u64) << 54 | (index as u64) << 32 | descriptor as u64)
    }

    #[inline]
    pub(crate) const fn decode(self) -> PageUse {
        match self.0 >> 62 {
            Self::RUN => PageUse::Run {
                pages: self.0 & (u64::MAX >> 2),
            },
            Self::SLAB => PageUse::Slab {
                class: (self.0 >> 54) as u32 & 0xff,
                index: (self.0 >> 32) as u32 & ((1 << Self::INDEX_BITS) - 1),
                descriptor: self.0 as u32,
            },
            _ => PageUse::Nothing,
        }
    }
}

/// A proof that a search found nothing: how much was asked for, and the count
/// of changes before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) u64);

impl Refusal {
    const AMOUNT_BITS: u32 = 24;

    /// The refusal of `amount`, or none where it is too large to be noted.
    #[inline]
    pub(crate) const fn new(changes: u64, amount: u64) -> Option<Self> {
        if amount == 0 || amount >> Self::AMOUNT_BITS != 0 {
            return None;
        }
        Some(Self(changes << Self::AMOUNT_BITS | amount))
    }

    /// Whether `amount` or less was refused and nothing changed since.
    #[inline]
    pub(crate) const fn covers(self, changes: u64, amount: u64) -> bool {
        let refused = self.0 & ((1 << Self::AMOUNT_BITS) - 1);
        let same =
            self.0 >> Self::AMOUNT_BITS == (changes << Self::AMOUNT_BITS) >> Self::AMOUNT_BITS;
        refused != 0 && same && amount >= refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn head_round_trips(tag: u32, top in proptest::option::of(0..u32::MAX)) {
            let head = Head(0).next(top, u64::from(tag));
            prop_assert_eq!(head.top(), top);
            prop_assert_eq!(head.0 >> 32, u64::from(tag));
            prop_assert_eq!(head.next(None, 1).0 >> 32, u64::from(tag.wrapping_add(1)));
        }

        #[test]
        fn state_round_trips(credits: i32, class in 0u32..256, flags in 0u64..8) {
            let state = State::new(credits, class, flags);
            prop_assert_eq!(state.credits(), credits);
            prop_assert_eq!(state.class(), class);
            prop_assert!(state.has(flags));
        }

        #[test]
        fn credits_never_touch_class_and_flags(credits: i32, change: i32, class in 0u32..256) {
            let state = State::new(credits, class, State::USED).plus(change);
            prop_assert_eq!(state.credits(), credits.wrapping_add(change));
            prop_assert_eq!(state.class(), class);
            prop_assert!(state.alive());
        }

        #[test]
        fn link_round_trips(page: u32, below in proptest::option::of(0..u32::MAX)) {
            let link = Link::new(page, below);
            prop_assert_eq!((link.page(), link.below()), (page, below));
        }

        #[test]
        fn page_word_round_trips(class in 0u32..256, index in 0u32..1 << 22, descriptor: u32, pages in 0u64..1 << 62) {
            prop_assert_eq!(
                PageWord::slab(class, index, descriptor).decode(),
                PageUse::Slab { class, index, descriptor }
            );
            prop_assert_eq!(PageWord::run(pages).decode(), PageUse::Run { pages });
        }

        #[test]
        fn a_refusal_covers_as_much_or_more_while_nothing_changed(changes in 0u64..1 << 40, amount in 1u64..1 << 24, more in 0u64..1000) {
            let refusal = Refusal::new(changes, amount).unwrap();
            prop_assert!(refusal.covers(changes, amount + more));
            prop_assert!(!refusal.covers(changes, amount - 1));
            prop_assert!(!refusal.covers(changes + 1, amount));
        }
    }

    #[test]
    fn zero_words_mean_nothing() {
        assert_eq!(Head(0).top(), None);
        assert_eq!(Link(0).below(), None);
        assert_eq!(PageWord(0).decode(), PageUse::Nothing);
        assert!(!Refusal(0).covers(0, 0) && !Refusal(0).covers(0, u64::MAX));
        assert!(!State::FREE.alive());
        assert_eq!(Refusal::new(0, 0), None);
        assert_eq!(Refusal::new(0, 1 << 24), None);
    }
}

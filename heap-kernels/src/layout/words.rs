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

/// Size class and scale of a slab: it has `2^scale` times as many pages and
/// slots as the smallest slab of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlabKind {
    pub(crate) class: u32,
    /// 0 to 15.
    pub(crate) scale: u32,
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
    /// The slab's first page has the descriptor's own index: who has a credit
    /// knows the page then, and need not ask for it.
    pub(crate) const OWN: u64 = 8;

    const CLASS_SHIFT: u32 = 8;
    const CLASS: u64 = 0xff << Self::CLASS_SHIFT;
    const SCALE_SHIFT: u32 = 16;
    const HOME_SHIFT: u32 = 20;
    const HOME: u64 = 0x3ff << Self::HOME_SHIFT;
    /// What names the slab: class, scale, home and `OWN`.
    pub(crate) const KIND: u64 = 0xfff << Self::CLASS_SHIFT | Self::HOME | Self::OWN;

    #[inline]
    pub(crate) const fn new(credits: i32, kind: SlabKind, home: u32, flags: u64) -> Self {
        let kind =
            (kind.class as u64) << Self::CLASS_SHIFT | (kind.scale as u64) << Self::SCALE_SHIFT;
        Self(Self::credit(credits) | (home as u64) << Self::HOME_SHIFT | kind | flags)
    }

    /// The same slab with no credits and other flags.
    #[inline]
    pub(crate) const fn with_flags(self, flags: u64) -> Self {
        Self(self.0 & Self::KIND | flags)
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

    /// Class and scale.
    #[inline]
    pub(crate) const fn kind(self) -> SlabKind {
        SlabKind {
            class: self.class(),
            scale: (self.0 >> Self::SCALE_SHIFT) as u32 & 0xf,
        }
    }

    /// The shard on whose stack the slab is listed.
    #[inline]
    pub(crate) const fn home(self) -> u32 {
        ((self.0 & Self::HOME) >> Self::HOME_SHIFT) as u32
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

    /// Whether a living slab that has just come to this state by an addition is
    /// empty, or has free slots that nobody will find; its class's smallest slab
    /// has `base_slots`.
    #[inline]
    pub(crate) const fn needs_care(self, base_slots: u32) -> bool {
        let unseen = self.credits() > 0 && !self.has(Self::LISTED);
        unseen || self.credits() == (base_slots << self.kind().scale) as i32
    }

    /// Whether `want` credits that were taken from this state came from a slab of
    /// `class` that keeps some, and names its page: nothing is to be done then but
    /// to claim the slots.
    #[inline]
    pub(crate) const fn is_plain(self, class: u32, want: u32) -> bool {
        let right = self.alive() && self.class() == class && self.has(Self::OWN);
        right && self.credits() > want as i32
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
        kind: SlabKind,
        index: u32,
        descriptor: u32,
    },
}

/// [`PageUse`] as a word: what 2 bits; a slab's class 8, scale 4, index 18 and
/// descriptor 32; a run's length 62.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageWord(pub(crate) u64);

impl PageWord {
    const RUN: u64 = 1;
    const SLAB: u64 = 2;
    const INDEX_BITS: u32 = 18;

    #[inline]
    pub(crate) const fn run(pages: u64) -> Self {
        Self(Self::RUN << 62 | pages)
    }

    #[inline]
    pub(crate) const fn slab(kind: SlabKind, index: u32, descriptor: u32) -> Self {
        let kind = (kind.class as u64) << 54 | (kind.scale as u64) << 50;
        Self(Self::SLAB << 62 | kind | (index as u64) << 32 | descriptor as u64)
    }

    #[inline]
    pub(crate) const fn decode(self) -> PageUse {
        match self.0 >> 62 {
            Self::RUN => PageUse::Run {
                pages: self.0 & (u64::MAX >> 2),
            },
            Self::SLAB => PageUse::Slab {
                kind: SlabKind {
                    class: (self.0 >> 54) as u32 & 0xff,
                    scale: (self.0 >> 50) as u32 & 0xf,
                },
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
        fn state_round_trips(credits: i32, class in 0u32..256, scale in 0u32..16, home in 0u32..1024, flags in 0u64..8) {
            let kind = SlabKind { class, scale };
            let state = State::new(credits, kind, home, flags);
            prop_assert_eq!(state.credits(), credits);
            prop_assert_eq!(state.class(), class);
            prop_assert_eq!(state.kind(), kind);
            prop_assert_eq!(state.home(), home);
            prop_assert!(state.has(flags));
            prop_assert_eq!(state.0 & !State::KIND, State::credit(credits) | flags);
        }

        #[test]
        fn credits_never_touch_class_and_flags(credits: i32, change: i32, class in 0u32..256) {
            let state = State::new(credits, SlabKind { class, scale: 9 }, 77, State::USED).plus(change);
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
        fn page_word_round_trips(class in 0u32..256, scale in 0u32..16, index in 0u32..1 << 18, descriptor: u32, pages in 0u64..1 << 62) {
            let kind = SlabKind { class, scale };
            prop_assert_eq!(
                PageWord::slab(kind, index, descriptor).decode(),
                PageUse::Slab { kind, index, descriptor }
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

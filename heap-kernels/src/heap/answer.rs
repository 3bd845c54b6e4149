//! What the parts of an allocation tell each other, in one word or two: lanes
//! shuffle words, and functions that are not inlined return words in registers,
//! where a `Result` would go through memory.

use super::AllocError;
use crate::runs::NoRun;
use crate::slab::Grant;
use crate::slab::search::Room;
use crate::warp::{Mask, Warp};

/// How a request is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Small { class: u32 },
    Large { pages: u64 },
}

/// A block's offset, or what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer(u64);

impl Answer {
    /// No offset has this bit: pools are shorter.
    const ERROR: u64 = 1 << 63;

    #[inline]
    pub(super) const fn offset(offset: u64) -> Self {
        Self(offset)
    }

    #[inline]
    pub(super) const fn error(error: AllocError) -> Self {
        Self(Self::ERROR | error.code() as u64)
    }

    #[inline]
    pub(super) const fn is_error(self) -> bool {
        self.0 & Self::ERROR != 0
    }

    #[inline]
    pub(crate) fn decode(self) -> Result<u64, AllocError> {
        if !self.is_error() {
            return Ok(self.0);
        }
        // Written by `error` alone, so it has a code.
        Err(AllocError::from_code(self.0 as u32).unwrap_or(AllocError::OutOfMemory))
    }

    /// The answer of lane `lane`, for all lanes of `mask`.
    #[inline]
    pub(super) fn shuffled<W: Warp>(self, warp: &W, mask: Mask, lane: u32) -> Self {
        Self(warp.shuffle(mask, self.0, lane))
    }
}

/// A [`Room`], or why there is none: a [`Grant`] whose unused bits tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed(Grant);

impl Packed {
    const NOTHING: u64 = 1 << 63;
    const RUN: u64 = 1 << 62;

    /// No lane is served, nor refused.
    pub(super) const NONE: Self = Self(Grant::NONE);

    #[inline]
    pub(super) const fn slots(grant: Grant) -> Self {
        Self(grant)
    }

    pub(super) fn new(room: Result<Room, NoRun>) -> Self {
        Self(match room {
            Ok(Room::Slots(grant)) => grant,
            Ok(Room::Run(page)) => Grant::from_words(Self::RUN | page, 1),
            Err(why) => {
                let contended = u64::from(why == NoRun::Contended);
                Grant::from_words(Self::NOTHING | contended, 0)
            }
        })
    }

    /// What lane `lane` has, for all lanes of `mask`.
    #[inline]
    pub(super) fn shuffled<W: Warp>(self, warp: &W, mask: Mask, lane: u32) -> Self {
        Self(Grant::from_words(
            warp.shuffle(mask, self.0.place(), lane),
            warp.shuffle(mask, self.0.mask(), lane),
        ))
    }

    /// Lanes that are served.
    #[inline]
    pub(super) const fn served(self) -> u32 {
        self.0.count()
    }

    /// The slots, where it is no run.
    #[inline]
    pub(super) const fn grant(self) -> Grant {
        self.0
    }

    #[inline]
    pub(super) const fn is_nothing(self) -> bool {
        self.0.place() & Self::NOTHING != 0
    }

    pub(super) const fn error(self) -> Option<AllocError> {
        match (self.is_nothing(), self.0.place() & 1) {
            (false, _) => None,
            (true, 0) => Some(AllocError::OutOfMemory),
            (true, _) => Some(AllocError::Contended),
        }
    }

    /// First page of the run, if it is one.
    #[inline]
    pub(super) const fn run(self) -> Option<u64> {
        if self.0.place() & Self::RUN == 0 {
            None
        } else {
            Some(self.0.page())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::SingleLane;

    #[test]
    fn answers_come_back() {
        for offset in [0, 16, (1 << 63) - 16] {
            assert_eq!(Answer::offset(offset).decode(), Ok(offset));
        }
        for error in [
            AllocError::OutOfMemory,
            AllocError::TooLarge,
            AllocError::BadAlignment,
            AllocError::Contended,
        ] {
            let lane = SingleLane::new(0);
            let answer = Answer::error(error).shuffled(&lane, 1, 0);
            assert!(answer.is_error() && answer.decode() == Err(error));
        }
    }

    #[test]
    fn rooms_come_back() {
        let grant = Grant::new(u32::MAX, 255, 16_383, 1 << 63 | 5);
        let packed = Packed::new(Ok(Room::Slots(grant)));
        let back = packed.grant();
        assert_eq!((back.page(), back.first()), (u32::MAX.into(), 16_383));
        assert_eq!((back.class(), packed.served()), (255, 3));
        assert!(packed.run().is_none() && packed.error().is_none());
        let run = Packed::new(Ok(Room::Run(77)));
        assert_eq!((run.run(), run.served()), (Some(77), 1));
        let wrong = |why| Packed::new(Err(why)).error();
        assert_eq!(wrong(NoRun::Nothing), Some(AllocError::OutOfMemory));
        assert_eq!(wrong(NoRun::Contended), Some(AllocError::Contended));
        assert!(!Packed::NONE.is_nothing() && Packed::NONE.served() == 0);
    }
}

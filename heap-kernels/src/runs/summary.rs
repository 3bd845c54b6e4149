//! Summaries over the run bits: which words are full, which are untouched.

use crate::layout::Pool;
use crate::mem::{Fault, Mem, Order};

impl<M: Mem> Pool<M> {
    /// Notes that word `word` of level 0 became full, upwards as far as
    /// summary words become full in turn.
    #[inline(never)]
    pub(super) fn mark_full(&self, mut word: u64) {
        for level in 1..self.geo.level_count {
            let (at, bit) = (self.level_at(level, word / 64), 1 << (word % 64));
            // AcqRel, for the look below: if a release has cleared this bit
            // before, its opening of the word below is seen by that look; if
            // it clears the bit later, the bit ends clear anyway.
            let old = self.mem.fetch_or(at, bit, Order::AcqRel);
            let below = self
                .mem
                .load(self.level_at(level - 1, word), Order::Acquire);
            if below != u64::MAX && M::FAULT as u8 != Fault::NoFullRecheck as u8 {
                self.mark_open_from(level, word);
                // While the bit was wrongly set, a search may have missed the
                // word's pages: what it proved holds no longer.
                if M::FAULT as u8 != Fault::NoFullChange as u8 {
                    self.note_change();
                }
                return;
            }
            if old | bit != u64::MAX {
                return;
            }
            word /= 64;
        }
    }

    /// Notes that word `word` of level 0 was full and is not any more.
    pub(super) fn mark_open(&self, word: u64) {
        self.mark_open_from(1, word);
    }

    #[inline(never)]
    fn mark_open_from(&self, first: usize, mut word: u64) {
        for level in first..self.geo.level_count {
            let (at, bit) = (self.level_at(level, word / 64), 1u64 << (word % 64));
            // AcqRel: always a read-modify-write, see `mark_full`.
            let old = self.mem.fetch_and(at, !bit, Order::AcqRel);
            if old != u64::MAX {
                return;
            }
            word /= 64;
        }
    }

    /// The first word of level 0 from `word` on whose `full` bit is clear, or
    /// the number of words.
    pub(super) fn next_open_word(&self, word: u64) -> u64 {
        if self.geo.level_count == 1 {
            return word;
        }
        self.next_clear(1, word).min(self.geo.level_words[0])
    }

    /// The first clear bit of a level from `bit` on, or a number past its end.
    /// Climbs over stretches that are full 64-fold; bounded by the level's
    /// words, since every step moves on.
    #[inline(never)]
    fn next_clear(&self, level: usize, bit: u64) -> u64 {
        let (mut level, mut bit) = (level, bit);
        let bottom = level;
        loop {
            let word = bit / 64;
            if word >= self.geo.level_words[level] {
                return u64::MAX;
            }
            let value = self.mem.load(self.level_at(level, word), Order::Relaxed);
            let clear = !value & (u64::MAX << (bit % 64));
            if clear != 0 {
                bit = word * 64 + u64::from(clear.trailing_zeros());
                if level == bottom {
                    return bit;
                }
                // That word of the level below has a clear bit, or had one.
                level -= 1;
                bit *= 64;
            } else if level + 1 < self.geo.level_count {
                level += 1;
                bit = word + 1;
            } else {
                bit = (word + 1) * 64;
            }
        }
    }

    /// Notes that a word has a used page, after its bit was set.
    pub(super) fn mark_dirty(&self, word: u64) {
        // AcqRel, for the look in `mark_clean`.
        self.mem
            .fetch_or(self.dirty_at(word), 1 << (word % 64), Order::AcqRel);
    }

    /// Notes that a word has a used page on behalf of a lane that has taken it
    /// and not got to that yet, and may never: whoever met that page would
    /// meet it for ever in a hole that is none.
    #[cold]
    pub(super) fn help_mark_dirty(&self, word: u64) {
        self.mark_dirty(word);
        // Released meanwhile: then nobody else would clear the mark. Acquire,
        // as in `mark_clean`.
        if self.mem.load(self.level_at(0, word), Order::Acquire) == 0 {
            self.mark_clean(word);
        }
    }

    /// Notes that a word has no used page; then looks at it again, since a
    /// claim may have come between.
    #[inline(never)]
    pub(super) fn mark_clean(&self, word: u64) {
        // AcqRel, the mirror image of `mark_full`: either a claim's mark comes
        // later than this, or the look below sees that claim.
        self.mem
            .fetch_and(self.dirty_at(word), !(1 << (word % 64)), Order::AcqRel);
        if self.mem.load(self.level_at(0, word), Order::Acquire) != 0 {
            self.mark_dirty(word);
        }
    }

    /// The first word from `word` on that may have a used page, or the number
    /// of words; looks at 64 words at a time.
    #[inline(never)]
    pub(super) fn next_dirty_word(&self, word: u64) -> u64 {
        let words = self.geo.level_words[0];
        let mut word = word;
        while word < words {
            let value = self.mem.load(self.dirty_at(word), Order::Relaxed);
            let dirty = value & (u64::MAX << (word % 64));
            if dirty != 0 {
                return (word / 64 * 64 + u64::from(dirty.trailing_zeros())).min(words);
            }
            word = (word / 64 + 1) * 64;
        }
        words
    }
}

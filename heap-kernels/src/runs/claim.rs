//! Taking and giving back the bits of a run.

use crate::layout::Pool;
use crate::mem::{Fault, Mem, Order};

/// The bits of pages `start .. start + pages` in `word`.
const fn mask(start: u64, pages: u64, word: u64) -> u64 {
    let low = start.saturating_sub(word * 64);
    let high = start + pages - word * 64;
    let below = if high >= 64 {
        u64::MAX
    } else {
        (1 << high) - 1
    };
    below & (u64::MAX << low)
}

impl<M: Mem> Pool<M> {
    /// Claims exactly these pages, or none of them.
    ///
    /// Ascending: of two claims that meet, the one that holds the page goes
    /// on; it can in turn only lose at a higher page, so some claim completes.
    ///
    /// # Errors
    ///
    /// The page at which another claim was met; everything is undone.
    #[inline(never)]
    pub(crate) fn claim_run(&self, start: u64, pages: u64) -> Result<(), u64> {
        for word in start / 64..(start + pages).div_ceil(64) {
            let bits = mask(start, pages, word);
            // Acquire: see the page words and slot bits as the last owner of
            // these pages cleared them.
            let old = self
                .mem
                .fetch_or(self.level_at(0, word), bits, Order::Acquire);
            if old & bits != 0 && M::FAULT as u8 != Fault::BlindRun as u8 {
                self.undo(start, word, bits & !old);
                if M::FAULT as u8 != Fault::NoDirtyHelp as u8 {
                    self.help_mark_dirty(word);
                }
                return Err(word * 64 + u64::from((old & bits).trailing_zeros()));
            }
            if old == 0 {
                self.mark_dirty(word);
            }
            if old | bits == u64::MAX {
                self.mark_full(word);
            }
        }
        Ok(())
    }

    /// Takes back a claim that stopped at `word`, where it set `bits`. Others
    /// may have looked in vain meanwhile, so it counts as a change.
    #[inline(never)]
    fn undo(&self, start: u64, word: u64, bits: u64) {
        if bits != 0 {
            self.open_word(word, bits);
        }
        let reached = start.max(word * 64);
        if reached > start {
            self.open_words(start, reached - start);
        }
        self.note_change();
    }

    /// Clears the bits of a run, and says that pages were released.
    pub(super) fn open_pages(&self, start: u64, pages: u64) {
        self.open_words(start, pages);
        self.note_change();
    }

    #[inline(never)]
    fn open_words(&self, start: u64, pages: u64) {
        for word in start / 64..(start + pages).div_ceil(64) {
            self.open_word(word, mask(start, pages, word));
        }
    }

    #[inline(never)]
    fn open_word(&self, word: u64, bits: u64) {
        // Release: the next owner sees page words and slot bits cleared, and
        // what this owner's users wrote comes before what its own write.
        let old = self
            .mem
            .fetch_and(self.level_at(0, word), !bits, Order::Release);
        if old == u64::MAX {
            self.mark_open(word);
        }
        if old & !bits == 0 {
            self.mark_clean(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn masks_cover_exactly_the_run() {
        for start in 0..200u64 {
            for pages in 1..200 {
                for word in start / 64..(start + pages).div_ceil(64) {
                    let bits = mask(start, pages, word);
                    for bit in 0..64 {
                        let page = word * 64 + bit;
                        let inside = (start..start + pages).contains(&page);
                        assert_eq!(bits >> bit & 1 == 1, inside);
                    }
                }
            }
        }
    }
}

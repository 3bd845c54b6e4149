//! Contents by which a byte can be told from every other one: each depends on
//! the buffer, the event that owns it, and where in that event's part it is.
//!
//! A part is a run of 8-byte words `base + i * STEP`, little-endian, cut off
//! at its last byte; `base` mixes buffer and event. So a word of another
//! buffer, of another event or from another place differs, and fill and
//! verify are one addition a word, which compilers turn into vectors.

/// Odd, so that words at different places differ; the golden ratio's bits, so
/// that they differ in many.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Words that are compared before the result is looked at.
const BLOCK: usize = 512;

/// A byte, or the word it is in, that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The first wrong byte, counted from the start of the part.
    pub(super) byte: u64,
    /// The word there as it should be; a cut-off one has zeros on top.
    pub(super) expected: u64,
    /// The word there as it is.
    pub(super) found: u64,
}

/// The first word of the part that `event` owns in `buffer`.
pub(super) const fn base(buffer: u64, event: u64) -> u64 {
    mix(mix(buffer.wrapping_add(1)) ^ event)
}

/// A bijection that spreads every bit (the finalizer of SplitMix64, Steele,
/// Lea and Flood 2014).
pub(super) const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(STEP);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The word that follows the one of value `base` after `words` more.
pub(super) const fn advance(base: u64, words: u64) -> u64 {
    base.wrapping_add(words.wrapping_mul(STEP))
}

const fn word(base: u64, index: usize) -> u64 {
    advance(base, index as u64)
}

/// Writes the pattern that begins with `base`.
pub(super) fn fill(part: &mut [u8], base: u64) {
    let (words, tail) = part.as_chunks_mut::<8>();
    for (index, bytes) in words.iter_mut().enumerate() {
        *bytes = word(base, index).to_le_bytes();
    }
    let last = word(base, words.len()).to_le_bytes();
    tail.copy_from_slice(&last[..tail.len()]);
}

/// Compares with the pattern that begins with `base`; the first difference.
pub(super) fn verify(part: &[u8], base: u64) -> Option<Difference> {
    let (words, tail) = part.as_chunks::<8>();
    for (block, words) in words.chunks(BLOCK).enumerate() {
        let start = word(base, block * BLOCK);
        if differs(words, start) {
            return first_difference(words, start, block * BLOCK * 8);
        }
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    let cut = u64::MAX
        .checked_shr(64 - 8 * tail.len() as u32)
        .unwrap_or(0);
    let (found, expected) = (u64::from_le_bytes(last), word(base, words.len()) & cut);
    difference(found, expected, words.len() * 8)
}

fn differs(words: &[[u8; 8]], start: u64) -> bool {
    let mut wrong = 0;
    for (index, &bytes) in words.iter().enumerate() {
        wrong |= u64::from_le_bytes(bytes) ^ word(start, index);
    }
    wrong != 0
}

#[cold]
fn first_difference(words: &[[u8; 8]], start: u64, at: usize) -> Option<Difference> {
    words.iter().enumerate().find_map(|(index, &bytes)| {
        difference(
            u64::from_le_bytes(bytes),
            word(start, index),
            at + index * 8,
        )
    })
}

fn difference(found: u64, expected: u64, at: usize) -> Option<Difference> {
    let wrong = found ^ expected;
    (wrong != 0).then(|| Difference {
        byte: at as u64 + u64::from(wrong.trailing_zeros() / 8),
        expected,
        found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_filled_verifies_at_every_length() {
        for len in (0..40).chain([4095, 4096, 4097, 70_001]) {
            let mut part = vec![0; len];
            fill(&mut part, base(3, 5));
            assert_eq!(verify(&part, base(3, 5)), None, "length {len}");
        }
    }

    #[test]
    fn every_single_wrong_byte_is_found_where_it_is() {
        let mut part = vec![0; 4096 * 2 + 3];
        fill(&mut part, base(0, 0));
        for at in [0, 1, 7, 8, 4095, 4096, 8191, 8192, 8194] {
            part[at] ^= 0x10;
            let difference = verify(&part, base(0, 0)).unwrap();
            assert_eq!(difference.byte, at as u64);
            assert_eq!(
                difference.expected ^ difference.found,
                0x10 << (8 * (at % 8))
            );
            part[at] ^= 0x10;
        }
    }

    #[test]
    fn neighbours_events_and_buffers_differ() {
        let mut part = vec![0; 64];
        fill(&mut part, base(1, 2));
        assert_eq!(verify(&part[8..], base(1, 2)).unwrap().byte, 0);
        assert!(verify(&part, base(1, 3)).is_some());
        assert!(verify(&part, base(2, 2)).is_some());
        assert!(verify(&[0; 64], base(1, 2)).is_some());
    }
}

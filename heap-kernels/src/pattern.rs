//! What tests write into blocks, the same on host and device: a word that
//! depends on seed, block and index, and a generator of random numbers.

/// Mixes the bits of a word (the finaliser of SplitMix64, Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", 2014).
#[must_use]
#[inline]
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Word `index` of block `block` under `seed`.
#[must_use]
#[inline]
pub const fn word(seed: u64, block: u64, index: u64) -> u64 {
    mix(seed ^ mix(block.wrapping_mul(GOLDEN)).wrapping_add(index.wrapping_mul(GOLDEN)))
}

/// Writes the first `bytes` (1 to 8) bytes of `value`.
///
/// # Safety
///
/// `at` is aligned to 8 and has so many bytes behind it, the caller's own.
#[inline]
pub unsafe fn write(at: *mut u8, value: u64, bytes: u64) {
    // SAFETY: as the caller promises.
    unsafe {
        if bytes == 8 {
            return at.cast::<u64>().write(value);
        }
        for byte in 0..bytes as usize {
            at.add(byte).write((value >> (8 * byte)) as u8);
        }
    }
}

/// Whether the first `bytes` (1 to 8) bytes are those of `value`.
///
/// # Safety
///
/// As [`write`], initialised.
#[must_use]
#[inline]
pub unsafe fn is(at: *const u8, value: u64, bytes: u64) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        if bytes == 8 {
            return at.cast::<u64>().read() == value;
        }
        (0..bytes as usize).all(|byte| at.add(byte).read() == (value >> (8 * byte)) as u8)
    }
}

/// A stream of random numbers (SplitMix64).
#[derive(Clone, Copy, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of thread `thread` under `seed`.
    #[must_use]
    #[inline]
    pub const fn new(seed: u64, thread: u64) -> Self {
        Self {
            state: mix(seed ^ mix(thread.wrapping_add(GOLDEN))),
        }
    }

    /// The next number.
    #[inline]
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number below `limit`, which is 1 to 2^32; off uniform by less than
    /// one part in 2^32.
    #[inline]
    pub const fn below(&mut self, limit: u64) -> u64 {
        ((self.next() >> 32) * limit) >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found_and_nothing_behind_it_is_touched() {
        for bytes in 1..=8u64 {
            let mut words = [u64::MAX; 2];
            let at = words.as_mut_ptr().cast::<u8>();
            // SAFETY: 16 bytes, aligned to 8.
            unsafe {
                write(at, 0x0807_0605_0403_0201, bytes);
                assert!(is(at, 0x0807_0605_0403_0201, bytes));
                for byte in 0..16 {
                    let expected = if byte < bytes { byte as u8 + 1 } else { 0xff };
                    assert_eq!(at.add(byte as usize).read(), expected);
                }
                at.write(9);
                assert!(!is(at, 0x0807_0605_0403_0201, bytes));
            }
        }
    }

    #[test]
    fn numbers_stay_below_their_limit_and_differ_between_threads() {
        let (mut one, mut two) = (Random::new(1, 0), Random::new(1, 1));
        let mut same = 0;
        for limit in 1..2000 {
            let (a, b) = (one.below(limit), two.below(limit));
            assert!(a < limit && b < limit);
            same += u64::from(a == b && limit > 100);
        }
        assert!(same < 50, "{same}");
    }

    #[test]
    fn words_differ_by_seed_block_and_index() {
        let words = [word(1, 2, 3), word(2, 2, 3), word(1, 3, 3), word(1, 2, 4)];
        for (i, a) in words.iter().enumerate() {
            assert!(words[i + 1..].iter().all(|b| a != b));
        }
    }
}

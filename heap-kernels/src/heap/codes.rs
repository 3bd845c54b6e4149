//! Results as numbers, as kernels report them to a host: 0 is success.

use super::{AllocError, FreeError, ReallocError, Stats};

/// Set in the code of a [`ReallocError::Free`].
const NO_BLOCK: u32 = 0x100;

impl AllocError {
    const ALL: [Self; 4] = [
        Self::OutOfMemory,
        Self::TooLarge,
        Self::BadAlignment,
        Self::Contended,
    ];

    /// The error as a number, not 0.
    #[must_use]
    #[inline]
    pub const fn code(self) -> u32 {
        self as u32 + 1
    }

    /// The error with this [`code`](Self::code); `None` for any other number.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            1..=4 => Some(Self::ALL[code as usize - 1]),
            _ => None,
        }
    }
}

impl FreeError {
    const ALL: [Self; 4] = [
        Self::DoubleFree,
        Self::OutsidePool,
        Self::InsideBlock,
        Self::NeverAllocated,
    ];

    /// The error as a number, not 0.
    #[must_use]
    #[inline]
    pub const fn code(self) -> u32 {
        self as u32 + 1
    }

    /// The error with this [`code`](Self::code); `None` for any other number.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            1..=4 => Some(Self::ALL[code as usize - 1]),
            _ => None,
        }
    }
}

impl ReallocError {
    /// The error as a number, not 0.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Alloc(error) => error.code(),
            Self::Free(error) => NO_BLOCK | error.code(),
        }
    }

    /// The error with this [`code`](Self::code); `None` for any other number.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        if code & NO_BLOCK == 0 {
            AllocError::from_code(code).map(Self::Alloc)
        } else {
            FreeError::from_code(code & !NO_BLOCK).map(Self::Free)
        }
    }
}

impl Stats {
    /// Number of words of [`to_words`](Self::to_words).
    pub const WORDS: usize = 13;

    /// All fields in order, as a kernel writes them.
    #[must_use]
    pub const fn to_words(&self) -> [u64; Self::WORDS] {
        [
            self.pool_bytes,
            self.metadata_bytes,
            self.page_bytes,
            self.live_blocks,
            self.live_bytes,
            self.used_bytes,
            self.high_water_bytes,
            self.free_bytes,
            self.largest_free_run,
            self.allocations,
            self.frees,
            self.failures,
            self.bad_frees,
        ]
    }

    /// The statistics that [`to_words`](Self::to_words) wrote.
    #[must_use]
    pub const fn from_words(words: &[u64; Self::WORDS]) -> Self {
        Self {
            pool_bytes: words[0],
            metadata_bytes: words[1],
            page_bytes: words[2],
            live_blocks: words[3],
            live_bytes: words[4],
            used_bytes: words[5],
            high_water_bytes: words[6],
            free_bytes: words[7],
            largest_free_run: words[8],
            allocations: words[9],
            frees: words[10],
            failures: words[11],
            bad_frees: words[12],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back_as_the_errors_they_stand_for() {
        for (index, error) in AllocError::ALL.into_iter().enumerate() {
            assert_eq!(error as usize, index);
            assert_eq!(AllocError::from_code(error.code()), Some(error));
            let wrapped = ReallocError::Alloc(error);
            assert_eq!(ReallocError::from_code(wrapped.code()), Some(wrapped));
        }
        for (index, error) in FreeError::ALL.into_iter().enumerate() {
            assert_eq!(error as usize, index);
            assert_eq!(FreeError::from_code(error.code()), Some(error));
            let wrapped = ReallocError::Free(error);
            assert_eq!(ReallocError::from_code(wrapped.code()), Some(wrapped));
        }
        for code in [0, 5, 6, NO_BLOCK, NO_BLOCK | 5, u32::MAX] {
            assert_eq!(AllocError::from_code(code), None);
            assert_eq!(FreeError::from_code(code), None);
            assert_eq!(ReallocError::from_code(code), None);
        }
    }

    #[test]
    fn statistics_survive_as_words() {
        let mut words = [0; Stats::WORDS];
        for (word, value) in words.iter_mut().zip(7..) {
            *word = value;
        }
        assert_eq!(Stats::from_words(&words).to_words(), words);
    }
}

//! Debug modes: poison and guards.

use crate::runtime::configuration::GUARD_BYTES;
use crate::runtime::record::{FindingKind, Handle, NOBODY, RawFinding};
use crate::sequence::{AlgorithmId, BufferId};

use super::device::Device;

/// What memory holds that nobody has written, by how that came about: bytes
/// that are no small integers, no small floats and no valid pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Poison {
    /// Allocated, and not known to have been used before.
    Allocated,
    /// Allocated where a buffer had been freed.
    Reused,
    /// Freed.
    Freed,
    /// Behind the requested bytes.
    Guard,
}

impl Poison {
    const ALL: [Self; 4] = [Self::Allocated, Self::Reused, Self::Freed, Self::Guard];

    /// Its byte.
    pub(in crate::runtime) const fn byte(self) -> u8 {
        match self {
            Self::Allocated => 0xa5,
            Self::Reused => 0xb7,
            Self::Freed => 0xdb,
            Self::Guard => 0xfb,
        }
    }

    const fn word(self) -> u64 {
        u64::from_ne_bytes([self.byte(); 8])
    }

    /// The poison that a word consists of, where it does.
    pub(in crate::runtime) fn of_word(word: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|poison| poison.word() == word)
    }

    /// The poison that fills all of `bytes`. Fewer than eight bytes prove
    /// nothing.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let (word, rest) = bytes.split_first_chunk::<8>()?;
        let poison = Self::of_word(u64::from_ne_bytes(*word))?;
        rest.iter()
            .all(|&byte| byte == poison.byte())
            .then_some(poison)
    }
}

/// How memory came to hold it, after "memory that".
impl std::fmt::Display for Poison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Allocated => "was allocated and never written",
            Self::Reused => "was allocated again and not written since",
            Self::Freed => "was freed",
            Self::Guard => "is behind a buffer's end",
        })
    }
}

impl Device<'_> {
    pub(super) fn guard_bytes(&self) -> u64 {
        if self.config.options.debug.guards {
            GUARD_BYTES
        } else {
            0
        }
    }

    /// Static buffers begin.
    pub(super) fn open(&self, buffers: &[BufferId]) {
        let live = buffers.iter().filter_map(|&id| self.live(id));
        live.for_each(|handle| self.begin(handle));
    }

    /// Static buffers end.
    pub(super) fn close(&self, algorithm: AlgorithmId, buffers: &[BufferId]) {
        for &buffer in buffers {
            if let Some(handle) = self.live(buffer) {
                self.end(algorithm, buffer, handle);
            }
        }
    }

    /// Looks at the guards of all buffers that are live.
    pub(super) fn inspect(&self, algorithm: AlgorithmId, buffers: &[BufferId]) {
        for &buffer in buffers {
            if let Some(handle) = self.live(buffer) {
                self.check_guard(algorithm, buffer, handle);
            }
        }
    }

    /// A buffer's live range begins.
    pub(super) fn begin(&self, handle: Handle) {
        let debug = self.config.options.debug;
        if debug.poison {
            // SAFETY: the buffer has just begun, so nobody uses its bytes.
            let bytes = unsafe { self.contents_mut(handle) };
            let reused = bytes.first() == Some(&Poison::Freed.byte());
            let poison = if reused {
                Poison::Reused
            } else {
                Poison::Allocated
            };
            bytes.fill(poison.byte());
        }
        if debug.guards {
            // SAFETY: a buffer's memory includes its guard, which nobody uses.
            let guard = unsafe { self.bytes_mut(handle.address + handle.bytes, GUARD_BYTES) };
            guard.fill(Poison::Guard.byte());
        }
    }

    /// A buffer's live range ends.
    pub(super) fn end(&self, algorithm: AlgorithmId, buffer: BufferId, handle: Handle) {
        self.check_guard(algorithm, buffer, handle);
        if self.config.options.debug.poison {
            // SAFETY: the buffer ends here, so nobody uses its bytes any more.
            unsafe { self.contents_mut(handle) }.fill(Poison::Freed.byte());
        }
    }

    fn check_guard(&self, algorithm: AlgorithmId, buffer: BufferId, handle: Handle) {
        if !self.config.options.debug.guards {
            return;
        }
        // SAFETY: a live buffer's guard, which no kernel writes rightfully, and
        // none runs now.
        let guard = unsafe { self.bytes_mut(handle.address + handle.bytes, GUARD_BYTES) };
        let intact = Poison::Guard.byte();
        let Some(at) = guard.iter().position(|&byte| byte != intact) else {
            return;
        };
        self.control.find(RawFinding {
            kind: FindingKind::Guard,
            algorithm: algorithm.index() as u64,
            buffer: buffer.index() as u64,
            event: NOBODY,
            index: at as u64,
            expected: intact.into(),
            found: guard[at].into(),
        });
        // Set again, so that each write is found once.
        guard.fill(intact);
    }

    /// A kernel is about to read a buffer: notes where it holds nothing but
    /// poison.
    pub(super) fn check_written(&self, algorithm: AlgorithmId, buffer: BufferId, bytes: &[u8]) {
        if !self.config.options.debug.poison {
            return;
        }
        if let Some(poison) = Poison::of(bytes) {
            self.control.find(RawFinding {
                kind: FindingKind::Unwritten,
                algorithm: algorithm.index() as u64,
                buffer: buffer.index() as u64,
                event: NOBODY,
                index: 0,
                expected: 0,
                found: poison.word(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_differ_and_are_recognised() {
        for poison in Poison::ALL {
            assert_eq!(Poison::of(&[poison.byte(); 33]), Some(poison));
            assert_eq!(Poison::of_word(poison.word()), Some(poison));
        }
    }

    #[test]
    fn one_written_byte_is_enough() {
        let mut bytes = [Poison::Reused.byte(); 33];
        bytes[32] = 0;
        assert_eq!(Poison::of(&bytes), None);
        assert_eq!(Poison::of(&[Poison::Allocated.byte(); 7]), None);
    }
}

//! What is to be planned: buffers with lifetimes, sizes and alignments.

use std::collections::HashMap;

use super::fingerprint::Fingerprint;

/// A buffer of the static arena.
///
/// It is alive during the half-open range of steps `lower..upper`, takes
/// `size` bytes and starts at a multiple of `alignment` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Unique within an instance, not empty, without control characters.
    pub name: String,
    /// The first step at which the buffer is alive.
    pub lower: u64,
    /// The first step at which it is no longer alive; `lower` or later.
    pub upper: u64,
    /// Bytes. Zero is legal: such a buffer takes no space.
    pub size: u64,
    /// Bytes; a power of two, 1 or more.
    pub alignment: u64,
}

impl Buffer {
    /// A buffer of `size` bytes, alive during `lower..upper`, with alignment 1.
    pub fn new(name: impl Into<String>, lower: u64, upper: u64, size: u64) -> Self {
        Buffer {
            name: name.into(),
            lower,
            upper,
            size,
            alignment: 1,
        }
    }

    /// The same buffer with another alignment in bytes.
    #[must_use]
    pub fn aligned_to(self, alignment: u64) -> Self {
        Buffer { alignment, ..self }
    }

    /// Whether the buffer takes space at any step: it has a size and is alive
    /// at one step at least.
    pub fn takes_space(&self) -> bool {
        self.size > 0 && self.lower < self.upper
    }

    /// Whether the buffer is alive at `step`.
    pub fn is_live_at(&self, step: u64) -> bool {
        self.lower <= step && step < self.upper
    }
}

/// Buffers that passed every check: unique names of visible characters, alignments that are powers
/// of two, lifetimes in order, and a sum of sizes that fits in 64 bits.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Instance {
    buffers: Vec<Buffer>,
}

/// Why buffers do not make an instance. Indices count from 0, in the order
/// given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstanceError {
    /// A name is empty.
    #[error("buffer number {index} has an empty name; every buffer needs a name of its own")]
    EmptyName {
        /// The buffer.
        index: usize,
    },
    /// A name has a control character.
    #[error("buffer {name:?} has a control character in its name; use visible characters only")]
    ControlCharacter {
        /// The buffer.
        index: usize,
        /// Its name.
        name: String,
    },
    /// Two buffers have one name.
    #[error(
        "buffer '{name}' is declared twice (numbers {first} and {index}); names must be unique"
    )]
    DuplicateName {
        /// The name.
        name: String,
        /// The first buffer with this name.
        first: usize,
        /// The second one.
        index: usize,
    },
    /// A lifetime ends before it starts.
    #[error(
        "buffer '{name}' ends before it starts: lower is {lower}, upper is {upper}; \
         a lifetime is the half-open range lower..upper, so upper must be {lower} or more"
    )]
    ReversedLifetime {
        /// The buffer.
        index: usize,
        /// Its name.
        name: String,
        /// Its first step.
        lower: u64,
        /// Its end.
        upper: u64,
    },
    /// An alignment is zero or no power of two.
    #[error("buffer '{name}' has alignment {alignment}; an alignment is a power of two, 1 or more")]
    BadAlignment {
        /// The buffer.
        index: usize,
        /// Its name.
        name: String,
        /// Its alignment.
        alignment: u64,
    },
    /// The sizes sum to 2^64 bytes or more.
    #[error(
        "with buffer '{name}' of {size} bytes the sum of all sizes passes 2^64 - 1 bytes; \
         the sizes of an instance must sum to less than 2^64"
    )]
    SizeOverflow {
        /// The buffer at which the sum overflows.
        index: usize,
        /// Its name.
        name: String,
        /// Its size.
        size: u64,
    },
}

impl InstanceError {
    /// The buffer at which the fault was found; of a duplicate, the second.
    pub fn index(&self) -> usize {
        match *self {
            InstanceError::EmptyName { index }
            | InstanceError::ControlCharacter { index, .. }
            | InstanceError::DuplicateName { index, .. }
            | InstanceError::ReversedLifetime { index, .. }
            | InstanceError::BadAlignment { index, .. }
            | InstanceError::SizeOverflow { index, .. } => index,
        }
    }
}

impl Instance {
    /// Checks `buffers`, in O(total length of the names).
    ///
    /// # Errors
    ///
    /// The first fault in the order of the buffers, see [`InstanceError`].
    pub fn new(buffers: Vec<Buffer>) -> Result<Instance, InstanceError> {
        let mut names = HashMap::with_capacity(buffers.len());
        let mut sum = 0u64;
        for (index, buffer) in buffers.iter().enumerate() {
            check_alone(index, buffer)?;
            if let Some(first) = names.insert(buffer.name.as_str(), index) {
                let name = buffer.name.clone();
                return Err(InstanceError::DuplicateName { name, first, index });
            }
            sum = sum
                .checked_add(buffer.size)
                .ok_or_else(|| InstanceError::SizeOverflow {
                    index,
                    name: buffer.name.clone(),
                    size: buffer.size,
                })?;
        }
        Ok(Instance { buffers })
    }

    /// The buffers, in the order given. Offsets of a plan follow this order.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// How many buffers there are.
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Whether there are no buffers.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// The sum of all sizes in bytes.
    pub fn total_size(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.size).sum()
    }

    /// A stable hash of names, lifetimes, sizes and alignments.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.buffers)
    }
}

/// The checks that need no other buffer.
fn check_alone(index: usize, buffer: &Buffer) -> Result<(), InstanceError> {
    let name = || buffer.name.clone();
    if buffer.name.is_empty() {
        return Err(InstanceError::EmptyName { index });
    }
    if buffer.name.chars().any(char::is_control) {
        return Err(InstanceError::ControlCharacter {
            index,
            name: name(),
        });
    }
    if buffer.lower > buffer.upper {
        let (lower, upper) = (buffer.lower, buffer.upper);
        return Err(InstanceError::ReversedLifetime {
            index,
            name: name(),
            lower,
            upper,
        });
    }
    if !buffer.alignment.is_power_of_two() {
        let alignment = buffer.alignment;
        return Err(InstanceError::BadAlignment {
            index,
            name: name(),
            alignment,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(buffers: Vec<Buffer>) -> InstanceError {
        Instance::new(buffers).expect_err("must be refused")
    }

    #[test]
    fn zero_sizes_zero_lifetimes_and_nothing_at_all_are_legal() {
        assert!(Instance::new(vec![]).is_ok());
        assert!(Instance::new(vec![Buffer::new("a", 3, 3, 9), Buffer::new("b", 0, 9, 0)]).is_ok());
        let edge = Buffer::new("a", u64::MAX, u64::MAX, u64::MAX).aligned_to(1 << 63);
        assert_eq!(Instance::new(vec![edge]).unwrap().total_size(), u64::MAX);
    }

    #[test]
    fn each_fault_is_named() {
        let fine = Buffer::new("a", 0, 1, 1);
        let duplicate = error(vec![fine.clone(), Buffer::new("b", 0, 1, 1), fine.clone()]);
        let InstanceError::DuplicateName {
            first: 0, index: 2, ..
        } = &duplicate
        else {
            panic!("{duplicate}")
        };
        let empty = error(vec![Buffer::new("", 0, 1, 1)]);
        assert_eq!(empty, InstanceError::EmptyName { index: 0 });
        for name in ["a\0", "\u{1b}[2J", "two\nlines", "\u{85}"] {
            let control = error(vec![fine.clone(), Buffer::new(name, 0, 1, 1)]);
            assert!(control.index() == 1, "{control}");
            assert!(!control.to_string().contains(char::is_control), "{control}");
        }
        let reversed = error(vec![fine.clone(), Buffer::new("r", 4, 3, 1)]);
        assert!(reversed.to_string().contains("'r'") && reversed.index() == 1);
        for alignment in [0, 3, 12, u64::MAX] {
            let bad = error(vec![fine.clone().aligned_to(alignment)]);
            assert!(matches!(bad, InstanceError::BadAlignment { .. }), "{bad}");
        }
        let sum = error(vec![fine, Buffer::new("big", 0, 1, u64::MAX)]);
        assert!(
            matches!(sum, InstanceError::SizeOverflow { index: 1, .. }),
            "{sum}"
        );
    }
}

//! What can be wrong with buffers.

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
    /// A gap is not within the life, or out of order, or its window not within the
    /// buffer.
    #[error("buffer '{name}': the gap {gap} {reason}")]
    BadGap {
        /// The buffer.
        index: usize,
        /// Its name.
        name: String,
        /// The gap, as it is written.
        gap: Box<str>,
        /// What is wrong, and what would be right.
        reason: Box<str>,
    },
    /// A fixed offset is not aligned, or the buffer would end past 2^64 - 1.
    #[error("buffer '{name}' is fixed at offset {offset}, {reason}")]
    BadFixedOffset {
        /// The buffer.
        index: usize,
        /// Its name.
        name: String,
        /// The offset.
        offset: u64,
        /// What is wrong.
        reason: Box<str>,
    },
    /// Two buffers are fixed to the same bytes at one step.
    #[error(
        "buffers '{other}' and '{name}' are fixed to bytes that overlap while both are alive, at \
         step {step}; move one of them"
    )]
    FixedOverlap {
        /// The later buffer.
        index: usize,
        /// Its name.
        name: String,
        /// The other one's name.
        other: String,
        /// The first such step.
        step: u64,
    },
    /// A buffer names another one that is not there.
    #[error("buffer '{name}': {relation} names '{other}', which is no buffer here")]
    UnknownBuffer {
        /// The buffer.
        index: usize,
        /// Its name.
        name: String,
        /// `alias_of` or `in_place_of`.
        relation: &'static str,
        /// The name that is not there.
        other: String,
    },
    /// An alias that cannot be.
    #[error("buffer '{name}' is an alias of '{of}', {reason}")]
    BadAlias {
        /// The buffer.
        index: usize,
        /// Its name.
        name: String,
        /// The other buffer.
        of: String,
        /// Why it cannot be, and what would be right.
        reason: Box<str>,
    },
    /// A pair in place that cannot be.
    #[error("buffer '{name}' is in place of '{of}', {reason}")]
    BadInPlace {
        /// The buffer.
        index: usize,
        /// Its name.
        name: String,
        /// The other buffer.
        of: String,
        /// Why it cannot be, and what would be right.
        reason: Box<str>,
    },
    /// A buffer may lie in an arena that is not there, or in none.
    #[error("buffer '{name}': {reason}")]
    BadArena {
        /// The buffer.
        index: usize,
        /// Its name.
        name: String,
        /// What is wrong, and what would be right.
        reason: Box<str>,
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
            | InstanceError::SizeOverflow { index, .. }
            | InstanceError::BadGap { index, .. }
            | InstanceError::BadFixedOffset { index, .. }
            | InstanceError::FixedOverlap { index, .. }
            | InstanceError::UnknownBuffer { index, .. }
            | InstanceError::BadAlias { index, .. }
            | InstanceError::BadInPlace { index, .. }
            | InstanceError::BadArena { index, .. } => index,
        }
    }
}

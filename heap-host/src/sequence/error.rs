//! What can be wrong with a sequence, in one clear sentence each.

use std::fmt;

use super::count::CountOverflow;
use super::model::{Kind, MAX_ALIGNMENT, Scope};
use super::suggest::hint;

/// Why a sequence was refused: where, and what would be right.
///
/// Displays as `FILE:LINE: SENTENCE` for a file, and as
/// `sequence "NAME": SENTENCE` for one made
/// in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceError {
    pub(super) origin: Origin,
    pub(super) line: Option<u64>,
    pub(super) first_line: Option<u64>,
    pub(super) problem: Box<Problem>,
}

/// What a sequence was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    File(String),
    Program(String),
}

impl SequenceError {
    /// An error of a sequence that is no file.
    pub(super) fn in_program(name: &str, problem: Box<Problem>) -> Self {
        let origin = Origin::Program(name.to_owned());
        Self {
            origin,
            line: None,
            first_line: None,
            problem,
        }
    }

    /// The name of the file, if it was one.
    pub fn file(&self) -> Option<&str> {
        match &self.origin {
            Origin::File(name) => Some(name),
            Origin::Program(_) => None,
        }
    }

    /// The line in the file, from 1, where there is one.
    pub fn line(&self) -> Option<u64> {
        self.line
    }

    /// What is wrong there.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for SequenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.origin, self.line) {
            (Origin::File(file), Some(line)) => write!(f, "{file}:{line}: ")?,
            (Origin::File(file), None) => write!(f, "{file}: ")?,
            (Origin::Program(name), _) => write!(f, "sequence {name:?}: ")?,
        }
        write!(f, "{}", self.problem)?;
        match self.first_line {
            Some(line) => write!(f, " (first on line {line})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SequenceError {}

/// What is wrong with a sequence. Names are those of the parts concerned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "the sentence above each variant says what its fields are"
)]
pub enum Problem {
    #[error("the file cannot be read: {message}")]
    Unreadable { message: String },
    #[error("a sequence file must be UTF-8 text, and this line is not")]
    NotUtf8,
    #[error("this is no valid JSON: {message}")]
    Syntax { message: String },
    #[error("{owner} has {found} where {expected} must be")]
    WrongType {
        owner: String,
        expected: &'static str,
        found: &'static str,
    },
    #[error("{key} of {owner} is {found}; it must be {expected}")]
    WrongValue {
        owner: String,
        key: String,
        found: String,
        expected: String,
    },
    #[error("{owner} has the key {key:?} twice; keep one of them")]
    DuplicateKey { owner: String, key: String },
    #[error(
        "{owner} has the unknown key {key:?}{}; the keys here are {known}",
        hint(.nearest)
    )]
    UnknownKey {
        owner: String,
        key: String,
        nearest: Option<String>,
        known: String,
    },
    #[error("{owner} lacks the key {key:?}; add it: {expected}")]
    MissingKey {
        owner: String,
        key: &'static str,
        expected: &'static str,
    },
    #[error("{owner} has both {first:?} and {second:?}; at most one of them may be there")]
    ExclusiveKeys {
        owner: String,
        first: &'static str,
        second: &'static str,
    },
    #[error("the format is {found:?}; a sequence file has \"format\": {expected:?}")]
    UnknownFormat {
        found: String,
        expected: &'static str,
    },
    #[error("format version {found} is unknown; the known versions are: {known}")]
    UnknownVersion { found: u64, known: &'static str },

    #[error(
        "the {what} name {name:?} is no good: a name has at least one character, and no control characters"
    )]
    BadName { what: &'static str, name: String },
    #[error(
        "the {what} name {name:?} is taken: it stands for the constant part of a count; choose another"
    )]
    ReservedName { what: &'static str, name: String },
    #[error("there are two {what}s named {name:?}; give each its own name")]
    DuplicateName { what: &'static str, name: String },
    #[error(
        "{name:?} names a parameter and a total; give each its own name, for a count refers to both"
    )]
    AmbiguousName { name: String },
    #[error("{owner} refers to the {what} {name:?}, but there is none of this name{}", hint(.nearest))]
    UnknownName {
        owner: String,
        what: &'static str,
        name: String,
        nearest: Option<String>,
    },
    #[error(
        "{owner} refers to an id of a {what} that is not of this sequence; use the ids that this builder returned"
    )]
    ForeignId { owner: String, what: &'static str },
    #[error("there is no parameter \"events\"; declare it with the largest batch as its maximum")]
    NoEvents,

    #[error(
        "buffer {buffer:?} of algorithm {writer:?} is declared after a buffer of the later algorithm {later:?}; declare buffers in the order of their algorithms"
    )]
    OutOfOrder {
        buffer: String,
        writer: String,
        later: String,
    },
    #[error(
        "algorithm {reader:?} reads buffer {buffer:?} before algorithm {writer:?} writes it; the writer must come before its readers"
    )]
    ReadBeforeWrite {
        reader: String,
        buffer: String,
        writer: String,
    },
    #[error(
        "algorithm {reader:?} reads buffer {buffer:?}, which it writes itself; reads are the inputs that earlier algorithms wrote"
    )]
    ReadsItsOwn { reader: String, buffer: String },
    #[error("algorithm {reader:?} reads buffer {buffer:?} twice; list it once")]
    DuplicateRead { reader: String, buffer: String },
    #[error(
        "{reader} reads buffer {buffer:?}, a temporary that lives within algorithm {writer:?} only; make it an ordinary buffer, or drop the read"
    )]
    TemporaryRead {
        reader: String,
        buffer: String,
        writer: String,
    },
    #[error(
        "buffer {buffer:?} is a temporary and has a \"live_until\"; a temporary lives within its algorithm, so drop one of the two"
    )]
    TemporaryLiveUntil { buffer: String },
    #[error(
        "buffer {view:?} keeps alive buffer {buffer:?}, a temporary of algorithm {writer:?}; only temporaries of the same algorithm may point into it"
    )]
    TemporaryKeptAlive {
        view: String,
        buffer: String,
        writer: String,
    },

    #[error(
        "buffer {buffer:?} is static, but its count uses the total {total:?}, which only the device knows; make it dynamic, or use parameters only"
    )]
    StaticUsesTotal { buffer: String, total: String },
    #[error(
        "buffer {buffer:?} is dynamic, but its count uses no total; make it static, or let the count use a total"
    )]
    DynamicWithoutTotal { buffer: String },
    #[error(
        "buffer {buffer:?} of algorithm {writer:?} needs the total {total:?}, which algorithm {computed_by:?} computes no earlier; the total must be computed by an algorithm before the writer"
    )]
    TotalTooLate {
        buffer: String,
        writer: String,
        total: String,
        computed_by: String,
    },
    #[error("the count of buffer {buffer:?} has {variable:?} twice; give its coefficients as one")]
    DuplicateVariable { buffer: String, variable: String },
    #[error(
        "the size of buffer {buffer:?} overflows for the largest batch: {overflow}; lower the count or the maximum of a parameter"
    )]
    SizeOverflow {
        buffer: String,
        overflow: CountOverflow,
    },
    #[error(
        "the {scope} {kind} buffers up to and with {buffer:?} exceed 18446744073709551615 bytes for the largest batch; lower the counts or the maximum of a parameter"
    )]
    SumOverflow {
        buffer: String,
        scope: Scope,
        kind: Kind,
    },
    #[error(
        "the total {total:?} is expected to exceed 18446744073709551615 for the largest batch; lower \"expected_per_event\" or the maximum of \"events\""
    )]
    TotalOverflow { total: String },
    #[error(
        "the alignment of buffer {buffer:?} is {alignment}; it must be a power of two from 1 to {MAX_ALIGNMENT}"
    )]
    Alignment { buffer: String, alignment: u64 },

    #[error(
        "buffer {buffer:?} is to live until algorithm {until:?}, which comes before its writer {writer:?}; name the writer or a later algorithm"
    )]
    LiveUntilBeforeWriter {
        buffer: String,
        until: String,
        writer: String,
    },
    #[error("buffer {view:?} keeps buffer {buffer:?} alive twice; list it once")]
    DuplicateKeepsAlive { view: String, buffer: String },
    #[error(
        "buffer {view:?} of algorithm {view_writer:?} keeps alive buffer {buffer:?}, which algorithm {writer:?} writes only later; a view points into what is already there"
    )]
    KeepsAliveLater {
        view: String,
        view_writer: String,
        buffer: String,
        writer: String,
    },
    #[error(
        "buffer {buffer:?} is a copy of itself; name a buffer that an earlier algorithm writes"
    )]
    CopyOfItself { buffer: String },
    #[error(
        "buffer {buffer:?} of algorithm {buffer_writer:?} is a copy of buffer {copied:?}, which algorithm {writer:?} writes no earlier; name a buffer that an earlier algorithm writes"
    )]
    CopyTooEarly {
        buffer: String,
        buffer_writer: String,
        copied: String,
        writer: String,
    },
    #[error(
        "buffer {buffer:?} is in {scope} memory, but the buffer {copied:?} that it is a copy of is not; both must have one scope"
    )]
    CopyScope {
        buffer: String,
        scope: Scope,
        copied: String,
    },
    #[error(
        "buffer {buffer:?} and the buffer {copied:?} that it is a copy of differ in size; give both the same \"element_bytes\" and \"count\""
    )]
    CopySize { buffer: String, copied: String },
}

/// A problem with its place in the sequence's parts.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) place: Place,
    /// The other place, where a second thing clashes with a first.
    pub(super) first: Option<Place>,
    pub(super) problem: Box<Problem>,
}

/// A place in a sequence's parts, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Whole,
    Parameter(usize),
    Total(usize),
    Algorithm(usize),
    Read { algorithm: usize, read: usize },
    Buffer(usize, Part),
    KeepsAlive { buffer: usize, kept: usize },
}

/// A part of a buffer's declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Count,
    Alignment,
    LiveUntil,
    Init,
}

impl Located {
    pub(super) fn new(place: Place, problem: Problem) -> Self {
        Self {
            place,
            first: None,
            problem: Box::new(problem),
        }
    }

    /// A clash with something that came first.
    pub(super) fn clash(place: Place, first: Place, problem: Problem) -> Self {
        Self {
            first: Some(first),
            ..Self::new(place, problem)
        }
    }
}

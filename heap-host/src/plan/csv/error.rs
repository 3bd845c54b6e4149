//! What can be wrong with a file.

use std::path::Path;

use super::Column;
use crate::file::FileError;

/// A fault in a CSV file, with the place to mend.
#[derive(Debug, thiserror::Error)]
#[error("{file}{}: {fault}", line_suffix(*.line))]
pub struct CsvError {
    /// The file, as the caller named it.
    pub file: String,
    /// The line on which the faulty row starts, from 1; `None` when the whole
    /// file cannot be read or written.
    pub line: Option<u64>,
    /// The fault.
    pub fault: CsvFault,
}

impl CsvError {
    /// The fault is with the whole file at `path`.
    pub(super) fn whole(path: &Path, fault: FileError) -> Self {
        CsvError {
            file: path.display().to_string(),
            line: None,
            fault: fault.into(),
        }
    }
}

fn line_suffix(line: Option<u64>) -> String {
    line.map_or(String::new(), |line| format!(":{line}"))
}

/// Why a row, or a whole file, is refused.
#[derive(Debug, thiserror::Error)]
pub enum CsvFault {
    /// The file cannot be opened, read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no row at all.
    #[error("the header is missing; the first row must name the columns, like id,lower,upper,size")]
    NoHeader,
    /// A column that must be there is not.
    #[error("the header has no column '{0}'; it must have {1}")]
    MissingColumn(Column, &'static str),
    /// A column that nobody knows.
    #[error(
        "the header has an unknown column '{0}'; \
         known are id, lower, upper, size, alignment and offset"
    )]
    UnknownColumn(String),
    /// A column is named twice.
    #[error("the header has the column '{0}' twice; each may come once")]
    RepeatedColumn(Column),
    /// A row is too short or too long.
    #[error(
        "{row} has {found} field(s); the header has {expected}, and every row must have as many"
    )]
    FieldCount {
        /// Which buffer, if its name is known.
        row: String,
        /// How many fields the row has.
        found: usize,
        /// How many columns the header has.
        expected: usize,
    },
    /// The bytes of a field are not UTF-8.
    #[error("the row is not valid UTF-8; save the file as UTF-8 text")]
    NotUtf8,
    /// The file ends inside a quoted field.
    #[error("a quoted field that starts in this row is never closed; add the missing quote")]
    OpenQuote,
    /// A number is none, or out of range.
    #[error("buffer '{buffer}': {column} is '{value}', which {reason}")]
    Number {
        /// The buffer.
        buffer: String,
        /// Where the number stands.
        column: Column,
        /// What stands there.
        value: String,
        /// What is wrong, and what would be right.
        reason: &'static str,
    },
    /// A name stands in two rows.
    #[error("buffer '{buffer}' was already declared on line {first}; ids must be unique")]
    DuplicateId {
        /// The name.
        buffer: String,
        /// The line of the first row with it.
        first: u64,
    },
    /// A row is refused by the checks of an instance.
    #[error(transparent)]
    Instance(#[from] crate::plan::InstanceError),
    /// An offset of a plan is so high that the buffer's end passes 2^64 - 1.
    #[error(
        "buffer '{buffer}' at offset {offset} with {size} bytes ends past 2^64 - 1; \
         its offset can be at most {most}"
    )]
    EndOverflow {
        /// The buffer.
        buffer: String,
        /// Its offset.
        offset: u64,
        /// Its size.
        size: u64,
        /// The highest offset for this size.
        most: u64,
    },
}

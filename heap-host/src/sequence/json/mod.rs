//! The sequence file: JSON, documented key by key in `sequences/README.md`.

mod decode;
mod fields;
mod resolve;
mod tree;
mod write;

use std::path::Path;

use self::tree::{Fault, Node, line_of};
use super::error::{Origin, Problem, SequenceError};
use super::whole::Sequence;
use crate::file;

/// What the key `format` of a sequence file must be.
pub const FORMAT: &str = "device-heap-sequence";

/// The version of the sequence file that is written, and the only one read.
pub const VERSION: u64 = 1;

impl Sequence {
    /// Reads a sequence file, of up to [`LIMIT`](file::LIMIT) bytes.
    ///
    /// # Errors
    /// If it cannot be read, or is no valid sequence file; the error names the
    /// file, the line and what would be right.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, SequenceError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        match file::read(path) {
            Ok(bytes) => Self::from_json_bytes(&file, &bytes),
            Err(error) => Err(SequenceError {
                origin: Origin::File(file),
                line: None,
                first_line: None,
                problem: Box::new(Problem::Unreadable {
                    message: error.to_string(),
                }),
            }),
        }
    }

    /// Reads the bytes of a sequence file; errors call it `file`.
    ///
    /// # Errors
    /// If they are no valid sequence file.
    pub fn from_json_bytes(file: &str, bytes: &[u8]) -> Result<Self, SequenceError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::from_json(file, text),
            Err(error) => {
                let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                let fault = Fault::new(valid.len(), Problem::NotUtf8);
                Err(located(file, &valid, fault))
            }
        }
    }

    /// Reads the text of a sequence file; errors call it `file`.
    ///
    /// Takes time linear in the text.
    ///
    /// # Errors
    /// If it is no valid sequence file.
    pub fn from_json(file: &str, text: &str) -> Result<Self, SequenceError> {
        // Some editors put a byte order mark in front; it moves no line.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Node::document(text)
            .and_then(decode::file)
            .and_then(|entries| resolve::sequence(&entries))
            .map_err(|fault| located(file, text, fault))
    }

    /// The text of a sequence file that reads as this sequence; the same text
    /// for equal sequences.
    pub fn to_json(&self) -> String {
        write::sequence(self)
    }
}

fn located(file: &str, text: &str, fault: Fault) -> SequenceError {
    SequenceError {
        origin: Origin::File(file.to_owned()),
        line: Some(line_of(text, fault.at)),
        first_line: fault.first.map(|at| line_of(text, at)),
        problem: fault.problem,
    }
}

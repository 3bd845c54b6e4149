//! Instances and plans as CSV files.
//!
//! The first row names the columns, in any order: `id`, `lower`, `upper`,
//! `size`, and where wanted `alignment` (1 where it is missing or empty) and
//! `offset`. The names and the half-open lifetimes are those of minimalloc's
//! files. A plan is the instance's rows with the column `offset`; read as an
//! instance, its offsets must be numbers but mean nothing.
//!
//! Fields may be quoted as in RFC 4180. Blank lines, CRLF and a byte order
//! mark are fine; numbers may have spaces around them, and ids are visible
//! characters. Every fault gives one
//! [`CsvError`] that names the line, counted from 1, and the buffer.

mod error;
mod read;
mod write;

pub use error::{CsvError, CsvFault};
pub use read::{parse_instance, parse_plan, read_instance, read_plan};
pub use write::{check_target, format_instance, format_plan, write_instance, write_plan};

/// The columns of a file, in the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The name of the buffer, unique in the file.
    Id,
    /// The first step at which it is alive.
    Lower,
    /// The first step at which it is no longer alive.
    Upper,
    /// Bytes.
    Size,
    /// Bytes, a power of two. Optional.
    Alignment,
    /// Bytes from the start of the arena. Only a plan needs it.
    Offset,
}

impl Column {
    const ALL: [Column; 6] = [
        Column::Id,
        Column::Lower,
        Column::Upper,
        Column::Size,
        Column::Alignment,
        Column::Offset,
    ];

    /// The name in the header.
    pub fn name(self) -> &'static str {
        match self {
            Column::Id => "id",
            Column::Lower => "lower",
            Column::Upper => "upper",
            Column::Size => "size",
            Column::Alignment => "alignment",
            Column::Offset => "offset",
        }
    }

    fn from_name(name: &str) -> Option<Column> {
        Column::ALL.into_iter().find(|column| column.name() == name)
    }

    fn is_required(self, of_plan: bool) -> bool {
        match self {
            Column::Alignment => false,
            Column::Offset => of_plan,
            _ => true,
        }
    }
}

impl std::fmt::Display for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;

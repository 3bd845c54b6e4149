//! Files that the user names.

use std::path::Path;

use device_heap::file::{self, FileError};
use device_heap::plan::{Instance, csv};
use device_heap::sequence::{Sequence, shipped};

use super::error::CliError;

/// What a file holds that can be planned.
pub(super) enum Planned {
    Sequence(Box<Sequence>),
    Table(Instance),
}

/// The sequence in the file at `path`, or the shipped one of that name.
pub(super) fn sequence(path: &Path) -> Result<Sequence, CliError> {
    if let Some(sequence) = shipped_sequence(path) {
        return Ok(sequence);
    }
    let bytes = read(path)?;
    parse_sequence(path, &bytes).map_err(|error| {
        if is_json(path, &bytes) {
            return error;
        }
        let file = path.display();
        let named = path
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("csv"));
        if named || csv::parse_instance(&bytes, "").is_ok() {
            CliError::usage(format!(
                "{file} is a table of buffers, which has no algorithms to run; dheap plan {file} \
                 plans their offsets"
            ))
        } else {
            error
        }
    })
}

/// The sequence or the table of buffers in the file at `path`: told by the
/// name's end, or else by the first character.
pub(super) fn planned(path: &Path) -> Result<Planned, CliError> {
    if let Some(sequence) = shipped_sequence(path) {
        return Ok(Planned::Sequence(Box::new(sequence)));
    }
    let bytes = read(path)?;
    if is_json(path, &bytes) {
        let sequence = parse_sequence(path, &bytes)?;
        return Ok(Planned::Sequence(Box::new(sequence)));
    }
    let instance = csv::parse_instance(&bytes, &path.display().to_string());
    instance.map(Planned::Table).map_err(CliError::usage)
}

fn is_json(path: &Path, bytes: &[u8]) -> bool {
    match path.extension().map(|end| end.to_ascii_lowercase()) {
        Some(end) if end == "json" => true,
        Some(end) if end == "csv" => false,
        _ => bytes.trim_ascii_start().starts_with(b"{"),
    }
}

fn parse_sequence(path: &Path, bytes: &[u8]) -> Result<Sequence, CliError> {
    Sequence::from_json_bytes(&path.display().to_string(), bytes).map_err(CliError::usage)
}

/// A file of that name comes first.
fn shipped_sequence(path: &Path) -> Option<Sequence> {
    if path.exists() {
        return None;
    }
    shipped::sequence(path.to_str()?)
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let name = path.display();
    file::read(path).map_err(|error| match error {
        FileError::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let names: Vec<_> = shipped::names().collect();
            let nearest = path.to_str().and_then(shipped::nearest);
            let hint = nearest.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
            CliError::usage(format!(
                "{name} cannot be read: {error}; name an existing file, or a shipped sequence: \
                 {}{hint}",
                names.join(", ")
            ))
        }
        FileError::Io(error) => CliError::usage(format!("{name} cannot be read: {error}")),
        error => CliError::usage(format!("{name}: {error}")),
    })
}

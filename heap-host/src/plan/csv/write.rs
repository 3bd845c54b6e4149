//! Writing.

use std::io::Write;
use std::path::Path;

use ::csv::Writer;

use super::super::instance::{Buffer, Instance};
use super::{Column, CsvError};
use crate::file;

/// Writes the rows of `instance` to the file at `path`, see
/// [`format_instance`].
///
/// The file appears when it is complete: it is written beside its place under
/// another name, then renamed. A symbolic link stays, and what it leads to is
/// written; a file that is replaced keeps its permissions.
///
/// # Errors
///
/// [`CsvError`] when the file cannot be written: [`check_target`] tells that
/// beforehand, as far as can be told.
pub fn write_instance(path: &Path, instance: &Instance) -> Result<(), CsvError> {
    replace(path, |file| format_instance(instance, file))
}

/// Writes the rows of `instance` with their `offsets`, one per buffer, to the
/// file at `path`, as [`write_instance`] does.
///
/// # Errors
///
/// [`CsvError`] when the file cannot be written.
///
/// # Panics
///
/// When there are more or fewer offsets than buffers.
pub fn write_plan(path: &Path, instance: &Instance, offsets: &[u64]) -> Result<(), CsvError> {
    replace(path, |file| format_plan(instance, offsets, file))
}

/// Writes the rows of `instance`, with the column `alignment` where one is
/// not 1.
///
/// # Errors
///
/// Those of `to`.
pub fn format_instance(instance: &Instance, to: impl Write) -> std::io::Result<()> {
    format(instance, None, to)
}

/// Writes the rows of `instance` as [`format_instance`] does, with a column
/// `offset` behind.
///
/// # Errors
///
/// Those of `to`.
///
/// # Panics
///
/// When there are more or fewer offsets than buffers.
pub fn format_plan(instance: &Instance, offsets: &[u64], to: impl Write) -> std::io::Result<()> {
    assert_eq!(
        instance.len(),
        offsets.len(),
        "a plan has one offset for each buffer"
    );
    format(instance, Some(offsets), to)
}

fn format(instance: &Instance, offsets: Option<&[u64]>, to: impl Write) -> std::io::Result<()> {
    let aligned = instance
        .buffers()
        .iter()
        .any(|buffer| buffer.alignment != 1);
    let is_written = |column: &Column| match column {
        Column::Alignment => aligned,
        Column::Offset => offsets.is_some(),
        _ => true,
    };
    let columns: Vec<Column> = Column::ALL.into_iter().filter(is_written).collect();
    let mut writer = Writer::from_writer(to);
    writer.write_record(columns.iter().map(|column| column.name()))?;
    for (index, buffer) in instance.buffers().iter().enumerate() {
        let offset = offsets.map_or(0, |offsets| offsets[index]);
        writer.write_record(columns.iter().map(|&column| field(buffer, offset, column)))?;
    }
    writer.flush()
}

fn field(buffer: &Buffer, offset: u64, column: Column) -> String {
    match column {
        Column::Id => buffer.name.clone(),
        Column::Lower => buffer.lower.to_string(),
        Column::Upper => buffer.upper.to_string(),
        Column::Size => buffer.size.to_string(),
        Column::Alignment => buffer.alignment.to_string(),
        Column::Offset => offset.to_string(),
    }
}

/// Whether a plan can be written at `path`: there is a regular file that its
/// owner may write, or nothing in an existing directory.
///
/// # Errors
///
/// [`CsvError`] with the file's name and what is in the way.
pub fn check_target(path: &Path) -> Result<(), CsvError> {
    file::check_target(path).map_err(|fault| CsvError::whole(path, fault))
}

fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), CsvError> {
    file::replace(path, write).map_err(|fault| CsvError::whole(path, fault))
}

//! Writing.

use std::io::Write;
use std::path::Path;

use ::csv::Writer;
use tempfile::{Builder, NamedTempFile};

use super::super::instance::{Buffer, Instance};
use super::{Column, CsvError};

/// Writes the rows of `instance` to the file at `path`, see
/// [`format_instance`].
///
/// The file appears when it is complete: it is written beside its place under
/// another name, then renamed.
///
/// # Errors
///
/// [`CsvError`] when the file cannot be written.
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

/// Writes a temporary file in the directory of `path`, then renames it.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut NamedTempFile) -> std::io::Result<()>,
) -> Result<(), CsvError> {
    let attempt = || {
        let directory = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let mut file = builder().tempfile_in(directory.unwrap_or(Path::new(".")))?;
        write(&mut file)?;
        file.persist(path)?;
        Ok(())
    };
    let name = path.display().to_string();
    attempt().map_err(|fault: std::io::Error| CsvError {
        file: name,
        line: None,
        fault: fault.into(),
    })
}

/// Temporary files are private as a rule; these become a user's files.
fn builder() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

//! Reading.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{FileError, FileKind};

/// The most bytes that are read of a file: 1 GiB.
pub const LIMIT: u64 = 1 << 30;

/// The contents of the regular file at `path`, or all that comes out of the
/// pipe there, which may take as long as whoever writes into it.
///
/// # Errors
///
/// [`FileError`]: it cannot be read, is a directory, device or socket, or has
/// more than [`LIMIT`] bytes.
pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    read_up_to(path, LIMIT)
}

pub(super) fn read_up_to(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    // Looked at before it is opened: opening alone does things to some devices.
    let metadata = path.metadata()?;
    match FileKind::of(metadata.file_type()) {
        None | Some(FileKind::Pipe) => {}
        Some(kind) => return Err(FileError::NotReadable(kind)),
    }
    if metadata.len() > limit {
        return Err(FileError::TooLong { limit });
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize + 1);
    // One byte more tells whether there is more.
    let most = limit.saturating_add(1);
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(FileError::TooLong { limit });
    }
    Ok(bytes)
}

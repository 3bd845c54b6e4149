//! Writing.

use std::fs::{Metadata, Permissions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use super::{FileError, FileKind};

/// The most links that are followed one after the other.
const MAX_LINKS: usize = 40;

/// Whether a file can be written at `path`: there is a regular file that its
/// owner may write, or nothing in an existing directory. Nothing is changed.
///
/// A symbolic link stands for what it leads to, also if that is not there yet.
///
/// # Errors
///
/// [`FileError`], which says what is in the way.
pub fn check_target(path: &Path) -> Result<(), FileError> {
    Target::at(path).map(|_| ())
}

/// Writes the file at `path`, which appears when it is complete: it is written
/// beside its place under another name, then renamed. Where there is a file
/// already, the new one gets its permissions and, where the system allows that,
/// its owner. Other hard links keep the old contents.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), FileError> {
    let Target { place, old } = Target::at(path)?;
    let mut file = beside(&place, old.as_ref())?;
    write(&mut file)?;
    file.persist(&place).map_err(std::io::Error::from)?;
    Ok(())
}

/// Where a file is to be written.
struct Target {
    /// No link.
    place: PathBuf,
    /// The file that is there.
    old: Option<Metadata>,
}

impl Target {
    fn at(path: &Path) -> Result<Self, FileError> {
        match path.metadata() {
            Ok(old) => {
                check_old(&old)?;
                let place = if path.is_symlink() {
                    path.canonicalize()?
                } else {
                    path.to_owned()
                };
                let old = Some(old);
                Ok(Self { place, old })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let place = end_of_links(path)?;
                if folder(&place).is_dir() {
                    Ok(Self { place, old: None })
                } else {
                    Err(FileError::NoFolder)
                }
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => Err(FileError::NoFolder),
            Err(error) => Err(error.into()),
        }
    }
}

fn check_old(old: &Metadata) -> Result<(), FileError> {
    if let Some(kind) = FileKind::of(old.file_type()) {
        return Err(FileError::NotWritable(kind));
    }
    if is_read_only(&old.permissions()) {
        return Err(FileError::ReadOnly);
    }
    Ok(())
}

/// A rename needs no right to write the old file, and root needs none at all:
/// what the owner meant is in the bits.
fn is_read_only(permissions: &Permissions) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::PermissionsExt::mode(permissions) & 0o200 == 0;
    #[cfg(not(unix))]
    return permissions.readonly();
}

/// Where a chain of links leads whose end is not there.
fn end_of_links(path: &Path) -> std::io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..MAX_LINKS {
        if !place.is_symlink() {
            return Ok(place);
        }
        // An absolute one replaces the directory of the link.
        place = folder(&place).join(place.read_link()?);
    }
    Err(std::io::Error::other(
        "too many symbolic links follow each other",
    ))
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A file for the contents, in the directory of `place`.
fn beside(place: &Path, old: Option<&Metadata>) -> std::io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Temporary files are private as a rule; these become a user's files.
        // The bits that a process leaves out of new files are left out here.
        let mode = old.map_or(0o666, |old| old.permissions().mode() & 0o777);
        builder.permissions(Permissions::from_mode(mode));
    }
    let file = builder.tempfile_in(folder(place))?;
    if let Some(old) = old {
        keep_owner(&file, old);
        file.as_file().set_permissions(old.permissions())?;
    }
    Ok(file)
}

/// As far as the system allows: only root may give files away.
fn keep_owner(file: &NamedTempFile, old: &Metadata) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let _ = fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
    }
    #[cfg(not(unix))]
    let _ = (file, old);
}

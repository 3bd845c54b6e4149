//! Files that the user names: what is read of them, and where is written.
//!
//! A name may stand for anything: a device that never ends, a pipe with a
//! program behind it, a link, a file that somebody protects. Reading takes
//! regular files and pipes, up to [`LIMIT`] bytes. Writing makes a new file or
//! replaces a regular one, and nothing else.

mod read;
mod write;

#[cfg(all(test, unix))]
mod tests;

use std::fmt;
use std::fs::FileType;

pub use read::{LIMIT, read};
pub use write::check_target;
pub(crate) use write::replace;

/// Why a file is not read, or not written. It does not say which file: whoever
/// asked knows its name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system says no.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Something that is not read.
    #[error("this is {0}; name a regular file or a pipe to read")]
    NotReadable(FileKind),
    /// A file that is too long, or a pipe that goes on and on.
    #[error("this holds more than {limit} bytes, the most that are read; give less")]
    TooLong {
        /// The most bytes that are read.
        limit: u64,
    },
    /// Something that is not replaced.
    #[error("this is {0}, which is left as it is; name a regular file or a new one to write")]
    NotWritable(FileKind),
    /// A regular file that its owner may not write.
    #[error(
        "this file is read-only and is left as it is; let its owner write it, or name another one"
    )]
    ReadOnly,
    /// There is nowhere to put a new file.
    #[error("this is in no existing directory; create that first")]
    NoFolder,
}

/// What a name stands for that is no regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A pipe, with a name or without.
    Pipe,
    /// A socket.
    Socket,
    /// A device that gives or takes bytes one after the other, a terminal among
    /// them.
    CharacterDevice,
    /// A device of blocks, like a disk.
    BlockDevice,
    /// None of these, and no regular file either.
    Other,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "a directory",
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
            Self::CharacterDevice => "a character device",
            Self::BlockDevice => "a block device",
            Self::Other => "no regular file",
        })
    }
}

impl FileKind {
    /// `None` for a regular file.
    fn of(kind: FileType) -> Option<Self> {
        if kind.is_file() {
            return None;
        }
        if kind.is_dir() {
            return Some(Self::Directory);
        }
        Some(Self::special(kind))
    }

    #[cfg(unix)]
    fn special(kind: FileType) -> Self {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            Self::Pipe
        } else if kind.is_socket() {
            Self::Socket
        } else if kind.is_char_device() {
            Self::CharacterDevice
        } else if kind.is_block_device() {
            Self::BlockDevice
        } else {
            Self::Other
        }
    }

    #[cfg(not(unix))]
    fn special(_: FileType) -> Self {
        Self::Other
    }
}

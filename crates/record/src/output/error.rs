//! Why a recording can't be written, or has to end.

use std::path::PathBuf;

use rustix::io::Errno;
use tare_format::file::writer::WriteError;
use thiserror::Error;

/// Why a recording can't be written, or has to end. The caller names the remedy: this library knows
/// no options.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OutputError {
    /// The destination or a further file can't be opened, or a finished file can't be renamed.
    #[error("{}: {reason}", path.display())]
    Open {
        /// The destination.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// An existing file can't be renamed.
    #[error("{}: the existing file can't be renamed to {}: {error}", path.display(), old.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// Its intended name.
        old: PathBuf,
        /// The kernel's error.
        error: Errno,
    },
    /// Standard output is a terminal.
    #[error("a recording is not for a terminal")]
    Terminal,
    /// The destination can't be renamed or split into several files.
    #[error("a stream can't be renamed or split into several")]
    NotSwitchable,
    /// The files of a series would be smaller than the description of what existed before, with
    /// which each of them begins.
    #[error("each file begins with {beginning} bytes that describe the running processes")]
    SmallFiles {
        /// The requested size of a file in bytes.
        limit: u64,
        /// Bytes of the description.
        beginning: u64,
    },
    /// A helper thread can't be started, or has died.
    #[error("a helper thread of the output can't be started: {0}")]
    Thread(Errno),
    /// zstd rejects the level, or has no memory.
    #[error("compressing with zstd failed: {0}")]
    Compression(String),
    /// The description can't be written.
    #[error(transparent)]
    Description(#[from] WriteError),
    /// The file system or the user's quota is full.
    #[error("the file system of the recording is full")]
    Full,
    /// The file has reached the limit on file sizes.
    #[error("the recording has reached the limit on file sizes (ulimit -f)")]
    TooLong,
    /// No process has opened the FIFO for reading.
    #[error("{}: no process reads it", .0.display())]
    NoReader(PathBuf),
    /// The stream's reader has closed it.
    #[error("the reader closed the recording")]
    Closed,
    /// The file was truncated.
    #[error("its file was truncated during the recording: data after the cut are lost")]
    Truncated,
    /// The file was deleted, or replaced by another.
    #[error("its file was deleted during the recording: a new file holds the records until then")]
    Deleted,
    /// The file was deleted or replaced, and no new file can be written.
    #[error("its file was deleted during the recording, and no new one can be written: {0}")]
    DeletedForGood(Errno),
    /// Any other failure.
    #[error("the recording can't be written: {0}")]
    Failed(Errno),
}

impl From<Errno> for OutputError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOSPC | Errno::DQUOT => Self::Full,
            Errno::FBIG => Self::TooLong,
            Errno::PIPE => Self::Closed,
            error => Self::Failed(error),
        }
    }
}

/// The result of an operation on an output.
pub type Result<T> = std::result::Result<T, OutputError>;

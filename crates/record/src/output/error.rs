//! Why a recording can't be written, or not any further.

use std::path::PathBuf;

use rustix::io::Errno;
use tare_format::file::writer::WriteError;
use thiserror::Error;

/// Why a recording can't be written, or not any further. What was written before can be read. The
/// caller names the remedy: this library knows no options.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OutputError {
    /// The destination can't be opened.
    #[error("{}: {reason}", path.display())]
    Open {
        /// The destination.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file that is there can't be kept under another name.
    #[error("{}: it is there, and can't be renamed to {}: {error}", path.display(), old.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// Its name from now on.
        old: PathBuf,
        /// The kernel's answer.
        error: Errno,
    },
    /// Nobody can read a recording from a terminal.
    #[error("a recording is not for a terminal")]
    Terminal,
    /// A stream has no end at which another file could begin.
    #[error("a stream can't be renamed, nor followed by another")]
    NotSwitchable,
    /// A helper thread can't be started.
    #[error("a helper thread of the output can't be started: {0}")]
    Thread(Errno),
    /// The level is not one of zstd's, or it has no memory.
    #[error("compressing with zstd failed: {0}")]
    Compression(String),
    /// The description can't be written.
    #[error(transparent)]
    Description(#[from] WriteError),
    /// The file system is full, or the user's share of it.
    #[error("the file system of the recording is full")]
    Full,
    /// The file may not become longer.
    #[error("the recording may not become longer: there is a limit on the size of files")]
    TooLong,
    /// Nobody reads the FIFO as yet.
    #[error("{}: nobody reads it", .0.display())]
    NoReader(PathBuf),
    /// Nobody reads the stream any more.
    #[error("nobody reads the recording any more")]
    Closed,
    /// Somebody made the file shorter.
    #[error("its file was truncated meanwhile: what lay behind the cut is gone")]
    Truncated,
    /// Somebody removed the file's name, or gave it to another file.
    #[error("its file was deleted meanwhile: what came until then is in a new one")]
    Deleted,
    /// The same, and no new file can be written.
    #[error("its file was deleted meanwhile, and no new one can be written: {0}")]
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

/// What can be done with a recording.
pub type Result<T> = std::result::Result<T, OutputError>;

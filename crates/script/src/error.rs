//! Why a recording can't be printed.

use std::io;
use std::path::PathBuf;

/// Why a recording can't be printed.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The samples lack a field that the user named.
    #[error("{0}")]
    MissingField(String),
    /// The recording can't be replayed.
    #[error(transparent)]
    Replay(#[from] tare_replay::Error),
    /// The output of an event can't be opened.
    #[error("{}", path.display())]
    Open {
        /// The output.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// An output can't be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

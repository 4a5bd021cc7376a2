//! Why a recording can't be replayed.

use std::io;
use std::path::PathBuf;

use tare_format::file::OpenError;

/// Why a recording can't be replayed. Damage within one is no error: see
/// [`tare_profile::Losses`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such file.
    #[error("there is no {path} (record one: tare record -o {path} COMMAND)", path = .0.display())]
    Absent(PathBuf),
    /// A folder that no recorder wrote.
    #[error(
        "{path} is a folder without a recording (perf record --threads writes {path}/data)",
        path = .0.display()
    )]
    NoRecording(PathBuf),
    /// It can't be opened.
    #[error("{}", path.display())]
    Open {
        /// The recording.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no recording.
    #[error("{}", path.display())]
    Format {
        /// The recording.
        path: PathBuf,
        /// Why.
        source: OpenError,
    },
    /// It can't be read any further.
    #[error("cannot read the recording")]
    Read(#[from] io::Error),
    /// A range in percent of a recording that doesn't say when its samples begin and end.
    #[error("the recording doesn't say when its samples begin and end; give seconds")]
    NoSampleTimes,
}

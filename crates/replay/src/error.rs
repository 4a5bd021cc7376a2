//! Errors of opening and replaying a recording.

use std::io;
use std::path::PathBuf;

use tare_format::file::OpenError;

/// An error of opening or replaying a recording. Damage within one counts as losses instead: see
/// [`tare_profile::Losses`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording doesn't exist.
    #[error("there is no {path} (record one: tare record -o {path} COMMAND)", path = .0.display())]
    Absent(PathBuf),
    /// A folder that no recorder wrote.
    #[error(
        "{path} is a folder without a recording (perf record --threads writes {path}/data)",
        path = .0.display()
    )]
    NoRecording(PathBuf),
    /// The recording can't be opened.
    #[error("{}", path.display())]
    Open {
        /// The recording.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file isn't a recording, or is one that tare can't read: its header is damaged, or it has
    /// version 1, or is a file that comes through a pipe.
    #[error("{}", path.display())]
    Format {
        /// The recording.
        path: PathBuf,
        /// The reason.
        source: OpenError,
    },
    /// Reading the recording failed.
    #[error("cannot read the recording")]
    Read(#[from] io::Error),
    /// A time range is in percent, but the recording lacks the times of its first and last sample.
    #[error("the recording doesn't say when its samples begin and end; give seconds")]
    NoSampleTimes,
}

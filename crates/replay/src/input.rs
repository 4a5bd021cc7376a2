//! Opening a recording: a file, a FIFO, or standard input.

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsFd;
use std::path::Path;

use tare_format::file::{OpenError, Reader};

/// Why a recording can't be opened, in a line with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// There is no such file.
    #[error("there is no {0} (record one: tare record -o {0} COMMAND)")]
    Absent(String),
    /// A folder.
    #[error(
        "{0} is a folder: what perf record --threads wrote into it is not read (record without --threads)"
    )]
    Folder(String),
    /// It can't be read.
    #[error("{path}")]
    Io {
        /// The recording.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It is no recording.
    #[error("{path}")]
    Format {
        /// The recording.
        path: String,
        /// Why.
        source: OpenError,
    },
}

/// Opens what `-i` names; `-` is standard input. What can't be sought in is read as a stream.
///
/// # Errors
/// See [`InputError`].
pub fn open(path: &Path) -> Result<Reader<File>, InputError> {
    let name = path.display().to_string();
    let opened = if path == Path::new("-") {
        io::stdin().as_fd().try_clone_to_owned().map(File::from)
    } else {
        File::open(path)
    };
    let mut file = opened.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => InputError::Absent(name.clone()),
        _ => InputError::Io { path: name.clone(), source },
    })?;
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(InputError::Folder(name));
    }
    let reader =
        if file.stream_position().is_ok() { Reader::open(file) } else { Reader::stream(file) };
    reader.map_err(|source| match source {
        OpenError::Io(source) => InputError::Io { path: name, source },
        source => InputError::Format { path: name, source },
    })
}

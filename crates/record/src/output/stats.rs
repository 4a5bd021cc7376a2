//! What became of a recording.

use std::path::PathBuf;

use super::OutputError;

/// The way that the bytes took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// Written with large writes.
    #[default]
    Write,
    /// Copied into mapped windows.
    Mmap,
    /// Written past the page cache.
    Direct,
    /// Written to a stream.
    Stream,
    /// Handed to a sink in this process.
    Sink,
}

impl Path {
    /// Its name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Mmap => "mmap",
            Self::Direct => "direct",
            Self::Stream => "stream",
            Self::Sink => "sink",
        }
    }
}

/// What became of a recording, over all of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputStats {
    /// The way that the bytes took; where it changed, the last one.
    pub path: Path,
    /// Why it is not the way that was asked for.
    pub fallback: Option<String>,
    /// Bytes in the files or in the stream, with what describes them.
    pub bytes: u64,
    /// Bytes of records that were handed over.
    pub uncompressed_bytes: u64,
    /// Of them, bytes that are not in the recording: it had ended before, or was cut to make room
    /// for its end.
    pub dropped_bytes: u64,
    /// The most bytes that waited in the queue at once; 0 where there is none.
    pub queue_high_water: usize,
    /// Bytes that the queue may hold; 0 where there is none.
    pub queue_bytes: usize,
    /// System calls that writing took, those of helper threads included; `docs/internals/output-path.md` says
    /// which.
    pub system_calls: u64,
    /// Times that more came in than a disk took past the page cache, and went through it for a while.
    pub spills: u64,
    /// Mapped windows that were used.
    pub windows: u64,
    /// The largest of them, in bytes.
    pub window_bytes: u64,
    /// Times that appending waited for a window.
    pub window_waits: u64,
    /// Why the recording ended before it was finished.
    pub stopped: Option<OutputError>,
    /// The end of the file could not be written: readers find the file as a killed recorder leaves
    /// it.
    pub unfinished: bool,
    /// The files that hold the recording, oldest first; none for a stream.
    pub files: Vec<PathBuf>,
}

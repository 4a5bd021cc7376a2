//! The figures of a written recording.

use std::path::PathBuf;

use tare_format::ledger::UnwoundChains;

use super::OutputError;

/// The path of the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// Large writes.
    #[default]
    Write,
    /// Copies into mapped windows.
    Mmap,
    /// Writes past the page cache.
    Direct,
    /// Writes to a stream.
    Stream,
    /// Calls of a sink in this process.
    Sink,
}

impl Path {
    /// The name in options and reports.
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

/// The figures of a recording, over all of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputStats {
    /// The path of the bytes; if it changed, the last one.
    pub path: Path,
    /// Why the path isn't the requested one.
    pub fallback: Option<String>,
    /// Bytes in the files or in the stream, including headers and tables; for a sink, bytes of
    /// records.
    pub bytes: u64,
    /// Bytes of appended records.
    pub uncompressed_bytes: u64,
    /// Bytes of appended records that are not in the recording: it had ended, or was cut to make
    /// room for its end.
    pub dropped_bytes: u64,
    /// Most bytes that waited in the queue at once; 0 if no queue was used.
    pub queue_high_water: usize,
    /// Capacity of the queue in bytes; 0 if no queue was used.
    pub queue_bytes: usize,
    /// System calls for writing, including helper threads'; `docs/internals/output-path.md` lists
    /// them.
    pub system_calls: u64,
    /// Number of times that records arrived faster than the disk takes them past the page cache.
    pub spills: u64,
    /// Number of mapped windows.
    pub windows: u64,
    /// Bytes of the largest window.
    pub window_bytes: u64,
    /// Number of times that appending waited for a window.
    pub window_waits: u64,
    /// How the stacks ended that were unwound while recording; `None` if none were to be.
    pub unwound: Option<UnwoundChains>,
    /// Bytes of records that wait to be unwound, or are being unwound.
    pub unwinding_bytes: usize,
    /// Why the recording ended early.
    pub stopped: Option<OutputError>,
    /// Whether the end of the file could not be written: readers then see the file of a killed
    /// recorder.
    pub unfinished: bool,
    /// The kept files of the recording, oldest first; empty if the destination is no file.
    pub files: Vec<PathBuf>,
}

//! Options of an output.

use std::path::PathBuf;
use std::time::Duration;

/// How bytes reach a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathChoice {
    /// The cheapest for the destination: by writes, and past the page cache while the file grows
    /// fast.
    #[default]
    Auto,
    /// By few, large writes.
    Write,
    /// By copying into a mapped window of the file.
    Mmap,
    /// Past the page cache (`O_DIRECT`), by a thread of its own.
    Direct,
}

/// The destination of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A path: a file to create, or an existing FIFO or device such as `/dev/null`.
    File(PathBuf),
    /// Standard output, as a stream.
    Stdout,
}

/// When one file ends and the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSwitch {
    /// At this many bytes.
    Size(u64),
    /// At this age.
    Time(Duration),
    /// When the caller asks for it ([`crate::Recording::switch`]).
    Signal,
}

/// Options of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputOptions {
    /// How bytes reach a file.
    pub choice: PathChoice,
    /// Bytes of the largest mapped window. The first ones are smaller.
    pub window_bytes: u64,
    /// The zstd compression level, 1 to 22; `None`: no compression.
    pub compress: Option<i32>,
    /// Whether every flush waits until the data are on the disk.
    pub sync: bool,
    /// Bytes of the file at which the recording ends; `None`: unlimited.
    pub max_size: Option<u64>,
    /// When to begin another file; `None`: one file.
    pub switch: Option<FileSwitch>,
    /// Limit on the number of files kept; the oldest are removed.
    pub max_files: Option<usize>,
    /// Whether the file's name ends with the time at which it was finished. With several files it
    /// always does.
    pub timestamp: bool,
    /// With [`PathChoice::Auto`], bytes per second from which a file is written past the page
    /// cache.
    pub direct_at: u64,
    /// Bytes of the queue before a stream, before compression or before a disk written past the
    /// page cache. When it is full, appending waits.
    pub queue_bytes: usize,
}

impl Default for OutputOptions {
    fn default() -> Self {
        Self {
            choice: PathChoice::Auto,
            window_bytes: 64 << 20,
            compress: None,
            sync: false,
            max_size: None,
            switch: None,
            max_files: None,
            timestamp: false,
            direct_at: 4 << 20,
            queue_bytes: 32 << 20,
        }
    }
}

/// Size checks while a file grows to its limit, unless its steps would be shorter than a page or
/// longer than [`LARGEST_STEP`].
const LOOKS: u64 = 64;
/// Most bytes between two size checks.
const LARGEST_STEP: u64 = 1 << 20;

impl OutputOptions {
    /// Most bytes to append before the file size is checked again; `None` if the size is unlimited.
    pub(super) fn step(&self) -> Option<usize> {
        let switch =
            if let Some(FileSwitch::Size(bytes)) = self.switch { Some(bytes) } else { None };
        let size = self.max_size.into_iter().chain(switch).min()?;
        usize::try_from((size / LOOKS).clamp(rustix::param::page_size() as u64, LARGEST_STEP)).ok()
    }
}

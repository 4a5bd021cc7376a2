//! How a recording is to be written.

use std::path::PathBuf;
use std::time::Duration;

/// How bytes get into a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathChoice {
    /// What is cheapest for the destination: by writes, and past the page cache while much comes.
    #[default]
    Auto,
    /// By few, large writes.
    Write,
    /// By copying them into a mapped window of the file.
    Mmap,
    /// Past the page cache (`O_DIRECT`), by a thread of its own.
    Direct,
}

/// Where a recording goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A path: a file, which is made, or something that is there, such as a FIFO or `/dev/null`.
    File(PathBuf),
    /// Standard output, as a stream.
    Stdout,
}

/// When one file ends and the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// When a file has so many bytes.
    Size(u64),
    /// When a file is so old.
    Time(Duration),
    /// When the user asks for it by SIGUSR2.
    Signal,
}

/// How a recording is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How bytes get into a file.
    pub choice: PathChoice,
    /// The largest mapped window, in bytes. The first ones are smaller.
    pub window_bytes: u64,
    /// The level of compression with zstd, 1 to 22; `None`: none.
    pub compress: Option<i32>,
    /// Every flush waits until the data are on the disk.
    pub sync: bool,
    /// The recording ends when its file has so many bytes.
    pub max_size: Option<u64>,
    /// Several files, one after the other.
    pub switch: Option<Switch>,
    /// Of several files, only so many are kept: the last ones.
    pub max_files: Option<usize>,
    /// The file's name ends with the time at which it was finished. Several files' always do.
    pub timestamp: bool,
    /// With [`PathChoice::Auto`], bytes within a second with which a file is written past the page
    /// cache.
    pub direct_at: u64,
    /// Bytes that may wait for a stream, for being compressed or for a disk that is written past the
    /// page cache, before appending waits too.
    pub queue_bytes: usize,
}

impl Default for Options {
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

/// A file of limited size is looked at so often while it grows to that size, at least.
const LOOKS: u64 = 64;
/// The most bytes between two looks.
const LARGEST_STEP: u64 = 1 << 20;

impl Options {
    /// Where the size of files is limited: so many bytes at most are appended before it is looked
    /// at.
    pub(super) fn step(&self) -> Option<usize> {
        let switch = if let Some(Switch::Size(bytes)) = self.switch { Some(bytes) } else { None };
        let size = self.max_size.into_iter().chain(switch).min()?;
        usize::try_from((size / LOOKS).clamp(rustix::param::page_size() as u64, LARGEST_STEP)).ok()
    }
}

//! The way that bytes take.

use std::sync::Arc;

use rustix::io::Errno;
use tare_kernel::file_window::WindowError;

use super::disk::DiskFile;
use super::stats::{OutputStats, Path};
use super::window_thread::WindowThread;
use super::windows::{Used, Windows};
use super::write::{self, FileWriter};

/// The way that bytes take.
#[derive(Debug)]
enum Way {
    Write(FileWriter),
    Mmap(Box<Windows>),
    Stream { file: Arc<dyn DiskFile>, end: u64, calls: u64 },
}

/// Takes bytes, one piece behind the other.
#[derive(Debug)]
pub(super) struct Sink {
    way: Way,
    /// Of files that are not written through windows now.
    helper: Option<WindowThread>,
    used: Used,
    /// System calls of ways that were left for another.
    earlier_calls: u64,
    fallback: Option<String>,
}

impl Sink {
    /// Into a file, from its beginning on, by writes.
    pub(super) fn file(file: Arc<dyn DiskFile>) -> Self {
        Self::of(Way::Write(FileWriter::new(file, 0)))
    }

    /// Into a stream.
    pub(super) fn stream(file: Arc<dyn DiskFile>) -> Self {
        Self::of(Way::Stream { file, end: 0, calls: 0 })
    }

    fn of(way: Way) -> Self {
        Self { way, helper: None, used: Used::default(), earlier_calls: 0, fallback: None }
    }

    /// From here on through windows.
    pub(super) fn map(&mut self, file: Arc<dyn DiskFile>, helper: WindowThread, window_bytes: u64) {
        self.earlier_calls = self.calls();
        let windows = Windows::new(file, helper, self.end(), window_bytes);
        self.way = Way::Mmap(Box::new(windows));
    }

    /// Where the next piece belongs: behind what arrived.
    pub(super) fn end(&self) -> u64 {
        match &self.way {
            Way::Write(writer) => writer.end(),
            Way::Mmap(windows) => windows.end(),
            Way::Stream { end, .. } => *end,
        }
    }

    /// Takes all the pieces. Where that fails, [`Sink::end`] tells how much arrived.
    pub(super) fn append(&mut self, pieces: &[&[u8]]) -> Result<(), Errno> {
        match &mut self.way {
            Way::Write(writer) => writer.append(pieces),
            Way::Stream { file, end, calls } => write::to_stream(&**file, pieces, end, calls),
            Way::Mmap(windows) => {
                let before = windows.end();
                let Err(error) = windows.append(pieces) else { return Ok(()) };
                let rest = behind(pieces, windows.end() - before);
                self.unmap();
                // A write finds out by itself that there is no room.
                if !matches!(error, WindowError::NoSpace { .. } | WindowError::TooLong { .. }) {
                    self.fallback = Some(error.to_string());
                }
                self.append(&rest)
            }
        }
    }

    /// From here on by writes, so that the file may be cut.
    pub(super) fn unmap(&mut self) {
        if let Way::Mmap(windows) = &self.way {
            self.earlier_calls += windows.used().calls;
            let writer = FileWriter::new(windows.file(), windows.end());
            if let Way::Mmap(windows) = std::mem::replace(&mut self.way, Way::Write(writer)) {
                let (helper, used) = windows.close();
                self.helper = Some(helper);
                self.used = used;
            }
        }
    }

    /// Adds to an account what is known of the way.
    pub(super) fn account(&self, account: &mut OutputStats) {
        let used = if let Way::Mmap(windows) = &self.way { windows.used() } else { self.used };
        account.system_calls += self.calls();
        account.path = self.path();
        account.windows += used.windows;
        account.window_waits += used.waits;
        account.window_bytes = account.window_bytes.max(used.largest);
        account.fallback = account.fallback.take().or_else(|| self.fallback.clone());
    }

    /// System calls that this took.
    fn calls(&self) -> u64 {
        let of_way = match &self.way {
            Way::Write(writer) => writer.calls(),
            Way::Mmap(windows) => windows.used().calls,
            Way::Stream { calls, .. } => *calls,
        };
        self.earlier_calls + of_way
    }

    /// The way that was taken.
    fn path(&self) -> Path {
        match &self.way {
            Way::Write(_) if self.used.windows > 0 && self.fallback.is_none() => Path::Mmap,
            Way::Write(_) => Path::Write,
            Way::Mmap(_) => Path::Mmap,
            Way::Stream { .. } => Path::Stream,
        }
    }

    /// The helper, for the next file, where this one is not mapped any more.
    pub(super) fn into_helper(self) -> Option<WindowThread> {
        self.helper
    }
}

/// What of the pieces lies behind so many bytes.
fn behind<'a>(pieces: &[&'a [u8]], bytes: u64) -> Vec<&'a [u8]> {
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    let rest = |piece: &&'a [u8]| {
        let taken = left.min(piece.len());
        left -= taken;
        &piece[taken..]
    };
    pieces.iter().map(rest).collect()
}

//! The path that bytes take into an output.

use std::sync::Arc;

use rustix::io::Errno;
use tare_kernel::file_window::WindowError;

use super::disk::DiskFile;
use super::stats::{OutputStats, Path};
use super::window_thread::WindowThread;
use super::windows::{Used, Windows};
use super::write::{self, FileWriter};

/// The path that bytes take into an output.
#[derive(Debug)]
enum OpenPath {
    Write(FileWriter),
    Mmap(Box<Windows>),
    Stream { file: Arc<dyn DiskFile>, end: u64, calls: u64 },
}

/// Takes bytes, one piece behind the other.
#[derive(Debug)]
pub(super) struct Sink {
    path: OpenPath,
    /// Of files that are not written through windows now.
    window_thread: Option<WindowThread>,
    used: Used,
    /// System calls of paths that were left for another.
    earlier_calls: u64,
    fallback: Option<String>,
}

impl Sink {
    /// Into a file, from its beginning on, by writes.
    pub(super) fn file(file: Arc<dyn DiskFile>) -> Self {
        Self::of(OpenPath::Write(FileWriter::new(file, 0)))
    }

    /// Into a stream.
    pub(super) fn stream(file: Arc<dyn DiskFile>) -> Self {
        Self::of(OpenPath::Stream { file, end: 0, calls: 0 })
    }

    fn of(path: OpenPath) -> Self {
        Self { path, window_thread: None, used: Used::default(), earlier_calls: 0, fallback: None }
    }

    /// From here on through windows.
    pub(super) fn map(
        &mut self,
        file: Arc<dyn DiskFile>,
        window_thread: WindowThread,
        window_bytes: u64,
    ) {
        self.earlier_calls = self.calls();
        let windows = Windows::new(file, window_thread, self.end(), window_bytes);
        self.path = OpenPath::Mmap(Box::new(windows));
    }

    /// Where the next piece belongs: behind what arrived.
    pub(super) fn end(&self) -> u64 {
        match &self.path {
            OpenPath::Write(writer) => writer.end(),
            OpenPath::Mmap(windows) => windows.end(),
            OpenPath::Stream { end, .. } => *end,
        }
    }

    /// Takes all the pieces. Where that fails, [`Sink::end`] tells how much arrived.
    pub(super) fn append(&mut self, pieces: &[&[u8]]) -> Result<(), Errno> {
        match &mut self.path {
            OpenPath::Write(writer) => writer.append(pieces),
            OpenPath::Stream { file, end, calls } => write::to_stream(&**file, pieces, end, calls),
            OpenPath::Mmap(windows) => {
                let before = windows.end();
                let Err(error) = windows.append(pieces) else { return Ok(()) };
                let rest = behind(pieces, windows.end() - before);
                self.unmap();
                if error == WindowError::Truncated {
                    // A write would hide it behind a hole.
                    return Err(Errno::STALE);
                }
                // A write finds out by itself that there is no room.
                if !matches!(error, WindowError::NoSpace { .. } | WindowError::TooLong { .. }) {
                    self.fallback = Some(error.to_string());
                }
                self.append(&rest)
            }
        }
    }

    /// The same, with bytes behind the pieces that the next ones are to replace, unless
    /// [`Sink::skip`] leaves them there. Whether they were written: only where that costs no call.
    pub(super) fn append_before(&mut self, pieces: &[&[u8]], behind: &[u8]) -> Result<bool, Errno> {
        match &mut self.path {
            OpenPath::Write(writer) => writer.append_before(pieces, behind).map(|()| true),
            OpenPath::Mmap(_) | OpenPath::Stream { .. } => self.append(pieces).map(|()| false),
        }
    }

    /// Leaves what was written behind the pieces.
    pub(super) fn skip(&mut self, bytes: u64) {
        if let OpenPath::Write(writer) = &mut self.path {
            writer.skip(bytes);
        }
    }

    /// Whether some of what was written is in no file, as somebody truncated it.
    pub(super) fn is_torn(&self) -> bool {
        matches!(&self.path, OpenPath::Mmap(windows) if windows.is_torn())
    }

    /// Whether bytes are written as they come, and not copied into a window.
    pub(super) fn writes(&self) -> bool {
        matches!(self.path, OpenPath::Write(_))
    }

    /// From here on by writes, so that the file may be cut.
    pub(super) fn unmap(&mut self) {
        if let OpenPath::Mmap(windows) = &self.path {
            self.earlier_calls += windows.used().calls;
            let writer = FileWriter::new(windows.file(), windows.end());
            if let OpenPath::Mmap(windows) =
                std::mem::replace(&mut self.path, OpenPath::Write(writer))
            {
                let (window_thread, used) = windows.close();
                self.window_thread = Some(window_thread);
                self.used = used;
            }
        }
    }

    /// Adds to the figures what is known of the path.
    pub(super) fn add_stats(&self, stats: &mut OutputStats) {
        let used =
            if let OpenPath::Mmap(windows) = &self.path { windows.used() } else { self.used };
        stats.system_calls += self.calls();
        stats.path = self.path();
        stats.windows += used.windows;
        stats.window_waits += used.waits;
        stats.window_bytes = stats.window_bytes.max(used.largest);
        stats.fallback = stats.fallback.take().or_else(|| self.fallback.clone());
    }

    /// System calls that this took.
    fn calls(&self) -> u64 {
        let of_path = match &self.path {
            OpenPath::Write(writer) => writer.calls(),
            OpenPath::Mmap(windows) => windows.used().calls,
            OpenPath::Stream { calls, .. } => *calls,
        };
        self.earlier_calls + of_path
    }

    /// The path that was taken.
    fn path(&self) -> Path {
        match &self.path {
            OpenPath::Write(_) if self.used.windows > 0 && self.fallback.is_none() => Path::Mmap,
            OpenPath::Write(_) => Path::Write,
            OpenPath::Mmap(_) => Path::Mmap,
            OpenPath::Stream { .. } => Path::Stream,
        }
    }

    /// The thread, for the next file, where this one is not mapped any more.
    pub(super) fn into_window_thread(self) -> Option<WindowThread> {
        self.window_thread
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

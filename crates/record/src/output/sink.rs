//! The path that bytes take into an output.

use std::sync::Arc;

use rustix::io::Errno;
use tare_kernel::file_window::WindowError;

use super::direct::{DirectError, DirectWriter};
use super::disk::{DirectFile, DiskFile};
use super::stats::{OutputStats, Path};
use super::window_thread::WindowThread;
use super::windows::{WindowUsage, Windows};
use super::write::{self, FileWriter};

/// The path that bytes take into an output.
#[derive(Debug)]
enum OpenPath {
    Write(FileWriter),
    Mmap(Box<Windows>),
    Direct(Box<DirectWriter>),
    Stream { file: Arc<dyn DiskFile>, end: u64, calls: u64 },
}

/// Takes bytes, one piece behind the other.
#[derive(Debug)]
pub(super) struct Sink {
    path: OpenPath,
    /// Of files that are not written through windows now.
    window_thread: Option<WindowThread>,
    used: WindowUsage,
    /// System calls of paths that were left for another.
    earlier_calls: u64,
    /// The path that was taken up to the file's end.
    left: Option<Path>,
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
        Self {
            path,
            window_thread: None,
            used: WindowUsage::default(),
            earlier_calls: 0,
            left: None,
            fallback: None,
        }
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

    /// From here on past the page cache; by writes as before where that can't be done.
    pub(super) fn go_direct(&mut self, file: Arc<dyn DiskFile>, direct: DirectFile) {
        match DirectWriter::new(file, direct, self.end()) {
            Ok(writer) => {
                self.earlier_calls = self.calls();
                self.path = OpenPath::Direct(Box::new(writer));
            }
            Err(error) => self.stay(error.to_string()),
        }
    }

    /// It is not the path that was asked for, for this reason.
    pub(super) fn stay(&mut self, why: String) {
        self.fallback = Some(why);
    }

    /// Where the next piece belongs: behind what arrived.
    pub(super) fn end(&self) -> u64 {
        match &self.path {
            OpenPath::Write(writer) => writer.end(),
            OpenPath::Mmap(windows) => windows.end(),
            OpenPath::Direct(writer) => writer.end(),
            OpenPath::Stream { end, .. } => *end,
        }
    }

    /// The file is at least so long, unless somebody truncates it.
    pub(super) fn in_file(&self) -> u64 {
        match &self.path {
            OpenPath::Direct(writer) => writer.in_file(),
            _ => self.end(),
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
                self.close_windows();
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
            OpenPath::Direct(writer) => {
                let before = writer.end();
                let Err(error) = writer.append(pieces) else { return Ok(()) };
                let rest = behind(pieces, writer.end() - before);
                self.leave_direct(Some(error))?;
                self.append(&rest)
            }
        }
    }

    /// Has everything that was taken in the file, as far as another program sees it.
    pub(super) fn write_out(&mut self) -> Result<(), Errno> {
        let OpenPath::Direct(writer) = &mut self.path else { return Ok(()) };
        match writer.write_out() {
            Ok(()) => Ok(()),
            Err(error) => self.leave_direct(Some(error)),
        }
    }

    /// Goes on by writes, beginning with what is in no file as yet.
    fn leave_direct(&mut self, error: Option<DirectError>) -> Result<(), Errno> {
        let OpenPath::Direct(writer) = &mut self.path else { return Ok(()) };
        let calls = writer.calls();
        let file = writer.file();
        let (end, rest) = writer.rest();
        let mut next = FileWriter::new(file, end);
        let written = match error {
            // A write would hide it behind a hole.
            Some(DirectError::Truncated) => Err(Errno::STALE),
            _ => next.append(&[rest]),
        };
        self.earlier_calls += calls;
        self.path = OpenPath::Write(next);
        self.left = Some(Path::Direct);
        // A write finds out by itself that there is no room.
        if let Some(DirectError::Failed(error)) = error
            && !matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::FBIG)
        {
            self.fallback = Some(error.to_string());
        }
        written
    }

    /// The same, with bytes behind the pieces that the next ones are to replace, unless
    /// [`Sink::skip`] leaves them there. Whether they were written: only where that costs no call.
    pub(super) fn append_before(&mut self, pieces: &[&[u8]], behind: &[u8]) -> Result<bool, Errno> {
        match &mut self.path {
            OpenPath::Write(writer) => writer.append_before(pieces, behind).map(|()| true),
            OpenPath::Mmap(_) | OpenPath::Direct(_) | OpenPath::Stream { .. } => {
                self.append(pieces).map(|()| false)
            }
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

    /// Whether bytes are written past the page cache, or were before.
    pub(super) fn was_direct(&self) -> bool {
        self.is_direct() || self.left == Some(Path::Direct)
    }

    /// Whether bytes are written past the page cache.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self.path, OpenPath::Direct(_))
    }

    /// Whether bytes are written as they come, and not copied into a window.
    pub(super) fn writes(&self) -> bool {
        matches!(self.path, OpenPath::Write(_))
    }

    /// From here on by writes, so that the file may be cut. Fails where what was taken finds no
    /// room in the file; [`Sink::end`] tells how much did.
    pub(super) fn go_plain(&mut self) -> Result<(), Errno> {
        self.close_windows();
        let written = self.write_out();
        // By now nothing is left to be written, or the path was left.
        written.and(self.leave_direct(None))
    }

    /// The same, of a file that somebody truncated: what is in no file as yet is dropped.
    pub(super) fn abandon(&mut self) {
        self.close_windows();
        // It only tells that it was dropped.
        let _ = self.leave_direct(Some(DirectError::Truncated));
    }

    fn close_windows(&mut self) {
        if let OpenPath::Mmap(windows) = &self.path {
            self.earlier_calls += windows.used().calls;
            let writer = FileWriter::new(windows.file(), windows.end());
            if let OpenPath::Mmap(windows) =
                std::mem::replace(&mut self.path, OpenPath::Write(writer))
            {
                let (window_thread, used) = windows.close();
                self.window_thread = Some(window_thread);
                self.used = used;
                self.left = (used.windows > 0).then_some(Path::Mmap);
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
            OpenPath::Direct(writer) => writer.calls(),
            OpenPath::Stream { calls, .. } => *calls,
        };
        self.earlier_calls + of_path
    }

    /// The path that was taken.
    fn path(&self) -> Path {
        match &self.path {
            OpenPath::Write(_) if self.fallback.is_none() => self.left.unwrap_or(Path::Write),
            OpenPath::Write(_) => Path::Write,
            OpenPath::Direct(_) => Path::Direct,
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

//! The path of bytes into an output: writes, mapped windows, past the page cache, or to a stream.

use std::sync::Arc;

use rustix::io::Errno;
use tare_kernel::file_window::WindowError;

use super::direct::{DirectError, DirectWriter};
use super::disk::{DirectFile, DiskFile};
use super::stats::{OutputStats, Path};
use super::window_thread::WindowThread;
use super::windows::{WindowUsage, Windows};
use super::write::{self, FileWriter};

/// The path in use.
#[derive(Debug)]
enum OpenPath {
    Write(FileWriter),
    Mmap(Box<Windows>),
    Direct(Box<DirectWriter>),
    Stream { file: Arc<dyn DiskFile>, end: u64, calls: u64 },
}

/// Writes bytes in sequence.
#[derive(Debug)]
pub(super) struct Sink {
    path: OpenPath,
    /// Thread for windows, while the file isn't written through them.
    window_thread: Option<WindowThread>,
    used: WindowUsage,
    /// System calls of abandoned paths.
    earlier_calls: u64,
    /// The mapped or direct path that was left last.
    left: Option<Path>,
    fallback: Option<String>,
}

impl Sink {
    /// Writes a file from its beginning, by writes.
    pub(super) fn file(file: Arc<dyn DiskFile>) -> Self {
        Self::on_path(OpenPath::Write(FileWriter::new(file, 0)))
    }

    /// Writes a stream.
    pub(super) fn stream(file: Arc<dyn DiskFile>) -> Self {
        Self::on_path(OpenPath::Stream { file, end: 0, calls: 0 })
    }

    fn on_path(path: OpenPath) -> Self {
        Self {
            path,
            window_thread: None,
            used: WindowUsage::default(),
            earlier_calls: 0,
            left: None,
            fallback: None,
        }
    }

    /// Continues through mapped windows.
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

    /// Continues past the page cache, or by writes if that isn't possible.
    pub(super) fn go_direct(&mut self, file: Arc<dyn DiskFile>, direct: DirectFile) {
        match DirectWriter::new(file, direct, self.end()) {
            Ok(writer) => {
                self.earlier_calls = self.calls();
                self.path = OpenPath::Direct(Box::new(writer));
            }
            Err(error) => self.note_fallback(error.to_string()),
        }
    }

    /// Notes why the requested path isn't used.
    pub(super) fn note_fallback(&mut self, why: String) {
        self.fallback = Some(why);
    }

    /// Offset of the next piece, after everything that arrived.
    pub(super) fn end(&self) -> u64 {
        match &self.path {
            OpenPath::Write(writer) => writer.end(),
            OpenPath::Mmap(windows) => windows.end(),
            OpenPath::Direct(writer) => writer.end(),
            OpenPath::Stream { end, .. } => *end,
        }
    }

    /// Smallest possible size of the file, unless another process truncates it.
    pub(super) fn in_file(&self) -> u64 {
        match &self.path {
            OpenPath::Direct(writer) => writer.in_file(),
            _ => self.end(),
        }
    }

    /// Appends all pieces.
    ///
    /// # Errors
    /// On failure, [`Sink::end`] shows how much arrived.
    pub(super) fn append(&mut self, pieces: &[&[u8]]) -> Result<(), Errno> {
        match &mut self.path {
            OpenPath::Write(writer) => writer.append(pieces),
            OpenPath::Stream { file, end, calls } => write::to_stream(&**file, pieces, end, calls),
            OpenPath::Mmap(windows) => {
                let before = windows.end();
                let Err(error) = windows.append(pieces) else { return Ok(()) };
                let rest = without_first(pieces, windows.end() - before);
                self.close_windows();
                if error == WindowError::Truncated {
                    // A write would hide the truncation behind a hole.
                    return Err(Errno::STALE);
                }
                // If there is no room, the write reports it.
                if !matches!(error, WindowError::NoSpace { .. } | WindowError::TooLong { .. }) {
                    self.fallback = Some(error.to_string());
                }
                self.append(&rest)
            }
            OpenPath::Direct(writer) => {
                let before = writer.end();
                let Err(error) = writer.append(pieces) else { return Ok(()) };
                let rest = without_first(pieces, writer.end() - before);
                self.leave_direct(Some(error))?;
                self.append(&rest)
            }
        }
    }

    /// Brings everything into the file, as other programs see it.
    pub(super) fn write_out(&mut self) -> Result<(), Errno> {
        let OpenPath::Direct(writer) = &mut self.path else { return Ok(()) };
        match writer.write_out() {
            Ok(()) => Ok(()),
            Err(error) => self.leave_direct(Some(error)),
        }
    }

    /// Continues by writes, beginning with the bytes that are not in the file yet.
    fn leave_direct(&mut self, error: Option<DirectError>) -> Result<(), Errno> {
        let OpenPath::Direct(writer) = &mut self.path else { return Ok(()) };
        let calls = writer.calls();
        let file = writer.file();
        let (end, rest) = writer.rest();
        let mut next = FileWriter::new(file, end);
        let written = match error {
            // A write would hide the truncation behind a hole.
            Some(DirectError::Truncated) => Err(Errno::STALE),
            _ => next.append(&[rest]),
        };
        self.earlier_calls += calls;
        self.path = OpenPath::Write(next);
        self.left = Some(Path::Direct);
        // If there is no room, the write reports it.
        if let Some(DirectError::Failed(error)) = error
            && !matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::FBIG)
        {
            self.fallback = Some(error.to_string());
        }
        written
    }

    /// Appends all pieces, and writes `behind` after them if that costs no extra call; the next
    /// piece overwrites it unless [`Sink::skip`] keeps it. Returns whether `behind` was written.
    pub(super) fn append_before(&mut self, pieces: &[&[u8]], behind: &[u8]) -> Result<bool, Errno> {
        match &mut self.path {
            OpenPath::Write(writer) => writer.append_before(pieces, behind).map(|()| true),
            OpenPath::Mmap(_) | OpenPath::Direct(_) | OpenPath::Stream { .. } => {
                self.append(pieces).map(|()| false)
            }
        }
    }

    /// Keeps the bytes that were written behind the pieces.
    pub(super) fn skip(&mut self, bytes: u64) {
        if let OpenPath::Write(writer) = &mut self.path {
            writer.skip(bytes);
        }
    }

    /// Whether written bytes are missing from the file because it was truncated.
    pub(super) fn is_torn(&self) -> bool {
        matches!(&self.path, OpenPath::Mmap(windows) if windows.is_torn())
    }

    /// Whether bytes are or were written past the page cache.
    pub(super) fn was_direct(&self) -> bool {
        self.is_direct() || self.left == Some(Path::Direct)
    }

    /// Whether bytes are written past the page cache.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self.path, OpenPath::Direct(_))
    }

    /// Whether bytes are written through the page cache as they come.
    pub(super) fn is_by_writes(&self) -> bool {
        matches!(self.path, OpenPath::Write(_))
    }

    /// Continues by writes, so that the file may be truncated.
    ///
    /// # Errors
    /// Fails if the file has no room for all bytes; [`Sink::end`] shows how much it took.
    pub(super) fn go_plain(&mut self) -> Result<(), Errno> {
        self.close_windows();
        let written = self.write_out();
        // At this point everything is written, or the path was abandoned.
        written.and(self.leave_direct(None))
    }

    /// Continues by writes after a truncation; drops the bytes that are not in the file yet.
    pub(super) fn abandon(&mut self) {
        self.close_windows();
        // The error only confirms that bytes were dropped.
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

    /// Adds the path's figures.
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

    /// Number of system calls.
    fn calls(&self) -> u64 {
        let of_path = match &self.path {
            OpenPath::Write(writer) => writer.calls(),
            OpenPath::Mmap(windows) => windows.used().calls,
            OpenPath::Direct(writer) => writer.calls(),
            OpenPath::Stream { calls, .. } => *calls,
        };
        self.earlier_calls + of_path
    }

    /// The path to report: the one in use, or instead of writes one that was left without a
    /// failure.
    fn path(&self) -> Path {
        match &self.path {
            OpenPath::Write(_) if self.fallback.is_none() => self.left.unwrap_or(Path::Write),
            OpenPath::Write(_) => Path::Write,
            OpenPath::Direct(_) => Path::Direct,
            OpenPath::Mmap(_) => Path::Mmap,
            OpenPath::Stream { .. } => Path::Stream,
        }
    }

    /// Returns the thread for the next file, if this one is no longer mapped.
    pub(super) fn into_window_thread(self) -> Option<WindowThread> {
        self.window_thread
    }
}

/// Returns the pieces without their first `bytes` bytes.
fn without_first<'a>(pieces: &[&'a [u8]], bytes: u64) -> Vec<&'a [u8]> {
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    let rest = |piece: &&'a [u8]| {
        let taken = left.min(piece.len());
        left -= taken;
        &piece[taken..]
    };
    pieces.iter().map(rest).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    fn sink() -> (Arc<File>, Sink) {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let sink = Sink::file(Arc::clone(&file) as Arc<dyn DiskFile>);
        (file, sink)
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn the_next_piece_overwrites_a_table_unless_it_is_skipped() {
        let (file, mut sink) = sink();
        assert_eq!(sink.append_before(&[b"ab"], b"TT"), Ok(true));
        assert_eq!(sink.append_before(&[b"cd"], b"TT"), Ok(true));
        sink.skip(2);
        sink.append(&[b"ef"]).unwrap();
        assert_eq!((content(&file), sink.end()), (b"abcdTTef".to_vec(), 8));
    }

    #[test]
    fn every_byte_arrives_when_the_path_changes() {
        let (file, mut sink) = sink();
        let as_disk = || Arc::clone(&file) as Arc<dyn DiskFile>;
        sink.append(&[b"page cache, "]).unwrap();
        sink.go_direct(as_disk(), DirectFile { file: as_disk(), block: 4096 });
        sink.append(&[b"past it, "]).unwrap();
        assert!(sink.is_direct() && sink.in_file() < sink.end());
        sink.go_plain().unwrap();
        assert!(!sink.is_direct() && sink.was_direct() && sink.in_file() == sink.end());
        sink.append(&[b"page cache"]).unwrap();
        let text = b"page cache, past it, page cache";
        assert_eq!((&content(&file)[..text.len()], sink.end()), (&text[..], text.len() as u64));
    }

    #[test]
    fn abandoning_a_truncated_file_drops_bytes_that_are_not_in_it() {
        let (file, mut sink) = sink();
        let as_disk = || Arc::clone(&file) as Arc<dyn DiskFile>;
        sink.append(&[b"ab"]).unwrap();
        sink.go_direct(as_disk(), DirectFile { file: as_disk(), block: 4096 });
        sink.append(&[b"cd"]).unwrap();
        sink.abandon();
        assert_eq!((content(&file), sink.end()), (b"ab".to_vec(), 2));
    }
}

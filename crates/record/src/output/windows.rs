//! The mapped path into a file: windows that move along it, each prepared before the previous one
//! is full.
//!
//! ```text
//! file  | written ....... | current window: being filled | next: prepared by the helper thread |
//!                                           ^ from the middle on
//! ```
//! The first window is small, and each is twice the previous one, up to a limit, so a short
//! recording allocates little.

use std::sync::Arc;

use tare_kernel::file_window::{FileWindow, WindowError};

use super::disk::DiskFile;
use super::window_thread::{WindowRequest, WindowThread};

/// Bytes of the first window.
const FIRST: u64 = 256 << 10;

/// Usage figures of windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowUsage {
    pub(super) windows: u64,
    /// Bytes of the largest one.
    pub(super) largest: u64,
    /// Number of times that the next window wasn't ready when needed.
    pub(super) waits: u64,
    /// System calls, including the helper's.
    pub(super) calls: u64,
}

/// System calls to prepare a window: wake the helper, which reads the file's length, allocates,
/// maps and populates, answers, and sleeps.
const CALLS_A_WINDOW: u64 = 7;
/// System calls to drop a window: wake the helper, which unmaps, and sleeps.
const CALLS_AN_OLD_WINDOW: u64 = 3;

/// Windows that move along a file.
#[derive(Debug)]
pub(super) struct Windows {
    file: Arc<dyn DiskFile>,
    helper: WindowThread,
    current: Option<FileWindow>,
    /// Offset of the next byte.
    end: u64,
    is_asked: bool,
    /// Bytes of the next requested window.
    next_len: u64,
    /// Limit on the bytes of a window.
    largest: u64,
    used: WindowUsage,
    /// Whether written bytes are missing from the file: see [`FileWindow::is_torn`].
    is_torn: bool,
}

impl Windows {
    /// Continues at `end`. `largest` is rounded up to a power of two of pages.
    pub(super) fn new(
        file: Arc<dyn DiskFile>,
        helper: WindowThread,
        end: u64,
        largest: u64,
    ) -> Self {
        let page = rustix::param::page_size() as u64;
        let largest = largest.clamp(page, 1 << 40).next_power_of_two();
        let mut windows = Self {
            file,
            helper,
            current: None,
            end,
            is_asked: false,
            next_len: FIRST.min(largest),
            largest,
            used: WindowUsage::default(),
            is_torn: false,
        };
        windows.ask();
        windows
    }

    pub(super) fn file(&self) -> Arc<dyn DiskFile> {
        Arc::clone(&self.file)
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn used(&self) -> WindowUsage {
        self.used
    }

    /// Whether written bytes are missing from the file because it was truncated.
    pub(super) fn is_torn(&self) -> bool {
        self.is_torn || self.current.as_ref().is_some_and(FileWindow::is_torn)
    }

    /// Copies all pieces.
    ///
    /// # Errors
    /// On failure, [`Windows::end`] shows how much was copied.
    pub(super) fn append(&mut self, pieces: &[&[u8]]) -> Result<(), WindowError> {
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let written = self.write(rest);
                if written == 0 {
                    self.advance()?;
                }
                rest = &rest[written..];
            }
        }
        let is_past_middle = self
            .current
            .as_ref()
            .is_some_and(|window| self.end - window.offset() >= window.len() as u64 / 2);
        if is_past_middle && !self.is_asked {
            self.ask();
        }
        Ok(())
    }

    /// Copies as much as fits into the current window.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let end = self.end;
        let written = self.current.as_mut().map_or(0, |window| {
            usize::try_from(end - window.offset()).map_or(0, |at| window.write(at, bytes))
        });
        self.end += written as u64;
        written
    }

    /// Requests the window after the current one.
    fn ask(&mut self) {
        let page = rustix::param::page_size() as u64;
        let offset = self
            .current
            .as_ref()
            .map_or(self.end / page * page, |window| window.offset() + window.len() as u64);
        let len = usize::try_from(self.next_len).unwrap_or(1 << 30);
        self.helper.ask(WindowRequest { file: Arc::clone(&self.file), offset, len });
        self.is_asked = true;
        self.used.calls += CALLS_A_WINDOW;
    }

    /// Moves on to the next window.
    fn advance(&mut self) -> Result<(), WindowError> {
        if !self.is_asked {
            self.ask();
        }
        let (window, waited) = self.helper.take();
        self.is_asked = false;
        let window = window?;
        let len = window.len() as u64;
        if len < self.next_len {
            // Space is short, and the next window would not get more.
            self.largest = len;
        }
        self.next_len = (2 * len).min(self.largest);
        let used = &mut self.used;
        let waits = u64::from(waited);
        *used = WindowUsage {
            windows: used.windows + 1,
            largest: used.largest.max(len),
            waits: used.waits + waits,
            calls: used.calls + waits,
        };
        if let Some(old) = self.current.replace(window) {
            self.is_torn |= old.is_torn();
            self.helper.unmap(old);
            self.used.calls += CALLS_AN_OLD_WINDOW;
        }
        Ok(())
    }

    /// Drops all windows, so that the file may be truncated, and returns the helper.
    pub(super) fn close(self) -> (WindowThread, WindowUsage) {
        if self.is_asked {
            // The prepared window or its error isn't needed.
            drop(self.helper.take());
        }
        (self.helper, self.used)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn windows_double_up_to_the_limit_and_take_every_byte() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        if let Err(error) = FileWindow::open(&*file, 0, rustix::param::page_size()) {
            return println!("skipped: {error}");
        }
        let as_disk = Arc::clone(&file) as Arc<dyn DiskFile>;
        let bytes: Vec<u8> = (0..2_000_003_u32).map(|number| number.to_le_bytes()[0]).collect();
        // The data begin within a page.
        let mut windows = Windows::new(as_disk, WindowThread::start().unwrap(), 10, 1_000_000);
        bytes.chunks(9999).for_each(|piece| windows.append(&[piece]).unwrap());
        assert_eq!((windows.end(), windows.is_torn()), (10 + bytes.len() as u64, false));
        let (_thread, used) = windows.close();
        // 256 KiB, 512 KiB, and two of 1 MiB, to which the limit is rounded up.
        assert_eq!((used.windows, used.largest), (4, 1 << 20));
        let mut written = vec![0; bytes.len()];
        File::read_exact_at(&file, &mut written, 10).unwrap();
        assert!(written == bytes);
    }
}

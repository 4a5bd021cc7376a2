//! A file mapped for reading: pages are loaded on access, and can be released.

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::slice;

use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::bus_error::RegisteredWindow;

/// The bytes of a regular file, with its length at the time of opening. Dropping it unmaps them.
///
/// If another process truncates the file, its pages vanish, and reading them raises SIGBUS. If bus
/// errors are caught ([`crate::file_window::catch_bus_errors`]), zeros are read instead, and
/// [`FileView::is_torn`] returns true.
#[derive(Debug)]
pub struct FileView {
    /// Dangling if the file is empty.
    base: NonNull<u8>,
    len: usize,
    registered: Option<RegisteredWindow>,
}

// SAFETY: this value alone owns the mapping, which is bound to no thread and only read.
#[allow(unsafe_code)]
unsafe impl Send for FileView {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for FileView {}

impl FileView {
    /// Maps a whole file that is open for reading.
    ///
    /// # Errors
    /// The errors of `fstat(2)` and `mmap(2)`; `EINVAL` if it isn't a regular file.
    pub fn open(file: impl AsFd) -> Result<Self, Errno> {
        let file = file.as_fd();
        let found = fstat(file)?;
        if !rustix::fs::FileType::from_raw_mode(found.st_mode).is_file() {
            return Err(Errno::INVAL);
        }
        let len = usize::try_from(found.st_size).map_err(|_| Errno::FBIG)?;
        if len == 0 {
            return Ok(Self { base: NonNull::dangling(), len, registered: None });
        }
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no other memory.
        #[allow(unsafe_code)]
        let base =
            unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let registered = Some(RegisteredWindow::new(base.addr().get(), len));
        Ok(Self { base, len, registered })
    }

    /// Returns the file's bytes. A writer to the file changes them: treat them as untrusted, and
    /// check every value where it is used.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the range is this value's mapping, readable while the value lives. Another
        // process may write to the file, a risk of every reader of mapped files: any byte is valid,
        // and nothing here relies on reading a byte twice.
        #[allow(unsafe_code)]
        unsafe {
            slice::from_raw_parts(self.base.as_ptr(), self.len)
        }
    }

    /// Releases the loaded pages; they are loaded from the file again when needed.
    pub fn release_pages(&self) {
        if self.len > 0 {
            // SAFETY: the range is this value's mapping, private and never written, so the kernel
            // loads the same bytes again. A failure has no effect.
            #[allow(unsafe_code)]
            let _ = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxDontNeed) };
        }
    }

    /// Whether bytes were read as zeros because the file was truncated. Always false unless bus
    /// errors are caught.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.registered.as_ref().is_some_and(RegisteredWindow::is_torn)
    }
}

impl Drop for FileView {
    fn drop(&mut self) {
        if let Some(registered) = &mut self.registered {
            registered.release();
            // SAFETY: this value mapped the range, and nothing borrows from it. An error would only
            // leave it mapped.
            #[allow(unsafe_code)]
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_pages_are_loaded_again() {
        let file = tempfile::tempfile().unwrap();
        assert!(FileView::open(&file).unwrap().bytes().is_empty());
        std::io::Write::write_all(&mut &file, &[7; 10_000]).unwrap();
        let view = FileView::open(&file).unwrap();
        assert_eq!(view.bytes(), [7; 10_000]);
        view.release_pages();
        assert_eq!(view.bytes(), [7; 10_000]);
        assert!(!view.is_torn());
    }

    #[test]
    fn only_regular_files_can_be_viewed() {
        let folder = std::fs::File::open("/").unwrap();
        assert_eq!(FileView::open(folder).unwrap_err(), Errno::INVAL);
    }
}

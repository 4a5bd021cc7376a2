//! A file in memory, to be read: pages come when they are looked at, and can be given back.

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::slice;

use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::bus_error::Registered;

/// The bytes of a regular file as it is when it is opened. Dropping it unmaps them.
///
/// A file that somebody truncates meanwhile has no pages any more: reading there is SIGBUS, unless
/// bus errors are caught ([`crate::file_window::catch_bus_errors`]): then zeros are read, and
/// [`FileView::is_torn`] says so.
#[derive(Debug)]
pub struct FileView {
    /// Dangling where the file is empty.
    base: NonNull<u8>,
    len: usize,
    registered: Option<Registered>,
}

// SAFETY: the mapping belongs to this value alone, is bound to no thread, and is only read.
#[allow(unsafe_code)]
unsafe impl Send for FileView {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for FileView {}

impl FileView {
    /// Maps a whole file that is open for reading.
    ///
    /// # Errors
    /// Those of `mmap(2)`; `EINVAL` for what is no regular file.
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
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that anyone
        // has.
        #[allow(unsafe_code)]
        let base =
            unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let registered = Some(Registered::new(base.addr().get(), len));
        Ok(Self { base, len, registered })
    }

    /// The file's bytes. Whoever writes to the file changes them: they are to be read as what an
    /// untrusted file holds, whose every figure is checked where it is used.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the range is this value's mapping, readable as long as the value lives. That
        // another process may write to the file is what every reader of mapped files lives with:
        // the bytes are of a type without invalid values, and nothing here relies on reading a byte
        // twice.
        #[allow(unsafe_code)]
        unsafe {
            slice::from_raw_parts(self.base.as_ptr(), self.len)
        }
    }

    /// Gives the pages back that were looked at; they come again from the file when they are needed.
    pub fn release_pages(&self) {
        if self.len > 0 {
            // SAFETY: the range is this value's mapping, private and never written to: the kernel
            // brings the same bytes back from the file. That it can't be done is no failure.
            #[allow(unsafe_code)]
            let _ = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxDontNeed) };
        }
    }

    /// Whether bytes were read as zeros, as somebody made the file shorter. Only where bus errors
    /// are caught.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.registered.as_ref().is_some_and(Registered::is_torn)
    }
}

impl Drop for FileView {
    fn drop(&mut self) {
        if let Some(registered) = &mut self.registered {
            registered.release();
            // SAFETY: the range was mapped by this value, and nothing borrows from it. An error
            // would leave it mapped, no more.
            #[allow(unsafe_code)]
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_the_files_bytes_and_brings_pages_back() {
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
    fn what_is_no_regular_file_has_no_view() {
        let folder = std::fs::File::open("/").unwrap();
        assert_eq!(FileView::open(folder).unwrap_err(), Errno::INVAL);
    }
}

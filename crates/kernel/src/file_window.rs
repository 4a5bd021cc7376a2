//! A part of a file mapped for writing. Its disk space is allocated first, then it is mapped, then
//! every page is made writable: writing into it is a copy without system calls, and without page
//! faults unless the kernel has written a page to the disk meanwhile.
//!
//! ```text
//! file     |---------|=====window=====|..          offset, length: both multiples of the page size
//!            written    allocated, mapped, present
//! ```
//! Writing into a hole of a full disk would raise SIGBUS. With allocated space it can't, unless
//! another process truncates the file below the window's end: see [`catch_bus_errors`].

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{FallocateFlags, fallocate, fstat};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use thiserror::Error;

use crate::bus_error::RegisteredWindow;

pub use crate::bus_error::catch as catch_bus_errors;

/// A step of opening a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowStep {
    /// `fallocate(2)`.
    Allocate,
    /// `mmap(2)`.
    Map,
    /// `madvise(2)` with `MADV_POPULATE_WRITE`.
    Prefault,
}

impl std::fmt::Display for WindowStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Allocate => "allocating space",
            Self::Map => "mapping",
            Self::Prefault => "making pages present",
        })
    }
}

/// Why a window can't be opened. Space that was allocated stays allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WindowError {
    /// Offset or length is not a multiple of the page size, the length is 0, or the end exceeds 64
    /// bits.
    #[error("a window of {len} bytes at {offset} is not made of whole pages")]
    NotPages {
        /// Offset in the file, in bytes.
        offset: u64,
        /// Length in bytes.
        len: usize,
    },
    /// The file system or the user's quota is full (`ENOSPC`, `EDQUOT`).
    #[error("the file system has no room for {len} more bytes")]
    NoSpace {
        /// The window's length in bytes.
        len: usize,
    },
    /// The file may not become this long: `RLIMIT_FSIZE`, or the file system's limit (`EFBIG`).
    #[error("the file may not become {end} bytes long: see 'ulimit -f'")]
    TooLong {
        /// End of the window in bytes.
        end: u64,
    },
    /// The file or file system doesn't support the step (`EOPNOTSUPP`, `ENODEV`, `ESPIPE`,
    /// `ENOSYS`, `EACCES`): plain writes may work.
    #[error("{step} is not possible in this file: {error}")]
    NotSupported {
        /// The unsupported step.
        step: WindowStep,
        /// The kernel's error.
        error: Errno,
    },
    /// The file ends before the window begins: it was truncated, and the gap would be zeros.
    #[error("the file was truncated")]
    Truncated,
    /// Any other failure.
    #[error("{step} failed: {error}")]
    Failed {
        /// The failed step.
        step: WindowStep,
        /// The kernel's error.
        error: Errno,
    },
}

/// A window of a file. Dropping it unmaps it; the kernel writes the changed pages to the disk
/// later.
#[derive(Debug)]
pub struct FileWindow {
    base: NonNull<u8>,
    offset: u64,
    len: usize,
    registered: RegisteredWindow,
}

// SAFETY: this value alone owns the mapping, which is bound to no thread.
#[allow(unsafe_code)]
unsafe impl Send for FileWindow {}

impl FileWindow {
    /// Opens `len` bytes at `offset` of a file that is open for reading and writing; both are
    /// multiples of the page size. A file that ends within the window or at its beginning is
    /// extended to the window's end; its content stays.
    ///
    /// If the window exceeds the file size limit, the kernel sends SIGXFSZ to this thread, unless
    /// the caller blocks or ignores that signal.
    ///
    /// # Errors
    /// See [`WindowError`].
    pub fn open(file: impl AsFd, offset: u64, len: usize) -> Result<Self, WindowError> {
        let page = rustix::param::page_size();
        let whole = len > 0 && len.is_multiple_of(page) && offset.is_multiple_of(page as u64);
        let end = offset
            .checked_add(len as u64)
            .filter(|_| whole)
            .ok_or(WindowError::NotPages { offset, len })?;
        let fault = |step| move |error| reason(step, error, len, end);
        let file = file.as_fd();
        // If the size is unknown, `fallocate` reports the error.
        if fstat(file)
            .is_ok_and(|found| u64::try_from(found.st_size).is_ok_and(|size| size < offset))
        {
            return Err(WindowError::Truncated);
        }
        retry_on_intr(|| fallocate(file, FallocateFlags::empty(), offset, len as u64))
            .map_err(fault(WindowStep::Allocate))?;
        let window = Self::map(file, offset, len).map_err(fault(WindowStep::Map))?;
        match retry_on_intr(|| window.populate()) {
            Ok(()) => {}
            // Linux before 5.14 doesn't know MADV_POPULATE_WRITE.
            Err(Errno::INVAL) => window.touch(page),
            Err(error) => return Err(fault(WindowStep::Prefault)(error)),
        }
        Ok(window)
    }

    fn map(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no other memory.
        #[allow(unsafe_code)]
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                offset,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { base, offset, len, registered: RegisteredWindow::new(base.addr().get(), len) })
    }

    /// Makes all pages present and writable.
    fn populate(&self) -> Result<(), Errno> {
        // SAFETY: the range is this value's mapping; the advice changes no byte of it.
        #[allow(unsafe_code)]
        unsafe {
            madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxPopulateWrite)
        }
    }

    /// Makes all pages present and writable, one by one: reads a byte of each and writes it back.
    fn touch(&self, page: usize) {
        for at in (0..self.len).step_by(page) {
            // SAFETY: the byte lies in the mapping, whose space is allocated; volatile, so that the
            // write isn't optimized away.
            #[allow(unsafe_code)]
            unsafe {
                let byte = self.base.add(at).as_ptr();
                byte.write_volatile(byte.read_volatile());
            }
        }
    }

    /// Returns the window's offset in the file, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the length in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a window is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether written bytes are missing from the file because it was truncated. Always false
    /// unless bus errors are caught: see [`catch_bus_errors`].
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.registered.is_torn()
    }

    /// Copies bytes to a place in the window. Returns how many fit before its end.
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> usize {
        let fits = bytes.len().min(self.len.saturating_sub(at));
        if fits > 0 {
            // SAFETY: `at + fits` is at most the mapping's length, and `bytes` can't overlap it: no
            // slice of it is ever handed out.
            #[allow(unsafe_code)]
            unsafe {
                ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at).as_ptr(), fits);
            }
        }
        fits
    }
}

impl Drop for FileWindow {
    fn drop(&mut self) {
        self.registered.release();
        // SAFETY: this value mapped the range, and nothing borrows from it. An error would only
        // leave it mapped.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Translates a kernel error.
fn reason(step: WindowStep, error: Errno, len: usize, end: u64) -> WindowError {
    match error {
        Errno::NOSPC | Errno::DQUOT => WindowError::NoSpace { len },
        Errno::FBIG => WindowError::TooLong { end },
        Errno::OPNOTSUPP | Errno::NODEV | Errno::SPIPE | Errno::NOSYS | Errno::ACCESS => {
            WindowError::NotSupported { step, error }
        }
        error => WindowError::Failed { step, error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels without MADV_POPULATE_WRITE need this.
    #[test]
    fn touching_makes_pages_present_and_changes_nothing() {
        let page = rustix::param::page_size();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &vec![7; 2 * page]).unwrap();
        let window = FileWindow::map(file.as_fd(), 0, 2 * page).unwrap();
        window.touch(page);
        drop(window);
        let mut bytes = vec![0; 2 * page];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn kernel_errors_are_translated() {
        let of = |error| reason(WindowStep::Map, error, 4096, 8192);
        assert_eq!(of(Errno::DQUOT), WindowError::NoSpace { len: 4096 });
        assert_eq!(
            of(Errno::NODEV),
            WindowError::NotSupported { step: WindowStep::Map, error: Errno::NODEV }
        );
        assert_eq!(
            of(Errno::NOMEM),
            WindowError::Failed { step: WindowStep::Map, error: Errno::NOMEM }
        );
    }
}

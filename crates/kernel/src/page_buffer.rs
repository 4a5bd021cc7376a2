//! A buffer of whole pages for bytes on their way to a file. If only the disk reads it, the kernel
//! makes its pages large if it can (one address lookup in place of 512), and on x86-64 longer
//! copies bypass the CPU's caches, which other data use better.

use std::ptr::{self, NonNull};
use std::slice;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a large page on x86_64, and on aarch64 with 4 KiB pages.
const LARGE: usize = 2 << 20;
/// Copies of fewer bytes go through the caches.
const FEW: usize = 1 << 10;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Whole pages, and the range of bytes in use.
#[derive(Debug)]
pub struct PageBuffer {
    base: NonNull<u8>,
    mapped: usize,
    /// Offset of the first used page from `base`.
    begin: usize,
    size: usize,
    is_large: bool,
    /// Begin and end of the bytes in use.
    first: usize,
    end: usize,
}

// SAFETY: this value alone owns the memory, which is bound to no thread.
#[allow(unsafe_code)]
unsafe impl Send for PageBuffer {}

impl PageBuffer {
    /// Allocates a buffer of this many bytes, rounded up to whole pages; memory is only used once
    /// written. `is_large`: only the disk reads it, so if the size is a multiple of a large page,
    /// use large pages where the kernel has some, and copy past the caches.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn new(bytes: usize, is_large: bool) -> Result<Self, Errno> {
        let size = bytes.next_multiple_of(rustix::param::page_size());
        let is_large = is_large && size.is_multiple_of(LARGE);
        let mapped = if is_large { size + LARGE } else { size };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no other memory.
        #[allow(unsafe_code)]
        let base = unsafe { mmap_anonymous(ptr::null_mut(), mapped, access, MapFlags::PRIVATE) }?;
        let base: NonNull<u8> = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        let begin = if is_large { base.as_ptr().align_offset(LARGE).min(LARGE) } else { 0 };
        let buffer = Self { base, mapped, begin, size, is_large, first: 0, end: 0 };
        if is_large {
            // SAFETY: the range was mapped above, and its content stays. If the kernel has no large
            // pages they are small.
            #[allow(unsafe_code)]
            let _ = unsafe { madvise(buffer.at(0).cast(), size, Advice::LinuxHugepage) };
        }
        Ok(buffer)
    }

    /// Returns a place in the memory; `offset` is at most its size.
    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.size);
        self.base.as_ptr().wrapping_add(self.begin + offset)
    }

    /// Empties the buffer; the next bytes start at offset `first`, or at the end if that is lower.
    pub fn clear(&mut self, first: usize) {
        self.first = first.min(self.size);
        self.end = self.first;
    }

    /// Returns the number of free bytes behind those in use.
    #[must_use]
    pub fn room(&self) -> usize {
        self.size - self.end
    }

    /// Returns the bytes in use.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `first` and `end` are at most `size`, which was mapped, and a new mapping is full
        // of zeros, so all of it is initialized.
        #[allow(unsafe_code)]
        unsafe {
            slice::from_raw_parts(self.at(self.first), self.end - self.first)
        }
    }

    /// Appends as many bytes as fit. Returns their number.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let fitting = bytes.len().min(self.room());
        // SAFETY: `end + fitting` is at most `size`, which was mapped; `self` is borrowed mutably,
        // so no other slice of it exists.
        #[allow(unsafe_code)]
        let to = unsafe { slice::from_raw_parts_mut(self.at(self.end), fitting) };
        if self.is_large {
            copy_past_caches(to, &bytes[..fitting]);
        } else {
            to.copy_from_slice(&bytes[..fitting]);
        }
        self.end += fitting;
        fitting
    }
}

impl Drop for PageBuffer {
    fn drop(&mut self) {
        // SAFETY: this value mapped the range, and slices of it borrow `self`. An error would only
        // leave it mapped.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// Copies bytes to memory that nothing reads soon. From [`FEW`] bytes on, whole lines go past the
/// caches on x86-64. `to` is as long as `from`.
fn copy_past_caches(to: &mut [u8], from: &[u8]) {
    if from.len() < FEW {
        return to.copy_from_slice(from);
    }
    let head = to.as_ptr().align_offset(LINE).min(from.len());
    let lines = head..head + (from.len() - head) / LINE * LINE;
    to[..head].copy_from_slice(&from[..head]);
    copy_lines(&mut to[lines.clone()], &from[lines.clone()]);
    to[lines.end..].copy_from_slice(&from[lines.end..]);
}

/// Copies whole lines; `to` is aligned to a line.
#[cfg(target_arch = "x86_64")]
fn copy_lines(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const WORD: usize = size_of::<__m128i>();
    for (to, from) in to.chunks_exact_mut(LINE).zip(from.chunks_exact(LINE)) {
        for at in (0..LINE).step_by(WORD) {
            // SAFETY: every x86_64 has SSE2. `at` and the word behind it lie in both slices; the
            // first is aligned to a line, and so `at` to a word.
            #[allow(unsafe_code)]
            unsafe {
                let word = _mm_loadu_si128(from.as_ptr().add(at).cast());
                _mm_stream_si128(to.as_mut_ptr().add(at).cast(), word);
            }
        }
    }
    // SAFETY: as above. The fence orders these stores, which no lock does, before what follows,
    // such as handing the memory to another thread.
    #[allow(unsafe_code)]
    unsafe {
        _mm_sfence();
    }
}

/// Copies through the caches: only the version for x86-64 bypasses them.
#[cfg(not(target_arch = "x86_64"))]
fn copy_lines(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_appended_while_they_fit() {
        let mut random = fastrand::Rng::with_seed(1);
        for (size, is_large) in [(8192, false), (LARGE, true), (LARGE, false)] {
            let mut buffer = PageBuffer::new(size, is_large).unwrap();
            for first in [0, 1, 63, 64, 4095, size] {
                buffer.clear(first);
                let mut all = Vec::new();
                while buffer.room() > 0 {
                    let len = [3, 100, 70_000][random.usize(..3)];
                    let piece: Vec<u8> = (0..random.usize(1..len)).map(|_| random.u8(..)).collect();
                    let taken = buffer.push(&piece);
                    all.extend_from_slice(&piece[..taken]);
                    assert!(taken == piece.len() || buffer.room() == 0);
                }
                assert_eq!(all.len(), size - first);
                assert!(buffer.bytes() == all, "{size}, {first}");
                let page = rustix::param::page_size();
                assert_eq!(
                    buffer.bytes().as_ptr().align_offset(page),
                    (page - first % page) % page
                );
            }
        }
    }
}

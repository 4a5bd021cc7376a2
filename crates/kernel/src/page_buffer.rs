//! Memory that bytes are gathered in on their way out: whole pages. Where only the disk will read there,
//! the kernel makes them large where it can, as one is looked up once for 512 small ones; and they are
//! filled past the CPU's caches, in which other things are worth more.

use std::ptr::{self, NonNull};
use std::slice;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a large page, on x86_64 and with pages of 4 KiB on aarch64.
const LARGE: usize = 2 << 20;
/// Fewer bytes are copied as usual.
const FEW: usize = 1 << 10;
/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Memory of whole pages, and what is in it.
#[derive(Debug)]
pub struct PageBuffer {
    base: NonNull<u8>,
    mapped: usize,
    /// From `base` on, where its first page is.
    begin: usize,
    size: usize,
    is_large: bool,
    /// Where the bytes begin, and end.
    first: usize,
    end: usize,
}

// SAFETY: the memory belongs to this value alone, and is bound to no thread.
#[allow(unsafe_code)]
unsafe impl Send for PageBuffer {}

impl PageBuffer {
    /// Memory of so many bytes, which takes none before it is written to. `is_large`: for the disk alone,
    /// in large pages where it has so many bytes and the kernel has some.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(bytes: usize, is_large: bool) -> Result<Self, Errno> {
        let size = bytes.next_multiple_of(rustix::param::page_size());
        let is_large = is_large && size.is_multiple_of(LARGE);
        let mapped = if is_large { size + LARGE } else { size };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that anyone
        // has.
        #[allow(unsafe_code)]
        let base = unsafe { mmap_anonymous(ptr::null_mut(), mapped, access, MapFlags::PRIVATE) }?;
        let base: NonNull<u8> = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        let begin = if is_large { base.as_ptr().align_offset(LARGE).min(LARGE) } else { 0 };
        let buffer = Self { base, mapped, begin, size, is_large, first: 0, end: 0 };
        if is_large {
            // SAFETY: the range was mapped above, and what its pages hold stays. Where the kernel has
            // no large pages they are small.
            #[allow(unsafe_code)]
            let _ = unsafe { madvise(buffer.at(0).cast(), size, Advice::LinuxHugepage) };
        }
        Ok(buffer)
    }

    /// A place in the memory: `offset` is at most its size.
    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.size);
        self.base.as_ptr().wrapping_add(self.begin + offset)
    }

    /// Empties it: what is added next begins so many bytes behind the beginning of a page.
    pub fn clear(&mut self, first: usize) {
        self.first = first.min(self.size);
        self.end = self.first;
    }

    /// So many bytes find room behind those that are there.
    #[must_use]
    pub fn room(&self) -> usize {
        self.size - self.end
    }

    /// What is in it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `first` and `end` are at most `size`, which was mapped, and a new mapping is full of
        // zeros: all of it can be read.
        #[allow(unsafe_code)]
        unsafe {
            slice::from_raw_parts(self.at(self.first), self.end - self.first)
        }
    }

    /// Adds as many of some bytes as find room, and returns how many did.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let fitting = bytes.len().min(self.room());
        // SAFETY: `end + fitting` is at most `size`, which was mapped; nobody else has a slice of it,
        // as `self` is borrowed for writing.
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
        // SAFETY: the range was mapped by this value, and slices of it borrow `self`. An error would
        // leave it mapped, no more.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// Copies bytes to memory that nobody reads soon: whole lines past the caches. `to` is as long as
/// `from`.
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

/// Copies whole lines: `to` begins with one.
#[cfg(target_arch = "x86_64")]
fn copy_lines(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const WORD: usize = size_of::<__m128i>();
    for (to, from) in to.chunks_exact_mut(LINE).zip(from.chunks_exact(LINE)) {
        for at in (0..LINE).step_by(WORD) {
            // SAFETY: every x86_64 has SSE2. `at` and the word behind it lie in both, of which the
            // first is aligned to a line, and so `at` to a word.
            #[allow(unsafe_code)]
            unsafe {
                let word = _mm_loadu_si128(from.as_ptr().add(at).cast());
                _mm_stream_si128(to.as_mut_ptr().add(at).cast(), word);
            }
        }
    }
    // SAFETY: as above. What follows, such as handing the memory to another thread, comes behind these
    // stores, which no lock orders.
    #[allow(unsafe_code)]
    unsafe {
        _mm_sfence();
    }
}

/// Copies whole lines.
#[cfg(not(target_arch = "x86_64"))]
fn copy_lines(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_added_as_far_as_there_is_room() {
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

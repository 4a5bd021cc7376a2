//! The memory that the kernel and a reader share: a control page, followed by the data.
//!
//! Layout: `struct perf_event_mmap_page` in `include/uapi/linux/perf_event.h`. The letters A to D
//! name the barriers as in the comment in `perf_output_put_handle`, `kernel/events/ring_buffer.c`.

use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// How a reader accesses a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read it and move the tail: the kernel overwrites no unread record.
    Consume,
    /// Only read it: the kernel overwrites the oldest records.
    Watch,
}

/// A mapped ring. Dropping it unmaps it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    control_size: usize,
    size: usize,
}

// SAFETY: this value alone owns the mapping, which is bound to no thread; all writes are atomic.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the ring of an event's file, with `size` bytes of data: a power of two of pages.
    pub(crate) fn map_event(
        event: BorrowedFd<'_>,
        size: usize,
        access: Access,
    ) -> Result<Self, Errno> {
        Self::at(event, 0, size, access)
    }

    /// Maps the ring at this offset of a file, in whole pages: an event's, or one of the same
    /// layout in a BPF map.
    pub(crate) fn at(
        file: BorrowedFd<'_>,
        offset: u64,
        size: usize,
        access: Access,
    ) -> Result<Self, Errno> {
        let control_size = rustix::param::page_size();
        if !size.is_power_of_two() || size < control_size {
            return Err(Errno::INVAL);
        }
        let protection = if access == Access::Consume {
            ProtFlags::READ | ProtFlags::WRITE
        } else {
            ProtFlags::READ
        };
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no other memory.
        // Neither an event's file nor a BPF map can be truncated, and a BPF map lives while it is
        // mapped, so all of the mapping stays readable.
        #[allow(unsafe_code)]
        let base = unsafe {
            mmap(ptr::null_mut(), control_size + size, protection, MapFlags::SHARED, file, offset)
        }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { base, control_size, size })
    }

    /// Creates memory in place of a ring, which only tests write. `size` is any power of two.
    #[cfg(any(test, feature = "fake"))]
    pub(crate) fn stand_in(size: usize) -> Result<Self, Errno> {
        let control_size = rustix::param::page_size();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `at`, with anonymous memory.
        #[allow(unsafe_code)]
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                control_size + size,
                protection,
                MapFlags::PRIVATE,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { base, control_size, size })
    }

    /// Returns the size of the data in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the word at an offset in the control page, in bytes.
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset < self.control_size);
        // SAFETY: the word lies in the control page, which stays mapped while `self` lives. A page
        // is aligned for it, and so are the structure's fields. Both sides access it only with
        // single loads and stores.
        #[allow(unsafe_code)]
        unsafe {
            AtomicU64::from_ptr(self.base.add(offset).cast().as_ptr())
        }
    }

    /// Returns the position up to which the kernel has written.
    pub(crate) fn head(&self) -> u64 {
        // ATOMICS: relaxed, because the page may be mapped read-only, where std allows no other
        // load. The fence is barrier C: no data is read before the head. It pairs with B, the
        // kernel's barrier between its stores of the data and of `data_head` in
        // `perf_output_put_handle`.
        let head = self.word(offset_of!(perf_event_mmap_page, data_head)).load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        head
    }

    /// Returns the position up to which records were read, as the kernel knows it.
    pub(crate) fn tail(&self) -> u64 {
        // ATOMICS: relaxed, because only this mapping's owner writes it.
        self.word(offset_of!(perf_event_mmap_page, data_tail)).load(Ordering::Relaxed)
    }

    /// Allows the kernel to write up to this position plus the size. Only for [`Access::Consume`]:
    /// otherwise the page is read-only.
    pub(crate) fn set_tail(&self, tail: u64) {
        // ATOMICS: release is barrier D: the data is read before the tail moves. It pairs with A,
        // the control dependency in `__perf_output_begin` between the kernel's load of `data_tail`
        // and its stores of the data.
        self.word(offset_of!(perf_event_mmap_page, data_tail)).store(tail, Ordering::Release);
    }

    /// Returns the data between two positions: from the tail to the head, or a part of that.
    pub(crate) fn readable(&self, from: u64, to: u64) -> RingSpan<'_> {
        let [first, second] = places(self.size, from, to).map(|place| {
            // SAFETY: `place` lies in the data, which stays mapped while `self` lives. Between tail
            // and head the kernel writes nothing: `__perf_output_begin` only uses room up to the
            // tail. The tail moves only after the borrow ends, and only through this mapping:
            // `EventFile::map_ring` maps an event's ring once.
            #[allow(unsafe_code)]
            unsafe {
                slice::from_raw_parts(
                    self.base.add(self.control_size + place.start).as_ptr(),
                    place.len(),
                )
            }
        });
        RingSpan::new(first, second)
    }

    /// Copies `len` bytes of the data, at most all of them, from a position on, while the kernel
    /// may write there.
    pub(crate) fn copy_from(&self, position: u64, len: usize) -> Vec<u8> {
        let len = len.min(self.size);
        let mut copy = Vec::with_capacity(len);
        for place in places(self.size, position, position.wrapping_add(len as u64)) {
            copy.extend(place.map(|at| {
                // SAFETY: the byte lies in the data, which stays mapped while `self` lives. A
                // volatile read assumes nothing about concurrent writes of the kernel, and any byte
                // is a valid u8.
                #[allow(unsafe_code)]
                unsafe {
                    self.base.add(self.control_size + at).as_ptr().read_volatile()
                }
            }));
        }
        copy
    }

    /// Returns the same memory for the kernel's side on another thread, which ends before this
    /// value does.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> std::mem::ManuallyDrop<Self> {
        std::mem::ManuallyDrop::new(Self { ..*self })
    }

    /// Stores bytes at a position and then publishes the head, like the kernel.
    #[cfg(test)]
    pub(crate) fn store(&self, position: u64, bytes: &[u8], head: u64) {
        for (at, byte) in (0..).zip(bytes) {
            let at = position.wrapping_add(at);
            let place = places(self.size, at, at.wrapping_add(1))[0].start;
            // SAFETY: the place lies in a stand-in's data, which is private memory, and the caller
            // holds no slice of it.
            #[allow(unsafe_code)]
            unsafe {
                self.base.add(self.control_size + place).as_ptr().write(*byte);
            }
        }
        self.word(offset_of!(perf_event_mmap_page, data_head)).store(head, Ordering::Release);
    }

    /// Returns the tail as the kernel sees it.
    #[cfg(test)]
    pub(crate) fn published_tail(&self) -> u64 {
        self.word(offset_of!(perf_event_mmap_page, data_tail)).load(Ordering::Acquire)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value mapped the range, and slices of it borrow `self`. An error would only
        // leave it mapped.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.control_size + self.size) };
    }
}

/// Returns where the bytes between two positions lie in a ring of `size` bytes, a power of two.
/// Positions wrap around at 64 bits. If more bytes lie between them than the ring holds, the first
/// `size` bytes count.
///
/// ```text
/// from < to, no wrap:   [....|======|....]     first = the run, second is empty
/// wrap:                 [==|........|====]     first = the run up to the end, second = the run from the beginning
/// ```
fn places(size: usize, from: u64, to: u64) -> [Range<usize>; 2] {
    debug_assert!(size.is_power_of_two());
    let mask = size as u64 - 1;
    // A length beyond a usize is cut to `size` like others; `from & mask` is less than `size`.
    let len = usize::try_from(to.wrapping_sub(from)).unwrap_or(size).min(size);
    let start = usize::try_from(from & mask).unwrap_or(0);
    let first = len.min(size - start);
    [start..start + first, 0..len - first]
}

/// A run of bytes in a ring, in two pieces if it wraps around.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSpan<'a> {
    first: &'a [u8],
    second: &'a [u8],
}

impl<'a> RingSpan<'a> {
    pub(crate) fn new(first: &'a [u8], second: &'a [u8]) -> Self {
        Self { first, second }
    }

    pub(crate) fn slices(self) -> [&'a [u8]; 2] {
        [self.first, self.second]
    }

    pub(crate) fn len(self) -> usize {
        self.first.len() + self.second.len()
    }

    /// Splits the run; `at` beyond the end is the end.
    pub(crate) fn split_at(self, at: usize) -> (Self, Self) {
        let in_first = at.min(self.first.len());
        let in_second = (at - in_first).min(self.second.len());
        let (first, first_rest) = self.first.split_at(in_first);
        let (second, second_rest) = self.second.split_at(in_second);
        let rest = if first_rest.is_empty() {
            Self::new(second_rest, &[])
        } else {
            Self::new(first_rest, second_rest)
        };
        (Self::new(first, second), rest)
    }

    /// Returns the first `N` bytes; `None` if there are fewer.
    pub(crate) fn array<const N: usize>(self) -> Option<[u8; N]> {
        let mut bytes = self.first.iter().chain(self.second).copied();
        let mut out = [0; N];
        for byte in &mut out {
            *byte = bytes.next()?;
        }
        Some(out)
    }
}

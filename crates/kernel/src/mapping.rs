//! The memory that the kernel and a reader share: a control page, then the data.
//!
//! Layout: `struct perf_event_mmap_page` in `include/uapi/linux/perf_event.h`. The letters of the
//! barriers (A to D) are those of the comment in `perf_output_put_handle`,
//! `kernel/events/ring_buffer.c`.

use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// What a reader may do with a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read it and say how far: the kernel overwrites nothing that was not read.
    Consume,
    /// Only read it: the kernel overwrites the oldest.
    Watch,
}

/// A mapped ring. Dropping it unmaps it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    control_size: usize,
    size: usize,
}

// SAFETY: the mapping belongs to this value alone, is bound to no thread, and all writing goes
// through an atomic.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the ring of an event's file, with `size` bytes of data: a power of two of pages.
    pub(crate) fn of(event: BorrowedFd<'_>, size: usize, access: Access) -> Result<Self, Errno> {
        Self::at(event, 0, size, access)
    }

    /// Maps the ring that begins at this offset of a file, in whole pages: an event's, or one of the
    /// same layout in a BPF map.
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
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that anyone
        // has. An event's file can't be made shorter, nor a BPF map, which lives as long as it is
        // mapped: all of the mapping stays readable.
        #[allow(unsafe_code)]
        let base = unsafe {
            mmap(ptr::null_mut(), control_size + size, protection, MapFlags::SHARED, file, offset)
        }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { base, control_size, size })
    }

    /// Memory that stands in for a ring: nobody writes there but a test. `size` is any power of
    /// two.
    #[cfg(any(test, feature = "fake"))]
    pub(crate) fn stand_in(size: usize) -> Result<Self, Errno> {
        let control_size = rustix::param::page_size();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `of`, with memory of this process.
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

    /// Bytes of data.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// A word of the control page.
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset < self.control_size);
        // SAFETY: the word lies in the control page, which stays mapped as long as `self`; a page
        // is aligned for it, and so are the structure's fields. Both sides access it with single
        // loads and stores only.
        #[allow(unsafe_code)]
        unsafe {
            AtomicU64::from_ptr(self.base.add(offset).cast().as_ptr())
        }
    }

    /// The position up to which the kernel has written.
    pub(crate) fn head(&self) -> u64 {
        // ATOMICS: relaxed, as the page may be mapped for reading alone, where std allows no other
        // load. The fence is C: no byte of data is read before the head. Pairs with B, the barrier
        // between the kernel's stores of the data and of `data_head` in `perf_output_put_handle`.
        let head = self.word(offset_of!(perf_event_mmap_page, data_head)).load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        head
    }

    /// The position up to which everything was read, as the kernel knows it.
    pub(crate) fn tail(&self) -> u64 {
        // ATOMICS: relaxed, as only the owner of this mapping writes it.
        self.word(offset_of!(perf_event_mmap_page, data_tail)).load(Ordering::Relaxed)
    }

    /// Lets the kernel write up to this position plus the size. Only for [`Access::Consume`]: else
    /// the page is read-only.
    pub(crate) fn set_tail(&self, tail: u64) {
        // ATOMICS: release is D: the data was read before the tail moves. Pairs with A, the control
        // dependency in `__perf_output_begin` between the kernel's load of `data_tail` and its
        // stores of the data.
        self.word(offset_of!(perf_event_mmap_page, data_tail)).store(tail, Ordering::Release);
    }

    /// The data between two positions: everything from the tail to the head, or a part of it.
    pub(crate) fn readable(&self, from: u64, to: u64) -> RingSpan<'_> {
        let [first, second] = places(self.size, from, to).map(|place| {
            // SAFETY: `place` lies in the data, which stays mapped as long as `self`. Between tail
            // and head the kernel writes nothing: `__perf_output_begin` looks for room up to the
            // tail only. The tail moves when the borrow has ended, and by nobody else:
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

    /// Copies `len` bytes of the data, at most all of them, beginning at the place of a position,
    /// while the kernel may write there.
    pub(crate) fn copy_from(&self, position: u64, len: usize) -> Vec<u8> {
        let len = len.min(self.size);
        let mut copy = Vec::with_capacity(len);
        for place in places(self.size, position, position.wrapping_add(len as u64)) {
            copy.extend(place.map(|at| {
                // SAFETY: the byte lies in the data, which stays mapped as long as `self`. A
                // volatile read makes no assumption about what the kernel does to it meanwhile, and
                // any byte is a valid u8.
                #[allow(unsafe_code)]
                unsafe {
                    self.base.add(self.control_size + at).as_ptr().read_volatile()
                }
            }));
        }
        copy
    }

    /// The same memory for the kernel's side on another thread, which ends before this value does.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> std::mem::ManuallyDrop<Self> {
        std::mem::ManuallyDrop::new(Self { ..*self })
    }

    /// Does what the kernel does: stores bytes at a position, then publishes the head.
    #[cfg(test)]
    pub(crate) fn store(&self, position: u64, bytes: &[u8], head: u64) {
        for (at, byte) in (0..).zip(bytes) {
            let at = position.wrapping_add(at);
            let place = places(self.size, at, at.wrapping_add(1))[0].start;
            // SAFETY: the place lies in the data of a stand-in, which is private memory, and the
            // caller holds no slice of it.
            #[allow(unsafe_code)]
            unsafe {
                self.base.add(self.control_size + place).as_ptr().write(*byte);
            }
        }
        self.word(offset_of!(perf_event_mmap_page, data_head)).store(head, Ordering::Release);
    }

    /// The tail as the kernel sees it.
    #[cfg(test)]
    pub(crate) fn published_tail(&self) -> u64 {
        self.word(offset_of!(perf_event_mmap_page, data_tail)).load(Ordering::Acquire)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this value, and slices of it borrow `self`. An error
        // would leave it mapped, no more.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.control_size + self.size) };
    }
}

/// Where the bytes between two positions lie in a ring of `size` bytes, a power of two. Positions
/// only grow, wrapping around at 64 bits. More than the ring holds can't lie between them: then the
/// oldest bytes that are there count.
///
/// ```text
/// from < to, no wrap:   [....|======|....]     first = the run, second is empty
/// wrap:                 [==|........|====]     first = the run up to the end, second = the run from the beginning
/// ```
fn places(size: usize, from: u64, to: u64) -> [Range<usize>; 2] {
    debug_assert!(size.is_power_of_two());
    let mask = size as u64 - 1;
    // Both are at most `size`, which is a usize.
    let len = usize::try_from(to.wrapping_sub(from)).unwrap_or(size).min(size);
    let start = usize::try_from(from & mask).unwrap_or(0);
    let first = len.min(size - start);
    [start..start + first, 0..len - first]
}

/// A run of bytes in a ring, in two pieces where it wraps around.
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

    /// What comes before `at`, and the rest. `at` beyond the end is the end.
    pub(crate) fn split_at(self, at: usize) -> (Self, Self) {
        let in_first = at.min(self.first.len());
        let in_second = (at - in_first).min(self.second.len());
        let (a, b) = self.first.split_at(in_first);
        let (c, d) = self.second.split_at(in_second);
        (Self::new(a, c), if b.is_empty() { Self::new(d, &[]) } else { Self::new(b, d) })
    }

    /// The first `N` bytes, wherever they lie.
    pub(crate) fn array<const N: usize>(self) -> Option<[u8; N]> {
        let mut bytes = self.first.iter().chain(self.second).copied();
        let mut out = [0; N];
        for byte in &mut out {
            *byte = bytes.next()?;
        }
        Some(out)
    }
}

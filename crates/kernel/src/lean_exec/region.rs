//! Pages with the strings of an execve.

use std::ffi::CStr;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Pages of their own, unmapped on drop.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) start: *mut u8,
    pub(super) length: usize,
}

impl Region {
    pub(super) fn map(length: usize) -> Option<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        #[allow(unsafe_code)]
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), length, protection, MapFlags::PRIVATE) };
        start.ok().map(|start| Self { start: start.cast(), length })
    }

    /// Writes a value at this offset, which must be inside and suit its alignment.
    pub(super) fn put<T>(&self, offset: usize, value: T) {
        assert!(offset + size_of::<T>() <= self.length, "the region has room for it");
        // SAFETY: the place is inside the mapping, which only this value's owner writes to.
        #[allow(unsafe_code)]
        unsafe {
            self.start.add(offset).cast::<T>().write(value);
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing points into it.
        #[allow(unsafe_code)]
        unsafe {
            // It can't fail: the mapping is as it was created.
            let _: Result<(), rustix::io::Errno> = munmap(self.start.cast(), self.length);
        }
    }
}

/// Fills a region with strings and arrays of pointers to them.
pub(super) struct RegionWriter {
    pub(super) region: Region,
    pub(super) next_word: usize,
    pub(super) next_byte: usize,
}

impl RegionWriter {
    /// Appends a string; returns its address.
    pub(super) fn put_string(&mut self, string: &CStr) -> usize {
        let address = self.region.start.addr() + self.next_byte;
        for byte in string.to_bytes_with_nul() {
            self.region.put(self.next_byte, *byte);
            self.next_byte += 1;
        }
        address
    }

    /// Appends strings and a null-terminated array of pointers to them; returns its address.
    pub(super) fn put_array(&mut self, strings: &[&CStr]) -> usize {
        let address = self.region.start.addr() + self.next_word;
        for string in strings {
            let pointer = self.put_string(string);
            self.put_word(pointer);
        }
        self.put_word(0);
        address
    }

    fn put_word(&mut self, word: usize) {
        self.region.put(self.next_word, word);
        self.next_word += size_of::<usize>();
    }
}

//! The memory of a simulated ring buffer, from the kernel's side.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{Errno, pread, pwrite};
use tare_format::abi::bindings as abi;

use crate::mapping::{Access, Mapping};

/// Offsets of head and tail in the control page: `struct perf_event_mmap_page`.
const HEAD: u64 = std::mem::offset_of!(abi::perf_event_mmap_page, data_head) as u64;
const TAIL: u64 = std::mem::offset_of!(abi::perf_event_mmap_page, data_tail) as u64;

/// A ring's memory: a control page, followed by `size` bytes of data.
#[derive(Debug)]
pub(super) struct RingMemory {
    file: OwnedFd,
    size: u64,
    /// Only grows, or with `is_backward` only falls, wrapping below 0.
    head: u64,
    is_backward: bool,
}

impl RingMemory {
    pub(super) fn new(size: usize, is_backward: bool) -> Result<Self, Errno> {
        let file = memfd_create("ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let size = size as u64;
        ftruncate(&file, rustix::param::page_size() as u64 + size)?;
        fcntl_add_seals(&file, SealFlags::SHRINK)?;
        Ok(Self { file, size, head: 0, is_backward })
    }

    pub(super) fn map(&self, access: Access) -> Result<Mapping, Errno> {
        let size = usize::try_from(self.size).map_err(|_| Errno::INVAL)?;
        Mapping::map_event(self.file.as_fd(), size, access)
    }

    fn tail(&self) -> u64 {
        let mut word = [0; 8];
        match pread(&self.file, &mut word, TAIL) {
            Ok(_) => u64::from_ne_bytes(word),
            Err(_) => 0,
        }
    }

    /// Stores a record. Returns whether it fits; a backward ring always has room.
    pub(super) fn store(&mut self, record: &[u8]) -> bool {
        let bytes = record.len() as u64;
        let used = self.head.wrapping_sub(self.tail());
        if !self.is_backward && used.saturating_add(bytes) > self.size {
            return false;
        }
        let at = if self.is_backward { self.head.wrapping_sub(bytes) } else { self.head };
        let data = rustix::param::page_size() as u64;
        let place = at % self.size;
        let first = record.len().min(usize::try_from(self.size - place).unwrap_or(usize::MAX));
        let stored = pwrite(&self.file, &record[..first], data + place)
            .and_then(|_| pwrite(&self.file, &record[first..], data))
            .and_then(|_| {
                self.head = if self.is_backward { at } else { at + bytes };
                // The reader maps this memory, so the head is published after the data.
                pwrite(&self.file, &self.head.to_ne_bytes(), HEAD)
            });
        stored.is_ok()
    }
}

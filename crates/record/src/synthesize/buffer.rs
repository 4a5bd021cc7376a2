//! Collects records, to emit them in batches.

use std::io;

use tare_format::record::encode::{Encoder, TooLong};
use tare_format::record::{Cgroup, Comm, Layout, Mmap, NamespaceLink, SampleId, Task};

/// Bytes from which a batch is emitted.
const PIECE_BYTES: usize = 64 << 10;

/// Encodes records, and emits them in batches of whole records.
pub(super) struct RecordBuffer<'a> {
    encoder: Encoder,
    bytes: Vec<u8>,
    handed_out: u64,
    left_out: u64,
    emit: &'a mut dyn FnMut(&[u8]) -> io::Result<()>,
}

impl<'a> RecordBuffer<'a> {
    pub(super) fn new(layout: &Layout, emit: &'a mut dyn FnMut(&[u8]) -> io::Result<()>) -> Self {
        let encoder = Encoder::new(layout, &SampleId::default());
        Self {
            encoder,
            bytes: Vec::with_capacity(PIECE_BYTES + 8192),
            handed_out: 0,
            left_out: 0,
            emit,
        }
    }

    pub(super) fn mmap(&mut self, mmap: &Mmap<'_>) -> io::Result<()> {
        let written = self.encoder.mmap(&mut self.bytes, mmap);
        self.end_record(written)
    }

    pub(super) fn cgroup(&mut self, cgroup: &Cgroup<'_>) -> io::Result<()> {
        let written = self.encoder.cgroup(&mut self.bytes, cgroup);
        self.end_record(written)
    }

    pub(super) fn comm(&mut self, comm: &Comm<'_>) -> io::Result<()> {
        let written = self.encoder.comm(&mut self.bytes, comm);
        self.end_record(written)
    }

    /// Adds a thread. Its own mappings, if any, follow.
    pub(super) fn fork(&mut self, task: &Task) -> io::Result<()> {
        let written = self.encoder.fork(&mut self.bytes, task, true);
        self.end_record(written)
    }

    pub(super) fn namespaces(
        &mut self,
        pid: i32,
        tid: i32,
        links: &[NamespaceLink],
    ) -> io::Result<()> {
        let written = self.encoder.namespaces(&mut self.bytes, pid, tid, links);
        self.end_record(written)
    }

    fn end_record(&mut self, written: Result<(), TooLong>) -> io::Result<()> {
        self.left_out += u64::from(written.is_err());
        if self.bytes.len() >= PIECE_BYTES { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        if !self.bytes.is_empty() {
            (self.emit)(&self.bytes)?;
            self.handed_out += self.bytes.len() as u64;
            self.bytes.clear();
        }
        Ok(())
    }

    /// Number of records that were too long.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(super) fn emitted_bytes(&self) -> u64 {
        self.handed_out
    }
}

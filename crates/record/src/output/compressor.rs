//! Compression: records become `PERF_RECORD_COMPRESSED` records, which together hold one zstd
//! stream.
//!
//! ```text
//! records     | record | record | record | ... | record | record | ...
//! blocks      |<------- at most 60 KiB ------->|<---------            ends at a record's end, unless a record is longer
//! compressed  | header | block |    | header | block |                readable together with the blocks before
//! ```
//! perf fails on a compressed record that yields nothing, so no record may end before its first
//! block does. An incompressible block grows by three bytes; 60 KiB always fit.

use tare_format::Endian;
use tare_format::file::writer::Feature;
use tare_format::record::{RecordHeader, kind};
use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

use super::{OutputError, Result};

/// Limit on the bytes that are compressed into one record.
const BLOCK: usize = 60 << 10;
/// Largest possible record, in whole words of eight bytes.
const RECORD: usize = 65_528;
const HEADER: usize = RecordHeader::SIZE;

/// Compresses records.
pub(super) struct Compressor {
    encoder: Encoder<'static>,
    level: i32,
    /// Records that wait for a full block.
    waiting: Vec<u8>,
    /// Bytes at the front of `waiting` that belong to a record begun in an earlier block, including
    /// bytes still to come.
    begun: usize,
    /// Compressed records.
    packed: Vec<u8>,
    taken: u64,
    made: u64,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").field("level", &self.level).finish_non_exhaustive()
    }
}

fn failed(error: &std::io::Error) -> OutputError {
    OutputError::Compression(error.to_string())
}

impl Compressor {
    /// Creates a compressor with a level from 1 to 22.
    pub(super) fn new(level: i32) -> Result<Self> {
        let encoder = Encoder::new(level).map_err(|error| failed(&error))?;
        Ok(Self {
            encoder,
            level,
            waiting: Vec::new(),
            begun: 0,
            packed: Vec::new(),
            taken: 0,
            made: 0,
        })
    }

    /// Returns the feature section that readers need.
    pub(super) fn feature(&self) -> Feature {
        let ratio =
            (self.taken + self.made / 2).checked_div(self.made).map_or(1, |ratio| ratio.max(1));
        Feature::Compression {
            level: self.level.unsigned_abs(),
            ratio: u32::try_from(ratio).unwrap_or(u32::MAX),
            block_bytes: 64 << 10,
        }
    }

    /// Takes records, and passes compressed records to `write`. The last ones wait for a full
    /// block.
    pub(super) fn add(
        &mut self,
        mut bytes: &[u8],
        mut write: impl FnMut(&[u8], Option<u64>) -> Result<()>,
    ) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at((BLOCK - self.waiting.len()).min(bytes.len()));
            self.waiting.extend_from_slice(now);
            bytes = later;
            if self.waiting.len() == BLOCK {
                self.pack(&mut write)?;
            }
        }
        Ok(())
    }

    /// Compresses everything that waits: whole records, unless one is longer than a block.
    pub(super) fn flush(
        &mut self,
        mut write: impl FnMut(&[u8], Option<u64>) -> Result<()>,
    ) -> Result<()> {
        while !self.waiting.is_empty() {
            self.pack(&mut write)?;
        }
        Ok(())
    }

    /// Compresses one block of the waiting bytes. If it ends with a record, `write` also gets the
    /// bytes of records compressed so far.
    fn pack(&mut self, write: &mut impl FnMut(&[u8], Option<u64>) -> Result<()>) -> Result<()> {
        let (len, begun) = self.block();
        self.compress(len)?;
        self.waiting.drain(..len);
        self.begun = begun;
        write(&self.packed, (begun == 0).then_some(self.taken))
    }

    /// Returns the length of the next block, and how many bytes of its last record are still
    /// missing.
    fn block(&self) -> (usize, usize) {
        let len = self.waiting.len();
        if self.begun >= len {
            return (len, self.begun - len);
        }
        let mut end = self.begun;
        while let Some(header) = RecordHeader::first(&self.waiting[end..], Endian::NATIVE) {
            let size = header.record_size().max(HEADER);
            if end + size > len {
                // A record longer than a block is split; any other waits.
                return if end == 0 { (len, size - len) } else { (end, 0) };
            }
            end += size;
        }
        // Only a record's header can be split here.
        if end == 0 { (len, 0) } else { (end, 0) }
    }

    /// Compresses the first `len` waiting bytes into `packed`.
    fn compress(&mut self, len: usize) -> Result<()> {
        self.packed.clear();
        self.taken += len as u64;
        let mut input = InBuffer::around(&self.waiting[..len]);
        let mut is_done = false;
        while !is_done {
            let start = self.packed.len();
            self.packed.resize(start + RECORD, 0);
            let mut output = OutBuffer::around(&mut self.packed[start + HEADER..]);
            while input.pos < len && output.pos() < RECORD - HEADER {
                self.encoder.run(&mut input, &mut output).map_err(|error| failed(&error))?;
            }
            is_done = input.pos == len
                && self.encoder.flush(&mut output).map_err(|error| failed(&error))? == 0;
            let size = HEADER + output.pos();
            // At most RECORD.
            let size_field = u16::try_from(size).unwrap_or(u16::MAX);
            let header = RecordHeader { kind: kind::COMPRESSED, misc: 0, size: size_field };
            self.packed[start..start + HEADER].copy_from_slice(&header.encode());
            self.packed.truncate(start + size);
        }
        self.made += self.packed.len() as u64;
        Ok(())
    }
}

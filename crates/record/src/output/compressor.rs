//! Compression: records become `PERF_RECORD_COMPRESSED` records, which together hold one zstd
//! stream.
//!
//! ```text
//! records     | record | record | record | ... | record | record | ...
//! blocks      |<------- at most 60 KiB ------->|<---------            ends at a record's end, unless a record is longer
//! compressed  | header | block |    | header | block |                readable together with the blocks before
//! ```
//! perf fails on a compressed record that yields nothing, so no record may end before its first
//! block does. An incompressible block grows by a few bytes; 60 KiB always fit.

use tare_format::Endian;
use tare_format::file::writer::Feature;
use tare_format::record::{RecordHeader, kind};
use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

use super::{OutputError, Result};

/// Limit on the bytes that are compressed into one record.
const BLOCK: usize = 60 << 10;
/// Bytes of the largest possible record, a multiple of eight.
const RECORD: usize = 65_528;
const HEADER: usize = RecordHeader::SIZE;

/// Compresses records.
pub(super) struct Compressor {
    encoder: Encoder<'static>,
    level: i32,
    /// Records that wait for a full block.
    waiting: Vec<u8>,
    /// Bytes missing from a record that an earlier block began: they are at the front of `waiting`,
    /// or still to come.
    begun: usize,
    /// Compressed records of the last block.
    packed: Vec<u8>,
    /// Bytes of records that were compressed.
    taken: u64,
    /// Bytes of compressed records.
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

    /// Compresses everything that waits.
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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn record(size: usize) -> Vec<u8> {
        let mut record = vec![0x5a; size];
        let size = u16::try_from(size).unwrap();
        record[..HEADER].copy_from_slice(&RecordHeader { kind: 9, misc: 0, size }.encode());
        record
    }

    /// Compresses records with a flush after each. Returns the compressed records, and the bytes of
    /// records at each place where the data may end.
    fn compress(records: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<u64>) {
        let mut compressor = Compressor::new(1).unwrap();
        let mut packed = Vec::new();
        let mut ends = Vec::new();
        let mut write = |bytes: &[u8], end: Option<u64>| {
            packed.push(bytes.to_vec());
            ends.extend(end);
            Ok(())
        };
        for record in records {
            compressor.add(record, &mut write).unwrap();
            compressor.flush(&mut write).unwrap();
        }
        (packed, ends)
    }

    #[test]
    fn data_may_end_only_between_records() {
        let records = [record(24), record(65_528), record(BLOCK)];
        let (packed, ends) = compress(&records);
        assert_eq!(packed.len(), 4, "the record that is longer than a block has two");
        let sums = [24, 24 + 65_528, 24 + 65_528 + BLOCK as u64];
        assert_eq!(ends, sums);
        let payload: Vec<u8> = packed
            .iter()
            .flat_map(|record| {
                let header = RecordHeader::first(record, Endian::NATIVE).unwrap();
                assert_eq!((header.kind, header.record_size()), (kind::COMPRESSED, record.len()));
                record[HEADER..].to_vec()
            })
            .collect();
        let all = records.concat();
        let mut plain = vec![0; all.len()];
        let mut decoder = zstd::stream::read::Decoder::new(&payload[..]).unwrap();
        decoder.read_exact(&mut plain).unwrap();
        assert!(plain == all);
    }

    #[test]
    fn nothing_is_written_before_a_block_is_full() {
        let mut compressor = Compressor::new(1).unwrap();
        let mut blocks = 0;
        let mut write = |_: &[u8], _: Option<u64>| {
            blocks += 1;
            Ok(())
        };
        compressor.add(&record(BLOCK - 8), &mut write).unwrap();
        assert_eq!(blocks, 0);
        let mut write = |_: &[u8], end: Option<u64>| {
            blocks += 1;
            assert_eq!(end, Some(BLOCK as u64 - 8));
            Ok(())
        };
        compressor.add(&record(16), &mut write).unwrap();
        assert_eq!(blocks, 1);
    }
}

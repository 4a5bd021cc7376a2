//! Places at which the data of a file may end.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};

use super::disk::DiskFile;

use tare_format::Endian;
use tare_format::record::RecordHeader;

/// Bytes between two places that are kept.
const GRAIN: u64 = 64 << 10;
/// So many are kept: those of the last 256 MiB or more.
const KEPT: usize = 4096;

/// A place at which the data of a file may end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CutPoint {
    /// In bytes from the beginning of the file.
    pub(super) end: u64,
    /// Bytes of records before it, as they were before compression.
    pub(super) records: u64,
}

/// Places at which the data of a file may end. The ends of the file's latest pieces are remembered;
/// between them, records are looked for in the file.
#[derive(Debug)]
pub(super) struct Cuts {
    start: u64,
    ends: VecDeque<CutPoint>,
    /// The last one, which may be near the one before.
    last: Option<CutPoint>,
    /// Records lie in compressed blocks, which make sense whole.
    is_compressed: bool,
}

impl Cuts {
    /// The data begin at `start`.
    pub(super) fn new(start: u64, is_compressed: bool) -> Self {
        Self { start, ends: VecDeque::new(), last: None, is_compressed }
    }

    /// A place at which the data may end, behind those before.
    pub(super) fn add(&mut self, cut: CutPoint) {
        self.last = Some(cut);
        if cut.end < self.ends.back().map_or(self.start, |last| last.end + GRAIN) {
            return;
        }
        self.keep(cut);
    }

    /// A place behind bytes that are no records of the caller's, a table. It is kept however near the
    /// last one is: from here on a byte is a byte again.
    pub(super) fn add_behind_table(&mut self, cut: CutPoint) {
        self.last = Some(cut);
        self.keep(cut);
    }

    fn keep(&mut self, cut: CutPoint) {
        if self.ends.len() == KEPT {
            self.ends.pop_front();
        }
        self.ends.push_back(cut);
    }

    /// The last place up to `limit`. Where there is no file to look into, a record may be cut.
    pub(super) fn before(&self, limit: u64, file: Option<&dyn DiskFile>) -> CutPoint {
        let first = CutPoint { end: self.start, records: 0 };
        let mut known = self.last.iter().chain(self.ends.iter().rev());
        let known = known.find(|cut| cut.end <= limit).copied().unwrap_or(first);
        let end = match file {
            _ if self.is_compressed => known.end,
            Some(file) => records_up_to(file, known.end, limit),
            None => limit.max(known.end),
        };
        // Without compression a byte is a byte.
        CutPoint { end, records: known.records + (end - known.end) }
    }
}

/// The end of the last record that lies whole between the two places, of which the first is a
/// record's beginning.
fn records_up_to(file: &dyn DiskFile, start: u64, limit: u64) -> u64 {
    let mut reader = BufReader::with_capacity(1 << 16, FileReader { file, at: start });
    let mut end = start;
    loop {
        let mut bytes = [0; RecordHeader::SIZE];
        let is_read = reader.read_exact(&mut bytes).is_ok();
        let header = RecordHeader::decode(bytes, Endian::NATIVE);
        let next = end + u64::from(header.size);
        let body = u64::from(header.size).saturating_sub(RecordHeader::SIZE as u64);
        if !is_read || !header.is_possible() || next > limit || !skip(&mut reader, body) {
            return end;
        }
        end = next;
    }
}

/// Steps over so many bytes; `false` where there are fewer.
fn skip(reader: &mut impl BufRead, bytes: u64) -> bool {
    io::copy(&mut reader.take(bytes), &mut io::sink()).is_ok_and(|skipped| skipped == bytes)
}

/// A file from a place on, whose own position stays.
struct FileReader<'a> {
    file: &'a dyn DiskFile,
    at: u64,
}

impl Read for FileReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at).map_err(io::Error::from)?;
        self.at += read as u64;
        Ok(read)
    }
}

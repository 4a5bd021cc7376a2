//! Places at which the data of a file may end.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};

use super::disk::DiskFile;

use tare_format::Endian;
use tare_format::record::RecordHeader;

/// Fewest bytes between two remembered places, except after tables.
const GRAIN: u64 = 64 << 10;
/// Limit on remembered places: enough for the last 256 MiB, unless flushes were closer than
/// [`GRAIN`].
const KEPT: usize = 4096;

/// A place at which the data of a file may end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CutPoint {
    /// Offset in the file, in bytes.
    pub(super) end: u64,
    /// Bytes of records before it, uncompressed.
    pub(super) records: u64,
}

/// Places at which the data of a file may end. The ends of the latest pieces are remembered;
/// between them, record boundaries are read from the file.
#[derive(Debug)]
pub(super) struct Cuts {
    start: u64,
    ends: VecDeque<CutPoint>,
    /// The last place, which may be close to the one before.
    last: Option<CutPoint>,
    /// Whether data are compressed blocks, which are only valid whole.
    is_compressed: bool,
}

impl Cuts {
    /// Creates the list for data that begin at `start`.
    pub(super) fn new(start: u64, is_compressed: bool) -> Self {
        Self { start, ends: VecDeque::new(), last: None, is_compressed }
    }

    /// Adds a place after all others.
    pub(super) fn add(&mut self, cut: CutPoint) {
        self.last = Some(cut);
        if cut.end < self.ends.back().map_or(self.start, |last| last.end + GRAIN) {
            return;
        }
        self.keep(cut);
    }

    /// Adds a place after a table, whose bytes are no records of the caller. It is always
    /// remembered, since the offset of a later place is computed from it: each later byte in the
    /// file is one byte of records.
    pub(super) fn add_after_table(&mut self, cut: CutPoint) {
        self.last = Some(cut);
        self.keep(cut);
    }

    fn keep(&mut self, cut: CutPoint) {
        if self.ends.len() == KEPT {
            self.ends.pop_front();
        }
        self.ends.push_back(cut);
    }

    /// Returns the last place up to `limit`. Without a file to read, it may cut a record.
    pub(super) fn before(&self, limit: u64, file: Option<&dyn DiskFile>) -> CutPoint {
        let first = CutPoint { end: self.start, records: 0 };
        let mut known = self.last.iter().chain(self.ends.iter().rev());
        let known = known.find(|cut| cut.end <= limit).copied().unwrap_or(first);
        let end = match file {
            _ if self.is_compressed => known.end,
            Some(file) => records_up_to(file, known.end, limit),
            None => limit.max(known.end),
        };
        // Without compression, one byte in the file is one byte of records.
        CutPoint { end, records: known.records + (end - known.end) }
    }
}

/// Returns the end of the last whole record between `start` and `limit`. `start` is a record's
/// beginning.
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

/// Skips bytes; returns `false` if there are fewer.
fn skip(reader: &mut impl BufRead, bytes: u64) -> bool {
    io::copy(&mut reader.take(bytes), &mut io::sink()).is_ok_and(|skipped| skipped == bytes)
}

/// Reads a file from an offset, without moving the file's own position.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with records of 16 bytes from offset 100 on.
    fn file() -> std::fs::File {
        let file = tempfile::tempfile().unwrap();
        let header = RecordHeader { kind: 9, misc: 0, size: 16 }.encode();
        let records = [&header[..], &[0; 8]].concat().repeat(100);
        std::os::unix::fs::FileExt::write_all_at(&file, &records, 100).unwrap();
        file
    }

    #[test]
    fn data_end_at_a_records_end_up_to_the_limit() {
        let file = file();
        let mut cuts = Cuts::new(100, false);
        let cut = |cuts: &Cuts, limit| cuts.before(limit, Some(&file));
        assert_eq!(cut(&cuts, 150), CutPoint { end: 148, records: 48 });
        cuts.add(CutPoint { end: 132, records: 32 });
        assert_eq!(cut(&cuts, 131), CutPoint { end: 116, records: 16 });
        assert_eq!(cut(&cuts, 150), CutPoint { end: 148, records: 48 });
        assert_eq!(cuts.before(150, None), CutPoint { end: 150, records: 50 });
    }

    #[test]
    fn bytes_of_a_table_are_no_records() {
        let file = file();
        let mut cuts = Cuts::new(100, false);
        cuts.add(CutPoint { end: 116, records: 16 });
        cuts.add_after_table(CutPoint { end: 132, records: 16 });
        assert_eq!(cuts.before(150, Some(&file)), CutPoint { end: 148, records: 32 });
        cuts.add(CutPoint { end: 148, records: 32 });
        assert_eq!(cuts.before(147, Some(&file)), CutPoint { end: 132, records: 16 });
    }

    #[test]
    fn compressed_data_end_after_whole_blocks() {
        let mut cuts = Cuts::new(100, true);
        cuts.add(CutPoint { end: 200, records: 5000 });
        cuts.add(CutPoint { end: 300, records: 9000 });
        assert_eq!(cuts.before(199, None), CutPoint { end: 100, records: 0 });
        assert_eq!(cuts.before(299, None), CutPoint { end: 200, records: 5000 });
        assert_eq!(cuts.before(300, None), CutPoint { end: 300, records: 9000 });
        let distant = CutPoint { end: 200 + GRAIN, records: 20_000 };
        cuts.add(distant);
        cuts.add(CutPoint { end: 300 + GRAIN, records: 30_000 });
        assert_eq!(cuts.before(299 + GRAIN, None), distant);
        let forgotten = cuts.before(301, None);
        assert_eq!(forgotten, CutPoint { end: 200, records: 5000 }, "less than a grain apart");
    }
}

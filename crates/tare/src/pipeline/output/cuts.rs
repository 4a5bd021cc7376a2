//! Places at which the data of a file may end.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

/// Bytes between two places that are kept.
const GRAIN: u64 = 64 << 10;
/// So many are kept: those of the last 256 MiB or more.
const KEPT: usize = 4096;

/// What lies between two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    /// Records: the data may end behind each.
    Records,
    /// Records that make sense together only.
    Whole,
}

/// Places at which the data of a file may end. The ends of the file's latest pieces are remembered; between them, records are
/// looked for in the file.
#[derive(Debug)]
pub(super) struct Cuts {
    start: u64,
    ends: VecDeque<u64>,
    between: Between,
}

impl Cuts {
    /// The data begin at `start`.
    pub(super) fn new(start: u64, between: Between) -> Self {
        Self { start, ends: VecDeque::new(), between }
    }

    /// A place at which the data may end, behind those before.
    pub(super) fn add(&mut self, end: u64) {
        if end < self.ends.back().map_or(self.start, |last| last + GRAIN) {
            return;
        }
        if self.ends.len() == KEPT {
            self.ends.pop_front();
        }
        self.ends.push_back(end);
    }

    /// The last place up to `limit`.
    pub(super) fn before(&self, limit: u64, file: &File) -> u64 {
        let known = self.ends.iter().rev().find(|end| **end <= limit).copied().unwrap_or(self.start);
        match self.between {
            Between::Whole => known,
            Between::Records => records_up_to(file, known, limit),
        }
    }
}

/// The end of the last record that lies whole between the two places, of which the first is a record's beginning.
fn records_up_to(file: &File, start: u64, limit: u64) -> u64 {
    let mut reader = BufReader::with_capacity(1 << 16, From { file, at: start });
    let mut end = start;
    loop {
        let mut header = [0; 8];
        let is_read = reader.read_exact(&mut header).is_ok();
        let size = u64::from(u16::from_ne_bytes([header[6], header[7]]));
        if !is_read || size < 8 || end + size > limit || !skip(&mut reader, size - 8) {
            return end;
        }
        end += size;
    }
}

/// Steps over so many bytes; `false` where there are fewer.
fn skip(reader: &mut impl BufRead, bytes: u64) -> bool {
    io::copy(&mut reader.take(bytes), &mut io::sink()).is_ok_and(|skipped| skipped == bytes)
}

/// A file from a place on, whose own position stays.
struct From<'a> {
    file: &'a File,
    at: u64,
}

impl Read for From<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

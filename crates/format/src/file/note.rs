//! Notes in a recording: data for tare's own readers, which other readers skip.
//!
//! ```text
//! PERF_RECORD_FINISHED_INIT | "tare.note", 7 zeros | total u32 | offset u32 | bytes | zeros
//! ```
//! `total` is the length of the note, `offset` that of its earlier parts. Zeros fill the record up
//! to a multiple of 8 bytes.
//!
//! Readers of `perf.data` know FINISHED_INIT as a mark without a body, and skip a body: perf 6.1
//! does (`report`, `script` and `inject`, in files, pipes and compressed data), and so does the
//! crate `linux-perf-data`. A FINISHED_ROUND wouldn't do, because that crate takes its body for the
//! next record. A note of more than 60,000 bytes is divided among consecutive records.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bytes::Cursor;
use crate::limits;
use crate::record::{RawRecord, RecordHeader, kind};

/// The first bytes of the body of each record of a note.
const MAGIC: [u8; 16] = *b"tare.note\0\0\0\0\0\0\0";

/// The most bytes of a note in one record.
const PART_BYTES: usize = 60_000;

/// A note is longer than [`limits::NOTE_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a note has {len} bytes, and a reader accepts at most {}", limits::NOTE_BYTES)]
pub struct TooLong {
    /// Its length in bytes.
    pub len: usize,
}

/// Encodes a note as one or more records; an empty note as no record.
///
/// # Errors
/// See [`TooLong`].
pub fn encode(note: &[u8]) -> Result<Vec<u8>, TooLong> {
    let too_long = || TooLong { len: note.len() };
    let total = u32::try_from(note.len())
        .ok()
        .filter(|_| note.len() <= limits::NOTE_BYTES)
        .ok_or_else(too_long)?;
    let mut records = Vec::with_capacity(note.len() + 64);
    for (part, offset) in note.chunks(PART_BYTES).zip((0..total).step_by(PART_BYTES)) {
        let body = (MAGIC.len() + 8 + part.len()).next_multiple_of(8);
        let header = RecordHeader::new(kind::FINISHED_INIT, 0, body).map_err(|_| too_long())?;
        let end = records.len() + header.record_size();
        records.extend(header.encode());
        records.extend(MAGIC);
        records.extend([total, offset].map(u32::to_ne_bytes).as_flattened());
        records.extend_from_slice(part);
        records.resize(end, 0);
    }
    Ok(records)
}

/// Encodes a note as a mark followed by JSON.
pub(crate) fn to_json(mark: &[u8], value: &impl Serialize) -> Vec<u8> {
    // Notes consist of numbers, strings and lists, which always have a JSON form.
    [mark, &serde_json::to_vec(value).unwrap_or_default()].concat()
}

/// Decodes a note of [`to_json`]; `None` for notes with another mark and damaged ones.
pub(crate) fn from_json<T: DeserializeOwned>(mark: &[u8], note: &[u8]) -> Option<T> {
    serde_json::from_slice(note.strip_prefix(mark)?).ok()
}

/// Assembles the notes of a recording from their records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    whole: Vec<Vec<u8>>,
    bytes: usize,
    /// The parts of an incomplete note so far.
    begun: Vec<u8>,
}

impl Notes {
    /// Returns the complete notes, in the order of the recording.
    #[must_use]
    pub fn whole(&self) -> &[Vec<u8>] {
        &self.whole
    }

    /// Removes and returns the complete notes. Their bytes no longer count towards
    /// [`limits::NOTE_BYTES`].
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        self.bytes = 0;
        std::mem::take(&mut self.whole)
    }

    /// Adds a record, and ignores it if it isn't part of a note. Returns `false`, and drops the
    /// incomplete note, if the record is truncated or doesn't continue the previous part, or if all
    /// notes together would exceed [`limits::NOTE_BYTES`].
    pub fn absorb(&mut self, record: &RawRecord<'_>) -> bool {
        let Some((total, offset, rest)) = parse_part(record) else { return true };
        let wanted = total.saturating_sub(offset).min(PART_BYTES);
        let follows = offset == self.begun.len()
            && wanted > 0
            && self.bytes.saturating_add(total) <= limits::NOTE_BYTES;
        let Some(part) = rest.get(..wanted).filter(|_| follows) else {
            self.begun.clear();
            return false;
        };
        self.begun.extend_from_slice(part);
        if self.begun.len() >= total {
            self.bytes += total;
            self.whole.push(std::mem::take(&mut self.begun));
        }
        true
    }
}

/// Returns total, offset and remaining bytes of a note's record; `None` for any other record.
fn parse_part<'a>(record: &RawRecord<'a>) -> Option<(usize, usize, &'a [u8])> {
    let body = record.body.strip_prefix(&MAGIC).filter(|_| record.kind == kind::FINISHED_INIT)?;
    let mut fields = Cursor::new(body, record.endian);
    let total = fields.u32()?;
    let offset = fields.u32()?;
    Some((usize::try_from(total).ok()?, usize::try_from(offset).ok()?, fields.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endian;
    use crate::file::writer::FINISHED_INIT;
    use crate::record::Records;

    fn read(bytes: &[u8]) -> (Notes, bool) {
        let mut notes = Notes::default();
        let mut records = Records::new(bytes, Endian::NATIVE);
        let refused = records.by_ref().filter(|record| !notes.absorb(record)).count();
        assert!(records.rest().is_empty());
        (notes, refused == 0)
    }

    #[test]
    fn decodes_notes_of_any_length() {
        let long: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        for note in [&b"x"[..], b"12345678", &long[..PART_BYTES], &long[..PART_BYTES + 1], &long] {
            let bytes = [&FINISHED_INIT[..], &encode(note).unwrap(), &FINISHED_INIT].concat();
            assert_eq!(bytes.len() % 8, 0);
            let (notes, fits) = read(&bytes);
            assert!(fits && notes.whole() == [note.to_vec()]);
        }
        assert_eq!(encode(b""), Ok(Vec::new()));
        assert_eq!(
            encode(&vec![0; limits::NOTE_BYTES + 1]),
            Err(TooLong { len: limits::NOTE_BYTES + 1 })
        );
    }

    #[test]
    fn separates_notes_and_limits_their_total() {
        let note = vec![7; limits::NOTE_BYTES / 2];
        let one = encode(&note).unwrap();
        let (notes, fits) = read(&[&one[..], &one].concat());
        assert!(fits && notes.whole().len() == 2);
        let (notes, fits) = read(&[&one[..], &one, &encode(b"more").unwrap()].concat());
        assert!(!fits && notes.whole().len() == 2);
    }

    #[test]
    fn drops_notes_with_missing_or_repeated_parts() {
        let long = vec![1; 3 * PART_BYTES];
        let bytes = encode(&long).unwrap();
        let record = bytes.len() / 3;
        for wrong in [
            &bytes[record..],
            &[&bytes[..record], &bytes[2 * record..]].concat(),
            &[&bytes[..record], &bytes[..record]].concat(),
        ] {
            let (notes, fits) = read(wrong);
            assert!(!fits && notes.whole().is_empty());
        }
        let (notes, fits) = read(&[&bytes[record..], &encode(b"whole").unwrap()].concat());
        assert!(!fits && notes.whole() == [b"whole".to_vec()], "later notes are read");
        let (notes, fits) = read(&bytes[..2 * record]);
        assert!(fits && notes.whole().is_empty(), "a truncated note is dropped");
    }
}

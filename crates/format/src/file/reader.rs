//! Reads a recording from start to end.

mod setup;

use std::io::{self, Read, Seek, SeekFrom};

use super::compression::Unpacker;
use super::description::Description;
use super::features;
use super::header::{
    FILE_HEADER_SIZE, FileHeader, HEADER_SIZE_WITHOUT_FEATURES, Header, PIPE_HEADER_SIZE,
};
use super::loss::{LossReason, Losses};
use super::window::Window;
use crate::bytes::Endian;
use crate::record::{RawRecord, Record, RecordHeader, kind};

/// Why a recording can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It can't be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It doesn't start with the magic number of `perf.data`.
    #[error("not a perf.data file")]
    NotPerfData,
    /// The header ends early.
    #[error("the header of the perf.data file is truncated")]
    CutHeader,
    /// A file comes through a pipe: reading it needs seeking, because its feature sections follow
    /// its data.
    #[error(
        "a perf.data file can't be read from a pipe (only what `perf record -o -` writes can): name the file"
    )]
    FileInPipe,
}

/// Data that follows a record without being part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Offset in bytes from the start of the recording.
    pub offset: u64,
    /// Length in bytes.
    pub size: u64,
}

/// A record with its position, and the recording's description so far.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Offset in bytes from the start of the recording; of a decompressed record, that of the
    /// compressed record that held its end.
    pub offset: u64,
    /// The record.
    pub record: RawRecord<'a>,
    /// Events, features and notes, as far as the header's sections and the records up to this one
    /// describe them.
    pub description: &'a Description,
    /// AUX data after the record, which the reader skips.
    pub payload: Option<Payload>,
}

/// Reads a recording of any size through a buffer of [`crate::limits::READ_BUFFER`] bytes.
#[derive(Debug)]
pub struct Reader<R> {
    window: Window<R>,
    endian: Endian,
    header: Header,
    description: Description,
    losses: Losses,
    pending: Option<Pending>,
    unpacker: Unpacker,
}

/// Data between the last record and the next. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
enum Pending {
    TracingData { size: u64, padding: u64 },
    Skip { size: u64 },
}

impl<R: Read> Reader<R> {
    /// Opens a stream: what `perf record -o -` writes.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn stream(mut source: R) -> Result<Self, OpenError> {
        let (endian, size) = read_magic(&mut source)?;
        if size != PIPE_HEADER_SIZE as u64 {
            return Err(OpenError::FileInPipe);
        }
        Ok(Self::new(source, PIPE_HEADER_SIZE as u64, None, endian, Header::Pipe))
    }

    /// Opens bytes that consist of records only: one ring's file in a `perf record --threads`
    /// directory, whose description is elsewhere.
    #[must_use]
    pub fn records(source: R, endian: Endian) -> Self {
        Self::new(source, 0, None, endian, Header::Pipe)
    }

    fn new(source: R, offset: u64, end: Option<u64>, endian: Endian, header: Header) -> Self {
        let description = Description::new(endian);
        Self {
            window: Window::new(source, offset, end),
            endian,
            header,
            description,
            losses: Losses::default(),
            pending: None,
            unpacker: Unpacker::default(),
        }
    }

    /// Returns the layout of the recording.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the byte order of the recorded machine.
    #[must_use]
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Returns the events, features and notes read so far: of a file, its sections and the records
    /// so far; of a pipe, the records so far.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Returns the parts that could not be read so far.
    #[must_use]
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Returns the next record; `None` at the end of the data. [`Reader::losses`] says whether the
    /// data is complete.
    ///
    /// Records of unknown kinds are returned. Compressed records are returned, followed by their
    /// contents. Records that describe the recording are applied first, and returned too.
    ///
    /// # Errors
    /// Fails if the source can't be read. Malformed data is not an error.
    #[inline]
    pub fn next_record(&mut self) -> io::Result<Option<Entry<'_>>> {
        if self.pending.is_none()
            && self.unpacker.is_empty()
            && let Some(size) = self.kernel_record()
        {
            let offset = self.window.offset();
            let record = RawRecord::first(self.window.advance(size), self.endian);
            let description = &self.description;
            return Ok(record.map(|record| Entry { offset, record, description, payload: None }));
        }
        self.next_of_any_kind()
    }

    /// Returns the size of the next record if it is of a kind that the kernel writes and the window
    /// holds all of it, which is true of nearly all records.
    #[inline]
    fn kernel_record(&self) -> Option<usize> {
        let bytes = self.window.bytes();
        let header = RecordHeader::first(bytes, self.endian)?;
        let is_whole = header.is_possible() && header.record_size() <= bytes.len();
        (is_whole && header.kind != 0 && header.kind < kind::USER_TYPE_START)
            .then_some(header.record_size())
    }

    #[inline(never)]
    fn next_of_any_kind(&mut self) -> io::Result<Option<Entry<'_>>> {
        if let Some(size) = self.unpacker.find_record(self.endian, &mut self.losses) {
            return Ok(self.unpacked(size));
        }
        self.finish_pending()?;
        let Some(size) = self.find_record()? else { return Ok(None) };
        let offset = self.window.offset();
        let bytes = self.window.advance(size);
        let Some(record) = RawRecord::first(bytes, self.endian) else { return Ok(None) };
        let mut payload = None;
        if record.kind >= kind::USER_TYPE_START {
            self.description.absorb(&record, offset, &mut self.losses);
            self.pending = match record.decode() {
                Ok(Record::TracingData { size }) => Some(Pending::TracingData {
                    size: size.into(),
                    padding: u64::from(size).next_multiple_of(8) - u64::from(size),
                }),
                Ok(Record::Auxtrace(aux)) => {
                    payload =
                        Some(Payload { offset: offset + record.size() as u64, size: aux.size });
                    Some(Pending::Skip { size: aux.size })
                }
                Ok(Record::Compressed { data }) => {
                    self.unpacker.add(data, offset, &mut self.losses);
                    None
                }
                _ => None,
            };
        }
        Ok(Some(Entry { offset, record, description: &self.description, payload }))
    }

    /// Whether [`Reader::next_record`] will return a record.
    ///
    /// # Errors
    /// Fails if the source can't be read.
    pub fn has_record(&mut self) -> io::Result<bool> {
        if self.unpacker.find_record(self.endian, &mut self.losses).is_some() {
            return Ok(true);
        }
        self.finish_pending()?;
        Ok(self.find_record()?.is_some())
    }

    /// Returns a decompressed record, with the offset of the compressed record that held its end.
    /// Only records are compressed, so it has no payload.
    fn unpacked(&mut self, size: usize) -> Option<Entry<'_>> {
        let (bytes, offset) = self.unpacker.advance(size);
        let record = RawRecord::first(bytes, self.endian)?;
        if record.kind >= kind::USER_TYPE_START {
            self.description.absorb(&record, offset, &mut self.losses);
        }
        Some(Entry { offset, record, description: &self.description, payload: None })
    }

    /// Reads or skips the data that follows the last record.
    fn finish_pending(&mut self) -> io::Result<()> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let offset = self.window.offset();
        let missing = match pending {
            Pending::Skip { size } => size - self.window.skip(size)?,
            Pending::TracingData { size, .. } if size > self.description.features().room() => {
                self.losses.add(offset, size, LossReason::OverLimit);
                self.window.skip(size.next_multiple_of(8))?;
                0
            }
            Pending::TracingData { size, padding } => {
                let data = self.window.read_vec(size)?;
                let missing = size - data.len() as u64;
                self.description.add_feature(features::TRACING_DATA, data);
                self.window.skip(padding)?;
                missing
            }
        };
        self.losses.add(self.window.offset(), missing, LossReason::CutRecord);
        Ok(())
    }

    /// Reads the next whole record into the window, and returns its size; `None` at the end of the
    /// data. Skips zeros.
    fn find_record(&mut self) -> io::Result<Option<usize>> {
        loop {
            let offset = self.window.offset();
            if !self.window.fill(RecordHeader::SIZE)? {
                self.end_of_data(offset, LossReason::CutRecord)?;
                return Ok(None);
            }
            let header = RecordHeader::first(self.window.bytes(), self.endian).unwrap_or_default();
            if header.is_possible() {
                if self.window.fill(header.record_size())? {
                    return Ok(Some(header.record_size()));
                }
                self.end_of_data(offset, LossReason::CutRecord)?;
                return Ok(None);
            }
            if header != RecordHeader::default() {
                self.end_of_data(offset, LossReason::BadSize)?;
                return Ok(None);
            }
            self.skip_zeros(offset)?;
        }
    }

    /// Skips zeros, eight at a time.
    fn skip_zeros(&mut self, offset: u64) -> io::Result<()> {
        while self.window.fill(RecordHeader::SIZE)? {
            let zeros = self
                .window
                .bytes()
                .as_chunks::<8>()
                .0
                .iter()
                .take_while(|word| **word == [0; 8])
                .count()
                * 8;
            if zeros == 0 {
                break;
            }
            self.window.advance(zeros);
        }
        self.losses.add(offset, self.window.offset() - offset, LossReason::Zeros);
        Ok(())
    }

    /// Accounts for the rest of the data (`why`), and for missing data, and ends reading.
    fn end_of_data(&mut self, offset: u64, why: LossReason) -> io::Result<()> {
        self.unpacker.end(&mut self.losses);
        let left = self.window.skip(u64::MAX)?;
        self.losses.add(offset, left, why);
        if let Some(missing) = self.window.missing() {
            self.losses.add(self.window.offset(), missing, LossReason::CutData);
        }
        self.window.close();
        Ok(())
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Opens a file, or a stream that was saved to a file.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(mut source: R) -> Result<Self, OpenError> {
        let (endian, size) = read_magic(&mut source)?;
        if size == PIPE_HEADER_SIZE as u64 {
            return Ok(Self::new(source, size, None, endian, Header::Pipe));
        }
        let mut bytes = [0; FILE_HEADER_SIZE - PIPE_HEADER_SIZE];
        // Of the first version's headers, some end before the bits of the features.
        let length = if size == HEADER_SIZE_WITHOUT_FEATURES as u64 {
            HEADER_SIZE_WITHOUT_FEATURES - PIPE_HEADER_SIZE
        } else {
            bytes.len()
        };
        source.read_exact(&mut bytes[..length]).map_err(cut_header)?;
        let header = FileHeader::decode(&bytes, endian).ok_or(OpenError::CutHeader)?;
        let file_size = source.seek(SeekFrom::End(0))?;
        let (description, losses) = setup::read(&mut source, header, endian, file_size)?;
        let end = if header.data.size == 0 { Some(file_size) } else { header.data.end() };
        source.seek(SeekFrom::Start(header.data.offset.min(file_size)))?;
        let window = Window::new(source, header.data.offset, end);
        Ok(Self {
            window,
            endian,
            header: Header::File(header),
            description,
            losses,
            pending: None,
            unpacker: Unpacker::default(),
        })
    }
}

/// Reads the magic number and the header's size. Returns the byte order and that size. Version 1,
/// which perf wrote until 2012, has the same bytes as magic number in both byte orders: there, the
/// order is the one that makes the size a small number.
fn read_magic(source: &mut impl Read) -> Result<(Endian, u64), OpenError> {
    let mut magic = [0; 8];
    let mut size = [0; 8];
    source.read_exact(&mut magic).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => OpenError::NotPerfData,
        _ => OpenError::Io(error),
    })?;
    if ![b"PERFILE2", b"2ELIFREP", b"PERFFILE"].contains(&&magic) {
        return Err(OpenError::NotPerfData);
    }
    source.read_exact(&mut size).map_err(cut_header)?;
    let endian = match &magic {
        b"2ELIFREP" => Endian::Big,
        b"PERFFILE" if u64::from_le_bytes(size) > u64::from(u32::MAX) => Endian::Big,
        _ => Endian::Little,
    };
    Ok((endian, endian.u64(size)))
}

fn cut_header(error: io::Error) -> OpenError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        OpenError::CutHeader
    } else {
        OpenError::Io(error)
    }
}

#[cfg(test)]
mod tests;

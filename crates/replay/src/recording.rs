//! Opens a recording: a file, a stream, or the folder that `perf record --threads` writes.
//!
//! ```text
//! perf.data/data      header, events, features, existing processes       read first
//! perf.data/data.0    records of one ring, without a header              \  the one whose last
//! perf.data/data.1    ...                                                /  record is oldest
//! ```
//! Source: `tools/perf/Documentation/perf.data-directory-format.txt`.

use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use tare_format::file::features::DIR_FORMAT;
use tare_format::file::{Description, Entry, Header, Losses, OpenError, Reader};
use tare_symbols::RecordedKernel;

use crate::build_ids::{BuildIds, recorded_kernel};
use crate::error::Error;

/// Limit of files in a folder. Each ring buffer has one.
const PARTS: usize = 1 << 16;

/// An open recording, read from start to end.
#[derive(Debug)]
pub struct Recording {
    main: Reader<File>,
    parts: Vec<RingFile>,
    /// See [`Recording::bytes`].
    bytes: Option<u64>,
    /// When the file was last written, in nanoseconds since 1970; `None` for a stream.
    pub(crate) written_ns: Option<u64>,
    position: Position,
}

/// The number of bytes read so far up to the last record, readable from other threads.
#[derive(Clone, Debug, Default)]
pub struct Position(Arc<AtomicU64>);

impl Position {
    /// Returns the number of bytes read so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The file of one ring buffer, in time order.
#[derive(Debug)]
struct RingFile {
    reader: Reader<File>,
    /// Offset of the record that was read last.
    offset: u64,
    /// Time of the record that was read last, or of one before if that has no time; `None` at the
    /// end.
    time_ns: Option<u64>,
}

impl Recording {
    /// Opens a file, a FIFO, or a folder.
    ///
    /// # Errors
    /// Fails if the recording doesn't exist, can't be opened, or has another format.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => Error::Absent(path.to_owned()),
            _ => Error::Open { path: path.to_owned(), source },
        };
        let file = File::open(path).map_err(failed)?;
        if !file.metadata().is_ok_and(|meta| meta.is_dir()) {
            return Self::from_file(file, path);
        }
        let main = File::open(path.join("data")).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NoRecording(path.to_owned()),
            _ => Error::Open { path: path.to_owned(), source },
        })?;
        let mut recording = Self::from_file(main, path)?;
        if recording.description().features().section(DIR_FORMAT).is_some() {
            recording.open_parts(path).map_err(failed)?;
        }
        Ok(recording)
    }

    /// Reads an open file; one that can't seek is read as a stream. `path` is for error messages.
    ///
    /// # Errors
    /// Fails with [`Error::Open`] if the file can't be read, and with [`Error::Format`] if it isn't
    /// a recording.
    pub fn from_file(mut file: File, path: &Path) -> Result<Self, Error> {
        let is_file = file.stream_position().is_ok();
        let written = file.metadata().and_then(|meta| meta.modified()).ok().filter(|_| is_file);
        let written = written.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let written_ns = written.and_then(|since| u64::try_from(since.as_nanos()).ok());
        let reader = if is_file { Reader::open(file) } else { Reader::stream(file) };
        let main = reader.map_err(|source| match source {
            OpenError::Io(source) => Error::Open { path: path.to_owned(), source },
            source => Error::Format { path: path.to_owned(), source },
        })?;
        let bytes = match main.header() {
            Header::File(header) => Some(header.data.offset.saturating_add(header.data.size)),
            Header::Pipe => None,
        };
        Ok(Self { main, parts: Vec::new(), bytes, written_ns, position: Position::default() })
    }

    fn open_parts(&mut self, folder: &Path) -> io::Result<()> {
        for number in 0..PARTS {
            let file = match File::open(folder.join(format!("data.{number}"))) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                opened => opened?,
            };
            let bytes = file.metadata()?.len();
            self.bytes = self.bytes.map(|all| all.saturating_add(bytes));
            let reader = Reader::records(file, self.main.endian());
            self.parts.push(RingFile { reader, offset: 0, time_ns: Some(0) });
        }
        Ok(())
    }

    /// Returns the offset of the end of the records in bytes, plus the sizes of a folder's other
    /// files; `None` for a stream. Records whose size the header lacks, because the recorder was
    /// killed, don't count.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Returns a handle to the reading position.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position.clone()
    }

    /// Returns the file header, which holds the layout.
    #[must_use]
    pub fn header(&self) -> &Header {
        self.main.header()
    }

    /// Returns the events, features and notes read so far.
    #[must_use]
    pub fn description(&self) -> &Description {
        self.main.description()
    }

    /// Returns the recorded kernel, as described so far.
    #[must_use]
    pub fn kernel(&self) -> RecordedKernel {
        recorded_kernel(self.description(), &mut BuildIds::default())
    }

    /// Returns the losses of reading so far.
    #[must_use]
    pub fn losses(&self) -> Losses {
        let mut losses = self.main.losses().clone();
        self.parts.iter().for_each(|part| losses.extend(part.reader.losses()));
        losses
    }

    /// Reads the next record; `None` at the end of the data, also of truncated data.
    ///
    /// # Errors
    /// Fails if the file can't be read. Malformed data counts as a loss.
    pub fn next_record(&mut self) -> io::Result<Option<Entry<'_>>> {
        if self.parts.is_empty() || self.main.has_record()? {
            let next = self.main.next_record()?;
            let bytes = next.as_ref().map(|entry| entry.offset).or(self.bytes);
            bytes.inspect(|bytes| self.position.0.store(*bytes, Ordering::Relaxed));
            return Ok(next);
        }
        let Some(index) = self.find_next_part()? else {
            self.bytes.inspect(|bytes| self.position.0.store(*bytes, Ordering::Relaxed));
            return Ok(None);
        };
        let description = self.main.description();
        let part = &mut self.parts[index];
        let Some(entry) = part.reader.next_record()? else { return Ok(None) };
        let read = entry.offset.saturating_sub(part.offset);
        part.offset = entry.offset;
        self.position.0.fetch_add(read, Ordering::Relaxed);
        part.time_ns = description.lookup().time_ns(&entry.record).or(part.time_ns);
        Ok(Some(Entry { description, ..entry }))
    }

    /// Returns the index of the part that has more records and whose last read record is the
    /// oldest; `None` at the end of all.
    fn find_next_part(&mut self) -> io::Result<Option<usize>> {
        loop {
            let open = self.parts.iter().enumerate();
            let open = open.filter_map(|(index, part)| Some((part.time_ns?, index)));
            let Some((_, index)) = open.min() else { return Ok(None) };
            if self.parts[index].reader.has_record()? {
                return Ok(Some(index));
            }
            self.parts[index].time_ns = None;
        }
    }

    /// For a folder, returns a time before which all records were read; `None` once all its files
    /// have ended. `None` for other recordings, which have records of kind `FINISHED_ROUND`
    /// instead.
    #[must_use]
    pub fn complete_before_ns(&self) -> Option<u64> {
        self.parts.iter().filter_map(|part| part.time_ns).min()
    }
}

pub(crate) fn add_reading_losses(losses: &mut tare_profile::Losses, unread: &Losses) {
    let gap = |gap: &tare_format::file::Gap| tare_profile::Gap {
        offset: gap.offset,
        bytes: gap.bytes,
        why: gap.why.to_string(),
    };
    losses.gaps.extend(unread.gaps().iter().map(gap));
    losses.more_gaps = unread.more();
    losses.unread_bytes = unread.bytes();
    losses.is_unfinished = unread.unfinished;
}

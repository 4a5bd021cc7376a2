//! One file of a recording, or a stream: its beginning, its records, its end.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{fdatasync, ftruncate};
use rustix::io::Errno;
use tare_format::file::writer::{DATA_SIZE_OFFSET, Description, data_size};

use super::cuts::{Between, Cuts};
use super::place::Place;
use super::sink::{Sink, write_at};
use super::write::FileWriter;
use super::{Account, Options, OutputError, Result};

/// How often the data are cut to make room for the file's end.
const ATTEMPTS: u64 = 4;

/// What holds the bytes.
#[derive(Debug)]
enum Holder {
    File { file: Arc<File>, path: PathBuf },
    Null(Arc<File>),
    Stream,
}

/// One file of a recording, or a stream.
#[derive(Debug)]
pub(super) struct Piece {
    holder: Holder,
    sink: Sink,
    cuts: Cuts,
    /// Where the records begin that were appended.
    start: u64,
    /// The end of the data, as the header knows it.
    known_end: u64,
    between: Between,
    sync: bool,
    uncompressed: u64,
    dropped: u64,
    failed: Option<OutputError>,
}

impl Piece {
    /// Begins to write at a place.
    pub(super) fn new(place: Place, options: &Options) -> Self {
        let (holder, sink) = match place {
            Place::File { file, path } => {
                let file = Arc::new(file);
                (Holder::File { file: Arc::clone(&file), path }, Sink::Write(FileWriter::new(file, 0)))
            }
            Place::Null(file) => {
                let file = Arc::new(file);
                (Holder::Null(Arc::clone(&file)), Sink::Write(FileWriter::new(file, 0)))
            }
            Place::Stream(file) => (Holder::Stream, Sink::Stream { file, end: 0 }),
        };
        let between = if options.compress.is_some() { Between::Whole } else { Between::Records };
        let cuts = Cuts::new(0, between);
        Self { holder, sink, cuts, start: 0, known_end: 0, between, sync: options.sync, uncompressed: 0, dropped: 0, failed: None }
    }

    /// The file, where bytes can be written to a place of it.
    fn file(&self) -> Option<&Arc<File>> {
        match &self.holder {
            Holder::File { file, .. } | Holder::Null(file) => Some(file),
            Holder::Stream => None,
        }
    }

    /// Bytes in the file, or that went into the stream.
    pub(super) fn written(&self) -> u64 {
        self.sink.end()
    }

    /// Writes what the recording begins with.
    pub(super) fn begin(&mut self, description: &Description) -> Result<()> {
        let beginning = if self.file().is_some() { description.beginning() } else { description.stream_beginning() }?;
        self.sink.append(&[&beginning])?;
        self.start = self.sink.end();
        self.known_end = self.start;
        self.cuts = Cuts::new(self.start, self.between);
        Ok(())
    }

    /// Writes whole records.
    pub(super) fn append(&mut self, records: &[&[u8]]) -> Result<()> {
        let bytes = records.iter().map(|piece| piece.len() as u64).sum::<u64>();
        self.uncompressed += bytes;
        if let Some(error) = &self.failed {
            self.dropped += bytes;
            return Err(error.clone());
        }
        let before = self.sink.end();
        match self.sink.append(records) {
            Ok(()) => {
                self.cuts.add(self.sink.end());
                Ok(())
            }
            Err(error) => {
                let end = self.cut(self.sink.end());
                self.dropped += bytes.saturating_sub(end - before);
                self.fail(error.into(), end)
            }
        }
    }

    /// The last place up to `limit` at which the data may end.
    fn cut(&self, limit: u64) -> u64 {
        self.file().map_or(limit, |file| self.cuts.before(limit, file))
    }

    /// Nothing more is written. The data end at `end`.
    fn fail(&mut self, error: OutputError, end: u64) -> Result<()> {
        self.failed = Some(error.clone());
        // Of the two failures the first says why.
        let _ = self.make_known(end);
        Err(error)
    }

    /// Everything that was written can be read from now on, also if nobody finishes the file.
    pub(super) fn flush(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.make_known(self.sink.end())?;
        match self.file() {
            Some(file) if self.sync => Ok(fdatasync(file)?),
            _ => Ok(()),
        }
    }

    fn make_known(&mut self, end: u64) -> Result<()> {
        if end != self.known_end
            && let Some(file) = self.file()
        {
            write_at(file, &data_size(end), DATA_SIZE_OFFSET)?;
            self.known_end = end;
        }
        Ok(())
    }

    /// Completes the file, or what is left of it after a failure.
    pub(super) fn finish(mut self, description: &Description, account: &mut Account) {
        if self.start > 0 {
            self.complete(description, account);
        }
        account.path = self.sink.path();
        account.uncompressed_bytes += self.uncompressed;
        account.dropped_bytes += self.dropped;
        account.stopped = account.stopped.take().or(self.failed);
        if let Holder::File { path, .. } = self.holder {
            account.files.push(path);
        }
    }

    fn complete(&mut self, description: &Description, account: &mut Account) {
        let written = match self.file().cloned() {
            Some(file) => self.complete_file(&file, description),
            None if self.failed.is_some() => Ok(self.sink.end()),
            None => self.sink.append(&[&description.stream_ending()]).map_err(OutputError::from).map(|()| self.sink.end()),
        };
        match written {
            Ok(bytes) => account.bytes += bytes,
            Err(error) => {
                account.bytes += self.sink.end();
                account.unfinished = true;
                self.failed.get_or_insert(error);
            }
        }
    }

    /// Writes the end of the file and then its header; returns the file's length.
    ///
    /// ```text
    /// room was left   | header | records ................ | tail |
    /// none was left   | header | records ........ | tail |          cut where a record ends, as far back as the tail needs
    /// ```
    fn complete_file(&mut self, file: &Arc<File>, description: &Description) -> Result<u64> {
        // What is behind the known end of a failed recording is part of a record.
        let mut end = if self.failed.is_some() { self.known_end } else { self.sink.end() };
        let room = self.sink.end();
        self.make_known(end)?;
        for attempt in 0..=ATTEMPTS {
            // What describes the recording is among the data too; the header points to what comes behind it.
            let ending = description.ending(&(self.start..end))?;
            let length = end + ending.tail.len() as u64;
            match write_at(file, &ending.tail, end) {
                Ok(()) => {
                    write_at(file, &ending.header, 0)?;
                    if matches!(self.holder, Holder::File { .. }) {
                        ftruncate(file, length)?;
                    }
                    if self.sync {
                        fdatasync(file)?;
                    }
                    return Ok(length);
                }
                Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                    // File systems that write elsewhere need some room more.
                    let tail = ending.tail.len() as u64 + attempt * (256 << 10);
                    let shorter = self.cut(room.saturating_sub(tail).max(self.start).min(end));
                    self.dropped += end - shorter;
                    self.failed.get_or_insert(error.into());
                    end = shorter;
                    self.make_known(end)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(OutputError::Full)
    }
}

//! Writes a recording's bytes from the rings to a file or a stream.
//!
//! ```text
//! begin | header, events, features, formats |
//! append                                    | records ... | records ... |      straight from the rings, unparsed
//! flush                                                   ^             ^      data.size: readers see everything before
//! finish                                                                | tail |, then the header that points at it
//! ```
//! Everything before the last flush can be read, whatever happens to the recorder. A full disk or a
//! limit on file sizes ends the recording: its data are cut at a record's end, as far back as the
//! tail needs room.

mod compressor;
mod cuts;
mod destination;
mod direct;
pub mod disk;
mod error;
mod file;
mod file_system;
mod gone;
mod hand_over;
mod later_ids;
mod names;
mod options;
mod pace;
mod queue;
mod record_sink;
mod series;
mod sink;
mod stats;
#[cfg(test)]
mod tests;
mod window_thread;
mod windows;
mod write;

use std::path::PathBuf;
use std::sync::Arc;

use tare_format::file::writer::Description;

use crate::clock::{Clock, SystemClock};

use disk::OutputBackend;
use disk::{CutFile, Disk, OpenDestination};
pub use error::{OutputError, Result};
pub use file_system::FileSystem;
pub use options::{Destination, Options, PathChoice, Switch};
use queue::Queue;
use record_sink::SinkWriter;
pub use record_sink::{RecordSink, SinkClosed};
use series::FileSeries;
pub use stats::{OutputStats, Path};

/// The end of a file.
#[derive(Clone, Copy, Debug)]
pub struct Closing<'a> {
    /// The description, with facts that are only known at the end.
    pub description: &'a Description,
    /// The last records. They are written even if the recording had to end: data are cut to make
    /// room for them.
    pub records: &'a [u8],
}

/// An open recording.
#[derive(Debug)]
pub struct Output {
    writer: Writer,
    max_size: Option<u64>,
    step: Option<usize>,
}

/// Who writes: whoever appends, or a thread.
#[derive(Debug)]
enum Writer {
    Series(Box<FileSeries>),
    Queued(Queue),
    Sink(SinkWriter),
}

impl Output {
    /// Opens a destination, and starts its helper threads. An existing file is renamed with the
    /// ending `.old`.
    ///
    /// # Errors
    /// See [`OutputError`]; fails with [`OutputError::NoReader`] for a FIFO without a reader.
    pub fn open(to: &Destination, options: &Options) -> Result<Self> {
        Self::open_on(Arc::new(FileSystem), Arc::new(SystemClock), to, options)
    }

    /// Opens a destination on another disk, with another clock.
    ///
    /// # Errors
    /// As [`Output::open`].
    pub fn open_on(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        to: &Destination,
        options: &Options,
    ) -> Result<Self> {
        let place = disk.open(to)?;
        let is_queued = options.compress.is_some()
            || match place {
                OpenDestination::File { .. } => options.choice == PathChoice::Direct,
                OpenDestination::Null(_) => false,
                OpenDestination::Stream(_) => true,
            };
        // The path of a file depends on how fast it grows.
        let is_file = matches!(place, OpenDestination::File { .. });
        let recording = FileSeries::new(place, options, OutputBackend { disk, clock })?;
        let writer = if is_queued {
            Writer::Queued(Queue::start(recording, options.queue_bytes)?)
        } else if is_file && options.choice == PathChoice::Auto {
            Writer::Queued(Queue::later(recording, options.queue_bytes))
        } else {
            Writer::Series(Box::new(recording))
        };
        Ok(Self { writer, max_size: options.max_size, step: options.step() })
    }

    /// Hands records to a sink in this process, on the threads that read ring buffers.
    #[must_use]
    pub fn to_sink(sink: Box<dyn RecordSink>) -> Self {
        Self { writer: Writer::Sink(SinkWriter::new(sink)), max_size: None, step: None }
    }

    /// Starts the helper threads that may be needed later, for callers that must name them.
    /// Otherwise they start when needed.
    ///
    /// # Errors
    /// Fails with [`OutputError::Thread`].
    pub fn start_threads(&mut self) -> Result<()> {
        if let Writer::Queued(queue) = &mut self.writer { queue.start_thread() } else { Ok(()) }
    }

    /// Thread ids of the helper threads, which belong to the recorder.
    #[must_use]
    pub fn threads(&self) -> Vec<i32> {
        match &self.writer {
            Writer::Series(recording) => recording.thread().into_iter().collect(),
            Writer::Queued(queue) => queue.threads(),
            Writer::Sink(_) => Vec::new(),
        }
    }

    /// Whether the destination keeps nothing, as `/dev/null`.
    #[must_use]
    pub fn keeps_nothing(&self) -> bool {
        matches!(&self.writer, Writer::Series(recording) if recording.keeps_nothing())
    }

    /// Most bytes to append before the file size is checked again; `None` if the size is unlimited.
    #[must_use]
    pub fn step(&self) -> Option<usize> {
        self.step
    }

    /// Writes the beginning of a recording.
    ///
    /// # Errors
    /// See [`OutputError`].
    pub fn begin(&mut self, description: &Description) -> Result<()> {
        match &mut self.writer {
            Writer::Series(recording) => recording.begin(description),
            Writer::Queued(queue) => queue.begin(description),
            Writer::Sink(sink) => sink.begin(description),
        }
    }

    /// Appends whole records. The pieces are concatenated, and may be split within a record. When
    /// the call returns, their memory may be overwritten. Waits while the queue is full.
    ///
    /// # Errors
    /// Fails if the recording has ended, with the reason. Records after that are dropped and
    /// counted; [`Output::finish`] completes the file. With a queue, a failure may be reported by a
    /// later call.
    pub fn append(&mut self, records: &[&[u8]]) -> Result<()> {
        match &mut self.writer {
            Writer::Series(recording) => recording.append(records),
            Writer::Queued(queue) => queue.append(records),
            Writer::Sink(sink) => sink.append(records),
        }
    }

    /// Makes everything appended readable, even if the recorder is killed: at once, or with a queue
    /// as soon as it is written.
    ///
    /// # Errors
    /// As [`Output::append`].
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.writer {
            Writer::Series(recording) => recording.flush(),
            Writer::Queued(queue) => queue.flush(),
            Writer::Sink(sink) => sink.flush(),
        }
    }

    /// Bytes in the current file, or sent to the stream.
    #[must_use]
    pub fn written(&self) -> u64 {
        match &self.writer {
            Writer::Series(recording) => recording.written(),
            Writer::Queued(queue) => queue.written(),
            Writer::Sink(sink) => sink.stats().bytes,
        }
    }

    /// Whether the file has reached its size limit.
    #[must_use]
    pub fn is_at_max_size(&self) -> bool {
        self.max_size.is_some_and(|max| self.written() >= max)
    }

    /// Whether the current file takes no more records.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_at_max_size() || self.wants_switch()
    }

    /// Whether the next file is due, by size or age.
    #[must_use]
    pub fn wants_switch(&self) -> bool {
        match &self.writer {
            Writer::Series(recording) => recording.wants_switch(),
            Writer::Queued(queue) => queue.wants_switch(),
            Writer::Sink(_) => false,
        }
    }

    /// Returns the bytes that the file, or the stream, will have when it ends this way; `None`
    /// after a failure. Waits for the queue.
    pub fn size_when_finished(&mut self, closing: &Closing<'_>) -> Option<u64> {
        match &mut self.writer {
            Writer::Series(recording) => recording.size_when_finished(closing),
            Writer::Queued(queue) => queue.size_when_finished(closing),
            Writer::Sink(sink) => Some(sink.stats().bytes + closing.records.len() as u64),
        }
    }

    /// Completes the file as [`Output::finish`] does, renames it to a name with the time, and
    /// begins the next file with a description and records of the existing processes. Returns the
    /// finished file's name.
    ///
    /// # Errors
    /// Fails if the destination is a stream; otherwise as [`Output::append`].
    pub fn switch(
        &mut self,
        closing: &Closing<'_>,
        beginning: &Description,
        records: &[&[u8]],
    ) -> Result<Option<PathBuf>> {
        match &mut self.writer {
            Writer::Series(recording) => recording.switch(closing, beginning, records),
            Writer::Queued(queue) => queue.switch(closing, beginning, records),
            Writer::Sink(_) => Err(OutputError::NotSwitchable),
        }
    }

    /// Adds the ids of counters that were opened later. `ids` has the new ids of each event;
    /// `description` already contains them.
    ///
    /// # Errors
    /// As [`Output::append`].
    pub fn add_ids(&mut self, description: &Description, ids: &[Vec<u64>]) -> Result<()> {
        match &mut self.writer {
            Writer::Series(recording) => recording.add_ids(description, ids),
            Writer::Queued(queue) => queue.add_ids(description, ids),
            Writer::Sink(sink) => sink.add_ids(description),
        }
    }

    /// Reserves `room` bytes after the data for the file's end, so that a full disk shows before
    /// the ledger is made.
    ///
    /// # Errors
    /// As [`Output::append`].
    pub fn reserve(&mut self, room: u64) -> Result<()> {
        match &mut self.writer {
            Writer::Series(recording) => recording.reserve(room),
            Writer::Queued(queue) => queue.reserve(room),
            Writer::Sink(_) => Ok(()),
        }
    }

    /// Waits until everything is written. If the file's data had to end, cuts them until `room`
    /// bytes fit after them, and returns the rest as an unfinished recording whose samples can be
    /// counted.
    pub fn cut_back(&mut self, room: u64) -> Option<CutFile> {
        match &mut self.writer {
            Writer::Series(recording) => recording.cut_back(room),
            Writer::Queued(queue) => queue.cut_back(room),
            Writer::Sink(_) => None,
        }
    }

    /// Returns the figures so far. A queue's are those of the moment; bytes are not included.
    #[must_use]
    pub fn so_far(&self) -> OutputStats {
        match &self.writer {
            Writer::Series(recording) => recording.so_far(),
            Writer::Queued(queue) => queue.so_far(),
            Writer::Sink(sink) => sink.stats(),
        }
    }

    /// Completes the recording. It never fails: the returned figures state what is missing.
    #[must_use]
    pub fn finish(self, closing: &Closing<'_>) -> OutputStats {
        match self.writer {
            Writer::Series(recording) => recording.finish(closing),
            Writer::Queued(queue) => queue.finish(closing),
            Writer::Sink(sink) => sink.finish(closing),
        }
    }
}

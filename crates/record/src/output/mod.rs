//! The way of a recording's bytes from the rings into a file or a stream.
//!
//! ```text
//! begin | header, events, features, formats |
//! append                                    | records ... | records ... |      straight from the rings, unparsed
//! flush                                                   ^             ^      data.size: readers see what lies before
//! finish                                                                | tail |, then the header that points at it
//! ```
//! What lies before the last flush can be read whatever happens to the recorder. A disk that gets
//! full, or a limit on the size of files, ends the recording: data are cut, where a record ends, as
//! far as the tail needs room.

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

/// What a file ends with.
#[derive(Clone, Copy, Debug)]
pub struct Closing<'a> {
    /// With what is known only now.
    pub description: &'a Description,
    /// The last records. They get into the file also where the recording had to end: data are cut
    /// to make room for them.
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
    /// Opens a destination, and starts the helper threads that it takes. A file that is there
    /// already gets another name, ending with `.old`.
    ///
    /// # Errors
    /// See [`OutputError`]; [`OutputError::NoReader`] for a FIFO that nobody reads as yet.
    pub fn open(to: &Destination, options: &Options) -> Result<Self> {
        Self::open_on(Arc::new(FileSystem), Arc::new(SystemClock), to, options)
    }

    /// The same, on another disk, by another clock.
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
        // A file whose path is chosen by how fast it grows.
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

    /// Starts the helper threads that may be needed later, where others have to name them: else they
    /// start when they are needed.
    ///
    /// # Errors
    /// [`OutputError::Thread`].
    pub fn start_threads(&mut self) -> Result<()> {
        if let Writer::Queued(queue) = &mut self.writer { queue.start_thread() } else { Ok(()) }
    }

    /// The thread ids of the helper threads: what is recorded of them is of the recorder's making.
    #[must_use]
    pub fn threads(&self) -> Vec<i32> {
        match &self.writer {
            Writer::Series(recording) => recording.thread().into_iter().collect(),
            Writer::Queued(queue) => queue.threads(),
            Writer::Sink(_) => Vec::new(),
        }
    }

    /// Whether nothing is kept of what is written, as with `/dev/null`.
    #[must_use]
    pub fn keeps_nothing(&self) -> bool {
        matches!(&self.writer, Writer::Series(recording) if recording.keeps_nothing())
    }

    /// Where the size of files is limited: so many bytes at most are to be appended before it is
    /// looked at.
    #[must_use]
    pub fn step(&self) -> Option<usize> {
        self.step
    }

    /// Writes what a recording begins with.
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

    /// Adds whole records: the pieces one behind the other, wherever a record's bytes are divided.
    /// Returns when they may be overwritten. A queue that is full is waited for.
    ///
    /// # Errors
    /// The recording has ended, for the reason given, with the last whole record before. What
    /// follows is dropped, and counted. [`Output::finish`] makes the file complete. What a queue
    /// holds may fail later: then it is the next call that tells.
    pub fn append(&mut self, records: &[&[u8]]) -> Result<()> {
        match &mut self.writer {
            Writer::Series(recording) => recording.append(records),
            Writer::Queued(queue) => queue.append(records),
            Writer::Sink(sink) => sink.append(records),
        }
    }

    /// Has readers find everything that was appended, also when the recorder is killed: from now
    /// on, or where there is a queue, as soon as that was written.
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

    /// Bytes in the file that is being written, or that went into the stream.
    #[must_use]
    pub fn written(&self) -> u64 {
        match &self.writer {
            Writer::Series(recording) => recording.written(),
            Writer::Queued(queue) => queue.written(),
            Writer::Sink(sink) => sink.stats().bytes,
        }
    }

    /// Whether the file is as large as it may become.
    #[must_use]
    pub fn is_at_max_size(&self) -> bool {
        self.max_size.is_some_and(|max| self.written() >= max)
    }

    /// Whether nothing more belongs into the file at hand.
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

    /// Bytes that the file will have, or that will have gone into the stream, when it ends like
    /// this; `None` where something failed before. A queue is waited for.
    pub fn size_when_finished(&mut self, closing: &Closing<'_>) -> Option<u64> {
        match &mut self.writer {
            Writer::Series(recording) => recording.size_when_finished(closing),
            Writer::Queued(queue) => queue.size_when_finished(closing),
            Writer::Sink(sink) => Some(sink.stats().bytes + closing.records.len() as u64),
        }
    }

    /// Completes the file as [`Output::finish`] does, gives it a name with the time, and begins the
    /// next one with a description and records: what a reader must know of processes that are there
    /// already. Returns the finished file's name.
    ///
    /// # Errors
    /// The destination is a stream; else as [`Output::append`].
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

    /// Tells of counters that were opened later: `ids` are further ones of each event, which the
    /// description names by now.
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

    /// Has `room` bytes behind the data of a file, for what it ends with: a disk that gets full does
    /// so before the file's ledger is made.
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

    /// Waits until everything was written. Where the file's data had to end, cuts them so far back
    /// that `room` bytes find place behind them, and hands out what is left, as a recording that was
    /// not finished: for its samples to be counted.
    pub fn cut_back(&mut self, room: u64) -> Option<CutFile> {
        match &mut self.writer {
            Writer::Series(recording) => recording.cut_back(room),
            Writer::Queued(queue) => queue.cut_back(room),
            Writer::Sink(_) => None,
        }
    }

    /// What became of the recording so far. The figures of a queue are those of the moment; bytes
    /// are not among them.
    #[must_use]
    pub fn so_far(&self) -> OutputStats {
        match &self.writer {
            Writer::Series(recording) => recording.so_far(),
            Writer::Queued(queue) => queue.so_far(),
            Writer::Sink(sink) => sink.stats(),
        }
    }

    /// Completes the recording. Never fails: the account says what is missing.
    #[must_use]
    pub fn finish(self, closing: &Closing<'_>) -> OutputStats {
        match self.writer {
            Writer::Series(recording) => recording.finish(closing),
            Writer::Queued(queue) => queue.finish(closing),
            Writer::Sink(sink) => sink.finish(closing),
        }
    }
}

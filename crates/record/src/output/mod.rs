//! Writes a recording's bytes from the rings to a file or a stream, or hands its records to a
//! callback.
//!
//! ```text
//! begin | header, events, features, formats |
//! append                                    | records ... | records ... |      straight from the rings, unparsed
//! flush                                                   ^             ^      data.size: readers see everything before
//! finish                                                                | tail |, then the header that points at it
//! ```
//! Everything before the last completed flush can be read, whatever happens to the recorder. A full
//! disk or a limit on file sizes ends the recording: its data are cut at a record's end, as far
//! back as the tail needs room.

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
mod unwinding;
mod window_thread;
mod windows;
mod write;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;

use tare_format::file::writer::Description;

use crate::clock::{Clock, SystemClock};

use disk::OutputBackend;
use disk::{CutFile, Disk, OpenDestination};
pub use error::{OutputError, Result};
pub use file_system::FileSystem;
pub use options::{Destination, FileSwitch, OutputOptions, PathChoice};
use queue::Queue;
use record_sink::SinkWriter;
pub use record_sink::{RecordSink, SinkClosed};
use series::FileSeries;
pub use stats::{OutputStats, Path};
use unwinding::UnwindingWriter;
pub use unwinding::{StackTrimmer, StackUnwinder};

/// The end of a file.
#[derive(Clone, Copy, Debug)]
pub struct Closing<'a> {
    /// The description, with facts that are only known at the end.
    pub description: &'a Description,
    /// The last records. In a file they are written even if the recording had to end; if the disk
    /// has no room, data are cut for them.
    pub records: &'a [u8],
}

/// A [`Closing`] for another thread.
struct OwnedClosing {
    description: Description,
    records: Vec<u8>,
}

impl OwnedClosing {
    fn new(closing: &Closing<'_>) -> Self {
        Self { description: closing.description.clone(), records: closing.records.to_vec() }
    }

    fn as_closing(&self) -> Closing<'_> {
        Closing { description: &self.description, records: &self.records }
    }
}

/// Writes a recording: into a series of files or a stream, through a queue in front of one, or into
/// a sink in this process.
///
/// A method that gets records is called per batch, never per record.
pub trait RecordWriter: fmt::Debug + Send {
    /// Starts the helper threads that may be needed later, for callers that must name them.
    /// Otherwise they start when needed.
    ///
    /// # Errors
    /// Fails with [`OutputError::Thread`].
    fn start_threads(&mut self) -> Result<()> {
        Ok(())
    }

    /// Thread ids of the helper threads, which belong to the recorder.
    fn threads(&self) -> Vec<i32> {
        Vec::new()
    }

    /// Whether the destination keeps nothing, as `/dev/null`.
    fn is_discarding(&self) -> bool {
        false
    }

    /// Writes the beginning of a recording.
    ///
    /// # Errors
    /// See [`OutputError`].
    fn begin(&mut self, description: &Description) -> Result<()>;

    /// Appends whole records. The pieces are concatenated, and may be split within a record. When
    /// the call returns, their memory may be overwritten. Waits while the queue is full.
    ///
    /// # Errors
    /// Fails if the recording has ended, with the reason. Records after that are dropped and
    /// counted; [`Output::finish`] completes the file. With a queue, a failure may be reported by a
    /// later call.
    fn append(&mut self, records: &[&[u8]]) -> Result<()>;

    /// Makes everything appended readable, even if the recorder is killed: at once, or with a queue
    /// as soon as it is written.
    ///
    /// # Errors
    /// As [`RecordWriter::append`].
    fn flush(&mut self) -> Result<()>;

    /// Bytes in the current file, or sent to the stream.
    fn written(&self) -> u64;

    /// Notes that everything so far describes what existed before the recording: it doesn't count
    /// toward the size at which the next file begins.
    ///
    /// # Errors
    /// Fails with [`OutputError::SmallFiles`] if the description alone is larger than that size;
    /// otherwise as [`RecordWriter::append`].
    fn end_beginning(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether the next file is due, by size or age.
    fn is_switch_due(&self) -> bool {
        false
    }

    /// Returns the bytes that the file, or the stream, will have when it ends this way; `None`
    /// after a failure. Waits for the queue.
    fn size_when_finished(&mut self, closing: &Closing<'_>) -> Option<u64>;

    /// Completes the file as [`Output::finish`] does, renames it to a name with the time, and
    /// begins the next file with a description and records of the existing processes. Returns the
    /// finished file's name.
    ///
    /// # Errors
    /// Fails if the destination is no file, or if the next file can't be created; otherwise as
    /// [`RecordWriter::append`].
    fn switch(
        &mut self,
        closing: &Closing<'_>,
        beginning: &Description,
        records: &[&[u8]],
    ) -> Result<Option<PathBuf>> {
        let _ = (closing, beginning, records);
        Err(OutputError::NotSwitchable)
    }

    /// Adds the ids of counters that were opened later. `ids` has the new ids of each event;
    /// `description` already contains them.
    ///
    /// # Errors
    /// As [`RecordWriter::append`].
    fn add_ids(&mut self, description: &Description, ids: &[Vec<u64>]) -> Result<()>;

    /// Reserves `room` bytes after the data for the file's end, so that a full disk shows before
    /// the ledger is made.
    ///
    /// # Errors
    /// As [`RecordWriter::append`].
    fn reserve(&mut self, room: u64) -> Result<()> {
        let _ = room;
        Ok(())
    }

    /// Waits until everything is written. If the file's data had to end, cuts them until `room`
    /// bytes fit after them, and returns the rest as an unfinished recording whose samples can be
    /// counted.
    fn cut_back(&mut self, room: u64) -> Option<CutFile> {
        let _ = room;
        None
    }

    /// Returns the figures so far. A queue's are those of the moment; bytes of the current file are
    /// not included.
    fn so_far(&self) -> OutputStats;

    /// Completes the recording. It never fails: the returned figures state the dropped bytes and
    /// the reason for an early end.
    fn finish(self: Box<Self>, closing: &Closing<'_>) -> OutputStats;
}

/// An open recording: a [`RecordWriter`], with the limits on the size of its files.
#[derive(Debug)]
pub struct Output {
    writer: Box<dyn RecordWriter>,
    max_size: Option<u64>,
    step: Option<usize>,
    may_switch: bool,
}

impl Deref for Output {
    type Target = dyn RecordWriter;

    fn deref(&self) -> &Self::Target {
        &*self.writer
    }
}

impl DerefMut for Output {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.writer
    }
}

impl Output {
    /// Opens a destination. An existing file is renamed with the ending `.old`, unless it is empty
    /// and the user's. Streams, compression, and the direct and the mapped path start their threads
    /// at once; with [`PathChoice::Auto`], a file's thread starts when the file first grows fast.
    ///
    /// # Errors
    /// See [`OutputError`]; fails with [`OutputError::NoReader`] for a FIFO without a reader.
    pub fn open(to: &Destination, options: &OutputOptions) -> Result<Self> {
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
        options: &OutputOptions,
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
        let writer: Box<dyn RecordWriter> = if is_queued {
            Box::new(Queue::start(recording, options.queue_bytes)?)
        } else if is_file && options.choice == PathChoice::Auto {
            Box::new(Queue::by_pace(recording, options.queue_bytes))
        } else {
            Box::new(recording)
        };
        Ok(Self {
            writer,
            max_size: options.max_size,
            step: options.step(),
            may_switch: options.switch.is_some(),
        })
    }

    /// Unwinds copied stacks, on a thread of its own, before records are written.
    ///
    /// # Errors
    /// Fails with [`OutputError::Thread`].
    pub fn with_unwinder(self, unwinder: Box<dyn StackUnwinder>) -> Result<Self> {
        let writer = Box::new(UnwindingWriter::start(self.writer, unwinder)?);
        Ok(Self { writer, ..self })
    }

    /// Hands records to a sink in this process, on the threads that read ring buffers.
    #[must_use]
    pub fn to_sink(sink: Box<dyn RecordSink>) -> Self {
        let writer = Box::new(SinkWriter::new(sink));
        Self { writer, max_size: None, step: None, may_switch: false }
    }

    /// Most bytes to append before the file size is checked again; `None` if the size is unlimited.
    #[must_use]
    pub fn step(&self) -> Option<usize> {
        self.step
    }

    /// Whether further files may follow the first one.
    #[must_use]
    pub fn may_switch(&self) -> bool {
        self.may_switch
    }

    /// Whether the file has reached its size limit.
    #[must_use]
    pub fn is_at_max_size(&self) -> bool {
        self.max_size.is_some_and(|max| self.written() >= max)
    }

    /// Whether the current file takes no more records.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_at_max_size() || self.is_switch_due()
    }

    /// Completes the recording: see [`RecordWriter::finish`].
    #[must_use]
    pub fn finish(self, closing: &Closing<'_>) -> OutputStats {
        self.writer.finish(closing)
    }
}

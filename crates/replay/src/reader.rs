//! Reads and sorts a recording on its own thread, while the caller's thread delivers due records.
//!
//! ```text
//! thread   file -> records -> order of time --Batch--> machine -> sink   caller
//!                                 ^-----------empty------/
//! ```

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{Builder, scope};

use tare_format::Endian;
use tare_format::file::{Description, Entry};
use tare_format::record::{RawRecord, kind};

use crate::ahead::has_copied_stacks;
use crate::due::{DueRecord, ReplayState};
use crate::error::Error;
use crate::recording::Recording;
use crate::sink::Sink;
use crate::waiting::{BATCH, Waiting};

/// Bytes per batch of records, small enough to stay in a CPU cache.
const BYTES: usize = 1 << 18;

/// Limit of full batches that wait for the caller.
const BATCHES: usize = 4;

/// Smallest recording, in bytes, for which the thread saves time.
const LEAST: u64 = 1 << 20;

/// Due records, and the recording's description at their time.
#[derive(Debug)]
struct Batch {
    description: Arc<Description>,
    records: Vec<BatchRecord>,
    bodies: Vec<u8>,
}

/// A [`DueRecord`] whose body lies in [`Batch::bodies`].
#[derive(Clone, Copy, Debug)]
struct BatchRecord {
    time_ns: Option<u64>,
    event: Option<usize>,
    start: usize,
    len: usize,
    kind: u32,
    misc: u16,
    endian: Endian,
}

/// Why the thread stopped reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderEnd {
    /// The recording ended, or the caller stopped receiving.
    Whole,
    /// No thread could be started, or the next samples may have copied stacks, which the caller's
    /// thread must unwind ahead. The caller reads the rest.
    Early,
}

/// Whether a recording is to be read on its own thread: a large file without copied stacks.
pub(crate) fn is_for_a_thread(recording: &Recording) -> bool {
    recording.bytes().is_some_and(|bytes| bytes >= LEAST)
        && !has_copied_stacks(recording.description())
}

/// Replays a recording as far as the thread can read it. Returns [`ControlFlow::Break`] if the sink
/// breaks.
pub(crate) fn replay<S: Sink>(
    recording: &mut Recording,
    waiting: &mut Waiting,
    state: &mut ReplayState,
    sink: &mut S,
) -> Result<ControlFlow<(), ReaderEnd>, S::Error>
where
    S::Error: From<Error>,
{
    scope(|scope| {
        let (full, batches) = sync_channel(BATCHES);
        let (emptied, empty) = channel();
        let description = Arc::new(recording.description().clone());
        let mut out = BatchSender { batch: Batch::new(description), full, empty };
        let work = move || {
            let ended = read(recording, waiting, &mut out);
            let _ = out.hand_over();
            ended
        };
        let Ok(reader) = Builder::new().spawn_scoped(scope, work) else {
            return Ok(ControlFlow::Continue(ReaderEnd::Early));
        };
        for mut batch in batches {
            for due in batch.due() {
                if state.deliver(&batch.description, due, sink)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            batch.clear();
            // The thread may have ended.
            let _ = emptied.send(batch);
        }
        match reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
            Ok(ended) => Ok(ControlFlow::Continue(ended)),
            Err(error) => Err(Error::Read(error).into()),
        }
    })
}

/// Reads until the recording ends, the caller stops receiving, or a new description has events that
/// copy stacks.
fn read(
    recording: &mut Recording,
    waiting: &mut Waiting,
    out: &mut BatchSender,
) -> io::Result<ReaderEnd> {
    // Tracing data follows its record, and becomes known with the next record.
    let mut follows_tracing_data = false;
    loop {
        for _ in 0..BATCH {
            let Some(entry) = recording.next_record()? else {
                waiting.sorter.finish();
                let _ = out.add_due(waiting);
                return Ok(ReaderEnd::Whole);
            };
            let kind = entry.record.kind;
            let description = entry.description;
            let is_new = changes_description(kind) || follows_tracing_data;
            follows_tracing_data = kind == kind::HEADER_TRACING_DATA;
            if is_new && out.start_batch(description).is_break()
                || out.add_record(&entry, waiting).is_break()
            {
                return Ok(ReaderEnd::Whole);
            }
            if is_new && has_copied_stacks(description) {
                return Ok(ReaderEnd::Early);
            }
        }
        if let Some(time_ns) = recording.complete_before_ns() {
            waiting.sorter.complete_before(time_ns);
            if out.add_due(waiting).is_break() {
                return Ok(ReaderEnd::Whole);
            }
        }
    }
}

/// Whether records of a kind change the recording's description.
fn changes_description(kind: u32) -> bool {
    matches!(
        kind,
        kind::HEADER_ATTR
            | kind::HEADER_FEATURE
            | kind::HEADER_TRACING_DATA
            | kind::HEADER_BUILD_ID
            | kind::EVENT_UPDATE
            | kind::FINISHED_INIT
    )
}

/// Collects due records into batches and sends them.
struct BatchSender {
    batch: Batch,
    full: SyncSender<Batch>,
    empty: Receiver<Batch>,
}

impl BatchSender {
    /// Starts a batch with a new description.
    fn start_batch(&mut self, description: &Description) -> ControlFlow<()> {
        let flow = self.hand_over();
        self.batch.description = Arc::new(description.clone());
        flow
    }

    /// Sorts a record in, and adds those that are due.
    fn add_record(&mut self, entry: &Entry<'_>, waiting: &mut Waiting) -> ControlFlow<()> {
        if let Some(due) = waiting.push(entry) {
            let is_round = due.raw.kind == kind::FINISHED_ROUND;
            if !is_round {
                self.add_due(waiting)?;
            }
            self.batch.add(&due);
            if is_round {
                waiting.end_round(entry.description);
            }
        }
        self.add_due(waiting)
    }

    /// Adds records that are due. Returns [`ControlFlow::Break`] if the caller stopped receiving.
    fn add_due(&mut self, waiting: &mut Waiting) -> ControlFlow<()> {
        while let Some(due) = waiting.pop() {
            self.batch.add(&due);
            if self.batch.is_full() {
                self.hand_over()?;
            }
        }
        ControlFlow::Continue(())
    }

    fn hand_over(&mut self) -> ControlFlow<()> {
        let description = self.batch.description.clone();
        let empty = self.empty.try_recv().unwrap_or_else(|_| Batch::new(description.clone()));
        let full = std::mem::replace(&mut self.batch, Batch { description, ..empty });
        match self.full.send(full) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

impl Batch {
    fn new(description: Arc<Description>) -> Self {
        Self { description, records: Vec::new(), bodies: Vec::new() }
    }

    fn clear(&mut self) {
        self.records.clear();
        self.bodies.clear();
    }

    fn is_full(&self) -> bool {
        self.bodies.len() + self.records.len() * size_of::<BatchRecord>() >= BYTES
    }

    fn add(&mut self, due: &DueRecord<'_>) {
        let DueRecord { time_ns, event, raw: RawRecord { kind, misc, body, endian } } = *due;
        let start = self.bodies.len();
        let len = body.len();
        self.bodies.extend_from_slice(body);
        self.records.push(BatchRecord { time_ns, event, start, len, kind, misc, endian });
    }

    fn due(&self) -> impl Iterator<Item = DueRecord<'_>> {
        self.records.iter().map(|placed| {
            let BatchRecord { time_ns, event, start, len, kind, misc, endian } = *placed;
            let body = &self.bodies[start..start + len];
            DueRecord { time_ns, event, raw: RawRecord { kind, misc, body, endian } }
        })
    }
}

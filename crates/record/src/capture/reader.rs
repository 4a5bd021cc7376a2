//! Reading rings: in one pass everything that they hold, also below their watermarks, goes to the
//! output in few, large pieces.
//!
//! ```text
//! wait for a watermark (half a ring), or for the flush interval
//! for each ring:  what is in it     -> scanner (headers)
//! append                            -> output, unparsed
//! move the tails                    the kernel may write there again
//! all readers through?              FINISHED_ROUND
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tare_format::file::writer::{BuildId, FINISHED_ROUND};
use tare_kernel::host::Host;
use tare_kernel::ring::{Batch, Ring};

use super::flight_recorder::{FlightRecorder, without_samples};
use super::rounds::Rounds;
use super::scanner::{EventTable, Scanner};
use super::stats::{AppendedStats, SampleCounts, Stats};
use crate::clock::Clock;
use crate::describe::BuildIds;
use crate::output::{Output, Result};

/// Bytes from which a piece is appended before the next ring is looked at: its place goes back to
/// the kernel the sooner.
const LARGE: usize = 1 << 20;

/// The ring of a CPU and what it brought.
#[derive(Debug)]
pub(crate) struct CpuRing {
    /// What the output knows it by: see [`Shared::register`].
    pub(crate) number: usize,
    pub(crate) ring: Ring,
    pub(crate) scanner: Scanner,
}

/// What the output knows of a ring.
#[derive(Debug)]
struct Registered {
    cpu: u32,
    size: usize,
    appended: AppendedStats,
}

/// What a ring brought into a file.
#[derive(Clone, Debug)]
pub(crate) struct RingStats {
    pub(crate) cpu: u32,
    /// Its size in bytes.
    pub(crate) size: usize,
    pub(crate) stats: Stats,
}

/// What is known of a file when it is completed.
#[derive(Debug)]
pub(crate) struct FileStats {
    /// By ring.
    pub(crate) rings: Vec<RingStats>,
    /// Of them, what was read and not kept.
    pub(crate) forgotten: Stats,
}

/// The output, which all readers append to.
#[derive(Debug)]
pub(crate) struct Shared {
    common: Mutex<Common>,
    /// How often readers were ready.
    wake_ups: AtomicU64,
    /// Where the size of files is limited: so much is appended before it is looked at.
    step: Option<usize>,
}

#[derive(Debug)]
struct Common {
    output: Output,
    clock: Arc<dyn Clock>,
    /// Where records wait that may never go to the output.
    flight_recorder: Option<FlightRecorder>,
    rings: Vec<Registered>,
    /// What was forgotten of what is kept back.
    forgetting: Scanner,
    forgotten: AppendedStats,
    /// The files that samples can lie in.
    build_ids: BuildIds,
    rounds: Rounds,
}

impl Shared {
    /// `keep`: only what came in that time stays, and goes to the output when it is asked for.
    pub(crate) fn new(
        output: Output,
        readers: usize,
        known: &Arc<EventTable>,
        keep: Option<Duration>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let step = output.step();
        let common = Common {
            output,
            clock,
            flight_recorder: keep.map(FlightRecorder::new),
            rings: Vec::new(),
            forgetting: Scanner::new(known),
            forgotten: AppendedStats::default(),
            build_ids: BuildIds::default(),
            rounds: Rounds::new(readers),
        };
        Self { common: Mutex::new(common), wake_ups: AtomicU64::new(0), step }
    }

    fn lock(&self) -> MutexGuard<'_, Common> {
        // A reader that panicked left whole records behind: each append is one call.
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ring that is going to be read: returns its number.
    pub(crate) fn register(&self, cpu: u32, size: usize) -> usize {
        let mut common = self.lock();
        common.rings.push(Registered { cpu, size, appended: AppendedStats::default() });
        common.rings.len() - 1
    }

    /// A reader was ready.
    pub(crate) fn woken(&self) {
        // ATOMICS: a count that is read when the readers have ended, or as of some moment.
        self.wake_ups.fetch_add(1, Ordering::Relaxed);
    }

    /// How often readers were ready.
    pub(crate) fn wake_ups(&self) -> u64 {
        // ATOMICS: see `ready`.
        self.wake_ups.load(Ordering::Relaxed)
    }

    /// Appends whole records that come from no ring.
    ///
    /// # Errors
    /// The output's own.
    pub(crate) fn append(&self, records: &[&[u8]]) -> Result<()> {
        self.lock().output.append(records)
    }

    /// Appends what a ring that is overwritten pending, as its scanner saw it.
    ///
    /// # Errors
    /// The output's own.
    pub(crate) fn append_of(&self, ring: usize, scanner: &Scanner, records: &[u8]) -> Result<()> {
        let mut common = self.lock();
        common.rings[ring].appended.note(&scanner.stats, scanner.batch_first_ns);
        common.output.append(&[records])
    }

    /// Notes which files code was mapped from.
    pub(crate) fn see_mappings(&self, records: &[u8]) {
        self.lock().build_ids.see(records);
    }

    /// The build ids of these files.
    pub(crate) fn build_ids(&self, host: &Host) -> Vec<BuildId> {
        self.lock().build_ids.read(host)
    }

    /// Appends what was kept back, if that is done.
    ///
    /// # Errors
    /// The output's own.
    pub(crate) fn append_recent(&self) -> Result<()> {
        let mut common = self.lock();
        let chunks = common.flight_recorder.as_mut().map(FlightRecorder::take).unwrap_or_default();
        chunks.iter().try_for_each(|chunk| common.output.append(&[chunk]))
    }

    /// Where less than was asked for could be kept, for how long that was.
    pub(crate) fn shortest(&self) -> Option<Duration> {
        self.lock().flight_recorder.as_ref().and_then(|flight_recorder| flight_recorder.shortest)
    }

    /// Has what was appended in the recording, whatever becomes of the recorder.
    ///
    /// # Errors
    /// The output's own.
    pub(crate) fn flush(&self) -> Result<()> {
        self.lock().output.flush()
    }

    /// How often the kernel stopped events for sampling too often.
    pub(crate) fn throttled(&self) -> u64 {
        self.lock().rings.iter().map(|ring| ring.appended.throttled()).sum()
    }

    /// Samples of the recording so far, by event.
    pub(crate) fn samples(&self) -> Vec<SampleCounts> {
        let mut all: Vec<SampleCounts> = Vec::new();
        for ring in &self.lock().rings {
            let of_ring = ring.appended.by_event();
            all.resize(all.len().max(of_ring.len()), SampleCounts::default());
            all.iter_mut().zip(of_ring).for_each(|(sum, tally)| *sum = sum.and(tally));
        }
        all
    }

    /// The output, for what only one thread asks of it.
    pub(crate) fn with_output<T>(&self, ask: impl FnOnce(&mut Output) -> T) -> T {
        ask(&mut self.lock().output)
    }

    /// Ends a file: nobody appends until `end` has seen what the file holds, and has completed it.
    pub(crate) fn end_file<T>(&self, end: impl FnOnce(&mut Output, FileStats) -> T) -> T {
        let mut common = self.lock();
        let Common { rings, forgetting, forgotten, output, .. } = &mut *common;
        forgotten.note(&forgetting.stats, forgetting.batch_first_ns);
        let of = |Registered { cpu, size, appended }: &mut Registered| RingStats {
            cpu: *cpu,
            size: *size,
            stats: appended.take(),
        };
        let stats =
            FileStats { rings: rings.iter_mut().map(of).collect(), forgotten: forgotten.take() };
        end(output, stats)
    }

    /// The output, once no reader is left.
    pub(crate) fn into_output(self) -> Output {
        self.common.into_inner().unwrap_or_else(PoisonError::into_inner).output
    }
}

/// How a pass over rings ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Everything that the rings pending was taken.
    Drained,
    /// The file is as large as it may become; the rings hold more.
    Full,
}

/// Reads some of the rings.
#[derive(Debug)]
pub(crate) struct Reader {
    number: usize,
    pub(crate) rings: Vec<CpuRing>,
}

/// What lies in a ring, and was seen.
struct PendingBatch<'a> {
    ring: usize,
    batch: Batch<'a>,
    scanner: &'a Scanner,
}

impl Reader {
    /// The reader with this number, counted from 0.
    pub(crate) fn new(number: usize, rings: Vec<CpuRing>) -> Self {
        Self { number, rings }
    }

    /// Takes all that the rings hold, or as much as finds room where the size of a file is limited.
    ///
    /// # Errors
    /// The output's own. What could not be appended stays in the rings.
    pub(crate) fn pass(&mut self, shared: &Shared) -> Result<Pass> {
        match shared.step {
            Some(step) => self.pass_in_steps(shared, step),
            None => self.drain(shared).map(|()| Pass::Drained),
        }
    }

    /// Takes all that the rings hold, however large the file becomes.
    ///
    /// # Errors
    /// As [`Reader::pass`].
    pub(crate) fn drain(&mut self, shared: &Shared) -> Result<()> {
        let since = shared.lock().rounds.number();
        let mut pending: Vec<PendingBatch<'_>> = Vec::with_capacity(self.rings.len());
        let (mut bytes, mut mappings) = (0, Vec::new());
        for CpuRing { number, ring, scanner } in &mut self.rings {
            let batch = ring.batch();
            if batch.is_empty() {
                continue;
            }
            scanner.see(batch.slices());
            scanner.take_mappings(&mut mappings);
            bytes += batch.len();
            pending.push(PendingBatch { ring: *number, batch, scanner });
            if bytes >= LARGE {
                append(&mut shared.lock(), &mut pending, &mut mappings, None)?;
                bytes = 0;
            }
        }
        append(&mut shared.lock(), &mut pending, &mut mappings, Some((self.number, since)))
    }

    /// Takes a little of a ring at a time, and looks whether the file may become larger.
    fn pass_in_steps(&mut self, shared: &Shared, step: usize) -> Result<Pass> {
        let since = shared.lock().rounds.number();
        if self.number > 0 && shared.lock().output.is_full() {
            // It is for the main thread to begin the next file, which it may only do behind some
            // records.
            return Ok(Pass::Full);
        }
        let mut mappings = Vec::new();
        for CpuRing { number, ring, scanner } in &mut self.rings {
            // What comes meanwhile is for the next pass.
            let mut left = ring.available();
            while left > 0 {
                let mut batch = ring.batch();
                batch.shorten(step);
                left = left.saturating_sub(batch.len());
                scanner.see(batch.slices());
                scanner.take_mappings(&mut mappings);
                let mut common = shared.lock();
                append(
                    &mut common,
                    &mut vec![PendingBatch { ring: *number, batch, scanner }],
                    &mut mappings,
                    None,
                )?;
                if common.output.is_full() {
                    return Ok(Pass::Full);
                }
            }
        }
        append(&mut shared.lock(), &mut Vec::new(), &mut mappings, Some((self.number, since)))?;
        Ok(Pass::Drained)
    }
}

/// Appends batches and gives their places back. With the last ones of a pass, the reader's number
/// and the round in which the pass began: where that completes a round, its mark goes along.
fn append(
    common: &mut Common,
    pending: &mut Vec<PendingBatch<'_>>,
    mappings: &mut Vec<u8>,
    ends: Option<(usize, u64)>,
) -> Result<()> {
    let mut pieces: Vec<&[u8]> = pending
        .iter()
        .flat_map(|pending| pending.batch.slices())
        .filter(|piece| !piece.is_empty())
        .collect();
    if !pieces.is_empty() {
        common.rounds.appended();
    }
    if ends.is_some_and(|(reader, since)| common.rounds.drained(reader, since)) {
        pieces.push(&FINISHED_ROUND);
    }
    common.build_ids.see(mappings);
    mappings.clear();
    for PendingBatch { ring, scanner, .. } in &*pending {
        common.rings[*ring].appended.note(&scanner.stats, scanner.batch_first_ns);
    }
    common.take(&pieces)?;
    pending.drain(..).for_each(|pending| pending.batch.advance());
    Ok(())
}

impl Common {
    /// Takes records from rings: to the output, or to where what came last is kept.
    fn take(&mut self, pieces: &[&[u8]]) -> Result<()> {
        let Some(flight_recorder) = &mut self.flight_recorder else {
            return if pieces.is_empty() { Ok(()) } else { self.output.append(pieces) };
        };
        let now = self.clock.now();
        if !pieces.is_empty() {
            flight_recorder.push(pieces, now);
        }
        while let Some(chunk) = flight_recorder.expired(now) {
            self.forgetting.see([&chunk, &[]]);
            let kept = without_samples(&chunk);
            if !kept.is_empty() {
                self.output.append(&[&kept, &FINISHED_ROUND])?;
            }
        }
        Ok(())
    }
}

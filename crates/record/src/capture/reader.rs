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

mod in_round;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tare_format::file::writer::{BuildId, FINISHED_ROUND};
use tare_kernel::host::Host;
use tare_kernel::ring::Batch;

use super::batch::{CpuRing, PendingBatch};
use super::command::FollowedCommand;
use super::exec::FilteredRecords;
use super::flight_recorder::{DiscardedStats, FlightRecorder};
use super::jit::JitProcesses;
use super::rounds::Rounds;
use super::scanner::{EventTable, Scanner};
use super::stats::{AppendedStats, FileStats, RingStats, SampleCounts};
use crate::clock::Clock;
use crate::describe::BuildIds;
use crate::keep::Binaries;
use crate::output::{Output, Result};

/// Bytes from which a piece is appended before the next ring is looked at: its place goes back to
/// the kernel the sooner.
const LARGE: usize = 1 << 20;

/// What the output knows of a ring.
#[derive(Debug)]
struct Registered {
    cpu: u32,
    size: usize,
    appended: AppendedStats,
}

/// The output, which all readers append to.
#[derive(Debug)]
pub(crate) struct SharedOutput {
    state: Mutex<State>,
    /// How often readers were ready.
    wake_ups: AtomicU64,
    /// Where the size of files is limited: so much is appended before it is looked at.
    step: Option<usize>,
    /// Whether samples are looked at for the command's process, as some may be from before its execve.
    waits_for_exec: AtomicBool,
}

#[derive(Debug)]
struct State {
    output: Output,
    clock: Arc<dyn Clock>,
    /// Where records wait that may never go to the output.
    flight_recorder: Option<FlightRecorder>,
    rings: Vec<Registered>,
    /// What was forgotten of what is kept back.
    forgetting: Scanner,
    forgotten: DiscardedStats,
    /// The files that samples can lie in.
    build_ids: BuildIds,
    jit: JitProcesses,
    binaries: Option<Binaries>,
    rounds: Rounds,
    /// Whether there are rings that are overwritten: their records come when they are asked for.
    has_overwritten: bool,
    command: Option<FollowedCommand>,
}

impl SharedOutput {
    /// `keep`: only what came in that time stays, and goes to the output when it is asked for.
    pub(crate) fn new(
        output: Output,
        readers: usize,
        known: &Arc<EventTable>,
        keep: Option<Duration>,
        clock: Arc<dyn Clock>,
        jit: JitProcesses,
    ) -> Self {
        let step = output.step();
        let state = State {
            output,
            clock,
            flight_recorder: keep.map(FlightRecorder::new),
            rings: Vec::new(),
            forgetting: Scanner::new(known),
            forgotten: DiscardedStats::default(),
            build_ids: BuildIds::default(),
            jit,
            binaries: None,
            rounds: Rounds::new(readers),
            has_overwritten: false,
            command: None,
        };
        Self {
            state: Mutex::new(state),
            wake_ups: AtomicU64::new(0),
            step,
            waits_for_exec: AtomicBool::new(false),
        }
    }

    /// Asks, or tells, what is known of the events.
    pub(crate) fn with_scanner<T>(&self, ask: impl FnOnce(&mut Scanner) -> T) -> T {
        ask(&mut self.lock().forgetting)
    }

    /// Some rings are overwritten, and read when that is asked for.
    pub(crate) fn has_overwritten(&self) {
        self.lock().has_overwritten = true;
    }

    /// Whether the size of files is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.step.is_some()
    }

    /// Has samples left out that the command's process makes from `now` to its execve. `notes_members`:
    /// and notes its threads.
    pub(crate) fn follow(&self, root: i32, notes_members: bool, now: Instant) {
        self.lock().command = Some(FollowedCommand::new(root, notes_members, now));
        // ATOMICS: readers that miss it for a moment read rings of events that are not enabled.
        self.waits_for_exec.store(true, Ordering::Relaxed);
    }

    /// Asks what is known of a followed command; `None` where there is none.
    pub(crate) fn command<T>(&self, ask: impl FnOnce(&mut FollowedCommand) -> T) -> Option<T> {
        self.lock().command.as_mut().map(ask)
    }

    /// Of a ring's records what is to be appended of those that may be from before the command's
    /// execve; `None` where none is.
    fn filtered(&self, batch: &Batch<'_>) -> Option<FilteredRecords> {
        // ATOMICS: who sees it too late asks the filter, which knows.
        if !self.waits_for_exec.load(Ordering::Relaxed) {
            return None;
        }
        let State { command, forgetting, clock, .. } = &mut *self.lock();
        let command = command.as_mut()?;
        let records = batch.records().map(|record| match record.slices() {
            [first, []] => Cow::Borrowed(first),
            pieces => Cow::Owned(pieces.concat()),
        });
        let passed = command.exec.pass(forgetting.table(), records, clock.now());
        self.waits_for_exec.store(command.exec.looks_at_samples(), Ordering::Relaxed);
        Some(passed)
    }

    /// The same of records that were in a ring for long, the oldest first.
    pub(crate) fn filter_older(&self, records: Vec<u8>) -> Vec<u8> {
        let State { command, forgetting, .. } = &mut *self.lock();
        match command {
            Some(command) => command.exec.pass_older(forgetting.table(), records),
            None => records,
        }
    }

    /// What still waits for the command's execve, when nothing more will come.
    pub(crate) fn finish_filter(&self) -> Vec<u8> {
        let mut state = self.lock();
        let State { command, forgetting, .. } = &mut *state;
        let command = command.as_mut();
        command.map(|command| command.exec.finish(forgetting.table())).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A reader that panicked left whole records behind: each append is one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ring that is going to be read: returns its number.
    pub(crate) fn register(&self, cpu: u32, size: usize) -> usize {
        let mut state = self.lock();
        state.rings.push(Registered { cpu, size, appended: AppendedStats::default() });
        state.rings.len() - 1
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
        let mut state = self.lock();
        state.output.append(&[records])?;
        state.rings[ring].appended.note(&scanner.stats, scanner.batch_first_ns);
        Ok(())
    }

    /// Notes which files code was mapped from.
    pub(crate) fn see_mappings(&self, records: &[u8]) {
        self.lock().see_mappings(records);
    }

    /// Notes the build id of a module that was mapped under this name.
    pub(crate) fn see_module(&self, name: &[u8], id: Vec<u8>) {
        self.lock().build_ids.see_module(name, id);
    }

    /// Asks what is known of processes that make code as they run.
    pub(crate) fn jit<T>(&self, ask: impl FnOnce(&mut JitProcesses) -> T) -> T {
        ask(&mut self.lock().jit)
    }

    /// The build ids of these files.
    pub(crate) fn build_ids(&self, host: &Host) -> Vec<BuildId> {
        let state = self.lock();
        let ids = state.build_ids.read(host);
        state.binaries.iter().fold(ids, |ids, binaries| binaries.with_build_ids(ids))
    }

    /// What holds the files that are mapped from now on, for what did so far.
    pub(crate) fn hold(&self, binaries: Option<Binaries>) -> Option<Binaries> {
        std::mem::replace(&mut self.lock().binaries, binaries)
    }

    /// Appends what was kept back, if that is done.
    ///
    /// # Errors
    /// The output's own.
    pub(crate) fn append_recent(&self) -> Result<()> {
        let mut state = self.lock();
        let chunks = state.flight_recorder.as_mut().map(FlightRecorder::take).unwrap_or_default();
        chunks.iter().try_for_each(|chunk| state.output.append(&[chunk]))
    }

    /// Where less than was asked for could be kept, for how long that was.
    pub(crate) fn shortest(&self) -> Option<Duration> {
        self.lock().flight_recorder.as_ref().and_then(|flight_recorder| flight_recorder.shortest)
    }

    /// Has what was appended in the recording, whatever becomes of the recorder. Errors are the
    /// output's own.
    pub(crate) fn flush(&self) -> Result<()> {
        self.lock().output.flush()
    }

    /// How often the kernel stopped events for sampling too often.
    pub(crate) fn throttled(&self) -> u64 {
        self.lock().rings.iter().map(|ring| ring.appended.throttled()).sum()
    }

    /// Samples of the recording so far, by event.
    pub(crate) fn samples(&self) -> Vec<SampleCounts> {
        AppendedStats::of_all(self.lock().rings.iter().map(|ring| &ring.appended))
    }

    /// The output, for what only one thread asks of it.
    pub(crate) fn with_output<T>(&self, ask: impl FnOnce(&mut Output) -> T) -> T {
        ask(&mut self.lock().output)
    }

    /// Ends a file: nobody appends until `end` has seen what the file holds, and has completed it.
    pub(crate) fn end_file<T>(&self, end: impl FnOnce(&mut Output, FileStats) -> T) -> T {
        let mut state = self.lock();
        // What is still kept back when a file ends was not asked for any more.
        let kept_back = state.flight_recorder.as_mut().map(FlightRecorder::take);
        let State { rings, forgetting, forgotten, output, .. } = &mut *state;
        for chunk in kept_back.unwrap_or_default() {
            forgotten.add(forgetting, &chunk);
        }
        let of = |Registered { cpu, size, appended }: &mut Registered| RingStats {
            cpu: *cpu,
            size: *size,
            stats: appended.take(),
        };
        let rings = rings.iter_mut().map(of).collect();
        let (forgotten, forgotten_losses) = forgotten.take();
        end(output, FileStats { rings, forgotten, forgotten_losses })
    }

    /// The output, once no reader is left.
    pub(crate) fn into_output(self) -> Output {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).output
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

impl Reader {
    /// The reader with this number, counted from 0.
    pub(crate) fn new(number: usize, rings: Vec<CpuRing>) -> Self {
        Self { number, rings }
    }

    /// Takes all that the rings hold, or as much as finds room where the size of a file is limited.
    ///
    /// # Errors
    /// The output's own. What could not be appended stays in the rings.
    pub(crate) fn pass(&mut self, shared: &SharedOutput) -> Result<Pass> {
        match shared.step {
            Some(step) => self.pass_in_steps(shared, step),
            None => self.drain(shared).map(|()| Pass::Drained),
        }
    }

    /// Takes all that the rings hold, however large the file becomes.
    ///
    /// # Errors
    /// As [`Reader::pass`].
    pub(crate) fn drain(&mut self, shared: &SharedOutput) -> Result<()> {
        let since = shared.lock().rounds.number();
        let mut pending: Vec<PendingBatch<'_>> = Vec::with_capacity(self.rings.len());
        let mut bytes = 0;
        let mut noted = Vec::new();
        let filter = |batch: &Batch<'_>| shared.filtered(batch);
        for ring in &mut self.rings {
            let Some(batch) = ring.take(None, filter, &mut noted) else { continue };
            bytes += batch.batch.len();
            pending.push(batch);
            if bytes >= LARGE {
                append(&mut shared.lock(), &mut pending, &mut noted, None)?;
                bytes = 0;
            }
        }
        append(&mut shared.lock(), &mut pending, &mut noted, Some((self.number, since)))
    }

    /// Takes a little of a ring at a time, and looks whether the file may become larger.
    fn pass_in_steps(&mut self, shared: &SharedOutput, step: usize) -> Result<Pass> {
        let since = shared.lock().rounds.number();
        if self.number > 0 && shared.lock().output.is_full() {
            // It is for the main thread to begin the next file, which it may only do behind some
            // records.
            return Ok(Pass::Full);
        }
        let mut noted = Vec::new();
        let filter = |batch: &Batch<'_>| shared.filtered(batch);
        for ring in &mut self.rings {
            // What comes meanwhile is for the next pass.
            let mut left = ring.ring.available();
            while left > 0 {
                let batch = ring.take(Some(step), filter, &mut noted);
                let Some(batch) = batch else { break };
                left = left.saturating_sub(batch.batch.len());
                let mut state = shared.lock();
                append(&mut state, &mut vec![batch], &mut noted, None)?;
                if state.output.is_full() {
                    return Ok(Pass::Full);
                }
            }
        }
        append(&mut shared.lock(), &mut Vec::new(), &mut noted, Some((self.number, since)))?;
        Ok(Pass::Drained)
    }
}

/// Appends batches and gives their places back. With the last ones of a pass, the reader's number
/// and the round in which the pass began: where that completes a round, its mark goes along.
fn append(
    state: &mut State,
    pending: &mut Vec<PendingBatch<'_>>,
    noted: &mut Vec<u8>,
    ends: Option<(usize, u64)>,
) -> Result<()> {
    let mut pieces: Vec<&[u8]> =
        pending.iter().flat_map(PendingBatch::slices).filter(|piece| !piece.is_empty()).collect();
    if !pieces.is_empty() {
        state.rounds.appended();
    }
    state.see_mappings(noted);
    let note = state.jit.take_note();
    state.command.iter_mut().for_each(|command| command.see(noted));
    noted.clear();
    pieces.extend((!note.is_empty()).then_some(&note[..]));
    // What waits for the command's execve would follow a mark that is younger.
    let may_end = !state.command.as_ref().is_some_and(|command| command.exec.is_waiting());
    if may_end && ends.is_some_and(|(reader, since)| state.rounds.drained(reader, since)) {
        // So would what is in rings that are overwritten.
        pieces.extend((!state.has_overwritten).then_some(&FINISHED_ROUND[..]));
        state.command.iter_mut().for_each(FollowedCommand::end_round);
    }
    state.take(&pieces)?;
    for PendingBatch { ring, scanner, .. } in &*pending {
        state.rings[*ring].appended.note(&scanner.stats, scanner.batch_first_ns);
    }
    pending.drain(..).for_each(|pending| pending.batch.advance());
    Ok(())
}

impl State {
    /// Notes which files code was mapped from.
    fn see_mappings(&mut self, records: &[u8]) {
        self.build_ids.see(records);
        self.jit.see(records);
        self.binaries.iter_mut().for_each(|binaries| binaries.see(records));
    }

    /// Takes records from rings: to the output, or to where what came last is kept.
    fn take(&mut self, pieces: &[&[u8]]) -> Result<()> {
        let Self { flight_recorder, forgetting, forgotten, output, clock, .. } = self;
        let Some(flight_recorder) = flight_recorder else {
            return if pieces.is_empty() { Ok(()) } else { output.append(pieces) };
        };
        let now = clock.now();
        if !pieces.is_empty() {
            flight_recorder.push(pieces, now);
        }
        while let Some(chunk) = flight_recorder.expired(now) {
            let kept = forgotten.add(forgetting, &chunk);
            if !kept.is_empty() {
                // A chunk is a part of a pass: only the last one of a round ends with its mark.
                output.append(&[&kept])?;
            }
        }
        Ok(())
    }
}

//! Unwinds copied stacks on a thread of its own, between the rings and the output: the recording
//! then holds call chains, and no copies.
//!
//! ```text
//! readers -- trim, append --> queue --> thread: a round's records, unwound --> the output behind
//! ```
//! Before samples are queued, the part of their copies that holds no stack is left out: the kernel
//! takes the room for the largest copy in the ring, however shallow the stack is.
//!
//! The thread gathers the records of a round, because a mapping may be in another ring than the
//! samples in it. If it falls behind, it leaves the user part of the chains as the kernel recorded
//! it, which takes as long as copying the records. When the queue is full, appending waits; then
//! the rings fill, and the kernel counts the records that it must drop.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use rustix::io::Errno;
use tare_format::file::writer::{Description, FINISHED_ROUND};
use tare_format::ledger::UnwoundChains;
use tare_kernel::capabilities::keep_to_read_files;

use super::disk::CutFile;
use super::hand_over::thread::JoinHandle;
use super::hand_over::{Condvar, Mutex, MutexGuard, mpsc};
use super::window_thread::spawn_with;
use super::{Closing, OutputError, OutputStats, OwnedClosing, RecordWriter, Result};

/// Bytes of records after which the thread doesn't wait for the end of their round.
const ROUND_BYTES: usize = 16 << 20;

/// Bytes in the queue from which on the thread no longer unwinds.
const BEHIND_BYTES: usize = 32 << 20;

/// Memory of an earlier job or round that is kept for another one, in bytes.
const SPARE_BYTES: usize = 4 << 20;

/// Bytes in the queue at which appending waits.
const CAPACITY: usize = 64 << 20;

/// Bytes in the queue from which on the thread is woken before the end of a round.
const WAKE_BYTES: usize = 1 << 20;

/// Leaves out of records what unwinding doesn't need, before they are queued.
pub trait StackTrimmer: fmt::Debug + Send {
    /// Learns the events as the kernel samples them, as [`StackUnwinder::describe`].
    fn describe(&mut self, description: &Description);

    /// Appends whole records to `into`, which are the pieces together. A piece may end within a
    /// record.
    fn trim(&mut self, pieces: &[&[u8]], into: &mut Vec<u8>);
}

/// Unwinds the copied stacks of samples while they are recorded.
pub trait StackUnwinder: fmt::Debug + Send {
    /// Returns the trimmer of the records that this unwinder gets.
    fn trimmer(&self) -> Box<dyn StackTrimmer>;

    /// Learns the events as the kernel samples them: at the beginning, in each further file, and
    /// when counters are opened later.
    fn describe(&mut self, description: &Description);

    /// Appends whole records to `into`, with call chains in place of copied stacks. `is_behind`:
    /// the user part of the chains stays as it is.
    fn unwind(&mut self, records: &[u8], is_behind: bool, into: &mut Vec<u8>);

    /// Returns the description of the records as they are written.
    fn described(&self, description: &Description) -> Description;

    /// Returns how the stacks ended since the last [`StackUnwinder::reset_counts`].
    fn counts(&self) -> UnwoundChains;

    /// Starts counting anew, for the next file.
    fn reset_counts(&mut self);
}

/// Hands the result of a call to its caller.
type Reply = Box<dyn FnOnce()>;

/// Work for the thread.
enum Job {
    Append(Vec<u8>),
    Flush,
    /// A call whose result the caller waits for.
    Call(Box<dyn FnOnce(&mut UnwindingStage) -> Reply + Send>),
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    /// Bytes of records in the jobs.
    bytes: usize,
    /// Memory of earlier jobs.
    spare: Vec<Vec<u8>>,
    progress: StageProgress,
    failed: Option<OutputError>,
    /// System calls for the hand-over: each wait and each wake-up takes one (`futex(2)`).
    calls: u64,
    ends: bool,
}

/// The state of the output after the thread's last job.
#[derive(Default)]
struct StageProgress {
    written: u64,
    is_switch_due: bool,
    /// As of the last call or flush.
    stats: OutputStats,
}

#[derive(Default)]
struct SharedState {
    state: Mutex<QueueState>,
    has_work: Condvar,
    has_room: Condvar,
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The unwinder, and the output behind it. Records are in `held` until their round is complete.
struct UnwindingStage {
    output: Box<dyn RecordWriter>,
    unwinder: Box<dyn StackUnwinder>,
    held: Vec<u8>,
    unwound: Vec<u8>,
}

impl UnwindingStage {
    /// Takes the records, and leaves memory for others in their place.
    fn append(&mut self, records: &mut Vec<u8>, is_behind: bool) -> Result<()> {
        match self.held.is_empty() {
            true => std::mem::swap(&mut self.held, records),
            false => self.held.extend_from_slice(records),
        }
        if self.held.ends_with(&FINISHED_ROUND) || self.held.len() >= ROUND_BYTES || is_behind {
            self.pass_on(is_behind)?;
        }
        Ok(())
    }

    /// Unwinds the records that are held, and passes them on.
    fn pass_on(&mut self, is_behind: bool) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        self.unwinder.unwind(&self.held, is_behind, &mut self.unwound);
        let done = self.output.append(&[&self.unwound]);
        [&mut self.held, &mut self.unwound].into_iter().for_each(empty);
        done
    }

    fn flush(&mut self) -> Result<()> {
        self.pass_on(false)?;
        self.output.flush()
    }

    fn stats(&self) -> OutputStats {
        OutputStats { unwound: Some(self.unwinder.counts()), ..self.output.so_far() }
    }
}

/// Empties a buffer, and frees the memory of a large one.
fn empty(buffer: &mut Vec<u8>) {
    match buffer.capacity() > SPARE_BYTES {
        true => *buffer = Vec::new(),
        false => buffer.clear(),
    }
}

/// Ends the thread, once the queue is empty.
struct EndGuard(Arc<SharedState>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.lock().ends = true;
        self.0.has_work.notify_one();
    }
}

/// An output whose records are unwound on a thread.
pub(super) struct UnwindingWriter {
    shared: Arc<SharedState>,
    tids: Vec<i32>,
    is_discarding: bool,
    trimmer: Box<dyn StackTrimmer>,
    thread: Option<JoinHandle<()>>,
    /// Receives the stage when the thread ends.
    back: mpsc::Receiver<UnwindingStage>,
    ends: EndGuard,
}

impl fmt::Debug for UnwindingWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnwindingWriter").field("tids", &self.tids).finish_non_exhaustive()
    }
}

impl UnwindingWriter {
    /// Starts the thread.
    pub(super) fn start(
        output: Box<dyn RecordWriter>,
        unwinder: Box<dyn StackUnwinder>,
    ) -> Result<Self> {
        let shared = Arc::new(SharedState::default());
        let of_thread = Arc::clone(&shared);
        let (give_back, back) = mpsc::sync_channel(1);
        let is_discarding = output.is_discarding();
        let trimmer = unwinder.trimmer();
        let stage = UnwindingStage { output, unwinder, held: Vec::new(), unwound: Vec::new() };
        let (thread, tid) = spawn_with("tare-unwind", keep_to_read_files, move || {
            // The receiver is gone if the recording was dropped unfinished.
            let _ = give_back.send(work(&of_thread, stage));
        })?;
        let ends = EndGuard(Arc::clone(&shared));
        let tids = vec![tid];
        let thread = Some(thread);
        let mut writer = Self { shared, tids, is_discarding, trimmer, thread, back, ends };
        writer.learn_threads()?;
        Ok(writer)
    }

    /// Asks the output behind for its threads.
    fn learn_threads(&mut self) -> Result<()> {
        let threads = self.call(|stage| Ok(stage.output.threads()))?;
        self.tids.truncate(1);
        self.tids.extend(threads);
        Ok(())
    }

    /// Runs a call on the thread, after all earlier jobs, and waits for the result.
    fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut UnwindingStage) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let call = move |stage: &mut UnwindingStage| -> Reply {
            let done = stage.pass_on(false).and_then(|()| call(stage));
            Box::new(move || drop(sender.send(done)))
        };
        let mut state = self.shared.lock();
        state.jobs.push_back(Job::Call(Box::new(call)));
        state.calls += 2;
        drop(state);
        self.shared.has_work.notify_one();
        receiver.recv().unwrap_or(Err(OutputError::Thread(Errno::SRCH)))
    }
}

/// Records that the stage has taken out of the queue, and memory for others.
struct TakenRecords {
    bytes: usize,
    memory: Vec<u8>,
}

/// Body of the thread: runs the jobs in order, until the queue ends.
fn work(shared: &SharedState, mut stage: UnwindingStage) -> UnwindingStage {
    let mut state = shared.lock();
    loop {
        let Some(job) = state.jobs.pop_front() else {
            if state.ends {
                return stage;
            }
            state.calls += 1;
            state = shared.has_work.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let is_behind = state.bytes > BEHIND_BYTES;
        drop(state);
        let mut done = None;
        let mut reply = None;
        let mut stats = None;
        let result = match job {
            Job::Append(mut records) => {
                let bytes = records.len();
                let result = stage.append(&mut records, is_behind);
                done = Some(TakenRecords { bytes, memory: records });
                result
            }
            Job::Flush => {
                let result = stage.flush();
                stats = Some(stage.stats());
                result
            }
            Job::Call(call) => {
                reply = Some(call(&mut stage));
                stats = Some(stage.stats());
                Ok(())
            }
        };
        let written = stage.output.written();
        let is_switch_due = stage.output.is_switch_due();
        state = shared.lock();
        let stats = stats.unwrap_or_else(|| std::mem::take(&mut state.progress.stats));
        state.progress = StageProgress { written, is_switch_due, stats };
        state.failed = state.failed.take().or(result.err());
        // The caller finds the progress of its call.
        reply.into_iter().for_each(|reply| reply());
        if let Some(TakenRecords { bytes, mut memory }) = done {
            state.bytes -= bytes;
            shared.has_room.notify_all();
            memory.clear();
            if state.spare.len() < 2 && memory.capacity() <= SPARE_BYTES {
                state.spare.push(memory);
            }
        }
    }
}

impl RecordWriter for UnwindingWriter {
    fn start_threads(&mut self) -> Result<()> {
        self.call(|stage| stage.output.start_threads())?;
        self.learn_threads()
    }

    fn threads(&self) -> Vec<i32> {
        self.tids.clone()
    }

    fn is_discarding(&self) -> bool {
        self.is_discarding
    }

    fn begin(&mut self, description: &Description) -> Result<()> {
        self.trimmer.describe(description);
        let description = description.clone();
        self.call(move |stage| {
            stage.unwinder.describe(&description);
            stage.output.begin(&stage.unwinder.described(&description))
        })
    }

    /// Copies what unwinding needs of the records into the queue, and waits for room. The thread is
    /// woken at the end of a round.
    fn append(&mut self, records: &[&[u8]]) -> Result<()> {
        // The thread may take other jobs meanwhile; only this one appends.
        let mut copy = self.shared.lock().spare.pop().unwrap_or_default();
        self.trimmer.trim(records, &mut copy);
        let mut state = self.shared.lock();
        while state.bytes > 0 && state.bytes + copy.len() > CAPACITY {
            state.calls += 2;
            self.shared.has_work.notify_one();
            state = self.shared.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes += copy.len();
        let wakes = copy.ends_with(&FINISHED_ROUND) || state.bytes >= WAKE_BYTES;
        state.jobs.push_back(Job::Append(copy));
        state.calls += u64::from(wakes);
        let failed = state.failed.clone();
        drop(state);
        if wakes {
            self.shared.has_work.notify_one();
        }
        failed.map_or(Ok(()), Err)
    }

    /// Queues a flush without waiting for it.
    fn flush(&mut self) -> Result<()> {
        let mut state = self.shared.lock();
        if !matches!(state.jobs.back(), Some(Job::Flush)) {
            state.jobs.push_back(Job::Flush);
            state.calls += 1;
        }
        let failed = state.failed.clone();
        drop(state);
        self.shared.has_work.notify_one();
        failed.map_or(Ok(()), Err)
    }

    fn written(&self) -> u64 {
        self.shared.lock().progress.written
    }

    fn end_beginning(&mut self) -> Result<()> {
        self.call(|stage| stage.output.end_beginning())
    }

    fn is_switch_due(&self) -> bool {
        self.shared.lock().progress.is_switch_due
    }

    fn size_when_finished(&mut self, closing: &Closing<'_>) -> Option<u64> {
        let mut closing = OwnedClosing::new(closing);
        self.call(move |stage| {
            closing.description = stage.unwinder.described(&closing.description);
            Ok(stage.output.size_when_finished(&closing.as_closing()))
        })
        .ok()?
    }

    fn switch(
        &mut self,
        closing: &Closing<'_>,
        beginning: &Description,
        records: &[&[u8]],
    ) -> Result<Option<PathBuf>> {
        self.trimmer.describe(beginning);
        let mut closing = OwnedClosing::new(closing);
        let beginning = beginning.clone();
        let records = records.concat();
        self.call(move |stage| {
            closing.description = stage.unwinder.described(&closing.description);
            stage.unwinder.describe(&beginning);
            stage.unwinder.reset_counts();
            let beginning = stage.unwinder.described(&beginning);
            stage.output.switch(&closing.as_closing(), &beginning, &[&records])
        })
    }

    fn add_ids(&mut self, description: &Description, ids: &[Vec<u64>]) -> Result<()> {
        self.trimmer.describe(description);
        let description = description.clone();
        let ids = ids.to_vec();
        self.call(move |stage| {
            stage.unwinder.describe(&description);
            stage.output.add_ids(&stage.unwinder.described(&description), &ids)
        })
    }

    fn reserve(&mut self, room: u64) -> Result<()> {
        self.call(move |stage| stage.output.reserve(room))
    }

    fn cut_back(&mut self, room: u64) -> Option<CutFile> {
        self.call(move |stage| Ok(stage.output.cut_back(room))).ok().flatten()
    }

    /// Doesn't wait: the figures are as of the last call or flush.
    fn so_far(&self) -> OutputStats {
        let state = self.shared.lock();
        with_queue(&state, state.progress.stats.clone())
    }

    /// Waits until everything is written, and completes the recording.
    fn finish(self: Box<Self>, closing: &Closing<'_>) -> OutputStats {
        let Self { shared, thread, back, ends, .. } = *self;
        drop(ends);
        let stage = back.recv();
        // The thread has returned the stage or has panicked, so joining it doesn't block.
        drop(thread.map(JoinHandle::join));
        let stats = match stage {
            Ok(mut stage) => {
                // A failure is in the output's figures too.
                let _ = stage.pass_on(false);
                let unwound = Some(stage.unwinder.counts());
                let description = stage.unwinder.described(closing.description);
                let closing = Closing { description: &description, ..*closing };
                OutputStats { unwound, ..stage.output.finish(&closing) }
            }
            Err(_) => OutputStats {
                stopped: Some(OutputError::Thread(Errno::SRCH)),
                unfinished: true,
                ..OutputStats::default()
            },
        };
        with_queue(&shared.lock(), stats)
    }
}

/// Adds the queue's figures.
fn with_queue(state: &QueueState, stats: OutputStats) -> OutputStats {
    let system_calls = stats.system_calls + state.calls;
    OutputStats { system_calls, unwinding_bytes: state.bytes, ..stats }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::output::{Output, RecordSink, SinkClosed};

    type Batches = Arc<Mutex<Vec<Vec<u8>>>>;

    /// Doubles each record, or leaves it if unwinding is behind.
    #[derive(Debug, Default)]
    struct Doubling {
        counts: UnwoundChains,
    }

    /// Leaves out records of type 8.
    #[derive(Debug)]
    struct Leaving;

    impl StackTrimmer for Leaving {
        fn describe(&mut self, _: &Description) {}

        fn trim(&mut self, pieces: &[&[u8]], into: &mut Vec<u8>) {
            let records = pieces.concat();
            let left = records.chunks(8).filter(|record| record[0] != 8);
            left.for_each(|record| into.extend_from_slice(record));
        }
    }

    impl StackUnwinder for Doubling {
        fn trimmer(&self) -> Box<dyn StackTrimmer> {
            Box::new(Leaving)
        }

        fn describe(&mut self, _: &Description) {}

        fn unwind(&mut self, records: &[u8], is_behind: bool, into: &mut Vec<u8>) {
            for record in records.chunks(8) {
                into.extend_from_slice(record);
                if is_behind {
                    self.counts.behind += 1;
                } else if record != FINISHED_ROUND {
                    into.extend_from_slice(record);
                    self.counts.whole += 1;
                }
            }
        }

        fn described(&self, description: &Description) -> Description {
            description.clone()
        }

        fn counts(&self) -> UnwoundChains {
            self.counts.clone()
        }

        fn reset_counts(&mut self) {
            self.counts = UnwoundChains::default();
        }
    }

    struct CollectingSink(Batches);

    impl RecordSink for CollectingSink {
        fn begin(&mut self, _: &Description) -> ControlFlow<SinkClosed> {
            ControlFlow::Continue(())
        }

        fn records(&mut self, records: &[u8]) -> ControlFlow<SinkClosed> {
            self.0.lock().unwrap().push(records.to_vec());
            ControlFlow::Continue(())
        }
    }

    /// Runs a test; built with `--cfg shuttle`, in many orders of the threads.
    fn in_orders(run: impl Fn() + Send + Sync + 'static) {
        #[cfg(shuttle)]
        shuttle::check_random(run, 500);
        #[cfg(not(shuttle))]
        run();
    }

    /// An output that doubles records, and the batches that arrive behind it.
    fn doubling() -> (Output, Batches) {
        let batches = Batches::default();
        let output = Output::to_sink(Box::new(CollectingSink(Arc::clone(&batches))));
        (output.with_unwinder(Box::new(Doubling::default())).unwrap(), batches)
    }

    fn record(number: u8) -> [u8; 8] {
        [9, 0, 0, 0, number, 0, 8, 0]
    }

    #[test]
    fn the_records_of_a_round_are_unwound_together() {
        in_orders(|| {
            let (mut output, batches) = doubling();
            output.begin(&Description::default()).unwrap();
            output.append(&[&record(1)]).unwrap();
            let two = record(2);
            output.append(&[&two[..3], &two[3..]]).unwrap();
            output.append(&[&FINISHED_ROUND]).unwrap();
            output.append(&[&record(3)]).unwrap();
            output.flush().unwrap();
            let stats =
                output.finish(&Closing { description: &Description::default(), records: &[] });
            let first = [record(1), record(1), record(2), record(2), FINISHED_ROUND].concat();
            assert_eq!(*batches.lock().unwrap(), [first, [record(3), record(3)].concat()]);
            assert_eq!(stats.unwound.map(|unwound| unwound.whole), Some(3));
        });
    }

    #[test]
    fn records_without_the_end_of_their_round_are_written_at_the_end() {
        in_orders(|| {
            let (mut output, batches) = doubling();
            output.begin(&Description::default()).unwrap();
            output.append(&[&record(1)]).unwrap();
            drop(output.finish(&Closing { description: &Description::default(), records: &[] }));
            assert_eq!(batches.lock().unwrap().concat(), [record(1), record(1)].concat());
        });
    }

    #[test]
    fn a_stage_that_is_behind_passes_records_on_as_they_are() {
        in_orders(|| {
            let batches = Batches::default();
            let sink = Output::to_sink(Box::new(CollectingSink(Arc::clone(&batches))));
            let mut stage = UnwindingStage {
                output: sink.writer,
                unwinder: Box::new(Doubling::default()),
                held: Vec::new(),
                unwound: Vec::new(),
            };
            stage.append(&mut record(1).to_vec(), true).unwrap();
            assert_eq!(batches.lock().unwrap().concat(), record(1));
            assert_eq!(stage.unwinder.counts().behind, 1);
        });
    }

    #[test]
    fn records_are_trimmed_before_they_are_queued() {
        in_orders(|| {
            let (mut output, batches) = doubling();
            output.begin(&Description::default()).unwrap();
            let left_out = [8, 0, 0, 0, 0, 0, 8, 0];
            output.append(&[&left_out[..5], &left_out[5..], &record(1)]).unwrap();
            drop(output.finish(&Closing { description: &Description::default(), records: &[] }));
            assert_eq!(batches.lock().unwrap().concat(), [record(1), record(1)].concat());
        });
    }

    // Built for many orders of the threads, it would take minutes.
    #[cfg(not(shuttle))]
    #[test]
    fn a_full_queue_loses_no_record() {
        let (mut output, batches) = doubling();
        output.begin(&Description::default()).unwrap();
        // Each is larger than half the queue, so the second waits for the first.
        let large = record(1).repeat(CAPACITY / 12);
        output.append(&[&large]).unwrap();
        output.append(&[&large]).unwrap();
        let stats = output.finish(&Closing { description: &Description::default(), records: &[] });
        let counts = stats.unwound.unwrap();
        let written = batches.lock().unwrap().iter().map(Vec::len).sum::<usize>() as u64 / 8;
        let appended = 2 * large.len() as u64 / 8;
        assert_eq!(counts.whole + counts.behind, appended);
        assert_eq!(written, 2 * counts.whole + counts.behind);
    }

    #[test]
    fn figures_are_as_of_the_last_call() {
        in_orders(|| {
            let (mut output, _) = doubling();
            output.begin(&Description::default()).unwrap();
            output.append(&[&record(1)]).unwrap();
            output.reserve(0).unwrap();
            assert_eq!(output.so_far().unwound.map(|unwound| unwound.whole), Some(1));
            assert_eq!(output.so_far().unwinding_bytes, 0);
            // Without the end of its round it may wait, or be in the thread's hands.
            output.append(&[&record(1)]).unwrap();
            assert!(output.so_far().unwinding_bytes <= 8);
            assert!(output.threads().len() == 1 && output.written() > 0);
        });
    }
}

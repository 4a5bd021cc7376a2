//! A bounded queue before a stream, before compression or before a disk that is written past the page
//! cache, with a thread of its own: reading the rings goes on while a pipe's reader is slow. When it is
//! full, appending waits; then the rings fill, and what they can't hold is lost and counted by the
//! kernel.
//!
//! A file whose path is chosen by its size is written by whoever appends until it is long, and handed
//! to the thread then: short recordings need none.

mod piece;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use rustix::io::Errno;
use tare_format::file::writer::Description;

use self::piece::{PIECE, QueuedBytes};
use super::disk::CutFile;
use super::hand_over::thread::JoinHandle;
use super::hand_over::{Condvar, Mutex, MutexGuard, mpsc};
use super::series::FileSeries;
use super::window_thread::spawn;
use super::{Closing, OutputError, OutputStats, Result};

/// When half of the queue is full, a disk that is written past the page cache is too slow for what
/// comes in.
const SPILLS_AT: usize = 2;

type Call = Box<dyn FnOnce(&mut FileSeries) + Send>;

enum Job {
    /// Records; where `ends` is not set, the last one goes on in the next piece.
    Append {
        piece: QueuedBytes,
        ends: bool,
    },
    Flush,
    /// Anything that somebody waits for.
    Call(Call),
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    bytes: usize,
    high_water: usize,
    spare: Vec<Vec<u8>>,
    failed: Option<OutputError>,
    written: u64,
    /// Where the next piece will lie in the file, as long as nothing comes between.
    next: u64,
    wants_switch: bool,
    account: OutputStats,
    /// System calls for handing over: whoever waits or wakes makes one (`futex(2)`).
    calls: u64,
    ends: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    has_work: Condvar,
    has_room: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread gets, and gives back at its end.
struct OutputThread {
    handle: JoinHandle<()>,
    tid: i32,
    /// Gone when the thread has the recording.
    hand: Option<mpsc::SyncSender<FileSeries>>,
    recording: mpsc::Receiver<FileSeries>,
}

impl OutputThread {
    /// Starts it. It waits for the recording.
    fn start(shared: &Arc<Shared>, capacity: usize) -> Result<Self> {
        let of_thread = Arc::clone(shared);
        let (hand, taken) = mpsc::sync_channel::<FileSeries>(1);
        let (give_back, recording) = mpsc::sync_channel(1);
        let (handle, tid) = spawn("tare-output", move || {
            // Nobody hands it over where the file stayed short.
            if let Ok(recording) = taken.recv() {
                // Nobody takes it where the queue was dropped unfinished.
                let _ = give_back.send(work(&of_thread, recording, capacity));
            }
        })?;
        Ok(Self { handle, tid, hand: Some(hand), recording })
    }
}

/// Ends the thread, when it has done everything.
struct Ends(Arc<Shared>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.lock().ends = true;
        self.0.has_work.notify_one();
    }
}

/// A recording that is written by another thread.
pub(super) struct Queue {
    shared: Arc<Shared>,
    /// The recording, until the thread has it.
    here: Option<Box<FileSeries>>,
    /// Bytes of its file from which on the thread has it.
    handed_at: u64,
    thread: Option<OutputThread>,
    /// The recording's own helper.
    helper: Option<i32>,
    ends: Ends,
    capacity: usize,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Queue {
    /// Starts the thread. At most `capacity` bytes wait, and at least one piece of any size.
    pub(super) fn start(recording: FileSeries, capacity: usize) -> Result<Self> {
        let mut queue = Self::later(recording, capacity, 0);
        queue.thread = Some(OutputThread::start(&queue.shared, capacity)?);
        queue.hand_over();
        Ok(queue)
    }

    /// The same for a recording that the thread gets when its file has so many bytes.
    pub(super) fn later(recording: FileSeries, capacity: usize, handed_at: u64) -> Self {
        let shared = Arc::new(Shared::default());
        let ends = Ends(Arc::clone(&shared));
        let helper = recording.thread();
        let here = Some(Box::new(recording));
        Self { shared, here, handed_at, thread: None, helper, ends, capacity }
    }

    /// Has the thread there by now, where it may be needed: others name it.
    pub(super) fn start_thread(&mut self) -> Result<()> {
        let is_needed = self.here.as_deref().is_some_and(FileSeries::may_be_direct);
        if self.thread.is_none() && is_needed {
            self.thread = Some(OutputThread::start(&self.shared, self.capacity)?);
        }
        Ok(())
    }

    /// Gives the recording to the thread, where there is one.
    fn hand_over(&mut self) {
        let Some(thread) = &mut self.thread else { return };
        if let (Some(mut recording), Some(hand)) = (self.here.take(), thread.hand.take()) {
            recording.write_apart();
            let mut state = self.shared.lock();
            (state.written, state.next) = (recording.written(), recording.written());
            state.account = recording.so_far();
            drop(state);
            // The thread is there, and takes it.
            let _ = hand.send(*recording);
        }
    }

    /// Hands the recording over where its file is long by now.
    fn hand_over_when_long(&mut self) {
        if self.here.as_ref().is_some_and(|recording| recording.written() >= self.handed_at) {
            // Once, whatever comes of it: where no thread can be had, whoever appends goes on.
            self.handed_at = u64::MAX;
            if self.start_thread().is_ok() {
                self.hand_over();
            }
        }
    }

    /// The thread, and those of the recording.
    pub(super) fn threads(&self) -> Vec<i32> {
        self.thread.iter().map(|thread| thread.tid).chain(self.helper).collect()
    }

    /// Does something to the recording: has the thread do it, and waits for it.
    fn call<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut FileSeries) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if let Some(recording) = &mut self.here {
            return call(recording);
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        let call = move |recording: &mut FileSeries| drop(sender.send(call(recording)));
        self.shared.lock().jobs.push_back(Job::Call(Box::new(call)));
        self.shared.has_work.notify_one();
        receiver.recv().unwrap_or(Err(OutputError::Thread(Errno::SRCH)))
    }

    /// See [`super::Output::begin`].
    pub(super) fn begin(&mut self, description: &Description) -> Result<()> {
        let description = description.clone();
        self.call(move |recording| recording.begin(&description))
    }

    /// See [`super::Output::size_when_finished`]. Waits until everything was written.
    pub(super) fn size_when_finished(&mut self, closing: &Closing<'_>) -> Option<u64> {
        let (description, records) = (closing.description.clone(), closing.records.to_vec());
        self.call(move |recording| {
            let closing = Closing { description: &description, records: &records };
            Ok(recording.size_when_finished(&closing))
        })
        .ok()?
    }

    /// See [`super::Output::switch`].
    pub(super) fn switch(
        &mut self,
        closing: &Closing<'_>,
        beginning: &Description,
        records: &[&[u8]],
    ) -> Result<Option<PathBuf>> {
        let (ending, last) = (closing.description.clone(), closing.records.to_vec());
        let (beginning, records) = (beginning.clone(), records.concat());
        self.call(move |recording| {
            recording.switch(
                &Closing { description: &ending, records: &last },
                &beginning,
                &[&records],
            )
        })
    }

    /// See [`super::Output::add_ids`].
    pub(super) fn add_ids(&mut self, description: &Description, ids: &[Vec<u64>]) -> Result<()> {
        let (description, ids) = (description.clone(), ids.to_vec());
        self.call(move |recording| recording.add_ids(&description, &ids))
    }

    /// See [`super::Output::reserve`].
    pub(super) fn reserve(&mut self, room: u64) -> Result<()> {
        self.call(move |recording| recording.reserve(room))
    }

    /// See [`super::Output::cut_back`].
    pub(super) fn cut_back(&mut self, room: u64) -> Option<CutFile> {
        self.call(move |recording| Ok(recording.cut_back(room))).ok().flatten()
    }

    /// Copies records into the queue, when there is room.
    pub(super) fn append(&mut self, records: &[&[u8]]) -> Result<()> {
        if let Some(recording) = &mut self.here {
            recording.append(records)?;
            self.hand_over_when_long();
            return Ok(());
        }
        let mut piece = self.spare();
        for mut rest in records.iter().copied() {
            while !rest.is_empty() {
                if piece.bytes().len() == PIECE {
                    self.push(piece, false);
                    piece = self.spare();
                }
                let (now, later) = rest.split_at(rest.len().min(PIECE - piece.bytes().len()));
                piece.push(now);
                rest = later;
            }
        }
        self.push(piece, true);
        self.shared.lock().failed.clone().map_or(Ok(()), Err)
    }

    fn spare(&self) -> QueuedBytes {
        let mut state = self.shared.lock();
        let (memory, place) = (state.spare.pop().unwrap_or_default(), state.next);
        drop(state);
        QueuedBytes::new(memory, place)
    }

    /// Waits for room, and adds a piece.
    fn push(&self, piece: QueuedBytes, ends: bool) {
        let bytes = piece.bytes().len();
        let mut state = self.shared.lock();
        if bytes == 0 {
            state.spare.push(piece.into_memory());
            return;
        }
        while state.bytes > 0 && state.bytes + bytes > self.capacity {
            state.calls += 1;
            state = self.shared.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes += bytes;
        state.next += bytes as u64;
        state.high_water = state.high_water.max(state.bytes);
        state.jobs.push_back(Job::Append { piece, ends });
        state.calls += 1;
        drop(state);
        self.shared.has_work.notify_one();
    }

    /// Has what is in the queue flushed when it was written; doesn't wait for that.
    pub(super) fn flush(&mut self) -> Result<()> {
        if let Some(recording) = &mut self.here {
            return recording.flush();
        }
        let mut state = self.shared.lock();
        if !matches!(state.jobs.back(), Some(Job::Flush)) {
            state.jobs.push_back(Job::Flush);
        }
        let failed = state.failed.clone();
        state.calls += 1;
        drop(state);
        self.shared.has_work.notify_one();
        failed.map_or(Ok(()), Err)
    }

    /// Bytes that were written, of the file that is being written.
    pub(super) fn written(&self) -> u64 {
        self.here.as_ref().map_or_else(|| self.shared.lock().written, |here| here.written())
    }

    /// See [`super::Output::so_far`]. Doesn't wait: what is known of the way is as of the last
    /// thing that was done.
    pub(super) fn so_far(&self) -> OutputStats {
        if let Some(recording) = &self.here {
            return recording.so_far();
        }
        let state = self.shared.lock();
        with_queue(&state, self.capacity, state.account.clone())
    }

    /// See [`FileSeries::wants_switch`].
    pub(super) fn wants_switch(&self) -> bool {
        let there = || self.shared.lock().wants_switch;
        self.here.as_ref().map_or_else(there, |here| here.wants_switch())
    }

    /// Waits until everything was written, and completes the recording.
    pub(super) fn finish(self, closing: &Closing<'_>) -> OutputStats {
        let Self { shared, here, thread, ends, capacity, .. } = self;
        drop(ends);
        let back = thread.and_then(|mut thread| {
            // Without a recording it ends at once.
            drop(thread.hand.take());
            let recording = thread.recording.recv();
            // It gave the recording back, and has nothing else to do.
            let _ = thread.handle.join();
            recording.ok()
        });
        if let Some(recording) = here {
            return recording.finish(closing);
        }
        let gone = OutputStats {
            stopped: Some(OutputError::Thread(Errno::SRCH)),
            unfinished: true,
            ..OutputStats::default()
        };
        let account = back.map_or(gone, |recording| recording.finish(closing));
        with_queue(&shared.lock(), capacity, account)
    }
}

/// An account with what is known of the queue.
fn with_queue(state: &State, capacity: usize, account: OutputStats) -> OutputStats {
    let system_calls = account.system_calls + state.calls;
    OutputStats {
        queue_high_water: state.high_water,
        queue_bytes: capacity,
        system_calls,
        ..account
    }
}

/// What the thread does: everything in the queue, in order, until there is nothing more to come.
fn work(shared: &Shared, mut recording: FileSeries, capacity: usize) -> FileSeries {
    let mut state = shared.lock();
    loop {
        let Some(job) = state.jobs.pop_front() else {
            if state.ends {
                return recording;
            }
            state.calls += 1;
            state = shared.has_work.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        // The page cache takes what a disk is too slow for.
        let is_late = state.bytes > capacity / SPILLS_AT;
        drop(state);
        if is_late {
            recording.spill();
        }
        let mut done = None;
        let result = match job {
            Job::Append { piece, ends } => {
                let bytes = piece.bytes();
                let result =
                    if ends { recording.append(&[bytes]) } else { recording.append_part(bytes) };
                done = Some(piece);
                result
            }
            Job::Flush => recording.flush(),
            Job::Call(call) => {
                call(&mut recording);
                Ok(())
            }
        };
        let account = recording.so_far();
        state = shared.lock();
        state.written = recording.written();
        state.wants_switch = recording.wants_switch();
        state.account = account;
        state.failed = state.failed.take().or(result.err());
        if let Some(piece) = done {
            state.bytes -= piece.bytes().len();
            state.calls += 1;
            shared.has_room.notify_all();
            state.spare.push(piece.into_memory());
        }
        if state.jobs.is_empty() {
            state.next = state.written;
        }
    }
}

#[cfg(test)]
mod tests;

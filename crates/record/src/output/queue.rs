//! A bounded queue with a thread of its own, before a stream, before compression or before a disk
//! that is written past the page cache. Reading the rings continues while a pipe's reader is slow.
//! When the queue is full, appending waits; then the rings fill, and the kernel counts the records
//! that it must drop.
//!
//! If the path of a file's bytes depends on its growth rate, the appending thread writes the file
//! while it grows slowly, and the queue's thread while it grows fast. A short or slow file
//! therefore wakes no thread.

mod piece;
mod thread;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use rustix::io::Errno;
use tare_format::file::writer::Description;
use tare_kernel::page_buffer::PageBuffer;

use self::thread::{Job, OutputThread, QueueState, SharedQueue};
use super::disk::CutFile;
use super::hand_over::mpsc;
use super::series::FileSeries;
use super::{Closing, OutputError, OutputStats, OwnedClosing, RecordWriter, Result};

/// A guard: dropping it ends the thread, once the queue is empty.
struct EndGuard(Arc<SharedQueue>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.lock().ends = true;
        self.0.has_work.notify_one();
    }
}

/// A recording that another thread may write.
pub(super) struct Queue {
    shared: Arc<SharedQueue>,
    /// The recording, while the thread doesn't have it.
    here: Option<Box<FileSeries>>,
    /// Whether the thread has the recording only while the file grows fast.
    is_by_pace: bool,
    thread: Option<OutputThread>,
    /// Thread id of the recording's own helper.
    helper: Option<i32>,
    ends: EndGuard,
    capacity: usize,
    /// The piece being filled, if pieces wait until they are full.
    filling: Option<PageBuffer>,
    /// Whether pieces are only handed over when full, or at a flush.
    fills: bool,
    /// Whether pieces may be written from where they lie, and so have large pages.
    is_large: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Queue {
    /// Starts the thread. At most `capacity` bytes wait, or one piece of any size.
    pub(super) fn start(recording: FileSeries, capacity: usize) -> Result<Self> {
        let mut queue = Self { is_by_pace: false, ..Self::by_pace(recording, capacity) };
        queue.thread = Some(OutputThread::start(&queue.shared, capacity)?);
        queue.hand_over();
        Ok(queue)
    }

    /// Creates a queue whose thread only has the recording while the file grows fast.
    pub(super) fn by_pace(recording: FileSeries, capacity: usize) -> Self {
        let shared = Arc::new(SharedQueue::default());
        let ends = EndGuard(Arc::clone(&shared));
        let helper = recording.thread();
        let is_large = recording.is_written_as_it_comes();
        let fills = is_large && !recording.is_limited();
        Self {
            shared,
            here: Some(Box::new(recording)),
            is_by_pace: true,
            thread: None,
            helper,
            ends,
            capacity,
            filling: None,
            fills,
            is_large,
        }
    }

    /// Gives the recording to the thread, if it exists.
    fn hand_over(&mut self) {
        let Some(thread) = &self.thread else { return };
        let Some(mut recording) = self.here.take() else { return };
        recording.set_apart(true);
        let mut state = self.shared.lock();
        state.offset.set(recording.written());
        state.progress.written = recording.written();
        state.progress.account = recording.so_far();
        state.progress.is_slow = false;
        drop(state);
        // The thread exists and receives it.
        let _ = thread.hand.send(*recording);
    }

    /// Gives the recording to the thread if the file grows fast.
    fn hand_over_when_fast(&mut self) {
        if self.is_by_pace && self.here.as_ref().is_some_and(|recording| recording.is_fast()) {
            // If no thread can be started or the file can't go past the page cache, the appending
            // thread continues.
            if self.start_threads().is_ok() {
                self.hand_over();
            }
            self.is_by_pace = self.here.is_none();
        }
    }

    /// Takes the recording back if the file grows slowly: waking the thread would cost more than
    /// the writing.
    fn take_back_when_slow(&mut self) {
        if self.here.is_some() || !self.is_by_pace || !self.shared.lock().progress.is_slow {
            return;
        }
        self.push_filling();
        self.shared.lock().jobs.push_back(Job::GiveBack);
        self.shared.has_work.notify_one();
        let back = self.thread.as_ref().and_then(|thread| thread.recording.recv().ok());
        if let Some(mut recording) = back {
            recording.set_apart(false);
            self.here = Some(Box::new(recording));
            self.shared.lock().spare = Vec::new();
        }
    }

    /// Runs a call on the recording, on the thread that has it, and waits for the result.
    fn call<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut FileSeries) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if let Some(recording) = &mut self.here {
            return call(recording);
        }
        self.push_filling();
        let (sender, receiver) = mpsc::sync_channel(1);
        let call = move |recording: &mut FileSeries| drop(sender.send(call(recording)));
        self.shared.lock().jobs.push_back(Job::Call(Box::new(call)));
        self.shared.has_work.notify_one();
        receiver.recv().unwrap_or(Err(OutputError::Thread(Errno::SRCH)))
    }

    /// Hands over the piece being filled, which ends at a record's end.
    fn push_filling(&mut self) {
        if let Some(piece) = self.filling.take() {
            self.push(piece, true);
        }
    }

    fn take_spare(&self) -> Result<PageBuffer> {
        let mut state = self.shared.lock();
        let memory = state.spare.pop();
        let place = state.offset.next;
        drop(state);
        Ok(piece::empty(memory, place, self.is_large)?)
    }

    /// Waits for room, and adds a piece.
    fn push(&self, piece: PageBuffer, ends: bool) {
        let bytes = piece.bytes().len();
        let mut state = self.shared.lock();
        while state.fill.lacks_room(bytes, self.capacity) {
            state.calls += 1;
            state = self.shared.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.fill.add(bytes);
        state.offset.append(bytes as u64);
        state.jobs.push_back(Job::Append { piece, ends });
        state.calls += 1;
        drop(state);
        self.shared.has_work.notify_one();
    }
}

impl RecordWriter for Queue {
    /// Starts the thread, if it may be needed, for callers that must name it.
    fn start_threads(&mut self) -> Result<()> {
        let is_needed = self.here.as_deref().is_some_and(FileSeries::may_be_direct);
        if self.thread.is_none() && is_needed {
            self.thread = Some(OutputThread::start(&self.shared, self.capacity)?);
        }
        Ok(())
    }

    /// Thread ids of the queue's thread and of the recording's helper.
    fn threads(&self) -> Vec<i32> {
        self.thread.iter().map(|thread| thread.tid).chain(self.helper).collect()
    }

    fn begin(&mut self, description: &Description) -> Result<()> {
        let description = description.clone();
        self.call(move |recording| recording.begin(&description))
    }

    /// Writes records, or if the thread has the recording, copies them into the queue and waits for
    /// room.
    fn append(&mut self, records: &[&[u8]]) -> Result<()> {
        if let Some(recording) = &mut self.here {
            recording.append(records)?;
            self.hand_over_when_fast();
            return Ok(());
        }
        for mut rest in records.iter().copied() {
            while !rest.is_empty() {
                let mut piece = match self.filling.take() {
                    Some(piece) => piece,
                    None => self.take_spare()?,
                };
                rest = &rest[piece.push(rest)..];
                if piece.room() > 0 {
                    self.filling = Some(piece);
                } else {
                    self.push(piece, false);
                }
            }
        }
        if !self.fills {
            self.push_filling();
        }
        self.shared.lock().failed.clone().map_or(Ok(()), Err)
    }

    /// Flushes, or if the thread has the recording, queues a flush without waiting for it.
    fn flush(&mut self) -> Result<()> {
        self.take_back_when_slow();
        if let Some(recording) = &mut self.here {
            return recording.flush();
        }
        self.push_filling();
        let mut state = self.shared.lock();
        if !matches!(state.jobs.back(), Some(Job::Flush)) {
            state.jobs.push_back(Job::Flush);
        }
        state.offset.flush();
        let failed = state.failed.clone();
        state.calls += 1;
        drop(state);
        self.shared.has_work.notify_one();
        failed.map_or(Ok(()), Err)
    }

    fn written(&self) -> u64 {
        self.here
            .as_ref()
            .map_or_else(|| self.shared.lock().progress.written, |here| here.written())
    }

    fn end_beginning(&mut self) -> Result<()> {
        self.call(RecordWriter::end_beginning)
    }

    /// See [`FileSeries::is_switch_due`].
    fn is_switch_due(&self) -> bool {
        self.here
            .as_ref()
            .map_or_else(|| self.shared.lock().progress.is_switch_due, |here| here.is_switch_due())
    }

    /// Waits until everything is written, and asks the recording.
    fn size_when_finished(&mut self, closing: &Closing<'_>) -> Option<u64> {
        let closing = OwnedClosing::new(closing);
        self.call(move |recording| Ok(recording.size_when_finished(&closing.as_closing()))).ok()?
    }

    fn switch(
        &mut self,
        closing: &Closing<'_>,
        beginning: &Description,
        records: &[&[u8]],
    ) -> Result<Option<PathBuf>> {
        let closing = OwnedClosing::new(closing);
        let beginning = beginning.clone();
        let records = records.concat();
        self.call(move |recording| recording.switch(&closing.as_closing(), &beginning, &[&records]))
    }

    fn add_ids(&mut self, description: &Description, ids: &[Vec<u64>]) -> Result<()> {
        let description = description.clone();
        let ids = ids.to_vec();
        self.call(move |recording| recording.add_ids(&description, &ids))
    }

    fn reserve(&mut self, room: u64) -> Result<()> {
        self.call(move |recording| recording.reserve(room))
    }

    fn cut_back(&mut self, room: u64) -> Option<CutFile> {
        self.call(move |recording| Ok(recording.cut_back(room))).ok().flatten()
    }

    /// Doesn't wait: if the thread has the recording, the recording's figures are as of its last
    /// job.
    fn so_far(&self) -> OutputStats {
        let state = self.shared.lock();
        match &self.here {
            Some(recording) => with_queue(&state, self.capacity, recording.so_far()),
            None => with_queue(&state, self.capacity, state.progress.account.clone()),
        }
    }

    /// Waits until everything is written, and completes the recording.
    fn finish(mut self: Box<Self>, closing: &Closing<'_>) -> OutputStats {
        self.push_filling();
        let Self { shared, here, thread, ends, capacity, .. } = *self;
        drop(ends);
        let back = thread.and_then(|OutputThread { handle, hand, recording, .. }| {
            // Without a recording the thread ends at once.
            drop(hand);
            let recording = recording.recv();
            // The thread has returned the recording, and is about to end.
            let _ = handle.join();
            recording.ok()
        });
        let back = here.or(back.map(Box::new));
        let gone = OutputStats {
            stopped: Some(OutputError::Thread(Errno::SRCH)),
            unfinished: true,
            ..OutputStats::default()
        };
        let account = back.map_or(gone, |recording| recording.finish(closing));
        with_queue(&shared.lock(), capacity, account)
    }
}

/// Adds the queue's figures.
fn with_queue(state: &QueueState, capacity: usize, account: OutputStats) -> OutputStats {
    if state.calls == 0 {
        return account;
    }
    let system_calls = account.system_calls + state.calls;
    OutputStats {
        queue_high_water: state.fill.high_water,
        queue_bytes: capacity,
        system_calls,
        ..account
    }
}

#[cfg(test)]
mod tests;

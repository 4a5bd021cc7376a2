//! The thread of a queue, and its shared state.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use tare_kernel::page_buffer::PageBuffer;

use crate::output::hand_over::thread::JoinHandle;
use crate::output::hand_over::{Condvar, Mutex, MutexGuard, mpsc};
use crate::output::series::FileSeries;
use crate::output::window_thread::spawn;
use crate::output::{OutputError, OutputStats, Result};

/// One part in this many of the queue: above it, a disk that is written past the page cache counts
/// as too slow.
const SPILLS_AT: usize = 2;

pub(super) type Call = Box<dyn FnOnce(&mut FileSeries) + Send>;

pub(super) enum Job {
    /// Records. Unless `ends` is set, the last one continues in the next piece.
    Append {
        piece: PageBuffer,
        ends: bool,
    },
    Flush,
    /// A call whose result the caller waits for.
    Call(Call),
    /// The appending thread takes the recording back.
    GiveBack,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) jobs: VecDeque<Job>,
    pub(super) bytes: usize,
    pub(super) high_water: usize,
    pub(super) spare: Vec<PageBuffer>,
    pub(super) failed: Option<OutputError>,
    pub(super) written: u64,
    /// Predicted offset of the next piece in the file, if only flushes come between.
    pub(super) next: u64,
    /// Bytes that the last flush with new data wrote after them.
    pub(super) of_flush: u64,
    /// Whether there are new data since the last requested flush.
    pub(super) has_new: bool,
    pub(super) wants_switch: bool,
    /// Whether the file grows slowly, if its path depends on that.
    pub(super) is_slow: bool,
    pub(super) account: OutputStats,
    /// System calls for the hand-over: each wait and each wake-up takes one (`futex(2)`).
    pub(super) calls: u64,
    pub(super) ends: bool,
}

#[derive(Default)]
pub(super) struct SharedQueue {
    pub(super) state: Mutex<State>,
    pub(super) has_work: Condvar,
    pub(super) has_room: Condvar,
}

impl SharedQueue {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread, with its channels for the recording.
pub(super) struct OutputThread {
    pub(super) handle: JoinHandle<()>,
    pub(super) tid: i32,
    pub(super) hand: mpsc::SyncSender<FileSeries>,
    pub(super) recording: mpsc::Receiver<FileSeries>,
}

impl OutputThread {
    /// Starts the thread, which waits for the recording.
    pub(super) fn start(shared: &Arc<SharedQueue>, capacity: usize) -> Result<Self> {
        let of_thread = Arc::clone(shared);
        let (hand, taken) = mpsc::sync_channel::<FileSeries>(1);
        let (give_back, recording) = mpsc::sync_channel(1);
        let (handle, tid) = spawn("tare-output", move || {
            // A slow file is never handed over.
            while let Ok(recording) = taken.recv() {
                // The receiver is gone if the queue was dropped unfinished.
                let _ = give_back.send(work(&of_thread, recording, capacity));
            }
        })?;
        Ok(Self { handle, tid, hand, recording })
    }
}

/// Body of the thread: runs all jobs of the queue in order until it ends.
fn work(shared: &SharedQueue, mut recording: FileSeries, capacity: usize) -> FileSeries {
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
        // The page cache absorbs what the disk is too slow for.
        let is_late = state.bytes > capacity / SPILLS_AT;
        drop(state);
        if is_late {
            recording.spill();
        }
        let mut done = None;
        let before = recording.written();
        let is_flush = matches!(job, Job::Flush);
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
            Job::GiveBack => return recording,
        };
        let account = recording.so_far();
        state = shared.lock();
        state.written = recording.written();
        if is_flush && state.written > before {
            state.of_flush = state.written - before;
        }
        state.wants_switch = recording.wants_switch();
        state.is_slow = !recording.is_fast();
        state.account = account;
        state.failed = state.failed.take().or(result.err());
        if let Some(piece) = done {
            state.bytes -= piece.bytes().len();
            state.calls += 1;
            shared.has_room.notify_all();
            state.spare.push(piece);
        }
        if state.jobs.is_empty() {
            state.next = state.written;
        }
    }
}

//! The thread behind a queue, and what both sides see of it.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use tare_kernel::page_buffer::PageBuffer;

use crate::output::hand_over::thread::JoinHandle;
use crate::output::hand_over::{Condvar, Mutex, MutexGuard, mpsc};
use crate::output::series::FileSeries;
use crate::output::window_thread::spawn;
use crate::output::{OutputError, OutputStats, Result};

/// When half of the queue is full, a disk that is written past the page cache is too slow for what
/// comes in.
const SPILLS_AT: usize = 2;

pub(super) type Call = Box<dyn FnOnce(&mut FileSeries) + Send>;

pub(super) enum Job {
    /// Records; where `ends` is not set, the last one goes on in the next piece.
    Append {
        piece: PageBuffer,
        ends: bool,
    },
    Flush,
    /// Anything that somebody waits for.
    Call(Call),
    /// Whoever appends writes by himself again.
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
    /// Where the next piece will lie in the file, as long as nothing else comes between than what a
    /// flush writes.
    pub(super) next: u64,
    /// Bytes that the last flush with something new wrote behind it.
    pub(super) of_flush: u64,
    /// Whether there is something new since the last flush was asked for.
    pub(super) has_new: bool,
    pub(super) wants_switch: bool,
    /// Whether little came of late, where the path is chosen by that.
    pub(super) is_slow: bool,
    pub(super) account: OutputStats,
    /// System calls for handing over: whoever waits or wakes makes one (`futex(2)`).
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

/// What the thread gets, and gives back at its end.
pub(super) struct OutputThread {
    pub(super) handle: JoinHandle<()>,
    pub(super) tid: i32,
    pub(super) hand: mpsc::SyncSender<FileSeries>,
    pub(super) recording: mpsc::Receiver<FileSeries>,
}

impl OutputThread {
    /// Starts it. It waits for the recording.
    pub(super) fn start(shared: &Arc<SharedQueue>, capacity: usize) -> Result<Self> {
        let of_thread = Arc::clone(shared);
        let (hand, taken) = mpsc::sync_channel::<FileSeries>(1);
        let (give_back, recording) = mpsc::sync_channel(1);
        let (handle, tid) = spawn("tare-output", move || {
            // Nobody hands it over where little came.
            while let Ok(recording) = taken.recv() {
                // Nobody takes it where the queue was dropped unfinished.
                let _ = give_back.send(work(&of_thread, recording, capacity));
            }
        })?;
        Ok(Self { handle, tid, hand, recording })
    }
}

/// What the thread does: everything in the queue, in order, until there is nothing more to come.
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
        // The page cache takes what a disk is too slow for.
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

//! The thread of a queue, and its shared state.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use tare_kernel::page_buffer::PageBuffer;

use crate::output::hand_over::thread::JoinHandle;
use crate::output::hand_over::{Condvar, Mutex, MutexGuard, mpsc};
use crate::output::series::FileSeries;
use crate::output::window_thread::spawn;
use crate::output::{OutputError, OutputStats, RecordWriter, Result};

/// A disk that is written past the page cache counts as too slow if more than one part in this many
/// of the queue's capacity waits.
const SPILLS_AT: usize = 2;

pub(super) type Call = Box<dyn FnOnce(&mut FileSeries) + Send>;

pub(super) enum Job {
    /// Records. Unless `ends` is set, the last one may continue in the next piece.
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

/// The state that both sides of the queue share, under its lock.
#[derive(Default)]
pub(super) struct QueueState {
    pub(super) jobs: VecDeque<Job>,
    pub(super) fill: QueueFill,
    pub(super) spare: Vec<PageBuffer>,
    pub(super) offset: OffsetPrediction,
    pub(super) progress: WriteProgress,
    pub(super) failed: Option<OutputError>,
    /// System calls for the hand-over: each wait and each wake-up takes one (`futex(2)`).
    pub(super) calls: u64,
    pub(super) ends: bool,
}

/// Bytes of the pieces in the queue. `high_water` is never below `bytes`.
#[derive(Default)]
pub(super) struct QueueFill {
    pub(super) bytes: usize,
    pub(super) high_water: usize,
}

impl QueueFill {
    /// Whether a piece must wait: the queue isn't empty, and would exceed its capacity.
    pub(super) fn lacks_room(&self, piece: usize, capacity: usize) -> bool {
        self.bytes > 0 && self.bytes + piece > capacity
    }

    pub(super) fn add(&mut self, piece: usize) {
        self.bytes += piece;
        self.high_water = self.high_water.max(self.bytes);
    }

    fn remove(&mut self, piece: usize) {
        self.bytes -= piece;
    }
}

/// Predicts the offset of the next piece in the file, so that its memory can have the same
/// alignment. The prediction is right while only pieces and flushes are queued, and is corrected
/// whenever the queue is empty.
#[derive(Default)]
pub(super) struct OffsetPrediction {
    pub(super) next: u64,
    /// Bytes that the last flush with new data wrote after them.
    flush_bytes: u64,
    /// Whether there are new data since the last requested flush.
    has_new: bool,
}

impl OffsetPrediction {
    pub(super) fn set(&mut self, written: u64) {
        self.next = written;
    }

    /// Counts a queued piece.
    pub(super) fn append(&mut self, bytes: u64) {
        self.next += bytes;
        self.has_new = true;
    }

    /// Counts a queued flush, which writes nothing unless there are new data.
    pub(super) fn flush(&mut self) {
        if std::mem::take(&mut self.has_new) {
            self.next += self.flush_bytes;
        }
    }

    /// Notes how many bytes a flush wrote; 0 without new data.
    fn flushed(&mut self, bytes: u64) {
        if bytes > 0 {
            self.flush_bytes = bytes;
        }
    }
}

/// The state of the recording after the thread's last job.
#[derive(Default)]
pub(super) struct WriteProgress {
    pub(super) written: u64,
    pub(super) is_switch_due: bool,
    /// Whether the file grows slowly, if its path depends on that.
    pub(super) is_slow: bool,
    pub(super) account: OutputStats,
}

#[derive(Default)]
pub(super) struct SharedQueue {
    pub(super) state: Mutex<QueueState>,
    pub(super) has_work: Condvar,
    pub(super) has_room: Condvar,
}

impl SharedQueue {
    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
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
            // The recording comes at the start, or each time that the file grows fast.
            while let Ok(recording) = taken.recv() {
                // The receiver is gone if the queue was dropped unfinished.
                let _ = give_back.send(work(&of_thread, recording, capacity));
            }
        })?;
        Ok(Self { handle, tid, hand, recording })
    }
}

/// Body of the thread: runs the jobs of the queue in order, until the queue ends or a job gives the
/// recording back.
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
        // The page cache absorbs the records until the disk catches up.
        let is_late = state.fill.bytes > capacity / SPILLS_AT;
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
        let written = recording.written();
        if is_flush {
            state.offset.flushed(written.saturating_sub(before));
        }
        state.progress = WriteProgress {
            written,
            is_switch_due: recording.is_switch_due(),
            is_slow: !recording.is_fast(),
            account,
        };
        state.failed = state.failed.take().or(result.err());
        if let Some(piece) = done {
            state.fill.remove(piece.bytes().len());
            state.calls += 1;
            shared.has_room.notify_all();
            state.spare.push(piece);
        }
        if state.jobs.is_empty() {
            state.offset.set(written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_piece_of_any_size_finds_room_in_an_empty_queue() {
        let mut fill = QueueFill::default();
        assert!(!fill.lacks_room(100, 10));
        fill.add(100);
        assert!(fill.lacks_room(1, 10));
        fill.remove(100);
        assert_eq!((fill.bytes, fill.high_water), (0, 100));
    }

    #[test]
    fn a_flush_moves_the_predicted_offset_only_after_new_data() {
        let mut offset = OffsetPrediction::default();
        offset.set(4096);
        offset.flushed(64);
        offset.flush();
        assert_eq!(offset.next, 4096);
        offset.append(10);
        offset.flushed(0);
        offset.flush();
        offset.flush();
        assert_eq!(offset.next, 4096 + 10 + 64);
    }
}

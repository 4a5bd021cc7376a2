//! Records of context switches, wake-ups, migrations and forks: `bpf/sched.bpf.c`.

use std::os::fd::BorrowedFd;

use super::error::BpfError;
use super::follow::FollowedTasks;
use super::object::{self, LoadedObject, ObjectLoader};
use super::record_ring::RecordRing;

/// Bytes of `struct name`.
const NAME: usize = 24;
/// Bytes of `struct record`.
const RECORD: usize = 24 + 2 * NAME;

/// `TASK_IDLE` of `include/linux/sched.h`: asleep, without counting as load.
const TASK_IDLE: u32 = 0x402;
/// `TASK_RTLOCK_WAIT`, which the tracepoint reports as uninterruptible.
const RTLOCK_WAIT: u32 = 0x1000;
/// `TASK_REPORT`.
const REPORT: u32 = 0x7f;
/// The tracepoint's values for an idle kernel thread, and for a task preempted in the kernel.
const REPORTED_IDLE: u32 = 0x80;
const REPORTED_PREEMPTED: u32 = 0x100;

/// A thread at the time of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedTask<'a> {
    /// Its id in the initial pid namespace; 0 is the idle task.
    pub tid: u32,
    /// Its process.
    pub process: u32,
    /// Its name, up to a NUL byte. Untrusted.
    pub comm: &'a [u8],
    /// Whether it is followed; `false` for a task that woke, moved or started another.
    pub is_followed: bool,
}

/// A scheduling event of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedEvent {
    /// It leaves its CPU to the other task. The value is the state, as in `prev_state` of
    /// `sched:sched_switch`.
    Switch(u32),
    /// The other task, or an interrupt of it, woke it.
    Wakeup,
    /// The other task moves it.
    Migrate {
        /// Source CPU.
        from: u32,
        /// Destination CPU.
        to: u32,
    },
    /// The other task started it.
    Begin,
}

/// A record of the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedRecord<'a> {
    /// Time by `CLOCK_MONOTONIC`, in nanoseconds.
    pub time_ns: u64,
    /// The CPU on which it happened.
    pub cpu: u32,
    /// The event.
    pub event: SchedEvent,
    /// The task that the event is about.
    pub task: SchedTask<'a>,
    /// The task that caused it, or that runs next.
    pub other: SchedTask<'a>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn task(bytes: &[u8], is_followed: bool) -> Option<SchedTask<'_>> {
    let comm = bytes.get(8..NAME)?;
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
    let tid = word(bytes, 0)?;
    let process = word(bytes, 4)?;
    Some(SchedTask { tid, process, comm: &comm[..end], is_followed })
}

/// Returns the state as the tracepoint reports it.
fn reported(states: u32, is_preempted: bool) -> u32 {
    if is_preempted {
        return REPORTED_PREEMPTED;
    }
    if states & TASK_IDLE == TASK_IDLE {
        return REPORTED_IDLE;
    }
    let uninterruptible = if states & RTLOCK_WAIT == 0 { 0 } else { 2 };
    let state = (states | uninterruptible) & REPORT;
    state.checked_ilog2().map_or(0, |bit| 1 << bit)
}

impl<'a> SchedRecord<'a> {
    /// Parses a record; `None` if it is too short or of unknown kind.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let time_ns = u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?);
        let kind_and_flags = word(bytes, 12)?.to_ne_bytes();
        let [kind, flags] =
            [0, 2].map(|at| u16::from_ne_bytes([kind_and_flags[at], kind_and_flags[at + 1]]));
        let state = word(bytes, 16)?;
        let to = word(bytes, 20)?;
        let event = match kind {
            1 => SchedEvent::Switch(reported(state, flags & 4 != 0)),
            2 => SchedEvent::Wakeup,
            3 => SchedEvent::Migrate { from: state, to },
            4 => SchedEvent::Begin,
            _ => return None,
        };
        Some(Self {
            time_ns,
            cpu: word(bytes, 8)?,
            event,
            task: task(bytes.get(24..24 + NAME)?, flags & 1 != 0)?,
            other: task(bytes.get(24 + NAME..RECORD)?, flags & 2 != 0)?,
        })
    }
}

/// Programs that write a record of each switch, wake-up, fork and, on request, migration of the
/// followed tasks. Dropping it unloads them.
#[derive(Debug)]
pub struct SchedEvents {
    /// `None` after [`Self::stop`].
    programs: Option<LoadedObject>,
    ring: RecordRing,
}

impl SchedEvents {
    /// Loads and starts the programs. `ring_bytes` is a power of two and at least a page.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn start(
        follow: &FollowedTasks,
        migrations: bool,
        ring_bytes: u32,
    ) -> Result<Self, BpfError> {
        let programs = [
            "sched_process_fork",
            "sched_process_exec",
            "sched_wakeup_new",
            "sched_waking",
            "sched_switch",
        ];
        let mut loader = ObjectLoader::new(object::SCHED, &programs)
            .follow(follow)
            .record_ring(ring_bytes)
            .constant("migrations", migrations.into());
        if migrations {
            loader = loader.program("sched_migrate_task");
        }
        let mut loaded = loader.load()?;
        let ring = RecordRing::take(&mut loaded)?;
        loaded.start(follow)?;
        Ok(Self { programs: Some(loaded), ring })
    }

    /// Returns the descriptor to wait for: each record wakes the reader while more than an eighth
    /// of the ring buffer is full. Records can be drained before that.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.ring.file()
    }

    /// Hands over pending records in the order of their writing: at most 10,000, or all after
    /// [`Self::stop`].
    ///
    /// # Errors
    /// Returns the first error of `each`.
    pub fn drain<E>(
        &mut self,
        mut each: impl FnMut(SchedRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_running = self.programs.is_some();
        let each = |bytes: &[u8]| SchedRecord::parse(bytes).map_or(Ok(()), &mut each);
        self.ring.drain(is_running, each).map(drop)
    }

    /// Unloads the programs; written records remain readable.
    pub fn stop(&mut self) {
        self.programs = None;
    }

    /// Returns how many records the ring buffer had no room for so far.
    ///
    /// # Errors
    /// Fails if the map can't be read.
    pub fn missing(&self) -> Result<u64, BpfError> {
        self.ring.missing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_parsed_and_truncated_ones_rejected() {
        let mut bytes = vec![0; RECORD];
        assert_eq!(SchedRecord::parse(&bytes), None);
        (bytes[12], bytes[14], bytes[16], bytes[24], bytes[32]) = (1, 2, 1, 7, b'x');
        let record = SchedRecord::parse(&bytes).unwrap();
        assert_eq!(record.event, SchedEvent::Switch(1));
        assert_eq!((record.task.tid, record.task.comm), (7, &b"x"[..]));
        assert!(record.other.is_followed && !record.task.is_followed);
        for length in 0..bytes.len() {
            assert_eq!(SchedRecord::parse(&bytes[..length]), None);
        }
    }

    #[test]
    fn states_match_the_tracepoint() {
        let of = [0, 1, 2, 0x402, 0x1000, 0x80 | 0x20, 0x10].map(|states| reported(states, false));
        assert_eq!(of, [0, 1, 2, 0x80, 2, 0x20, 0x10]);
        assert_eq!(reported(1, true), 0x100);
    }
}

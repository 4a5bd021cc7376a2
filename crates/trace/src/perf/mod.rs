//! System calls as the samples of perf events, where BPF programs can't be loaded, and what else
//! happens to a task between its calls.
//!
//! ```text
//! open      an event of each kind on each task and CPU; those of a CPU share a ring buffer
//! drain     ring buffers -> order of time -> decode: samples become records of calls
//! ```
//! A sample has the numbers of a call and nothing of what its pointers lead to.

mod decode;
mod error;
mod open;

use std::os::fd::BorrowedFd;

use tare_kernel::bpf::{CallRecord, FollowedTasks, FutexStack};
use tare_kernel::functions::ProbeCall;
use tare_kernel::host::Host;
use tare_kernel::procfs;
use tare_kernel::ring::OrderedRings;
use tare_kernel::timestamp::monotonic_ns;

use decode::Decoder;
pub(crate) use decode::KILLED;
pub use error::PerfError;
pub use open::{Faults, PerfOptions};

use crate::stacks::{Stacks, UserFrame};

/// How long a record may be under way between its time and its ring buffer, in nanoseconds.
const UNDER_WAY_NS: u64 = 50_000_000;

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub enum PerfRecord<'a> {
    /// Something happened to a task; `cgroup` is the id of its cgroup where that was asked for.
    Record {
        /// What.
        record: CallRecord<'a>,
        /// Where it happened.
        cgroup: u64,
    },
    /// A thread has a new name.
    Name {
        /// The thread.
        tid: u32,
        /// Its process.
        process: u32,
        /// The name.
        comm: &'a [u8],
    },
    /// Something happened to a task between its calls.
    Between {
        /// When, by `CLOCK_MONOTONIC`, in nanoseconds.
        time_ns: u64,
        /// The thread.
        tid: u32,
        /// Its process.
        process: u32,
        /// What.
        what: InterveningEvent<'a>,
    },
    /// The call chain of the call that this thread begins, the innermost first: a line each.
    Stack {
        /// The thread.
        tid: u32,
        /// The lines.
        frames: &'a [String],
    },
    /// The call chain of a copied stack, the innermost first.
    Copied {
        /// The number that it is known by.
        chain: u64,
        /// Its functions.
        frames: &'a [UserFrame],
    },
    /// One of the tracepoints of [`PerfOptions::raw`].
    Raw {
        /// When, by `CLOCK_MONOTONIC`, in nanoseconds.
        time_ns: u64,
        /// On which CPU.
        cpu: u32,
        /// The thread.
        tid: u32,
        /// Its process.
        process: u32,
        /// It is this process, or the child before its execve.
        is_left_out: bool,
        /// Which of them.
        event: usize,
        /// Its bytes.
        raw: &'a [u8],
        /// The kernel's call chain, where that was asked for, the innermost first.
        chain: &'a [u64],
    },
    /// A function was called, or a place was passed.
    Function {
        /// The call.
        call: ProbeCall<'a>,
        /// Where from, where its stack was copied: the innermost first, a line each.
        frames: &'a [String],
    },
    /// So many records found no room in the ring buffer.
    Missing(u64),
}

/// What happens to a task that is no call of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterveningEvent<'a> {
    /// A page was not there.
    Fault {
        /// It had to be read from a disk.
        is_major: bool,
        /// What was accessed.
        address: u64,
        /// The instruction that accessed it.
        ip: u64,
    },
    /// It left its CPU.
    SwitchedOut {
        /// It could have gone on.
        is_preempted: bool,
    },
    /// It came back to a CPU.
    SwitchedIn {
        /// How long it had none, in nanoseconds, where that is known.
        off_ns: Option<u64>,
    },
    /// A tracepoint that was asked for.
    Tracepoint {
        /// `system:name`.
        name: &'a str,
        /// Its fields as the kernel prints them.
        text: &'a str,
    },
}

/// Open events, and what was read of them. Dropped, they are closed.
#[derive(Debug)]
pub struct PerfEvents {
    rings: OrderedRings,
    decoder: Decoder,
}

impl PerfEvents {
    /// Opens the events and lets them begin. `ring_bytes` is what each CPU's ring buffer has at
    /// most: less where so much memory may not be locked.
    ///
    /// # Errors
    /// See [`PerfError`].
    pub fn start(
        wanted: &PerfOptions,
        follow: &FollowedTasks,
        ring_bytes: u32,
        host: &Host,
    ) -> Result<Self, PerfError> {
        let opened = open::open(wanted, follow, ring_bytes, host)?;
        let stacks = wanted.stacks.as_ref().map(|options| {
            let mut stacks = Stacks::new(options);
            if let FollowedTasks::Processes(pids) = follow {
                pids.iter().for_each(|&pid| stacks.add_process(host, pid));
            }
            if let FollowedTasks::All(_) = follow {
                let pids = procfs::processes(host).unwrap_or_default();
                pids.iter().for_each(|&pid| stacks.add_process(host, pid));
            }
            stacks
        });
        let decoder = Decoder::new(&opened, follow, stacks);
        let rings = opened.rings;
        rings.enable().map_err(PerfError::Start)?;
        Ok(Self { rings, decoder })
    }

    /// What becomes readable when an eighth of a ring buffer is full. Less than that is there to be
    /// read without.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.files()
    }

    /// Hands over what has happened, in order of time: all of it with `is_over`, else what no other
    /// CPU can have anything older than any more.
    ///
    /// # Errors
    /// The first of `each`.
    pub fn drain<E>(
        &mut self,
        is_over: bool,
        mut each: impl FnMut(PerfRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { rings, decoder } = self;
        let before_ns = monotonic_ns().saturating_sub(UNDER_WAY_NS);
        rings.drain(if is_over { u64::MAX } else { before_ns });
        while let Some(record) = rings.next_record() {
            decoder.decode(&record.record, record.time_ns, &mut each)?;
        }
        Ok(())
    }

    /// Takes in a record of the BPF programs: it is handed over among the others.
    pub fn push_call(&mut self, record: &CallRecord<'_>, bytes: &[u8]) {
        self.rings.push(record.time_ns, decode::CALL, bytes);
    }

    /// Takes in a copied stack of the BPF programs: what it is unwound to is handed over among the
    /// others.
    pub fn push_copy(&mut self, copy: &FutexStack<'_>, bytes: &[u8]) {
        self.rings.push(copy.time_ns, decode::COPY, bytes);
    }

    /// Takes in a record of the BPF programs on functions.
    pub fn push_function(&mut self, call: &ProbeCall<'_>, bytes: &[u8]) {
        // Where it returned is where its stack was copied.
        self.rings.push(call.time_ns + call.duration_ns, decode::FUNCTION, bytes);
    }

    /// No more happens; what happened can still be read.
    pub fn stop(&mut self) {
        self.rings.stop();
    }

    /// How many records found no room in the ring buffers until now.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.decoder.missing()
    }
}

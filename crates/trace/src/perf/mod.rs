//! System calls from perf events, for when BPF programs can't be loaded; also what happens to a
//! task between its calls.
//!
//! ```text
//! open      an event of each kind per task and CPU; events of a CPU share a ring buffer
//! drain     ring buffers -> time order -> decode: samples become call records
//! ```
//! A sample holds the numbers of a call, but not the memory its pointers point to.

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

/// Nanoseconds that a record may take from its timestamp until it is in its ring buffer.
const UNDER_WAY_NS: u64 = 50_000_000;

/// A traced record.
#[derive(Clone, Copy, Debug)]
pub enum PerfRecord<'a> {
    /// A call or task event; `cgroup` is the cgroup's id if requested.
    Record {
        /// The record.
        record: CallRecord<'a>,
        /// The cgroup's id.
        cgroup: u64,
    },
    /// A thread was renamed.
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
        /// Time in nanoseconds of `CLOCK_MONOTONIC`.
        time_ns: u64,
        /// The thread.
        tid: u32,
        /// Its process.
        process: u32,
        /// The event.
        what: InterveningEvent<'a>,
    },
    /// The call chain of the call that this thread begins, innermost first, one line per frame.
    Stack {
        /// The thread.
        tid: u32,
        /// The lines.
        frames: &'a [String],
    },
    /// The call chain of a copied stack, innermost first.
    Copied {
        /// The chain's number.
        chain: u64,
        /// Its functions.
        frames: &'a [UserFrame],
    },
    /// A sample of a tracepoint in [`PerfOptions::raw`].
    Raw {
        /// Time in nanoseconds of `CLOCK_MONOTONIC`.
        time_ns: u64,
        /// The CPU.
        cpu: u32,
        /// The thread.
        tid: u32,
        /// Its process.
        process: u32,
        /// Whether the task is this process, or the child before its execve.
        is_left_out: bool,
        /// Index of the tracepoint.
        event: usize,
        /// The raw data.
        raw: &'a [u8],
        /// The kernel's call chain if requested, innermost first.
        chain: &'a [u64],
    },
    /// A probed function was called, or a static tracepoint was passed.
    Function {
        /// The call.
        call: ProbeCall<'a>,
        /// The caller's chain if the stack was copied: innermost first, one line per frame.
        frames: &'a [String],
    },
    /// Number of records lost because the ring buffer was full.
    Missing(u64),
}

/// What happens to a task between its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterveningEvent<'a> {
    /// A page fault.
    Fault {
        /// Whether the page was read from a disk.
        is_major: bool,
        /// The accessed address.
        address: u64,
        /// The accessing instruction.
        ip: u64,
    },
    /// The task left its CPU.
    SwitchedOut {
        /// Whether it could have continued.
        is_preempted: bool,
    },
    /// The task came back to a CPU.
    SwitchedIn {
        /// Time off the CPU in nanoseconds, if known.
        off_ns: Option<u64>,
    },
    /// A tracepoint.
    Tracepoint {
        /// `system:name`.
        name: &'a str,
        /// Its fields as the kernel formats them.
        text: &'a str,
    },
}

/// Open events and their decoder. Dropping it closes the events.
#[derive(Debug)]
pub struct PerfEvents {
    rings: OrderedRings,
    decoder: Decoder,
}

impl PerfEvents {
    /// Opens and enables the events. `ring_bytes` is the maximum size of each CPU's ring buffer;
    /// less if the mlock limit is lower.
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

    /// Returns descriptors that become readable when an eighth of a ring buffer is full. Smaller
    /// amounts can be read at any time.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.files()
    }

    /// Calls `each` with the records so far, in time order: all of them with `is_over`, otherwise
    /// those that no other CPU can precede any more.
    ///
    /// # Errors
    /// The first error of `each`.
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

    /// Adds a record of the BPF programs, to be ordered with the others.
    pub fn push_call(&mut self, record: &CallRecord<'_>, bytes: &[u8]) {
        self.rings.push(record.time_ns, decode::CALL, bytes);
    }

    /// Adds a stack copied by the BPF programs; its unwound chain is ordered with the other
    /// records.
    pub fn push_copy(&mut self, copy: &FutexStack<'_>, bytes: &[u8]) {
        self.rings.push(copy.time_ns, decode::COPY, bytes);
    }

    /// Adds a record of the BPF programs on functions.
    pub fn push_function(&mut self, call: &ProbeCall<'_>, bytes: &[u8]) {
        // The stack was copied when the function returned.
        self.rings.push(call.time_ns + call.duration_ns, decode::FUNCTION, bytes);
    }

    /// Disables the events; records in the rings can still be read.
    pub fn stop(&mut self) {
        self.rings.stop();
    }

    /// Number of records lost so far because ring buffers were full.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.decoder.missing()
    }
}

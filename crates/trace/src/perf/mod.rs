//! Tracing by perf events: system calls if BPF programs can't be loaded, page faults, switches,
//! tracepoints, and the mappings for unwinding.
//!
//! ```text
//! open      an event of each kind per task and CPU; events of a CPU share a ring buffer
//! drain     ring buffers -> time order -> decode: samples become trace records
//! ```
//! A sample of a call holds its arguments, but not the memory that its pointers point to.

mod decode;
mod error;
mod open;

use std::os::fd::BorrowedFd;

use tare_kernel::bpf::{Call, FollowedTasks};
use tare_kernel::host::Host;
use tare_kernel::procfs;
use tare_kernel::ring::OrderedRings;
use tare_kernel::timestamp::monotonic_ns;

use decode::Decoder;
pub(crate) use decode::KILLED;
pub use error::PerfError;
pub use open::{Faults, PerfOptions, UnwoundStacks};

use crate::record::TraceRecord;
use crate::stacks::Stacks;

/// Assumed longest time in nanoseconds from a record's timestamp until the record is in its ring
/// buffer.
const WRITE_DELAY_NS: u64 = 50_000_000;

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
        let stacks = wanted.stacks.symbols().map(|options| {
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
        each: impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.collect(is_over);
        self.hand_over_until(u64::MAX, each)
    }

    /// Reads the ring buffers. Returns the time in nanoseconds of `CLOCK_MONOTONIC` before which no
    /// further record can appear; with `is_over` none can.
    pub(crate) fn collect(&mut self, is_over: bool) -> u64 {
        let before_ns =
            if is_over { u64::MAX } else { monotonic_ns().saturating_sub(WRITE_DELAY_NS) };
        self.rings.drain(before_ns);
        before_ns
    }

    /// Calls `each` with the collected records up to this time, in time order.
    ///
    /// # Errors
    /// The first error of `each`.
    pub(crate) fn hand_over_until<E>(
        &mut self,
        time_ns: u64,
        mut each: impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { rings, decoder } = self;
        while let Some(record) = rings.next_record_until(time_ns) {
            decoder.decode(&record.record, record.time_ns, &mut each)?;
        }
        Ok(())
    }

    /// Takes note of a call that BPF programs recorded: at its execve the child becomes the
    /// command.
    pub(crate) fn begin_call(&mut self, tid: u32, call: Call) {
        self.decoder.begin_call(tid, call);
    }

    /// Returns the address spaces as of the records that were handed over; `None` if mappings
    /// aren't traced.
    pub(crate) fn stacks(&mut self) -> Option<&mut Stacks> {
        self.decoder.stacks()
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

//! Keeps stacks that BPF programs copied until the mappings that the process had at that time are
//! known.

use std::os::fd::BorrowedFd;

use tare_kernel::bpf::FollowedTasks;
use tare_kernel::host::Host;
use tare_symbols::SymbolOptions;

use crate::perf::{PerfError, PerfEvents, PerfOptions, UnwoundStacks};
use crate::record_queue::RecordQueue;
use crate::stacks::Stacks;

/// Copied stacks that wait for the mapping records before them.
#[derive(Debug)]
pub(crate) struct CopiedStacks {
    /// Records of the processes' mappings.
    mappings: PerfEvents,
    queue: RecordQueue,
}

impl CopiedStacks {
    /// Starts to follow the mappings. `ring_bytes` is the maximum size of each CPU's ring buffer.
    ///
    /// # Errors
    /// See [`PerfError`].
    pub(crate) fn start(
        symbols: &SymbolOptions,
        follow: &FollowedTasks,
        ring_bytes: u32,
        host: &Host,
    ) -> Result<Self, PerfError> {
        let wanted = PerfOptions {
            stacks: UnwoundStacks::CopiedByBpf(symbols.clone()),
            ..PerfOptions::default()
        };
        let mappings = PerfEvents::start(&wanted, follow, ring_bytes, host)?;
        Ok(Self { mappings, queue: RecordQueue::default() })
    }

    /// Returns descriptors that become readable when many mapping records wait.
    pub(crate) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.mappings.files()
    }

    /// Adds a record with a stack that was copied at this time, in nanoseconds of
    /// `CLOCK_MONOTONIC`.
    pub(crate) fn push(&mut self, time_ns: u64, record: &[u8]) {
        self.queue.push(time_ns, record);
    }

    /// Returns the address spaces as of the last drain.
    pub(crate) fn spaces(&mut self) -> Option<&mut Stacks> {
        self.mappings.stacks()
    }

    /// Stops following mappings; records so far remain.
    pub(crate) fn stop(&mut self) {
        self.mappings.stop();
    }

    /// Calls `each` with the address spaces at the time of each record: of all records with
    /// `is_over`, otherwise of those that no mapping record can precede any more or that exceed the
    /// queue's limit.
    ///
    /// # Errors
    /// The first error of `each`.
    pub(crate) fn drain<E>(
        &mut self,
        is_over: bool,
        mut each: impl FnMut(&mut Stacks, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { mappings, queue } = self;
        let complete_ns = mappings.collect(is_over);
        while let Some((time_ns, record)) = queue.pop_before(complete_ns) {
            mappings.hand_over_until(time_ns, |_| Ok(()))?;
            if let Some(stacks) = mappings.stacks() {
                each(stacks, record)?;
            }
        }
        mappings.hand_over_until(u64::MAX, |_| Ok(()))
    }
}

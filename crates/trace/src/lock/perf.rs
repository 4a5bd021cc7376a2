//! Waits for kernel locks, from perf events on `lock:contention_begin` and `contention_end`.

use std::os::fd::BorrowedFd;

use tare_kernel::bpf::{FollowedTasks, LockSums};
use tare_kernel::host::Host;

use super::contention::{ContentionSums, Wait};
use crate::perf::{PerfError, PerfEvents, PerfOptions};
use crate::record::TraceRecord;

const EVENTS: [(&str, &str); 2] = [("lock", "contention_begin"), ("lock", "contention_end")];

/// The open events and their sums.
#[derive(Debug)]
pub(super) struct PerfLocks {
    events: PerfEvents,
    sums: ContentionSums,
}

impl PerfLocks {
    pub(super) fn start(
        follow: &FollowedTasks,
        ring_bytes: u32,
        host: &Host,
    ) -> Result<Self, PerfError> {
        let wanted = PerfOptions { raw: EVENTS.to_vec(), chains: true, ..PerfOptions::default() };
        let events = PerfEvents::start(&wanted, follow, ring_bytes, host)?;
        Ok(Self { events, sums: ContentionSums::default() })
    }

    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.files()
    }

    pub(super) fn drain(&mut self, is_over: bool) {
        let Self { events, sums } = self;
        if is_over {
            events.stop();
        }
        let Ok(()) = events.drain(is_over, |seen| {
            if let TraceRecord::Raw {
                time_ns,
                cpu,
                tid,
                is_left_out: false,
                event,
                raw,
                chain,
                ..
            } = seen
            {
                let lock = long(raw, 8);
                let flags = u32::try_from(long(raw, 16) & 0xffff_ffff).unwrap_or(0);
                if event == 0 {
                    let wait = Wait { lock, flags, since_ns: time_ns, chain: chain.to_vec() };
                    sums.begin(tid, cpu, wait);
                } else {
                    sums.end(tid, cpu, lock, time_ns);
                }
            }
            Ok::<_, std::convert::Infallible>(())
        });
    }

    pub(super) fn read(&self) -> Vec<LockSums> {
        self.sums.read()
    }

    /// Number of waits that didn't fit in the table, plus records lost because ring buffers were
    /// full.
    pub(super) fn missing(&self) -> u64 {
        self.sums.uncounted_waits() + self.events.missing()
    }
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

//! Waits for kernel locks in a recording.

use std::collections::{BTreeSet, HashMap};

use tare_format::Words;
use tare_format::abi::bindings::{PERF_CONTEXT_KERNEL, PERF_CONTEXT_MAX};
use tare_format::file::Description;
use tare_format::tracepoint::Format;
use thiserror::Error;

use super::contention::{ContentionSums, Wait};
use super::kernel_names::KernelName;
use super::rows::{LockKey, LockRow, kernel_row, merged};
use crate::learned::{EventFields, FieldBytes};

/// The recording lacks lock events or their fields.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "the recording lacks lock:contention_begin, lock:contention_end or their fields; record with `tare record -a -g -e lock:contention_begin,lock:contention_end`"
)]
pub struct NoLockEvents;

/// The fields to read of a tracepoint.
#[derive(Clone, Copy, Debug)]
enum LockFields {
    Begin { lock: FieldBytes, flags: FieldBytes },
    End { lock: FieldBytes },
}

impl LockFields {
    /// Finds the fields; `None` for any other tracepoint, or if a field is missing.
    fn from_format(name: &str, format: &Format) -> Option<Self> {
        let place = |name: &str| FieldBytes::find(name, format);
        Some(match name {
            "lock:contention_begin" => {
                Self::Begin { lock: place("lock_addr")?, flags: place("flags")? }
            }
            "lock:contention_end" => Self::End { lock: place("lock_addr")? },
            _ => return None,
        })
    }
}

/// Sums the samples of a recording, which arrive in time order.
#[derive(Debug, Default)]
pub struct RecordedLocks {
    events: EventFields<LockFields>,
    sums: ContentionSums,
}

impl RecordedLocks {
    /// Adds the events that are new in the recording's description.
    pub fn learn(&mut self, description: &Description) {
        self.events.learn(description, LockFields::from_format);
    }

    /// Whether there are events for both begins and ends.
    #[must_use]
    pub fn has_events(&self) -> bool {
        let any = |is: fn(&LockFields) -> bool| self.events.has_any(is);
        any(|fields| matches!(fields, LockFields::Begin { .. }))
            && any(|fields| matches!(fields, LockFields::End { .. }))
    }

    /// Whether [`Self::add`] understands this event.
    #[must_use]
    pub fn reads(&self, event: usize) -> bool {
        self.events.get(event).is_some()
    }

    /// Adds a sample of an event, made by this thread on this CPU.
    pub fn add(
        &mut self,
        event: usize,
        time_ns: u64,
        tid: u32,
        cpu: u32,
        raw: &[u8],
        callchain: Option<Words<'_>>,
    ) {
        match self.events.get(event) {
            Some((&LockFields::Begin { lock, flags }, endian)) => {
                let flags = flags.number(raw, endian).cast_unsigned();
                let chain = callchain.map(kernel_frames).unwrap_or_default();
                let lock = lock.long(raw, endian);
                self.sums.begin(tid, cpu, Wait { lock, flags, since_ns: time_ns, chain });
            }
            Some((&LockFields::End { lock }, endian)) => {
                self.sums.end(tid, cpu, lock.long(raw, endian), time_ns);
            }
            None => {}
        }
    }

    /// Returns the kernel addresses in the call chains.
    #[must_use]
    pub fn addresses(&self) -> BTreeSet<u64> {
        self.sums.read().iter().flat_map(|sums| sums.frames.clone()).collect()
    }

    /// Returns the sums by caller; `names` holds the kernel's functions.
    #[must_use]
    pub fn rows(&self, by: LockKey, names: &HashMap<u64, KernelName>) -> Vec<LockRow> {
        merged(self.sums.read().iter().map(|sums| kernel_row(sums, names)), by)
    }

    /// Number of waits that didn't fit in the table.
    #[must_use]
    pub fn uncounted_waits(&self) -> u64 {
        self.sums.uncounted_waits()
    }
}

/// Returns the kernel addresses of a call chain, innermost first.
fn kernel_frames(chain: Words<'_>) -> Vec<u64> {
    let marker = |at: &u64| *at >= PERF_CONTEXT_MAX;
    let from = chain.iter().skip_while(|at| *at != PERF_CONTEXT_KERNEL).skip(1);
    from.take_while(|at| !marker(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_only_kernel_frames() {
        let words = [PERF_CONTEXT_KERNEL, 1, 2, PERF_CONTEXT_MAX + 7, 3];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let chain = Words::new(&bytes, tare_format::Endian::NATIVE);
        assert_eq!(kernel_frames(chain), [1, 2]);
        assert!(kernel_frames(Words::new(&[], tare_format::Endian::NATIVE)).is_empty());
    }
}

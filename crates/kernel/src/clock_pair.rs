//! Reads the events' clock together with `CLOCK_MONOTONIC`.
//!
//! The kernel's default event clock can't be read directly; it only appears in records. So this
//! module makes the kernel write a record: it opens an event on this thread and sets the thread's
//! name to the one it has.

use rustix::thread::{gettid, name, set_name};
use tare_format::abi::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_RECORD_COMM, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
};
use tare_format::abi::{Attr, Flags};
use tare_format::jit_note::ClockPair;

use crate::open::{EventTarget, Kernel, System};
use crate::ring::Ring;
use crate::timestamp::monotonic_ns;

/// Reads both clocks at about the same moment: the time of `CLOCK_MONOTONIC` is the middle of the
/// system call that writes the record. `clockid` is the clock of the events
/// (`perf_event_attr.clockid`), `None` the kernel's default. Returns `None` if this process can't
/// open such an event, or gets no record from it.
#[must_use]
pub fn clock_pair(clockid: Option<i32>) -> Option<ClockPair> {
    let own = Flags::COMM | Flags::SAMPLE_ID_ALL | Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV;
    let mut attr = Attr {
        kind: PERF_TYPE_SOFTWARE,
        config: u64::from(PERF_COUNT_SW_DUMMY),
        sample_type: u64::from(PERF_SAMPLE_TIME),
        flags: own,
        ..Attr::default()
    };
    if let Some(clockid) = clockid {
        attr.flags |= Flags::USE_CLOCKID;
        attr.clockid = clockid;
    }
    let event =
        System.open(&attr, EventTarget::Task(gettid().as_raw_nonzero().get()), None).ok()?;
    let mut ring = Ring::map(&*event, rustix::param::page_size()).ok()?;
    let own_name = name().ok()?;
    let before = monotonic_ns();
    set_name(&own_name).ok()?;
    let after = monotonic_ns();
    let batch = ring.batch();
    let record = batch.records().find(|record| record.kind() == PERF_RECORD_COMM)?;
    // With `sample_id_all` a record ends with the requested fields: only the time.
    let recorded_ns = u64::from_ne_bytes(*record.slices()[0].last_chunk()?);
    Some(ClockPair { recorded_ns, monotonic_ns: before + (after - before) / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `CLOCK_MONOTONIC` as the events' clock, both readings must agree.
    #[test]
    fn both_clocks_are_read_at_one_moment() {
        let monotonic = i32::try_from(rustix::time::ClockId::Monotonic as u32).unwrap();
        let pairs = clock_pair(Some(monotonic)).zip(clock_pair(None));
        let Some((same, own)) = pairs else {
            return println!("skipped: this process can have no events");
        };
        let apart = same.recorded_ns.abs_diff(same.monotonic_ns);
        assert!(apart < 50_000_000, "{apart} ns apart");
        std::thread::sleep(std::time::Duration::from_millis(5));
        let later = clock_pair(None).unwrap();
        let passed = [later.recorded_ns - own.recorded_ns, later.monotonic_ns - own.monotonic_ns];
        assert!(passed[0] >= 5_000_000 && passed[0].abs_diff(passed[1]) < 50_000_000, "{passed:?}");
    }
}

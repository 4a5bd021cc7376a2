//! The event that tracks processes: names, mappings, children, and other requested records.

use tare_events::Event;
use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags, Sampling as Sampled};

use super::PlannedEvent;
use super::attr::{AttrDefaults, READ_FORMAT};

/// The records of processes and kernel code that the event reports besides the requested ones.
const TRACKED: Flags = Flags::MMAP
    .union(Flags::MMAP2)
    .union(Flags::COMM)
    .union(Flags::COMM_EXEC)
    .union(Flags::TASK)
    .union(Flags::KSYMBOL);

/// Makes this event track processes.
pub(super) fn track(defaults: &AttrDefaults<'_>, attr: &mut Attr) {
    attr.flags |= TRACKED | defaults.sampling.tracking;
}

/// Reports mappings of data if stacks are copied, as perf does: unwinding needs `.eh_frame_hdr`,
/// which is in a mapping of its own if the linker separates code.
pub(super) fn add_data(events: &mut [PlannedEvent], off_cpu: Option<&Attr>) {
    let copies =
        |event: &PlannedEvent| event.attr.sample_type & u64::from(abi::PERF_SAMPLE_STACK_USER) != 0;
    if (events.iter().any(copies) || off_cpu.is_some_and(|attr| attr.sample_stack_user > 0))
        && let Some(event) = events.iter_mut().find(|event| event.attr.flags.contains(Flags::COMM))
    {
        event.attr.flags |= Flags::MMAP_DATA;
    }
}

/// Makes one event report deferred user call chains, for all events that defer them.
pub(super) fn add_deferred(events: &mut [PlannedEvent]) {
    let defers = |event: &PlannedEvent| event.attr.flags.contains(Flags::DEFER_CALLCHAIN);
    if events.iter().any(defers)
        && let Some(event) = events.iter_mut().find(|event| event.attr.flags.contains(Flags::COMM))
    {
        event.attr.flags |= Flags::DEFER_OUTPUT;
    }
}

/// Returns an event that only tracks: it isn't throttled, paused or overwritten with the sampled
/// ones.
pub(super) fn dummy(defaults: &AttrDefaults<'_>) -> (Event, Attr) {
    let kind = abi::PERF_TYPE_SOFTWARE;
    let config = abi::PERF_COUNT_SW_DUMMY.into();
    let event = Event::new(
        "dummy:u",
        Attr { kind, config, flags: Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV, ..Attr::default() },
    );
    let mut attr = event.attr.clone();
    attr.sampling = Sampled::Period(1);
    attr.sample_type = u64::from(
        abi::PERF_SAMPLE_IDENTIFIER
            | abi::PERF_SAMPLE_TID
            | abi::PERF_SAMPLE_TIME
            | abi::PERF_SAMPLE_CPU,
    );
    attr.read_format = READ_FORMAT;
    attr.flags |= Flags::SAMPLE_ID_ALL | Flags::DISABLED | Flags::WATERMARK;
    attr.flags.set(Flags::INHERIT, defaults.inherit);
    defaults.set_clock(&mut attr);
    track(defaults, &mut attr);
    (event, attr)
}

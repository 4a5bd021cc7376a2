//! Reasons why one event has no count while the others are counted.

use rustix::io::Errno;
use tare_format::abi::bindings::{
    PERF_COUNT_SW_CGROUP_SWITCHES, PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_MIGRATIONS,
    PERF_TYPE_BREAKPOINT, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW,
    PERF_TYPE_SOFTWARE,
};
use tare_format::abi::{Attr, Flags};

use crate::{Event, EventGroup, PmuCpus};

/// The reason why an event has no count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// A hardware event on a machine whose kernel knows no CPU PMU.
    #[error("this machine has no hardware counters (no CPU PMU, as in most VMs)")]
    NoPmu,
    /// The PMU or kernel has no such event.
    #[error("the kernel or its PMU does not have this event")]
    NoSuchEvent,
    /// An uncore event was requested for a task.
    #[error("it counts a whole package, not a task: use -a or -C")]
    WholePackage,
    /// None of the requested CPUs has the event.
    #[error("none of the requested CPUs counts it")]
    OtherCpus,
    /// The event occurs in kernel mode only, and this user may only count user mode.
    #[error("it happens in the kernel, which perf_event_paranoid closes to this user")]
    KernelOnly,
    /// This user may not count the event.
    #[error("not permitted to this user")]
    NotPermitted,
    /// The counter is in use, by another perf event or by the NMI watchdog for example.
    #[error("another user of the PMU holds the counter that it needs")]
    Busy,
    /// The kernel refuses these settings, alone or together with the rest of the group.
    #[error("the kernel refuses these settings, alone or in this group")]
    Refused,
    /// `--exact` counts a few events per run, and the runs ended before this event's turn.
    #[error("it got no turn: --exact needs more runs (-r) for this number of events")]
    NoTurn,
}

impl Unavailable {
    /// Converts the errno of a failed open; `None` if the failure isn't limited to this event.
    #[must_use]
    pub fn from_errno(error: Errno, event: &Event, per_cpu: bool) -> Option<Self> {
        let uncore = matches!(event.cpus, Some(PmuCpus::OnePerPackage(_)));
        match error {
            Errno::INVAL if uncore && !per_cpu => Some(Self::WholePackage),
            Errno::NOENT if is_cpu_pmu(&event.attr) => Some(Self::NoPmu),
            Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV | Errno::NXIO | Errno::NOSYS => {
                Some(Self::NoSuchEvent)
            }
            Errno::BUSY | Errno::NOSPC => Some(Self::Busy),
            Errno::INVAL | Errno::TOOBIG | Errno::OVERFLOW | Errno::RANGE => Some(Self::Refused),
            _ => None,
        }
    }
}

/// Whether [`is_cpu_pmu`] holds for any of these events.
#[must_use]
pub fn needs_cpu_pmu(groups: &[EventGroup]) -> bool {
    groups.iter().flat_map(|group| &group.events).any(|event| is_cpu_pmu(&event.attr))
}

/// Whether it is a hardware, cache or raw event, which needs the CPU's counters. Core PMUs with a
/// type of their own, as on arm64, don't count.
#[must_use]
pub fn is_cpu_pmu(attr: &Attr) -> bool {
    matches!(attr.kind, PERF_TYPE_HARDWARE | PERF_TYPE_HW_CACHE | PERF_TYPE_RAW)
}

/// Whether it is a software event that occurs in kernel mode only, so that it never counts with the
/// kernel excluded.
#[must_use]
pub fn is_kernel_only(attr: &Attr) -> bool {
    let kernel_side = [
        PERF_COUNT_SW_CONTEXT_SWITCHES,
        PERF_COUNT_SW_CPU_MIGRATIONS,
        PERF_COUNT_SW_CGROUP_SWITCHES,
    ];
    attr.kind == PERF_TYPE_SOFTWARE
        && kernel_side.iter().any(|&config| attr.config == u64::from(config))
}

/// Restricts the event to user mode, for users who may not count the kernel, and marks its name
/// with `u`. `None` if the user selected privilege levels, if the kernel is excluded already, or if
/// this kind of event has no levels.
#[must_use]
pub fn restrict_to_user_mode(event: &Event) -> Option<Event> {
    let closed = event.explicit_levels || event.attr.flags.contains(Flags::EXCLUDE_KERNEL);
    let has_levels = is_cpu_pmu(&event.attr)
        || matches!(event.attr.kind, PERF_TYPE_SOFTWARE | PERF_TYPE_BREAKPOINT);
    (has_levels && !closed).then(|| {
        let mut user = event.clone();
        user.attr.flags |= Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV;
        user.name.push_str(if user.name.contains(':') || user.name.ends_with('/') {
            "u"
        } else {
            ":u"
        });
        user
    })
}

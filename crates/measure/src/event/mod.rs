//! Events as users name them, and as the kernel takes them.

use tare_format::abi::Attr;
use tare_kernel::host::CpuList;

/// One event, ready to be opened on any target.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The name that results carry: what the user typed, or `name=`.
    pub name: String,
    /// What the kernel takes, without what depends on the target and the way of counting (`disabled`, `inherit`, `enable_on_exec`, `read_format`).
    pub attr: Attr,
    /// What a count is multiplied by to be in `unit` (sysfs `EVENT.scale`; 1e-6 for the clocks, whose unit is `msec`).
    pub scale: f64,
    /// The unit of a scaled count; empty for plain occurrences.
    pub unit: String,
    /// The CPUs that stand for the whole PMU, where it isn't one per CPU (sysfs `cpumask`), or the CPUs that have it (sysfs `cpus`).
    pub cpus: Option<PmuCpus>,
    /// A filter over the tracepoint's fields.
    pub filter: Option<String>,
    /// Whether the user said which privilege levels count (`:u`, `:k`, …): if not, tare may leave out the kernel where it isn't allowed.
    pub explicit_levels: bool,
    /// `:P`: the highest `precise_ip` that the PMU takes; opening starts from the one in `attr` and goes down.
    pub precise_max: bool,
}

/// On which CPUs an event of a PMU is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmuCpus {
    /// An uncore PMU: one CPU of each package or node counts for all of it, so that it counts whole machines, not tasks (sysfs `cpumask`).
    OnePerPackage(CpuList),
    /// A core PMU that only some CPUs have (hybrid; sysfs `cpus`).
    Those(CpuList),
}

/// Events that are put on counters together; a single event is a group of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventGroup {
    /// The leader first.
    pub events: Vec<Event>,
    /// `:W`: where the group doesn't fit on the counters together, its events are opened one by one.
    pub weak: bool,
    /// `:S`: a sample of the leader carries the counts of all members.
    pub sample_read: bool,
}

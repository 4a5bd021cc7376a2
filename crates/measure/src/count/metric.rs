//! Derives figures from counts, with the wording of `perf stat`.

use tare_format::abi::bindings as sys;
use tare_format::abi::{Attr, Flags};

use super::{Key, Subject};

/// A derived figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its value, in its unit.
    pub value: f64,
    /// The text after the value: `insn per cycle`, `of all branches`, `K/sec`.
    pub unit: String,
    /// Whether the value is a percentage.
    pub percent: bool,
    /// The figure under the name that perf has for it since 7.0, if it has one.
    pub named: Option<NamedFigure>,
}

/// A figure under the name and unit of one of the metrics that perf has for every CPU model
/// (`pmu-events/arch/common/common/metrics.json`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamedFigure {
    /// Its name, which `-M` takes: `insn_per_cycle`.
    pub name: &'static str,
    /// Its unit: `faults/sec`; may be empty.
    pub unit: &'static str,
    /// Its value, in that unit.
    pub value: f64,
}

impl NamedFigure {
    /// Returns the text after the value in the table: the unit of a rate, otherwise the name.
    #[must_use]
    pub fn label(&self) -> &'static str {
        if self.unit.ends_with("/sec") || self.unit == "GHz" { self.unit } else { self.name }
    }

    /// Returns unit and name, as perf prints them above a column.
    #[must_use]
    pub fn heading(&self) -> String {
        if self.unit.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}  {}", self.unit, self.name)
        }
    }
}

/// The names that `-M` takes, with the events to count for each.
pub const NAMED_METRICS: [(&str, &str); 14] = [
    (CPUS_UTILIZED, "task-clock"),
    ("cs_per_second", "context-switches,task-clock"),
    ("migrations_per_second", "cpu-migrations,task-clock"),
    ("page_faults_per_second", "page-faults,task-clock"),
    ("cycles_frequency", "cycles,task-clock"),
    ("insn_per_cycle", "instructions,cycles"),
    ("branch_frequency", "branches,task-clock"),
    ("branch_miss_rate", "branch-misses,branches"),
    ("frontend_cycles_idle", "stalled-cycles-frontend,cycles"),
    ("backend_cycles_idle", "stalled-cycles-backend,cycles"),
    ("l1d_miss_rate", "L1-dcache-load-misses,L1-dcache-loads"),
    ("llc_miss_rate", "LLC-load-misses,LLC-loads"),
    ("dtlb_miss_rate", "dTLB-load-misses,dTLB-loads"),
    ("itlb_miss_rate", "iTLB-load-misses,iTLB-loads"),
];

const CPUS_UTILIZED: &str = "CPUs_utilized";

impl Metric {
    fn plain(value: f64, unit: &str) -> Self {
        Self { value, unit: unit.to_owned(), percent: false, named: None }
    }

    fn named(self, name: &'static str, unit: &'static str, value: f64) -> Self {
        Self { named: Some(NamedFigure { name, unit, value }), ..self }
    }

    /// Creates a rate in the largest of the units K/sec, M/sec and G/sec that it reaches, or in
    /// /sec if it is below 1000.
    fn rate(per_second: f64) -> Self {
        let (value, unit) = [(1e9, "G/sec"), (1e6, "M/sec"), (1e3, "K/sec")]
            .into_iter()
            .find(|&(factor, _)| per_second >= factor)
            .map_or((per_second, "/sec"), |(factor, unit)| (per_second / factor, unit));
        Self::plain(value, unit)
    }
}

/// The hardware events that figures are derived from.
mod hardware {
    use super::sys;
    pub(super) const CYCLES: u64 = sys::PERF_COUNT_HW_CPU_CYCLES as u64;
    pub(super) const INSTRUCTIONS: u64 = sys::PERF_COUNT_HW_INSTRUCTIONS as u64;
    pub(super) const CACHE_REFERENCES: u64 = sys::PERF_COUNT_HW_CACHE_REFERENCES as u64;
    pub(super) const CACHE_MISSES: u64 = sys::PERF_COUNT_HW_CACHE_MISSES as u64;
    pub(super) const BRANCHES: u64 = sys::PERF_COUNT_HW_BRANCH_INSTRUCTIONS as u64;
    pub(super) const BRANCH_MISSES: u64 = sys::PERF_COUNT_HW_BRANCH_MISSES as u64;
    pub(super) const STALLED_FRONTEND: u64 = sys::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND as u64;
    pub(super) const STALLED_BACKEND: u64 = sys::PERF_COUNT_HW_STALLED_CYCLES_BACKEND as u64;
}

/// The bits of a generic event's config that select the event. On hybrid machines the higher bits
/// are the PMU's type.
const EVENT_MASK: u64 = 0xffff_ffff;

/// A ratio of two hardware events, with perf's words.
struct Ratio {
    numerator: u64,
    denominator: u64,
    unit: &'static str,
    percent: bool,
    /// Name and unit of perf's metric; empty if perf has none.
    name: &'static str,
    named_unit: &'static str,
}

impl Ratio {
    const fn new(numerator: u64, denominator: u64, unit: &'static str, percent: bool) -> Self {
        Self { numerator, denominator, unit, percent, name: "", named_unit: "" }
    }

    const fn name(self, name: &'static str, named_unit: &'static str) -> Self {
        Self { name, named_unit, ..self }
    }
}

const RATIOS: [Ratio; 5] = [
    Ratio::new(hardware::INSTRUCTIONS, hardware::CYCLES, "insn per cycle", false)
        .name("insn_per_cycle", "instructions"),
    Ratio::new(hardware::BRANCH_MISSES, hardware::BRANCHES, "of all branches", true)
        .name("branch_miss_rate", "%"),
    Ratio::new(hardware::CACHE_MISSES, hardware::CACHE_REFERENCES, "of all cache refs", true),
    Ratio::new(hardware::STALLED_FRONTEND, hardware::CYCLES, "frontend cycles idle", true)
        .name("frontend_cycles_idle", ""),
    Ratio::new(hardware::STALLED_BACKEND, hardware::CYCLES, "backend cycles idle", true)
        .name("backend_cycles_idle", ""),
];

/// Caches, with the unit of their miss rate, and perf's name for that of loads.
const CACHES: [(u32, &str, &str); 6] = [
    (sys::PERF_COUNT_HW_CACHE_L1D, "of all L1-dcache accesses", "l1d_miss_rate"),
    (sys::PERF_COUNT_HW_CACHE_L1I, "of all L1-icache accesses", ""),
    (sys::PERF_COUNT_HW_CACHE_LL, "of all LL-cache accesses", "llc_miss_rate"),
    (sys::PERF_COUNT_HW_CACHE_DTLB, "of all dTLB cache accesses", "dtlb_miss_rate"),
    (sys::PERF_COUNT_HW_CACHE_ITLB, "of all iTLB cache accesses", "itlb_miss_rate"),
    (sys::PERF_COUNT_HW_CACHE_NODE, "of all node accesses", ""),
];

/// Software events whose rates perf has a metric for: name and unit.
const SOFTWARE_RATES: [(u32, &str, &str); 3] = [
    (sys::PERF_COUNT_SW_CONTEXT_SWITCHES, "cs_per_second", "cs/sec"),
    (sys::PERF_COUNT_SW_CPU_MIGRATIONS, "migrations_per_second", "migrations/sec"),
    (sys::PERF_COUNT_SW_PAGE_FAULTS, "page_faults_per_second", "faults/sec"),
];

fn is_clock(attr: &Attr) -> bool {
    attr.kind == sys::PERF_TYPE_SOFTWARE && attr.config <= u64::from(sys::PERF_COUNT_SW_TASK_CLOCK)
}

/// A count from which figures are derived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricInput {
    /// What the row covers.
    pub key: Key,
    /// The index of its subject.
    pub subject: usize,
    /// Occurrences, scaled to the whole enabled time; nanoseconds for clocks. `None` if it wasn't
    /// counted.
    pub value: Option<f64>,
}

/// Finds counts that can be related to a subject: those with its key and cgroup.
struct ComparableCounts<'a> {
    subjects: &'a [Subject],
    values: &'a [MetricInput],
    key: Key,
    subject: &'a Subject,
}

impl ComparableCounts<'_> {
    /// Returns the count of the first event that satisfies `is_wanted` and, if `same_levels`,
    /// counts the same levels (user, kernel) as the subject.
    fn count(&self, is_wanted: impl Fn(&Attr) -> bool, same_levels: bool) -> Option<f64> {
        const LEVELS: Flags = Flags::EXCLUDE_USER.union(Flags::EXCLUDE_KERNEL);
        let levels = |subject: &Subject| subject.event.attr.flags & LEVELS;
        let comparable =
            self.values.iter().filter(|valued| valued.key == self.key).find(|valued| {
                let other = &self.subjects[valued.subject];
                other.cgroup == self.subject.cgroup
                    && is_wanted(&other.event.attr)
                    && (!same_levels || levels(other) == levels(self.subject))
            })?;
        comparable.value
    }

    fn hardware(&self, config: u64) -> Option<f64> {
        let pmu = self.subject.event.attr.config & !EVENT_MASK;
        self.count(|attr| attr.kind == sys::PERF_TYPE_HARDWARE && attr.config == config | pmu, true)
    }

    fn cache(&self, config: u64) -> Option<f64> {
        self.count(|attr| attr.kind == sys::PERF_TYPE_HW_CACHE && attr.config == config, true)
    }
}

/// Derives the figure that is shown beside a count. `elapsed_ns` is the time that all counts cover.
///
/// - clocks: CPUs utilized = clock / elapsed;
/// - hardware and cache events of which perf shows a ratio, if `values` has the divisor and it
///   isn't 0: that ratio, like instructions per cycle;
/// - cycles: GHz = cycles / clock;
/// - everything else without a unit of its own: occurrences per second of the clock.
///
/// The clock is the first `task-clock` or `cpu-clock` with the same key and cgroup. `None` if the
/// count or the figure's divisor is missing, or the divisor is 0.
#[must_use]
pub fn derive_metric(
    subjects: &[Subject],
    values: &[MetricInput],
    count: MetricInput,
    elapsed_ns: f64,
) -> Option<Metric> {
    let value = count.value?;
    let subject = subjects.get(count.subject)?;
    let comparable = ComparableCounts { subjects, values, key: count.key, subject };
    let attr = &subject.event.attr;
    if is_clock(attr) {
        let cpus = value / elapsed_ns;
        let metric = || Metric::plain(cpus, "CPUs utilized").named(CPUS_UTILIZED, "CPUs", cpus);
        return (elapsed_ns > 0.0).then(metric);
    }
    if let Some(ratio) = derive_ratio(&comparable, attr, value) {
        return Some(ratio);
    }
    // Counts with a unit, like energy or bytes, have no rate per second of CPU time.
    if !subject.event.unit.is_empty() {
        return None;
    }
    let clock_ns = comparable.count(is_clock, false).filter(|&ns| ns > 0.0)?;
    if attr.kind == sys::PERF_TYPE_HARDWARE && attr.config & EVENT_MASK == hardware::CYCLES {
        let ghz = value / clock_ns;
        return Some(Metric::plain(ghz, "GHz").named("cycles_frequency", "GHz", ghz));
    }
    Some(name_rate(Metric::rate(value / clock_ns * 1e9), attr, value / clock_ns * 1e9))
}

/// Names a rate if perf has a metric for it.
fn name_rate(metric: Metric, attr: &Attr, per_second: f64) -> Metric {
    if attr.kind == sys::PERF_TYPE_HARDWARE && attr.config & EVENT_MASK == hardware::BRANCHES {
        return metric.named("branch_frequency", "M/sec", per_second / 1e6);
    }
    let is_event = |rate: &&(u32, &str, &str)| {
        attr.kind == sys::PERF_TYPE_SOFTWARE && attr.config == u64::from(rate.0)
    };
    match SOFTWARE_RATES.iter().find(is_event) {
        Some(&(_, name, unit)) => metric.named(name, unit, per_second),
        None => metric,
    }
}

fn derive_ratio(comparable: &ComparableCounts<'_>, attr: &Attr, value: f64) -> Option<Metric> {
    match attr.kind {
        sys::PERF_TYPE_HARDWARE => {
            let is_numerator = |ratio: &&Ratio| ratio.numerator == attr.config & EVENT_MASK;
            let ratio = RATIOS.iter().find(is_numerator)?;
            share(value, comparable.hardware(ratio.denominator)?, ratio)
        }
        sys::PERF_TYPE_HW_CACHE => {
            // linux/perf_event.h: config = cache | operation << 8 | result << 16. Misses are shown
            // as a share of the accesses by the same operation.
            let miss = u64::from(sys::PERF_COUNT_HW_CACHE_RESULT_MISS) << 16;
            let &(_, unit, name) =
                CACHES.iter().find(|&&(cache, ..)| u64::from(cache) == attr.config & 0xff)?;
            if attr.config & 0xff_0000 != miss {
                return None;
            }
            let accesses = comparable.cache(attr.config & !miss)?;
            let is_load = attr.config & 0xff00 == u64::from(sys::PERF_COUNT_HW_CACHE_OP_READ) << 8;
            let ratio = Ratio::new(0, 0, unit, true).name(if is_load { name } else { "" }, "%");
            share(value, accesses, &ratio)
        }
        _ => None,
    }
}

/// Returns a part of `whole` in the words of `ratio`; `None` if `whole` is 0.
fn share(value: f64, whole: f64, ratio: &Ratio) -> Option<Metric> {
    if whole <= 0.0 {
        return None;
    }
    let part = value / whole;
    let percent = |is_percent: bool| part * if is_percent { 100.0 } else { 1.0 };
    let metric =
        Metric { percent: ratio.percent, ..Metric::plain(percent(ratio.percent), ratio.unit) };
    if ratio.name.is_empty() {
        return Some(metric);
    }
    Some(metric.named(ratio.name, ratio.named_unit, percent(ratio.named_unit == "%")))
}

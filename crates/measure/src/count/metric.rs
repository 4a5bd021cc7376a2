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
}

impl Metric {
    fn plain(value: f64, unit: &str) -> Self {
        Self { value, unit: unit.to_owned(), percent: false }
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

/// Ratios of hardware events: numerator, denominator, unit, and whether the value is a percentage.
const RATIOS: [(u64, u64, &str, bool); 5] = [
    (hardware::INSTRUCTIONS, hardware::CYCLES, "insn per cycle", false),
    (hardware::BRANCH_MISSES, hardware::BRANCHES, "of all branches", true),
    (hardware::CACHE_MISSES, hardware::CACHE_REFERENCES, "of all cache refs", true),
    (hardware::STALLED_FRONTEND, hardware::CYCLES, "frontend cycles idle", true),
    (hardware::STALLED_BACKEND, hardware::CYCLES, "backend cycles idle", true),
];

/// Caches, with the unit of their miss rate.
const CACHES: [(u32, &str); 6] = [
    (sys::PERF_COUNT_HW_CACHE_L1D, "of all L1-dcache accesses"),
    (sys::PERF_COUNT_HW_CACHE_L1I, "of all L1-icache accesses"),
    (sys::PERF_COUNT_HW_CACHE_LL, "of all LL-cache accesses"),
    (sys::PERF_COUNT_HW_CACHE_DTLB, "of all dTLB cache accesses"),
    (sys::PERF_COUNT_HW_CACHE_ITLB, "of all iTLB cache accesses"),
    (sys::PERF_COUNT_HW_CACHE_NODE, "of all node accesses"),
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
        return (elapsed_ns > 0.0).then(|| Metric::plain(value / elapsed_ns, "CPUs utilized"));
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
        return Some(Metric::plain(value / clock_ns, "GHz"));
    }
    Some(Metric::rate(value / clock_ns * 1e9))
}

fn derive_ratio(comparable: &ComparableCounts<'_>, attr: &Attr, value: f64) -> Option<Metric> {
    let share = |whole: f64, unit: &str, percent: bool| {
        (whole > 0.0).then(|| Metric {
            value: value / whole * if percent { 100.0 } else { 1.0 },
            unit: unit.to_owned(),
            percent,
        })
    };
    match attr.kind {
        sys::PERF_TYPE_HARDWARE => {
            let &(_, whole, unit, percent) =
                RATIOS.iter().find(|ratio| ratio.0 == attr.config & EVENT_MASK)?;
            share(comparable.hardware(whole)?, unit, percent)
        }
        sys::PERF_TYPE_HW_CACHE => {
            // linux/perf_event.h: config = cache | operation << 8 | result << 16. Misses are shown
            // as a share of the accesses by the same operation.
            let miss = u64::from(sys::PERF_COUNT_HW_CACHE_RESULT_MISS) << 16;
            let &(_, unit) =
                CACHES.iter().find(|&&(cache, _)| u64::from(cache) == attr.config & 0xff)?;
            let is_miss = attr.config & 0xff_0000 == miss;
            is_miss
                .then(|| comparable.cache(attr.config & !miss))
                .flatten()
                .and_then(|accesses| share(accesses, unit, true))
        }
        _ => None,
    }
}

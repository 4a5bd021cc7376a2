//! Events with fixed names: hardware, cache, software and raw events.
//!
//! Spellings are perf's (`perf-list(1)`); numbers are the kernel's.

use tare_format::abi::bindings::{
    PERF_COUNT_HW_BRANCH_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_MISSES, PERF_COUNT_HW_BUS_CYCLES,
    PERF_COUNT_HW_CACHE_BPU, PERF_COUNT_HW_CACHE_DTLB, PERF_COUNT_HW_CACHE_ITLB,
    PERF_COUNT_HW_CACHE_L1D, PERF_COUNT_HW_CACHE_L1I, PERF_COUNT_HW_CACHE_LL,
    PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_CACHE_NODE, PERF_COUNT_HW_CACHE_OP_PREFETCH,
    PERF_COUNT_HW_CACHE_OP_READ, PERF_COUNT_HW_CACHE_OP_WRITE, PERF_COUNT_HW_CACHE_REFERENCES,
    PERF_COUNT_HW_CACHE_RESULT_ACCESS, PERF_COUNT_HW_CACHE_RESULT_MISS, PERF_COUNT_HW_CPU_CYCLES,
    PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_REF_CPU_CYCLES, PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
    PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, PERF_COUNT_SW_ALIGNMENT_FAULTS,
    PERF_COUNT_SW_BPF_OUTPUT, PERF_COUNT_SW_CGROUP_SWITCHES, PERF_COUNT_SW_CONTEXT_SWITCHES,
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_CPU_MIGRATIONS, PERF_COUNT_SW_DUMMY,
    PERF_COUNT_SW_EMULATION_FAULTS, PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MAJ,
    PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_COUNT_SW_TASK_CLOCK, PERF_TYPE_HARDWARE,
    PERF_TYPE_HW_CACHE, PERF_TYPE_RAW, PERF_TYPE_SOFTWARE,
};

/// An event with a fixed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedEvent {
    /// The name in lists.
    pub name: &'static str,
    /// A second name for the same event.
    pub alias: Option<&'static str>,
    /// `perf_event_attr.config`
    pub config: u32,
}

const fn named(name: &'static str, alias: Option<&'static str>, config: u32) -> NamedEvent {
    NamedEvent { name, alias, config }
}

/// Events of the CPU's counters (`PERF_TYPE_HARDWARE`).
pub const HARDWARE: [NamedEvent; 10] = [
    named("cycles", Some("cpu-cycles"), PERF_COUNT_HW_CPU_CYCLES),
    named("instructions", None, PERF_COUNT_HW_INSTRUCTIONS),
    named("cache-references", None, PERF_COUNT_HW_CACHE_REFERENCES),
    named("cache-misses", None, PERF_COUNT_HW_CACHE_MISSES),
    named("branches", Some("branch-instructions"), PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
    named("branch-misses", None, PERF_COUNT_HW_BRANCH_MISSES),
    named("bus-cycles", None, PERF_COUNT_HW_BUS_CYCLES),
    named(
        "stalled-cycles-frontend",
        Some("idle-cycles-frontend"),
        PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
    ),
    named(
        "stalled-cycles-backend",
        Some("idle-cycles-backend"),
        PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
    ),
    named("ref-cycles", None, PERF_COUNT_HW_REF_CPU_CYCLES),
];

/// Events that the kernel counts (`PERF_TYPE_SOFTWARE`).
pub const SOFTWARE: [NamedEvent; 12] = [
    named("task-clock", None, PERF_COUNT_SW_TASK_CLOCK),
    named("cpu-clock", None, PERF_COUNT_SW_CPU_CLOCK),
    named("page-faults", Some("faults"), PERF_COUNT_SW_PAGE_FAULTS),
    named("minor-faults", None, PERF_COUNT_SW_PAGE_FAULTS_MIN),
    named("major-faults", None, PERF_COUNT_SW_PAGE_FAULTS_MAJ),
    named("context-switches", Some("cs"), PERF_COUNT_SW_CONTEXT_SWITCHES),
    named("cgroup-switches", None, PERF_COUNT_SW_CGROUP_SWITCHES),
    named("cpu-migrations", Some("migrations"), PERF_COUNT_SW_CPU_MIGRATIONS),
    named("alignment-faults", None, PERF_COUNT_SW_ALIGNMENT_FAULTS),
    named("emulation-faults", None, PERF_COUNT_SW_EMULATION_FAULTS),
    named("bpf-output", None, PERF_COUNT_SW_BPF_OUTPUT),
    named("dummy", None, PERF_COUNT_SW_DUMMY),
];

/// A time of the measured run that the reader of counts measures itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnTime {
    /// The time that events were enabled.
    Duration,
    /// The command's time in user mode.
    User,
    /// The command's time in the kernel.
    System,
}

/// perf's tool events, whose times perf measures itself.
const OWN_TIMES: [(&str, OwnTime); 3] = [
    ("duration_time", OwnTime::Duration),
    ("user_time", OwnTime::User),
    ("system_time", OwnTime::System),
];

/// Returns the time that a tool event of perf stands for.
pub(super) fn own_time(name: &str) -> Option<OwnTime> {
    OWN_TIMES.iter().find(|(known, _)| *known == name).map(|(_, time)| *time)
}

/// Spellings with their number. Lists show the first spelling of a cache.
type Spellings = (&'static [&'static str], u32);

const READ: u32 = PERF_COUNT_HW_CACHE_OP_READ;
const WRITE: u32 = PERF_COUNT_HW_CACHE_OP_WRITE;
const PREFETCH: u32 = PERF_COUNT_HW_CACHE_OP_PREFETCH;

/// Caches, each with its possible uses.
const CACHES: [(Spellings, &[u32]); 7] = [
    ((&["L1-dcache", "l1-d", "l1d", "L1-data"], PERF_COUNT_HW_CACHE_L1D), &[READ, WRITE, PREFETCH]),
    ((&["L1-icache", "l1-i", "l1i", "L1-instruction"], PERF_COUNT_HW_CACHE_L1I), &[READ, PREFETCH]),
    ((&["LLC", "L2"], PERF_COUNT_HW_CACHE_LL), &[READ, WRITE, PREFETCH]),
    ((&["dTLB", "d-tlb", "Data-TLB"], PERF_COUNT_HW_CACHE_DTLB), &[READ, WRITE, PREFETCH]),
    ((&["iTLB", "i-tlb", "Instruction-TLB"], PERF_COUNT_HW_CACHE_ITLB), &[READ]),
    ((&["branch", "branches", "bpu", "btb", "bpc"], PERF_COUNT_HW_CACHE_BPU), &[READ]),
    ((&["node"], PERF_COUNT_HW_CACHE_NODE), &[READ, WRITE, PREFETCH]),
];
const USES: [Spellings; 3] = [
    (&["load", "loads", "read"], READ),
    (&["store", "stores", "write"], WRITE),
    (&["prefetch", "prefetches", "speculative-read", "speculative-load"], PREFETCH),
];
const RESULTS: [Spellings; 2] = [
    (&["refs", "Reference", "ops", "access"], PERF_COUNT_HW_CACHE_RESULT_ACCESS),
    (&["misses", "miss"], PERF_COUNT_HW_CACHE_RESULT_MISS),
];

/// Returns the names of all cache events, as lists show them: `L1-dcache-loads`,
/// `L1-dcache-load-misses`, ….
pub fn cache_names() -> impl Iterator<Item = String> {
    let names = |use_: u32| match use_ {
        WRITE => ["stores", "store-misses"],
        PREFETCH => ["prefetches", "prefetch-misses"],
        _ => ["loads", "load-misses"],
    };
    CACHES.iter().flat_map(move |((cache, _), uses)| {
        uses.iter()
            .flat_map(move |&use_| names(use_))
            .map(move |name| format!("{}-{name}", cache[0]))
    })
}

/// Type and config of an event with a fixed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GenericEvent {
    /// `PERF_TYPE_*`
    pub(super) kind: u32,
    pub(super) config: u64,
}

impl GenericEvent {
    /// Whether the PMUs of the CPU's cores count it.
    pub(super) fn is_core_event(self) -> bool {
        self.kind != PERF_TYPE_SOFTWARE
    }

    /// Whether it counts nanoseconds.
    pub(super) fn is_clock(self) -> bool {
        self.kind == PERF_TYPE_SOFTWARE
            && [PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK]
                .map(u64::from)
                .contains(&self.config)
    }
}

/// A use that a cache doesn't have, such as writes to the L1 instruction cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoSuchUse;

/// Finds the event of a fixed name; `None` if the name isn't one.
pub(super) fn find_generic(name: &str) -> Option<Result<GenericEvent, NoSuchUse>> {
    let find = |table: &[NamedEvent], kind| {
        let found = table.iter().find(|event| event.name == name || event.alias == Some(name))?;
        Some(GenericEvent { kind, config: found.config.into() })
    };
    if let Some(found) =
        find(&SOFTWARE, PERF_TYPE_SOFTWARE).or_else(|| find(&HARDWARE, PERF_TYPE_HARDWARE))
    {
        return Some(Ok(found));
    }
    if let Some(config) = parse_raw(name) {
        return Some(Ok(GenericEvent { kind: PERF_TYPE_RAW, config }));
    }
    parse_cache(name)
        .map(|config| config.map(|config| GenericEvent { kind: PERF_TYPE_HW_CACHE, config }))
}

/// Parses the number of a raw event: `r1a8`, `r0x1a8`.
pub(super) fn parse_raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    // from_str_radix would accept a sign.
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Parses `CACHE[-USE][-RESULT]`, use and result in either order. The use defaults to loads, the
/// result to all accesses. The config is `cache | use << 8 | result << 16` (`perf_event_open(2)`).
fn parse_cache(name: &str) -> Option<Result<u64, NoSuchUse>> {
    let (cache, uses, mut rest) = CACHES
        .iter()
        .flat_map(|((names, cache), uses)| names.iter().map(move |name| (*cache, *uses, *name)))
        .find_map(|(cache, uses, spelling)| {
            let rest = name.strip_prefix(spelling)?;
            (rest.is_empty() || rest.starts_with('-')).then_some((cache, uses, rest))
        })?;
    let mut use_ = None;
    let mut result = None;
    while let Some(after) = rest.strip_prefix('-') {
        if let Some((number, tail)) = USES
            .iter()
            .find_map(|spellings| strip_spelling(after, spellings))
            .filter(|_| use_.is_none())
        {
            (use_, rest) = (Some(number), tail);
        } else if let Some((number, tail)) = RESULTS
            .iter()
            .find_map(|spellings| strip_spelling(after, spellings))
            .filter(|_| result.is_none())
        {
            (result, rest) = (Some(number), tail);
        } else {
            return None;
        }
    }
    let use_ = use_.unwrap_or(READ);
    let config =
        u64::from(cache | use_ << 8 | result.unwrap_or(PERF_COUNT_HW_CACHE_RESULT_ACCESS) << 16);
    Some(if uses.contains(&use_) { Ok(config) } else { Err(NoSuchUse) })
}

/// Strips one of the spellings, as a whole word, from the start of the text. Returns its number and
/// the rest.
fn strip_spelling<'a>(text: &'a str, entry: &Spellings) -> Option<(u32, &'a str)> {
    let (spellings, number) = entry;
    let rests = spellings.iter().filter_map(|spelling| text.strip_prefix(spelling));
    rests.filter(|rest| rest.is_empty() || rest.starts_with('-')).map(|rest| (*number, rest)).next()
}

/// Returns the names and aliases of hardware and software events and the listed names of cache
/// events, for suggestions.
pub(super) fn all_names() -> impl Iterator<Item = String> {
    let fixed = HARDWARE
        .iter()
        .chain(&SOFTWARE)
        .flat_map(|event| [Some(event.name), event.alias])
        .flatten();
    fixed.map(str::to_owned).chain(cache_names())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str) -> Option<u64> {
        find_generic(name).and_then(Result::ok).map(|known| known.config)
    }

    /// Checked against `perf stat -vv -e NAME`, perf 6.1.
    #[test]
    fn cache_names_have_perfs_config() {
        let expected = [
            ("L1-dcache-load-misses", 0x10000),
            ("L1-dcache-loads-misses", 0x10000),
            ("l1d-misses", 0x10000),
            ("LLC-loads", 0x2),
            ("L2", 0x2),
            ("LLC-misses-stores", 0x10102),
            ("dTLB-speculative-load", 0x203),
            ("Data-TLB-load", 0x3),
            ("branch-loads", 0x5),
            ("bpu-load-misses", 0x10005),
            ("iTLB-refs", 0x4),
            ("node-prefetch-misses", 0x10206),
        ];
        for (name, number) in expected {
            assert_eq!(
                find_generic(name),
                Some(Ok(GenericEvent { kind: PERF_TYPE_HW_CACHE, config: number })),
                "{name}"
            );
        }
        for name in ["L1-icache-stores", "iTLB-stores", "branch-prefetches"] {
            assert_eq!(find_generic(name), Some(Err(NoSuchUse)), "{name}");
        }
        for name in ["L1-d-loads", "LLC-", "LLC-loads-loads", "llc-loads", "nodes", "LLC-loadsx"] {
            assert_eq!(find_generic(name), None, "{name}");
        }
    }

    #[test]
    fn every_listed_name_is_a_different_event() {
        let mut seen: Vec<_> = HARDWARE
            .iter()
            .chain(&SOFTWARE)
            .map(|event| find_generic(event.name).unwrap().unwrap())
            .collect();
        seen.extend(cache_names().map(|name| find_generic(&name).unwrap().unwrap()));
        let count = seen.len();
        seen.sort_unstable_by_key(|known| (known.kind, known.config));
        seen.dedup();
        assert_eq!(seen.len(), count);
        assert_eq!(
            (config("cs"), config("cpu-cycles"), config("branches")),
            (Some(3), Some(0), Some(4))
        );
    }

    #[test]
    fn raw_events_are_hexadecimal() {
        assert_eq!(
            ["r1a8", "r0x1A8", "r", "r+1", "rzz"].map(parse_raw),
            [Some(0x1a8), Some(0x1a8), None, None, None]
        );
        assert_eq!(
            ["rffffffffffffffff", "r10000000000000000"].map(parse_raw),
            [Some(u64::MAX), None]
        );
    }
}

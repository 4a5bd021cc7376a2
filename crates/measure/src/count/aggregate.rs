//! Sums counts over locations.

use tare_format::abi::Count;
use tare_kernel::host::{CpuGroup, Topology};

use super::{Counter, Location, Snapshot, Subject};
use tare_events::PmuCpus;
use tare_events::Unavailable;

/// The locations whose counts of an event are summed into a row. Unless it is `All`, each thread
/// has its own row, a command is one row, and `Thread` is like `Cpu` for events on CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregation {
    /// One row.
    #[default]
    All,
    /// A row for each CPU.
    Cpu,
    /// A row for each thread.
    Thread,
    /// A row for each core.
    Core,
    /// A row for each die.
    Die,
    /// A row for each socket.
    Socket,
    /// A row for each NUMA node.
    Node,
    /// A row for each cluster of cores.
    Cluster,
    /// A row for each set of CPUs that share a cache of this level, counted from 1; 0 is the last
    /// level.
    Cache(u8),
}

/// What a row covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// All locations.
    All,
    /// A CPU.
    Cpu(u32),
    /// A thread.
    Thread(i32),
    /// A core, die, socket, node, cluster or cache.
    Topology(CpuGroup),
}

/// The result of counting an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CountOutcome {
    /// A count. It must be scaled if the event was on a counter for only a part of the time.
    Counted(Count),
    /// The event is open on a location, but this row has no count: it was never on a counter, or
    /// couldn't be opened or read here.
    NotCounted,
    /// The event could not be opened on any location.
    Unavailable(Unavailable),
}

/// The sum of an event's counts over the locations of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct CountRow {
    /// What the row covers.
    pub key: Key,
    /// Number of threads or CPUs; a CPU counts once per instance of the PMU. 1 for a command.
    pub locations: usize,
    /// The index of the event in [`super::Counters::as_slice`].
    pub event: usize,
    /// The sum.
    pub outcome: CountOutcome,
}

impl CountOutcome {
    /// Returns the estimate for the whole enabled time, in occurrences (nanoseconds for clocks);
    /// `None` without a count.
    #[must_use]
    pub fn scaled(&self) -> Option<f64> {
        match self {
            Self::Counted(count) => count.scaled(),
            _ => None,
        }
    }

    fn from_counts(counter: &Counter, counts: &[Option<Count>]) -> Self {
        match counts.iter().copied().flatten().reduce(Count::plus) {
            Some(sum) if sum.running_ns() > 0 || sum.is_exact() => Self::Counted(sum),
            _ => counter.unavailable().map_or(Self::NotCounted, Self::Unavailable),
        }
    }
}

/// Sums the counts of a snapshot into rows; an event without locations has one row. For `All`,
/// `Cpu` and `Thread` the rows are sorted by event, then by key; for others by key, then by event.
#[must_use]
pub fn sum_counts(
    counters: &[Counter],
    snapshot: &Snapshot,
    by: Aggregation,
    topology: &Topology,
) -> Vec<CountRow> {
    let mut all = Vec::new();
    for (event, counter) in
        counters.iter().enumerate().filter(|&(event, _)| first_instance(counters, event) == event)
    {
        let instances =
            (event..counters.len()).filter(|&other| first_instance(counters, other) == event);
        let locations = |instance: usize| {
            counters[instance]
                .locations()
                .enumerate()
                .map(move |(place, at)| (at, snapshot.get(instance, place)))
        };
        let mut keyed: Vec<(Key, Option<Count>)> = instances
            .flat_map(locations)
            .map(|(at, count)| (find_key(at, by, topology), count))
            .collect();
        keyed.sort_by_key(|&(key, _)| key);
        let rows = keyed.chunk_by(|a, b| a.0 == b.0).map(|same| {
            let counts: Vec<_> = same.iter().map(|&(_, count)| count).collect();
            CountRow {
                key: same[0].0,
                locations: same.len(),
                event,
                outcome: CountOutcome::from_counts(counter, &counts),
            }
        });
        all.extend(rows);
        if keyed.is_empty() {
            all.push(CountRow {
                key: Key::All,
                locations: 0,
                event,
                outcome: CountOutcome::from_counts(counter, &[]),
            });
        }
    }
    if !matches!(by, Aggregation::All | Aggregation::Cpu | Aggregation::Thread) {
        all.sort_by_key(|row| (row.key, row.event));
    }
    all
}

/// Returns the first event that is the same on another instance of an uncore PMU, like the memory
/// controllers of a package; `event` itself if none comes before it. Such events have the same name
/// and cgroup, and are summed into one row.
fn first_instance(counters: &[Counter], event: usize) -> usize {
    let subject = |nth: usize| &counters[nth].subject;
    let is_instance =
        |subject: &Subject| matches!(subject.event.cpus, Some(PmuCpus::OnePerPackage(_)));
    if !is_instance(subject(event)) {
        return event;
    }
    let same = |a: &Subject, b: &Subject| {
        a.event.name == b.event.name && a.event.pmu != b.event.pmu && a.cgroup == b.cgroup
    };
    (0..event)
        .find(|&other| is_instance(subject(other)) && same(subject(other), subject(event)))
        .unwrap_or(event)
}

fn find_key(at: Location, by: Aggregation, topology: &Topology) -> Key {
    match (by, at) {
        (Aggregation::All, _) | (_, Location::Command) => Key::All,
        (_, Location::Task(tid)) => Key::Thread(tid),
        (Aggregation::Core, Location::Cpu(cpu)) => Key::Topology(topology.core_of(cpu)),
        (Aggregation::Die, Location::Cpu(cpu)) => Key::Topology(topology.die_of(cpu)),
        (Aggregation::Socket, Location::Cpu(cpu)) => Key::Topology(topology.package_of(cpu)),
        (Aggregation::Cluster, Location::Cpu(cpu)) => Key::Topology(topology.cluster_of(cpu)),
        (Aggregation::Cache(level), Location::Cpu(cpu)) => {
            let level = Some(level).filter(|level| *level > 0);
            Key::Topology(topology.cache_of(cpu, level))
        }
        (Aggregation::Node, Location::Cpu(cpu)) => Key::Topology(topology.node_of(cpu)),
        (Aggregation::Cpu | Aggregation::Thread, Location::Cpu(cpu)) => Key::Cpu(cpu),
    }
}

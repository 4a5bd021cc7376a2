//! Sums counts over locations.

use tare_format::abi::Count;
use tare_kernel::host::{CpuGroup, Topology};

use super::{Counter, Location, Snapshot, Subject};
use tare_events::PmuCpus;
use tare_events::Unavailable;

/// How counts are summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregation {
    /// Everything, into one row an event.
    #[default]
    All,
    /// Nothing: a row for each CPU.
    Cpu,
    /// A row for each thread.
    Thread,
    /// The CPUs of a core.
    Core,
    /// The CPUs of a die.
    Die,
    /// The CPUs of a socket.
    Socket,
    /// The CPUs of a NUMA node.
    Node,
    /// The CPUs of a cluster of cores.
    Cluster,
    /// The CPUs that share a cache of this level, counted from 1; 0: the last level.
    Cache(u8),
}

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// All locations.
    All,
    /// A CPU.
    Cpu(u32),
    /// A thread.
    Thread(i32),
    /// A core, die, socket or node.
    Topology(CpuGroup),
}

/// The result of counting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// A count, to be scaled where it was not on a counter for all of the time.
    Counted(Count),
    /// It was open, but never on a counter.
    NotCounted,
    /// It could not be opened.
    Unavailable(Unavailable),
}

/// A line of results.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What the row covers.
    pub key: Key,
    /// Number of CPUs or threads.
    pub locations: usize,
    /// The number of the event in [`super::Counters::as_slice`].
    pub event: usize,
    /// The sum.
    pub outcome: Outcome,
}

impl Outcome {
    /// Returns the estimate for the whole enabled time, in the event's own occurrences, if there is
    /// a count.
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

/// The rows of a snapshot: by event, and within it by key, for `All`, `Cpu` and `Thread`; by key,
/// and within it by event, for the parts of a machine.
#[must_use]
pub fn rows(
    counters: &[Counter],
    snapshot: &Snapshot,
    by: Aggregation,
    topology: &Topology,
) -> Vec<Row> {
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
            .map(|(at, count)| (key(at, by, topology), count))
            .collect();
        keyed.sort_by_key(|&(key, _)| key);
        let rows = keyed.chunk_by(|a, b| a.0 == b.0).map(|same| {
            let counts: Vec<_> = same.iter().map(|&(_, count)| count).collect();
            Row {
                key: same[0].0,
                locations: same.len(),
                event,
                outcome: Outcome::from_counts(counter, &counts),
            }
        });
        all.extend(rows);
        if keyed.is_empty() {
            all.push(Row {
                key: Key::All,
                locations: 0,
                event,
                outcome: Outcome::from_counts(counter, &[]),
            });
        }
    }
    if !matches!(by, Aggregation::All | Aggregation::Cpu | Aggregation::Thread) {
        all.sort_by_key(|row| (row.key, row.event));
    }
    all
}

/// The first event that is the same one of another instance of the PMU, as with the memory
/// controllers of a package: such instances share a name and are summed into one row.
fn first_instance(counters: &[Counter], event: usize) -> usize {
    let of = |nth: usize| &counters[nth].subject;
    let is_instance =
        |subject: &Subject| matches!(subject.event.cpus, Some(PmuCpus::OnePerPackage(_)));
    if !is_instance(of(event)) {
        return event;
    }
    let same = |a: &Subject, b: &Subject| {
        a.event.name == b.event.name && a.event.pmu != b.event.pmu && a.cgroup == b.cgroup
    };
    (0..event).find(|&other| is_instance(of(other)) && same(of(other), of(event))).unwrap_or(event)
}

fn key(at: Location, by: Aggregation, topology: &Topology) -> Key {
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

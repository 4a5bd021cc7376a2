//! The package, die, cluster, core, caches and memory node of each CPU, from sysfs.

use std::collections::BTreeMap;
use std::fmt;

use super::{CpuList, Host};

/// A number that the kernel doesn't give; perf prints the same, as in `N-1` without memory nodes.
const UNKNOWN: i32 = -1;

/// Distinguished cache levels, as in perf.
const LEVELS: usize = 4;

/// A part of the machine whose CPUs are counted together (perf's `aggr_cpu_id`). Numbers are the
/// kernel's own, with gaps, and -1 if unknown.
///
/// Cores sort by package, die, then core. The text is perf's: `S0`, `S0-D0`, `S0-D0-C1`, `N0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuGroup {
    /// A socket.
    Package {
        /// `physical_package_id`.
        package: i32,
    },
    /// A chip of a package.
    Die {
        /// `physical_package_id`.
        package: i32,
        /// `die_id`; 0 without one, as in perf.
        die: i32,
    },
    /// A core, whose hardware threads are its CPUs.
    Core {
        /// `physical_package_id`.
        package: i32,
        /// `die_id`; 0 without one, as in perf.
        die: i32,
        /// `core_id`, unique within its package or die only.
        core: i32,
    },
    /// Cores of a die that share more than the die, such as a cache.
    Cluster {
        /// `physical_package_id`.
        package: i32,
        /// `die_id`; 0 without one, as in perf.
        die: i32,
        /// `cluster_id`.
        cluster: i32,
    },
    /// The CPUs that share a cache.
    Cache {
        /// `physical_package_id`.
        package: i32,
        /// `die_id`; 0 without one, as in perf.
        die: i32,
        /// The cache's level; 0 without one.
        level: u8,
        /// The first CPU that shares it, as in perf; -1 without one.
        cache: i32,
    },
    /// A NUMA node.
    Node {
        /// The N of `/sys/devices/system/node/nodeN`.
        node: i32,
    },
}

impl fmt::Display for CpuGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Package { package } => write!(f, "S{package}"),
            Self::Die { package, die } => write!(f, "S{package}-D{die}"),
            Self::Core { package, die, core } => write!(f, "S{package}-D{die}-C{core}"),
            Self::Cluster { package, die, cluster } => {
                write!(f, "S{package}-D{die}-CLS{cluster}")
            }
            Self::Cache { package, die, level, cache } => {
                write!(f, "S{package}-D{die}-L{level}-ID{cache}")
            }
            Self::Node { node } => write!(f, "N{node}"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct CpuNumbers {
    package: i32,
    die: i32,
    core: i32,
    cluster: i32,
    /// The first CPU that shares the cache of each level, from 1.
    caches: [i32; LEVELS],
    node: i32,
}

/// The location of each CPU. An unknown CPU is in package, core, cluster and node -1, and in die 0.
#[derive(Clone, Debug, Default)]
pub struct Topology(BTreeMap<u32, CpuNumbers>);

impl Host {
    /// Reads the locations of these CPUs (`/sys/devices/system/{cpu,node}`). A missing file gives
    /// -1, or 0 for the die. It doesn't read the caches: that would take two files for each cache of
    /// each CPU.
    #[must_use]
    pub fn topology(&self, cpus: &CpuList) -> Topology {
        self.topology_by(cpus, |_| [UNKNOWN; LEVELS])
    }

    /// Reads the locations of these CPUs, including their caches.
    #[must_use]
    pub fn topology_with_caches(&self, cpus: &CpuList) -> Topology {
        self.topology_by(cpus, |cpu| self.caches(cpu))
    }

    fn topology_by(&self, cpus: &CpuList, caches: impl Fn(u32) -> [i32; LEVELS]) -> Topology {
        let nodes = self.nodes();
        let numbers = |cpu: u32| {
            let id = |file: &str| {
                self.number(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}"))
            };
            let node = nodes
                .iter()
                .find(|(_, members)| members.contains(cpu))
                .map_or(UNKNOWN, |&(node, _)| node);
            let known = |id: Option<i32>| id.filter(|&n| n >= 0);
            CpuNumbers {
                package: known(id("physical_package_id")).unwrap_or(UNKNOWN),
                die: known(id("die_id")).unwrap_or(0),
                core: known(id("core_id")).unwrap_or(UNKNOWN),
                cluster: known(id("cluster_id")).unwrap_or(UNKNOWN),
                caches: caches(cpu),
                node,
            }
        };
        Topology(cpus.as_slice().iter().map(|&cpu| (cpu, numbers(cpu))).collect())
    }

    /// Returns the first CPU that shares a CPU's cache of each level. Of several caches of a level
    /// the first counts.
    fn caches(&self, cpu: u32) -> [i32; LEVELS] {
        let mut caches = [UNKNOWN; LEVELS];
        for index in 0..2 * LEVELS {
            let file =
                |name: &str| format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}");
            let Some(level) = self.number::<usize>(&file("level")) else { break };
            let shared = self.read(file("shared_cpu_list")).ok();
            let shared = shared.and_then(|list| list.parse::<CpuList>().ok());
            let first = shared.and_then(|list| i32::try_from(*list.as_slice().first()?).ok());
            if let Some(cache) = level.checked_sub(1).and_then(|at| caches.get_mut(at)) {
                *cache = first.filter(|_| *cache == UNKNOWN).unwrap_or(*cache);
            }
        }
        caches
    }

    /// Returns the memory nodes with their CPUs, except unreadable ones.
    fn nodes(&self) -> Vec<(i32, CpuList)> {
        let online = self
            .read("/sys/devices/system/node/online")
            .ok()
            .and_then(|text| text.parse::<CpuList>().ok())
            .unwrap_or_default();
        let cpus_of = |node: u32| {
            self.read(format!("/sys/devices/system/node/node{node}/cpulist")).ok()?.parse().ok()
        };
        online
            .as_slice()
            .iter()
            .filter_map(|&node| Some((i32::try_from(node).ok()?, cpus_of(node)?)))
            .collect()
    }
}

impl Topology {
    fn numbers(&self, cpu: u32) -> CpuNumbers {
        self.0.get(&cpu).copied().unwrap_or(CpuNumbers {
            package: UNKNOWN,
            die: 0,
            core: UNKNOWN,
            cluster: UNKNOWN,
            caches: [UNKNOWN; LEVELS],
            node: UNKNOWN,
        })
    }

    /// Returns a CPU's package (`--per-socket`).
    #[must_use]
    pub fn package_of(&self, cpu: u32) -> CpuGroup {
        CpuGroup::Package { package: self.numbers(cpu).package }
    }

    /// Returns a CPU's die (`--per-die`).
    #[must_use]
    pub fn die_of(&self, cpu: u32) -> CpuGroup {
        let CpuNumbers { package, die, .. } = self.numbers(cpu);
        CpuGroup::Die { package, die }
    }

    /// Returns a CPU's cluster (`--per-cluster`).
    #[must_use]
    pub fn cluster_of(&self, cpu: u32) -> CpuGroup {
        let CpuNumbers { package, die, cluster, .. } = self.numbers(cpu);
        CpuGroup::Cluster { package, die, cluster }
    }

    /// Returns a CPU's cache of a level, counted from 1; `None`: the last level (`--per-cache`).
    /// Requires [`Host::topology_with_caches`].
    #[must_use]
    pub fn cache_of(&self, cpu: u32, level: Option<u8>) -> CpuGroup {
        let CpuNumbers { package, die, caches, .. } = self.numbers(cpu);
        let last = caches.iter().rposition(|cache| *cache != UNKNOWN).map_or(0, |at| at + 1);
        let level = level.unwrap_or(u8::try_from(last).unwrap_or(0));
        let known = usize::from(level).checked_sub(1).and_then(|at| caches.get(at));
        CpuGroup::Cache { package, die, level, cache: known.copied().unwrap_or(UNKNOWN) }
    }

    /// Returns a CPU's core (`--per-core`).
    #[must_use]
    pub fn core_of(&self, cpu: u32) -> CpuGroup {
        let CpuNumbers { package, die, core, .. } = self.numbers(cpu);
        CpuGroup::Core { package, die, core }
    }

    /// Returns a CPU's memory node (`--per-node`).
    #[must_use]
    pub fn node_of(&self, cpu: u32) -> CpuGroup {
        CpuGroup::Node { node: self.numbers(cpu).node }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fixture;

    fn text(topology: &Topology, cpu: u32) -> [String; 4] {
        [
            topology.package_of(cpu),
            topology.die_of(cpu),
            topology.core_of(cpu),
            topology.node_of(cpu),
        ]
        .map(|place| place.to_string())
    }

    /// Gaps in CPU numbers, distant siblings, and core numbers that restart in the second package.
    #[test]
    fn gaps_and_repeated_numbers_keep_cores_apart() {
        let mut files = vec![
            ("/sys/devices/system/node/online".to_owned(), "0,2\n".to_owned()),
            ("/sys/devices/system/node/node0/cpulist".to_owned(), "0,64\n".to_owned()),
            ("/sys/devices/system/node/node2/cpulist".to_owned(), "3,67\n".to_owned()),
        ];
        for (cpu, package, die, core) in [(0, 0, 0, 0), (64, 0, 0, 0), (3, 1, 1, 0), (67, 1, 1, 8)]
        {
            for (file, number) in
                [("physical_package_id", package), ("die_id", die), ("core_id", core)]
            {
                files.push((
                    format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}"),
                    format!("{number}\n"),
                ));
            }
        }
        let machine = fixture::machine(&files);
        let topology = machine.host().topology(&"0,3,64,67".parse().unwrap());
        assert_eq!(text(&topology, 64), ["S0", "S0-D0", "S0-D0-C0", "N0"]);
        assert_eq!(text(&topology, 67), ["S1", "S1-D1", "S1-D1-C8", "N2"]);
        assert_eq!(topology.core_of(0), topology.core_of(64));
        assert_ne!(topology.core_of(0), topology.core_of(3));
        let mut cores: Vec<_> = [67, 3, 64].map(|cpu| topology.core_of(cpu)).to_vec();
        cores.sort_unstable();
        assert_eq!(
            cores.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["S0-D0-C0", "S1-D1-C0", "S1-D1-C8"]
        );
    }

    /// arm64 has no die and may report package -1; a kernel without NUMA has no nodes; a container
    /// may hide everything.
    #[test]
    fn missing_files_give_unknown_locations() {
        let machine = fixture::machine(&[
            ("/sys/devices/system/cpu/cpu0/topology/physical_package_id", "-1\n"),
            ("/sys/devices/system/cpu/cpu0/topology/core_id", "5\n"),
            ("/sys/devices/system/cpu/cpu1/topology/core_id", "nonsense\n"),
        ]);
        let topology = machine.host().topology(&"0-1".parse().unwrap());
        assert_eq!(text(&topology, 0), ["S-1", "S-1-D0", "S-1-D0-C5", "N-1"]);
        assert_eq!(text(&topology, 1), ["S-1", "S-1-D0", "S-1-D0-C-1", "N-1"]);
        assert_eq!(text(&topology, 7), text(&topology, 1));
    }
}

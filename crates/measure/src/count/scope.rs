//! The targets of a measurement: a command, tasks, CPUs, cgroups.

use std::os::fd::{AsRawFd, OwnedFd};

use tare_kernel::host::CpuList;
use tare_kernel::open::EventTarget;

use tare_events::{Event, PmuCpus};

/// A cgroup by name and folder.
#[derive(Debug)]
pub struct Cgroup {
    /// The name as the user gave it.
    pub name: String,
    /// Its folder, in the cgroup hierarchy of perf_event.
    pub folder: OwnedFd,
}

/// The targets of all events of a measurement. Whether the descendants of tasks are counted depends
/// on [`super::Inheritance`] and [`Event::inherit`].
#[derive(Debug)]
pub enum Scope {
    /// The child process that will execute the command, by its id.
    Command(i32),
    /// The cgroup that contains the command with its descendants, on these CPUs.
    CommandInCgroup {
        /// Its folder.
        folder: OwnedFd,
        /// The CPUs.
        cpus: CpuList,
    },
    /// Existing threads, by their ids.
    Tasks(Vec<i32>),
    /// All tasks on these CPUs.
    Cpus(CpuList),
    /// Cgroups, on these CPUs.
    Cgroups {
        /// The cgroups; `None` stands for all tasks on the CPUs.
        cgroups: Vec<Option<Cgroup>>,
        /// The CPUs.
        cpus: CpuList,
        /// How event groups are assigned to cgroups.
        pairing: Pairing,
    },
}

/// How event groups are assigned to cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Every group counts every cgroup (`--for-each-cgroup`).
    EachWithAll,
    /// The first group counts the first cgroup, the second the second, and so on. A single cgroup
    /// is counted by all groups (`-G`).
    InTurn,
}

/// Where an event is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Location {
    /// The command.
    Command,
    /// A thread, by its id.
    Task(i32),
    /// A CPU.
    Cpu(u32),
}

impl Scope {
    /// The number of times that the event list is opened: once, or once per cgroup.
    #[must_use]
    pub fn copies(&self) -> usize {
        match self {
            Self::Cgroups { cgroups, pairing: Pairing::EachWithAll, .. } => cgroups.len(),
            _ => 1,
        }
    }

    /// Returns the cgroup to which a group of events is limited in this copy of the list; `None` if
    /// it counts all tasks on the CPUs, and for scopes other than `Cgroups`.
    #[must_use]
    pub fn cgroup(&self, copy: usize, group: usize) -> Option<&Cgroup> {
        match self {
            Self::Cgroups { cgroups, pairing: Pairing::EachWithAll, .. } => {
                cgroups.get(copy)?.as_ref()
            }
            Self::Cgroups { cgroups, .. } if cgroups.len() == 1 => cgroups[0].as_ref(),
            Self::Cgroups { cgroups, .. } => cgroups.get(group)?.as_ref(),
            _ => None,
        }
    }

    /// Whether events are opened on CPUs, for all tasks or a cgroup. This requires more permissions
    /// than events on own tasks.
    #[must_use]
    pub fn is_per_cpu(&self) -> bool {
        matches!(self, Self::Cpus(_) | Self::Cgroups { .. } | Self::CommandInCgroup { .. })
    }

    /// Returns the locations of an event with their targets for the kernel, in result order.
    #[must_use]
    pub fn locations(
        &self,
        event: &Event,
        cgroup: Option<&Cgroup>,
    ) -> Vec<(Location, EventTarget)> {
        let folder = if let Self::CommandInCgroup { folder, .. } = self {
            Some(folder)
        } else {
            cgroup.map(|cgroup| &cgroup.folder)
        };
        let target = |cpu| {
            folder.map_or(EventTarget::Cpu(cpu), |folder| {
                EventTarget::CgroupOnCpu(folder.as_raw_fd(), cpu)
            })
        };
        match self {
            Self::Command(pid) => vec![(Location::Command, EventTarget::Task(*pid))],
            Self::Tasks(tids) => {
                tids.iter().map(|&tid| (Location::Task(tid), EventTarget::Task(tid))).collect()
            }
            Self::Cpus(cpus) | Self::Cgroups { cpus, .. } | Self::CommandInCgroup { cpus, .. } => {
                let counted = match &event.cpus {
                    Some(PmuCpus::OnePerPackage(own) | PmuCpus::Those(own)) => {
                        cpus.intersection(own)
                    }
                    None => cpus.clone(),
                };
                counted.as_slice().iter().map(|&cpu| (Location::Cpu(cpu), target(cpu))).collect()
            }
        }
    }
}

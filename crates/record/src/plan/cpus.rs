//! The CPUs and targets on which events are opened.

use std::os::fd::RawFd;

use tare_events::{Event, PmuCpus};
use tare_kernel::host::{CpuList, Host};
use tare_kernel::open::EventTarget;

use super::PlannedEvent;
use crate::error::PlanError;
use crate::options::{Cpus, Target};

/// Returns the CPUs on which the target is recorded: the requested ones, or else all online ones. A
/// command inherits tare's cpuset, so events on other CPUs would cost time at each fork and see
/// nothing.
pub(crate) fn cpus(target: &Target, host: &Host) -> Result<CpuList, PlanError> {
    let online = || host.online_cpus().map_err(PlanError::OnlineCpus);
    match target {
        Target::Cpus(cpus)
        | Target::Cgroups { cpus, .. }
        | Target::CommandOnCpus(cpus)
        | Target::CommandInCgroup(cpus) => Ok(cpus.clone()),
        Target::Command(Cpus::These(cpus)) | Target::Processes(_, Cpus::These(cpus)) => {
            Ok(cpus.clone())
        }
        Target::Threads(_, Cpus::These(cpus)) | Target::User(_, Cpus::These(cpus)) => {
            Ok(cpus.clone())
        }
        Target::Command(Cpus::All) => {
            let online = online()?;
            let within = host.own_cpuset().map(|cpuset| online.intersection(&cpuset));
            Ok(within.filter(|cpus| !cpus.as_slice().is_empty()).unwrap_or(online))
        }
        Target::Processes(..) | Target::Threads(..) | Target::User(..) => online(),
    }
}

/// Returns the CPUs that have the event.
pub(super) fn having(event: &Event, all: &CpuList) -> Result<CpuList, PlanError> {
    let cpus = match &event.cpus {
        Some(PmuCpus::OnePerPackage(own) | PmuCpus::Those(own)) => all.intersection(own),
        None => all.clone(),
    };
    match cpus.as_slice() {
        [] => Err(PlanError::NoCpu { event: event.name.clone(), cpus: all.clone() }),
        _ => Ok(cpus),
    }
}

impl PlannedEvent {
    /// Returns each CPU with its targets: the event's cgroup, given the folders of all `cgroups`,
    /// or else these threads, or the whole CPU if there are none. An inherited event can only have
    /// a ring if it is bound to a CPU (`perf_mmap` in the kernel), so every event of a thread is
    /// opened on each CPU. Returns nothing if programs write the event's samples.
    pub fn targets<'a>(
        &'a self,
        threads: &'a [i32],
        cgroups: &'a [RawFd],
    ) -> impl Iterator<Item = (u32, EventTarget)> + 'a {
        let of_cpu = move |cpu: u32| -> Box<dyn Iterator<Item = EventTarget> + 'a> {
            match self.cgroup.and_then(|cgroup| cgroups.get(cgroup)) {
                Some(&folder) => Box::new(std::iter::once(EventTarget::CgroupOnCpu(folder, cpu))),
                None if threads.is_empty() => Box::new(std::iter::once(EventTarget::Cpu(cpu))),
                None => Box::new(threads.iter().map(move |&tid| EventTarget::TaskOnCpu(tid, cpu))),
            }
        };
        self.cpus
            .as_slice()
            .iter()
            .filter(|_| !self.by_programs)
            .flat_map(move |&cpu| of_cpu(cpu).map(move |target| (cpu, target)))
    }
}

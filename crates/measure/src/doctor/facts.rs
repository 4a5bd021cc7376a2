//! The facts that checks are based on.

use std::io;

use rustix::io::Errno;
use rustix::process::Rlimit;
use tare_kernel::bpf;
use tare_kernel::host::{
    CapabilitySet, Container, CpuList, Host, Hypervisor, Rights, locked_memory, open_files,
};
use tare_kernel::open::{Kernel, System};
use tare_kernel::probe::AccessProbe;

/// The machine, this process, and the kernel on which events are tried.
pub(super) struct Facts<'a> {
    pub host: Host,
    pub kernel: &'a dyn Kernel,
    pub rights: io::Result<Rights>,
    pub paranoid: io::Result<i64>,
    pub cpus: io::Result<CpuList>,
    pub container: Container,
    pub hypervisor: Option<Hypervisor>,
    pub open_files: Rlimit,
    pub locked_memory: Rlimit,
    /// Whether a tracing program could be loaded.
    pub bpf: Result<(), Errno>,
}

impl Facts<'_> {
    pub(super) fn for_this_machine() -> Self {
        Self::for_test(Host::default(), &System, bpf::try_load())
    }

    /// Gathers the facts of a machine given by its files and a kernel. The limits of open files and
    /// of locked memory are this process's.
    pub(super) fn for_test(host: Host, kernel: &dyn Kernel, bpf: Result<(), Errno>) -> Facts<'_> {
        Facts {
            rights: host.rights(),
            paranoid: host.sysctl("kernel.perf_event_paranoid"),
            cpus: host.online_cpus(),
            container: host.container(),
            hypervisor: host.hypervisor(),
            open_files: open_files(),
            locked_memory: locked_memory(),
            bpf,
            host,
            kernel,
        }
    }

    pub(super) fn probe(&self) -> AccessProbe<'_> {
        AccessProbe::new(self.kernel, self.rights.as_ref().ok())
    }

    /// Like [`Rights::has`]; `false` if the rights can't be read.
    pub(super) fn has(&self, capability: CapabilitySet) -> bool {
        self.rights.as_ref().is_ok_and(|rights| rights.has(capability))
    }

    /// Returns an online CPU; 0 if unknown.
    pub(super) fn some_cpu(&self) -> u32 {
        self.cpus.as_ref().ok().and_then(|cpus| cpus.as_slice().first().copied()).unwrap_or(0)
    }

    /// Number of online CPUs; 1 if unknown.
    pub(super) fn cpu_count(&self) -> u64 {
        self.cpus.as_ref().map_or(1, |cpus| cpus.as_slice().len().max(1) as u64)
    }
}

//! Detects containers and virtual machines.

use super::Host;

/// The initial namespaces: `PROC_PID_INIT_INO` and `PROC_CGROUP_INIT_INO` of
/// `include/linux/proc_ns.h`.
const INITIAL_PID_NAMESPACE: u32 = 0xEFFF_FFFC;
const INITIAL_CGROUP_NAMESPACE: u32 = 0xEFFF_FFFB;

/// Whether this process runs in a container. No kernel interface reports that, so it is inferred
/// from traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// No trace of one.
    No,
    /// The files are a container image's, but process ids and cgroups are the machine's.
    ImageOnly,
    /// In a container, with its engine if a trace names it.
    Yes(Engine),
}

/// The software that runs a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Docker, or an engine with the same traces.
    Docker,
    /// Podman.
    Podman,
    /// Kubernetes.
    Kubernetes,
    /// LXC or Incus.
    Lxc,
    /// Own namespaces without a trace of an engine.
    Unnamed,
}

/// The hypervisor of this virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hypervisor {
    /// Amazon EC2.
    Amazon,
    /// Google Compute Engine.
    Google,
    /// Hyper-V, including Azure.
    Microsoft,
    /// VMware.
    Vmware,
    /// QEMU with or without KVM, including libvirt.
    Qemu,
    /// A hypervisor without a known name.
    Unnamed,
}

impl Host {
    /// Whether this process is in the initial pid namespace, so that its process ids are the
    /// kernel's.
    #[must_use]
    pub fn has_initial_pids(&self) -> bool {
        self.namespace("pid") == Some(INITIAL_PID_NAMESPACE)
    }

    /// Detects a container by the paths of cgroups, `/var/run/secrets/kubernetes.io`,
    /// `/run/.containerenv`, `/.dockerenv`, and the namespaces.
    #[must_use]
    pub fn container(&self) -> Container {
        let memberships = self.read("/proc/self/cgroup").unwrap_or_default()
            + &self.read("/proc/1/cgroup").unwrap_or_default();
        let there = |path: &str| self.path(path).exists();
        let by_cgroup = [
            ("kubepods", Engine::Kubernetes),
            ("libpod", Engine::Podman),
            ("docker", Engine::Docker),
            ("lxc", Engine::Lxc),
        ];
        let engine = match by_cgroup.into_iter().find(|(trace, _)| memberships.contains(trace)) {
            Some((_, engine)) => Some(engine),
            None if there("/var/run/secrets/kubernetes.io") => Some(Engine::Kubernetes),
            None if there("/run/.containerenv") => Some(Engine::Podman),
            None if there("/.dockerenv") => Some(Engine::Docker),
            None => None,
        };
        let own = |kind: &str, initial: u32| self.namespace(kind).map(|inode| inode != initial);
        let confined =
            match (own("pid", INITIAL_PID_NAMESPACE), own("cgroup", INITIAL_CGROUP_NAMESPACE)) {
                (None, None) => None,
                (pid, cgroup) => Some(pid == Some(true) || cgroup == Some(true)),
            };
        match (engine, confined) {
            (None, Some(true)) => Container::Yes(Engine::Unnamed),
            (None, _) => Container::No,
            (Some(_), Some(false)) => Container::ImageOnly,
            (Some(engine), _) => Container::Yes(engine),
        }
    }

    /// Detects the hypervisor; `None` on bare metal, or if unknown.
    #[must_use]
    pub fn hypervisor(&self) -> Option<Hypervisor> {
        let text = |path: &str| self.read(path).unwrap_or_default().to_lowercase();
        let dmi = ["sys_vendor", "product_name", "bios_vendor"]
            .map(|file| text(&format!("/sys/class/dmi/id/{file}")))
            .join(" ");
        let flagged = self
            .read("/proc/cpuinfo")
            .ok()
            .and_then(|text| Some(flags(&text)?.any(|flag| flag == "hypervisor")));
        if flagged == Some(false) {
            return None; // bare metal, even if the firmware names a cloud
        }
        let is_virtual = flagged == Some(true)
            || self.path("/sys/hypervisor/type").exists()
            || self.path("/proc/device-tree/hypervisor").exists();
        let names = [
            ("google", Hypervisor::Google),
            ("vmware", Hypervisor::Vmware),
            ("virtual machine microsoft", Hypervisor::Microsoft),
            ("microsoft corporation virtual machine", Hypervisor::Microsoft),
            ("qemu", Hypervisor::Qemu),
            ("kvm", Hypervisor::Qemu),
        ];
        // On arm64, which has no such flag, the instance type's name tells bare metal.
        let amazon = dmi.contains("amazon ec2") && !dmi.contains(".metal");
        match names.into_iter().find(|(name, _)| dmi.contains(name)) {
            _ if amazon => Some(Hypervisor::Amazon),
            Some((_, hypervisor)) => Some(hypervisor),
            None => is_virtual.then_some(Hypervisor::Unnamed),
        }
    }
}

/// Returns the first processor's flags; `None` on architectures without such a line.
fn flags(cpuinfo: &str) -> Option<impl Iterator<Item = &str>> {
    Some(cpuinfo.lines().find_map(|line| line.strip_prefix("flags"))?.split_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fixture::{self, FixtureHost};

    fn with_namespaces(machine: &FixtureHost, pid: u32, cgroup: u32) {
        let folder = machine.host().path("/proc/self/ns");
        std::fs::create_dir_all(&folder).unwrap();
        for (kind, inode) in [("pid", pid), ("cgroup", cgroup)] {
            std::os::unix::fs::symlink(format!("{kind}:[{inode}]"), folder.join(kind)).unwrap();
        }
    }

    #[test]
    fn containers_are_found_by_their_traces() {
        let nested = fixture::machine(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/proc/1/cgroup", "0::/kubepods.slice/cri-docker-1.scope\n"),
            ("/.dockerenv", ""),
        ]);
        assert_eq!(nested.host().container(), Container::Yes(Engine::Kubernetes));
        let podman = fixture::machine(&[("/run/.containerenv", "")]);
        assert_eq!(podman.host().container(), Container::Yes(Engine::Podman));
        let image = fixture::machine(&[("/.dockerenv", "")]);
        with_namespaces(&image, INITIAL_PID_NAMESPACE, INITIAL_CGROUP_NAMESPACE);
        assert_eq!(image.host().container(), Container::ImageOnly);
        let bare = fixture::empty();
        assert_eq!(bare.host().container(), Container::No);
        with_namespaces(&bare, 4_026_532_000, INITIAL_CGROUP_NAMESPACE);
        assert_eq!(bare.host().container(), Container::Yes(Engine::Unnamed));
    }

    #[test]
    fn virtual_machines_are_found_by_their_names() {
        let dmi = |vendor: &str, product: &str| {
            let machine = fixture::machine(&[
                ("/sys/class/dmi/id/sys_vendor", vendor),
                ("/sys/class/dmi/id/product_name", product),
            ]);
            machine.host().hypervisor()
        };
        assert_eq!(dmi("Amazon EC2\n", "c7i.large\n"), Some(Hypervisor::Amazon));
        assert_eq!(dmi("Amazon EC2\n", "c7i.metal-24xl\n"), None);
        assert_eq!(dmi("Google\n", "Google Compute Engine\n"), Some(Hypervisor::Google));
        assert_eq!(
            dmi("Microsoft Corporation\n", "Virtual Machine\n"),
            Some(Hypervisor::Microsoft)
        );
        assert_eq!(dmi("Microsoft Corporation\n", "Surface Laptop\n"), None);
        assert_eq!(dmi("QEMU\n", "Standard PC\n"), Some(Hypervisor::Qemu));
        let flagged =
            fixture::machine(&[("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n")]);
        assert_eq!(flagged.host().hypervisor(), Some(Hypervisor::Unnamed));
        let metal = fixture::machine(&[
            ("/proc/cpuinfo", "flags\t\t: fpu\n"),
            ("/sys/class/dmi/id/sys_vendor", "Google\n"),
        ]);
        assert_eq!(metal.host().hypervisor(), None);
        assert_eq!(fixture::empty().host().hypervisor(), None);
    }
}

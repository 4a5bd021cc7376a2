//! Remedies for the limits that checks find.

use std::fmt::Display;
use std::path::Path;

use tare_kernel::host::{CapabilitySet, Container, Engine, Hypervisor};
use tare_kernel::probe::Refusal;

use super::facts::Facts;
use super::item::Remedy;

/// Returns the command that changes a kernel setting. Settings belong to the machine, so the note
/// says if the command must run outside of a container.
pub(super) fn sysctl(facts: &Facts<'_>, name: &str, value: impl Display, note: &str) -> Remedy {
    let place = if is_in_container(facts) { "on the container's host; " } else { "" };
    Remedy::command(
        format!("sudo sysctl kernel.{name}={value}"),
        format!("{place}until reboot; {note}"),
    )
}

/// Files that suffice for the events of a CPU, and the same number for other uses.
const FILES_PER_CPU: u64 = 128;

pub(super) fn is_in_container(facts: &Facts<'_>) -> bool {
    matches!(facts.container, Container::Yes(_))
}

/// Returns the command that sets `kernel.perf_event_paranoid`, and what it allows every user.
pub(super) fn paranoid(facts: &Facts<'_>, level: i32) -> Remedy {
    let note = match level {
        -1 => "any user may then read all tracepoint data, and lock memory without limit",
        0 => "any user may then count the whole system",
        1 => "any user may then see the kernel's part of own programs, and kernel addresses",
        _ => "any user may then count own programs in user mode",
    };
    sysctl(facts, "perf_event_paranoid", level, note)
}

/// Returns the remedy that grants tare capabilities, named like `perfmon`. perf ignores those that
/// hold only in a user namespace, so there the remedy is to leave it.
pub(super) fn capabilities(facts: &Facts<'_>, names: &[&str]) -> Remedy {
    if facts.rights.as_ref().is_ok_and(|rights| rights.machine_wide == Some(false)) {
        return Remedy::setting(
            "run tare outside of this user namespace",
            "perf requires capabilities in the machine's user namespace",
        );
    }
    grant(facts, names)
}

/// Returns the remedy that grants capabilities: through the container's engine, or as file
/// capabilities outside of containers and in LXC's.
fn grant(facts: &Facts<'_>, names: &[&str]) -> Remedy {
    let upper = names.iter().map(|name| name.to_uppercase()).collect::<Vec<_>>();
    let flags =
        || upper.iter().map(|name| format!("--cap-add={name}")).collect::<Vec<_>>().join(" ");
    let risk = "programs in the container may then see the machine's other processes";
    match facts.container {
        Container::Yes(Engine::Kubernetes) => {
            let list =
                upper.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
            Remedy::setting(format!("securityContext: {{capabilities: {{add: [{list}]}}}}"), risk)
        }
        Container::Yes(Engine::Podman) => {
            Remedy::command(format!("sudo podman run {} …", flags()), risk)
        }
        Container::Yes(Engine::Docker | Engine::Unnamed) => {
            Remedy::command(format!("docker run {} …", flags()), risk)
        }
        Container::Yes(Engine::Lxc) | Container::No | Container::ImageOnly => {
            let list = names.iter().map(|name| format!("cap_{name}")).collect::<Vec<_>>().join(",");
            let note = "replaces the file's capabilities; anyone who may run it then has these rights over all processes";
            Remedy::command(format!("sudo setcap {list}+ep \"$(command -v tare)\""), note)
        }
    }
}

/// Returns the remedies for a refused event; `level` is the highest paranoid level that allows it.
pub(super) fn refused(facts: &Facts<'_>, why: Refusal, level: i32) -> Vec<Remedy> {
    match why {
        Refusal::Forbidden => vec![paranoid(facts, level), capabilities(facts, &["perfmon"])],
        Refusal::Seccomp => seccomp(facts),
        Refusal::NoEvents => {
            vec![Remedy::setting("CONFIG_PERF_EVENTS=y", "in the build of the kernel")]
        }
        Refusal::NoFiles => vec![more_files(facts)],
        Refusal::NoSuchEvent | Refusal::Other(_) => Vec::new(),
    }
}

/// Returns the remedies for a seccomp filter that refuses `perf_event_open`. The default profiles
/// of Docker 23 and containerd 1.7 allow it if the container has `CAP_PERFMON`, even if perf ignores
/// the capability because it holds only in a user namespace. Those of Docker 20 and of Podman until
/// 2025 don't: if the process has the capability already, only another profile helps.
fn seccomp(facts: &Facts<'_>) -> Vec<Remedy> {
    let effective = facts.rights.as_ref().map(|rights| rights.effective);
    let is_granted = effective.is_ok_and(|set| set.contains(CapabilitySet::PERFMON));
    let grant = || if is_granted { Vec::new() } else { vec![grant(facts, &["perfmon"])] };
    let unconfined = |engine: &str| {
        let note = "the container may then make every system call; a profile that allows perf_event_open is narrower";
        Remedy::command(format!("{engine} run --security-opt seccomp=unconfined …"), note)
    };
    match facts.container {
        Container::Yes(Engine::Podman) => [vec![unconfined("podman")], grant()].concat(),
        Container::Yes(Engine::Docker | Engine::Unnamed) => {
            [grant(), vec![unconfined("docker")]].concat()
        }
        Container::Yes(Engine::Kubernetes) => {
            let profile = Remedy::setting(
                "securityContext: {seccompProfile: {type: Unconfined}}",
                "the container may then make every system call",
            );
            [grant(), vec![profile]].concat()
        }
        Container::Yes(Engine::Lxc) | Container::No | Container::ImageOnly => {
            vec![Remedy::setting(
                "SystemCallFilter=perf_event_open",
                "in the systemd unit, or in whatever else sets the filter",
            )]
        }
    }
}

/// Raises this shell's limit of open files to the hard limit, but at most to 65,536. If the limit
/// is that high already, root sets it to 65,536.
pub(super) fn more_files(facts: &Facts<'_>) -> Remedy {
    const PLENTY: u64 = 65_536;
    let needed = (FILES_PER_CPU * facts.cpu_count()).next_power_of_two().max(PLENTY);
    let soft = facts.open_files.current.unwrap_or(0);
    // A limit that turned out to be too low isn't enough, whatever its size.
    let plenty = if soft < needed { needed } else { 2 * soft };
    let hard = facts.open_files.maximum.unwrap_or(plenty);
    if soft < hard.min(plenty) {
        return Remedy::command(format!("ulimit -n {}", hard.min(plenty)), "for this shell");
    }
    Remedy::command(format!("sudo prlimit --pid $$ --nofile={plenty}"), "for this shell")
}

/// Returns the settings that make a hypervisor expose a PMU. They are untested (see
/// docs/internals/untested.md). Compute Engine's is from its documentation of
/// `performanceMonitoringUnit`. Without a hypervisor, returns a command that shows why the kernel
/// has no PMU driver.
pub(super) fn virtual_pmu(hypervisor: Option<Hypervisor>) -> Vec<Remedy> {
    let amazon = || {
        Remedy::setting(
            "Amazon EC2: a .metal size, or one that fills a whole socket",
            "smaller sizes show few counters or none",
        )
    };
    let google = || {
        let note = "C4 and C4A machines, set while the machine is stopped";
        Remedy::setting(
            "Google Cloud: advancedMachineFeatures.performanceMonitoringUnit: STANDARD",
            note,
        )
    };
    let qemu = || {
        Remedy::setting(
            "QEMU: -cpu host,pmu=on; libvirt: <features><pmu state='on'/></features>",
            "on the host, which must have a PMU itself",
        )
    };
    match hypervisor {
        Some(Hypervisor::Amazon) => vec![amazon()],
        Some(Hypervisor::Google) => vec![google()],
        Some(Hypervisor::Microsoft) => {
            vec![Remedy::setting(
                "Set-VMProcessor NAME -Perfmon @(\"pmu\")",
                "in PowerShell on an own Hyper-V host, with the machine off",
            )]
        }
        Some(Hypervisor::Vmware) => vec![Remedy::setting(
            "vpmc.enable = \"TRUE\"",
            "in the .vmx file: 'Virtualize CPU performance counters'",
        )],
        Some(Hypervisor::Qemu) => vec![qemu()],
        Some(Hypervisor::Unnamed) => vec![qemu(), amazon(), google()],
        None => vec![Remedy::command(
            "sudo dmesg | grep -iE 'performance events|pmu'",
            "shows why the kernel has no driver for it",
        )],
    }
}

/// Makes tracefs available.
pub(super) fn tracefs(facts: &Facts<'_>) -> Remedy {
    const PLACE: &str = "/sys/kernel/tracing";
    let engine = match facts.container {
        Container::Yes(Engine::Docker | Engine::Unnamed) => "docker",
        Container::Yes(Engine::Podman) => "sudo podman",
        Container::Yes(Engine::Kubernetes) => {
            return Remedy::setting(format!("a hostPath volume of {PLACE}"), "read-only is enough");
        }
        Container::Yes(Engine::Lxc) | Container::No | Container::ImageOnly => {
            return Remedy::command(
                format!("sudo mount -t tracefs tracefs {PLACE}"),
                "only root can read it at first",
            );
        }
    };
    Remedy::command(
        format!("{engine} run -v {PLACE}:{PLACE}:ro …"),
        "the container may then list the tracepoints",
    )
}

/// Returns a path for a shell command, quoted if necessary.
pub(super) fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-:@".contains(c));
    if plain { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

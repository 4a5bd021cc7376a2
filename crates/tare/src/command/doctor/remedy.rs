//! Remedies that several items share.

use tare_kernel::host::{Container, Engine, Hypervisor};
use tare_kernel::probe::Refusal;

use super::facts::Facts;
use super::item::Remedy;

/// Sets `kernel.perf_event_paranoid`, and says what it opens to every user.
pub(super) fn paranoid(level: i32) -> Remedy {
    let note = match level {
        -1 => "until reboot; any user then reads everything that tracepoints tell, and locks memory without limit",
        0 => "until reboot; any user then counts the whole system",
        1 => "until reboot; any user then sees the kernel's part of own programs, and where the kernel lies",
        _ => "until reboot; any user then counts own programs in user mode",
    };
    Remedy::command(format!("sudo sysctl kernel.perf_event_paranoid={level}"), note)
}

/// Gives tare capabilities, named as in `perfmon`, in the way of the place where it runs.
pub(super) fn capabilities(facts: &Facts<'_>, names: &[&str]) -> Remedy {
    let upper = names.iter().map(|name| name.to_uppercase()).collect::<Vec<_>>();
    let flags = || upper.iter().map(|name| format!("--cap-add={name}")).collect::<Vec<_>>().join(" ");
    let confined = "what runs in the container then sees the machine's other processes too";
    match facts.container {
        Container::Yes(Engine::Kubernetes) => {
            let list = upper.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
            Remedy::setting(format!("securityContext: {{capabilities: {{add: [{list}]}}}}"), confined)
        }
        Container::Yes(Engine::Podman) => Remedy::command(format!("sudo podman run {} …", flags()), confined),
        Container::Yes(Engine::Docker | Engine::Unnamed) => Remedy::command(format!("docker run {} …", flags()), confined),
        Container::Yes(Engine::Lxc) | Container::No | Container::ImageOnly => {
            let list = names.iter().map(|name| format!("cap_{name}")).collect::<Vec<_>>().join(",");
            let note = "in place of what the file had; whoever may run it then has these rights over all processes";
            Remedy::command(format!("sudo setcap {list}+ep \"$(command -v tare)\""), note)
        }
    }
}

/// What lets an event through that was refused: the level that suffices, or a capability.
pub(super) fn refused(facts: &Facts<'_>, why: Refusal, level: i32) -> Vec<Remedy> {
    match why {
        Refusal::Forbidden => vec![paranoid(level), capabilities(facts, &["perfmon"])],
        Refusal::Seccomp => seccomp(facts),
        Refusal::NoEvents => vec![Remedy::setting("CONFIG_PERF_EVENTS=y", "in the build of the kernel")],
        Refusal::NoFiles => vec![more_files(facts)],
        Refusal::NoSuchEvent | Refusal::Other(_) => Vec::new(),
    }
}

fn seccomp(facts: &Facts<'_>) -> Vec<Remedy> {
    let unconfined = |engine: &str| {
        let note = "the container then reaches every system call; a profile that allows perf_event_open is narrower";
        Remedy::command(format!("{engine} run --security-opt seccomp=unconfined …"), note)
    };
    match facts.container {
        Container::Yes(Engine::Podman) => vec![capabilities(facts, &["perfmon"]), unconfined("podman")],
        Container::Yes(Engine::Docker | Engine::Unnamed) => vec![capabilities(facts, &["perfmon"]), unconfined("docker")],
        Container::Yes(Engine::Kubernetes) => vec![
            capabilities(facts, &["perfmon"]),
            Remedy::setting("securityContext: {seccompProfile: {type: Unconfined}}", "the container then reaches every system call"),
        ],
        Container::Yes(Engine::Lxc) | Container::No | Container::ImageOnly => {
            vec![Remedy::setting("SystemCallFilter=perf_event_open", "in the systemd unit, or whatever else set the filter")]
        }
    }
}

/// Raises the limit of open files: for the shell alone where the hard limit allows.
pub(super) fn more_files(facts: &Facts<'_>) -> Remedy {
    const PLENTY: u64 = 65_536;
    let hard = facts.open_files.maximum.unwrap_or(PLENTY);
    if facts.open_files.current.is_some_and(|soft| soft < hard.min(PLENTY)) {
        return Remedy::command(format!("ulimit -n {}", hard.min(PLENTY)), "for this shell");
    }
    Remedy::command(format!("sudo prlimit --pid $$ --nofile={PLENTY}"), "for this shell")
}

/// What makes a hypervisor show a PMU. Sources: the documentation of `performanceMonitoringUnit` (Compute Engine), of
/// `Set-VMProcessor` (Hyper-V), of `vpmc.enable` (VMware), of `<pmu state>` (libvirt).
pub(super) fn virtual_pmu(hypervisor: Option<Hypervisor>) -> Vec<Remedy> {
    let amazon = || Remedy::setting("Amazon EC2: a .metal size, or one that fills a whole socket", "smaller sizes show few counters or none");
    let google = || {
        let note = "C4 and C4A machines, set while the machine is stopped";
        Remedy::setting("Google Cloud: advancedMachineFeatures.performanceMonitoringUnit: STANDARD", note)
    };
    let qemu =
        || Remedy::setting("QEMU: -cpu host,pmu=on; libvirt: <features><pmu state='on'/></features>", "on the host, which must have one itself");
    match hypervisor {
        Some(Hypervisor::Amazon) => vec![amazon()],
        Some(Hypervisor::Google) => vec![google()],
        Some(Hypervisor::Microsoft) => {
            vec![Remedy::setting("Set-VMProcessor NAME -Perfmon @(\"pmu\")", "in PowerShell on an own Hyper-V host, with the machine off")]
        }
        Some(Hypervisor::Vmware) => vec![Remedy::setting("vpmc.enable = \"TRUE\"", "in the .vmx file: 'Virtualize CPU performance counters'")],
        Some(Hypervisor::Qemu) => vec![qemu()],
        Some(Hypervisor::Unnamed) => vec![qemu(), amazon(), google()],
        None => vec![Remedy::command("sudo dmesg | grep -iE 'performance events|pmu'", "shows why the kernel has no driver for it")],
    }
}

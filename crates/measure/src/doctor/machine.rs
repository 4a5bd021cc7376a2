//! Checks the machine, the user, kernel symbols, and BPF.

use std::collections::BTreeSet;
use std::io::Read;

use rustix::io::Errno;
use tare_kernel::host::{CapabilitySet, Container, CpuGroup, CpuList, Engine, Host, Hypervisor};
use tare_kernel::probe::Refusal;

use super::facts::Facts;
use super::item::{Group, Item, Remedy, State};
use super::remedy;

/// The capabilities that matter to a profiler, by their names without `cap_`.
const CAPABILITIES: [(&str, CapabilitySet); 7] = [
    ("perfmon", CapabilitySet::PERFMON),
    ("sys_ptrace", CapabilitySet::SYS_PTRACE),
    ("bpf", CapabilitySet::BPF),
    ("syslog", CapabilitySet::SYSLOG),
    ("ipc_lock", CapabilitySet::IPC_LOCK),
    ("dac_read_search", CapabilitySet::DAC_READ_SEARCH),
    ("sys_admin", CapabilitySet::SYS_ADMIN),
];

pub(super) fn examine(facts: &Facts<'_>) -> Vec<Item> {
    let hypervisor = match facts.hypervisor {
        None => "none detected",
        Some(Hypervisor::Amazon) => "yes, Amazon EC2",
        Some(Hypervisor::Google) => "yes, Google Compute Engine",
        Some(Hypervisor::Microsoft) => "yes, Hyper-V",
        Some(Hypervisor::Vmware) => "yes, VMware",
        Some(Hypervisor::Qemu) => "yes, QEMU or KVM",
        Some(Hypervisor::Unnamed) => "yes, of unknown vendor",
    };
    vec![
        kernel(&facts.host),
        cpus(facts),
        Item::ok(Group::Machine, "virtual_machine", "virtual machine", hypervisor),
        container(facts),
        capabilities(facts),
        seccomp(facts),
        lockdown(&facts.host),
        kernel_symbols(facts),
    ]
}

/// Detects a container. Its shortcoming is the first one that an option of its engine lifts.
fn container(facts: &Facts<'_>) -> Item {
    let found = match facts.container {
        Container::No => "none detected",
        Container::ImageOnly => "no: an image's files, but the machine's processes and cgroups",
        Container::Yes(Engine::Docker) => "yes, like Docker's",
        Container::Yes(Engine::Podman) => "yes, Podman's",
        Container::Yes(Engine::Kubernetes) => "yes, Kubernetes'",
        Container::Yes(Engine::Lxc) => "yes, LXC's",
        Container::Yes(Engine::Unnamed) => "yes, by its namespaces",
    };
    let item = Item::ok(Group::Machine, "container", "container", found);
    let (cost, mut remedies) = match facts.probe().own_user() {
        _ if !remedy::is_in_container(facts) => return item,
        Err(why @ Refusal::Seccomp) => {
            ("its seccomp filter refuses every event", remedy::refused(facts, why, 2))
        }
        _ if !facts.has(CapabilitySet::PERFMON) => (
            "it lacks the right to see the kernel and other users' processes",
            vec![remedy::capabilities(facts, &["perfmon"])],
        ),
        _ => return item,
    };
    remedies.truncate(1);
    item.with_shortcoming(State::Limited, cost, remedies)
}

fn kernel(host: &Host) -> Item {
    match host.read("/proc/sys/kernel/osrelease") {
        Ok(release) => {
            let found = format!(
                "{release} ({}), pages of {} KiB",
                std::env::consts::ARCH,
                rustix::param::page_size() / 1024
            );
            Item::ok(Group::Machine, "kernel", "kernel", found)
        }
        Err(error) => Item::unknown(
            Group::Machine,
            "kernel",
            "kernel",
            format!("/proc/sys/kernel/osrelease: {error}"),
        ),
    }
}

fn cpus(facts: &Facts<'_>) -> Item {
    let cpus = match &facts.cpus {
        Ok(cpus) => cpus,
        Err(error) => {
            return Item::unknown(
                Group::Machine,
                "cpus",
                "CPUs",
                format!("/sys/devices/system/cpu/online: {error}"),
            );
        }
    };
    let topology = facts.host.topology(cpus);
    let number = |group: &dyn Fn(u32) -> CpuGroup| {
        cpus.as_slice().iter().map(|&cpu| group(cpu)).collect::<BTreeSet<_>>().len()
    };
    let parts = [
        with_plural(number(&|cpu| topology.package_of(cpu)), "package"),
        with_plural(number(&|cpu| topology.die_of(cpu)), "die"),
        with_plural(number(&|cpu| topology.core_of(cpu)), "core"),
        with_plural(number(&|cpu| topology.node_of(cpu)), "node"),
    ];
    Item::ok(
        Group::Machine,
        "cpus",
        "CPUs",
        format!("{} online ({}): {}", CpuList::as_slice(cpus).len(), cpus, parts.join(", ")),
    )
}

fn with_plural(number: usize, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

fn capabilities(facts: &Facts<'_>) -> Item {
    const COST: &str = "the limits of the paranoid level and of tracefs apply";
    let rights = match &facts.rights {
        Ok(rights) => rights,
        Err(error) => {
            return Item::unknown(
                Group::User,
                "capabilities",
                "capabilities",
                format!("/proc/self/status: {error}"),
            );
        }
    };
    let held = CAPABILITIES
        .iter()
        .filter(|(_, one)| rights.effective.contains(*one))
        .map(|&(name, _)| name)
        .collect::<Vec<_>>();
    let held = if held.is_empty() { "none that matter".to_owned() } else { held.join(" ") };
    let item = |found: String| Item::ok(Group::User, "capabilities", "capabilities", found);
    let found = format!("user {}: {held}", rights.uid);
    if rights.has(CapabilitySet::PERFMON) {
        return item(found);
    }
    let only = if rights.machine_wide == Some(false) { ", in a user namespace only" } else { "" };
    item(found + only).with_shortcoming(
        State::Limited,
        COST,
        vec![remedy::capabilities(facts, &["perfmon", "sys_ptrace"])],
    )
}

fn seccomp(facts: &Facts<'_>) -> Item {
    let item = |found: &str| Item::ok(Group::User, "seccomp", "seccomp filter", found);
    match facts.rights.as_ref().ok().and_then(|rights| rights.seccomp_filter) {
        Some(true) => item("one; the checks below show what it refuses"),
        Some(false) => item("none"),
        None => Item::unknown(
            Group::User,
            "seccomp",
            "seccomp filter",
            "/proc/self/status has no line about it",
        ),
    }
}

/// `/sys/kernel/security/lockdown` lists the levels, with the active one in brackets: `none
/// [integrity] confidentiality`.
fn lockdown(host: &Host) -> Item {
    const FILE: &str = "/sys/kernel/security/lockdown";
    let text = match host.read(FILE) {
        Ok(text) => text,
        Err(error) => {
            return Item::unknown(
                Group::User,
                "lockdown",
                "kernel lockdown",
                format!("{FILE}: {error}"),
            );
        }
    };
    let level = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text.as_str(), |(level, _)| level);
    let item = Item::ok(Group::User, "lockdown", "kernel lockdown", level);
    if level != "confidentiality" {
        return item;
    }
    let boot = Remedy::setting(
        "lockdown=integrity",
        "on the kernel's command line; root can then read the kernel's memory",
    );
    item.with_shortcoming(
        State::Limited,
        "BPF programs and probes that read the kernel's memory are refused",
        vec![boot],
    )
}

/// Checks whether `/proc/kallsyms` shows addresses. Hidden addresses are zero
/// (`kallsyms_show_value`, `kernel/ksyms_common.c`).
fn kernel_symbols(facts: &Facts<'_>) -> Item {
    const ID: (Group, &str, &str) = (Group::Symbols, "kernel_pointers", "kernel addresses");
    const COST: &str = "the kernel's functions have no names in profiles";
    // The first line isn't enough: on kernels whose per-CPU data starts at zero, its address is
    // zero even if addresses are shown.
    let mut start = Vec::new();
    let read = std::fs::File::open(facts.host.path("/proc/kallsyms"))
        .and_then(|file| file.take(4096).read_to_end(&mut start));
    if let Err(error) = read {
        return Item::unknown(ID.0, ID.1, ID.2, format!("/proc/kallsyms: {error}"));
    }
    let restrict = facts.host.sysctl("kernel.kptr_restrict");
    let level = restrict.as_ref().map_or_else(|_| "unknown".to_owned(), ToString::to_string);
    let shown = |line: &[u8]| {
        line.iter().take_while(|byte| byte.is_ascii_hexdigit()).any(|byte| *byte != b'0')
    };
    if start.split(|byte| *byte == b'\n').any(shown) {
        return Item::ok(ID.0, ID.1, ID.2, format!("shown (kptr_restrict {level})"));
    }
    let show = |number| {
        remedy::sysctl(facts, "kptr_restrict", number, "addresses help attackers of the kernel")
    };
    let remedies = match restrict {
        Ok(2..) => vec![show(0), remedy::paranoid(facts, 1)],
        Ok(0) => {
            vec![remedy::paranoid(facts, 1), remedy::capabilities(facts, &["perfmon", "syslog"])]
        }
        _ => vec![remedy::capabilities(facts, &["perfmon", "syslog"]), show(0)],
    };
    Item::ok(ID.0, ID.1, ID.2, format!("hidden (kptr_restrict {level})")).with_shortcoming(
        State::Missing,
        COST,
        remedies,
    )
}

pub(super) fn examine_bpf(facts: &Facts<'_>) -> Vec<Item> {
    vec![bpf(facts), btf(facts)]
}

fn bpf(facts: &Facts<'_>) -> Item {
    const COST: &str = "frequent events can't be summed inside the kernel";
    let item = |found: String| Item::ok(Group::Bpf, "bpf", "tracing programs", found);
    let level = facts
        .host
        .sysctl("kernel.unprivileged_bpf_disabled")
        .map_or_else(|_| "unknown".to_owned(), |level| level.to_string());
    match facts.bpf {
        Ok(()) => item("can be loaded".to_owned()),
        Err(Errno::NOSYS) => {
            let build = Remedy::setting("CONFIG_BPF_SYSCALL=y", "in the build of the kernel");
            item("the kernel was built without bpf(2)".to_owned()).with_shortcoming(
                State::Missing,
                COST,
                vec![build],
            )
        }
        Err(Errno::PERM | Errno::ACCESS) => {
            item(format!("not allowed (unprivileged_bpf_disabled {level})")).with_shortcoming(
                State::Missing,
                COST,
                vec![remedy::capabilities(facts, &["perfmon", "bpf"])],
            )
        }
        Err(errno @ (Errno::MFILE | Errno::NFILE)) => {
            Item::unknown(Group::Bpf, "bpf", "tracing programs", errno)
        }
        Err(errno) => item(format!("the kernel refuses: {errno}")).with_shortcoming(
            State::Missing,
            COST,
            Vec::new(),
        ),
    }
}

fn btf(facts: &Facts<'_>) -> Item {
    const FILE: &str = "/sys/kernel/btf/vmlinux";
    let item = |found: &str| Item::ok(Group::Bpf, "btf", "kernel types (BTF)", found);
    match facts.host.path(FILE).metadata() {
        Ok(_) => item("available"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => item("none")
            .with_shortcoming(
                State::Missing,
                "BPF programs can't adapt to this kernel's structures",
                vec![Remedy::setting("CONFIG_DEBUG_INFO_BTF=y", "in the build of the kernel")],
            ),
        Err(error) => {
            Item::unknown(Group::Bpf, "btf", "kernel types (BTF)", format!("{FILE}: {error}"))
        }
    }
}

use rustix::io::Errno;
use rustix::process::Rlimit;
use tare_format::abi::bindings::PERF_TYPE_HARDWARE;
use tare_kernel::fake::{Scripted, ScriptedAnswer};
use tare_kernel::host::Host;
use tare_kernel::open::EventTarget;
use tempfile::TempDir;

use super::item::{RemedyAction, State};
use super::*;

fn machine(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    root
}

fn link(machine: &TempDir, path: &str, target: &str) {
    let path = machine.path().join(path.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(target, path).unwrap();
}

fn report(machine: &TempDir, kernel: &Scripted, bpf: Result<(), Errno>) -> Report {
    examine(&Facts::for_test(Host::at(machine.path()), kernel, bpf))
}

fn item<'a>(report: &'a Report, id: &str) -> &'a Item {
    report.items.iter().find(|item| item.id == id).unwrap_or_else(|| panic!("no item {id}"))
}

fn commands(item: &Item) -> Vec<&str> {
    item.remedies
        .iter()
        .map(|remedy| match &remedy.how {
            RemedyAction::Command(text) | RemedyAction::Setting(text) => text.as_str(),
        })
        .collect()
}

/// The kernel of an unprivileged user on paranoid level 2, with a PMU: it allows events on tasks,
/// in user mode and without sample fields.
fn paranoid_2() -> Scripted {
    Scripted::new().rule(
        |attr, target| {
            !matches!(target, EventTarget::Task(_))
                || !attr.flags.contains(tare_format::abi::Flags::EXCLUDE_KERNEL)
                || attr.sample_type != 0
        },
        ScriptedAnswer::Refuse(Errno::ACCESS),
    )
}

const UNPRIVILEGED: &str = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\nSeccomp:\t0\n";

#[test]
fn an_unprivileged_user_on_level_2_counts_own_programs_in_user_mode() {
    let machine = machine(&[
        ("/proc/self/status", UNPRIVILEGED),
        ("/proc/sys/kernel/perf_event_paranoid", "2\n"),
        ("/proc/sys/kernel/nmi_watchdog", "1\n"),
        ("/proc/sys/kernel/kptr_restrict", "2\n"),
        ("/proc/kallsyms", "0000000000000000 T _text\n"),
        ("/sys/kernel/tracing/events/sched/sched_switch/id", "372\n"),
    ]);
    let kernel = paranoid_2();
    let report = report(&machine, &kernel, Err(Errno::PERM));
    assert_eq!(
        report.verdict,
        "tare can count software and hardware events, of own programs in user mode. Not tracepoints, the kernel's part or the whole system."
    );
    let states = [
        ("paranoid", State::Limited),
        ("hardware", State::Ok),
        ("kernel_mode", State::Missing),
        ("system_wide", State::Missing),
        ("tracepoints", State::Missing),
        ("tracepoint_fields", State::Missing),
        ("nmi_watchdog", State::Limited),
        ("bpf", State::Missing),
    ];
    assert_eq!(states.map(|(id, _)| (id, item(&report, id).state)), states);
    assert_eq!(
        commands(item(&report, "kernel_mode"))[0],
        "sudo sysctl kernel.perf_event_paranoid=1"
    );
    assert_eq!(
        commands(item(&report, "system_wide"))[0],
        "sudo sysctl kernel.perf_event_paranoid=0"
    );
    assert_eq!(
        commands(item(&report, "tracepoint_fields"))[0],
        "sudo sysctl kernel.perf_event_paranoid=-1"
    );
    assert_eq!(
        commands(item(&report, "other_processes")),
        ["sudo setcap cap_perfmon,cap_sys_ptrace+ep \"$(command -v tare)\""]
    );
    assert_eq!(commands(item(&report, "kernel_pointers"))[0], "sudo sysctl kernel.kptr_restrict=0");
    assert_eq!(item(&report, "tracepoints").found, "not allowed, though tracefs is readable");
    assert!(
        kernel
            .opened()
            .iter()
            .all(|(attr, _)| attr.flags.contains(tare_format::abi::Flags::DISABLED)),
        "a probe never counts"
    );
}

/// Docker's filter refuses every event with `EPERM`; root is in its own user namespace.
#[test]
fn a_containers_seccomp_filter_is_named_with_the_engines_remedies() {
    let machine = machine(&[
        ("/proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t000001bfffffffff\nSeccomp:\t2\n"),
        ("/proc/sys/kernel/perf_event_paranoid", "2\n"),
        ("/.dockerenv", ""),
    ]);
    link(&machine, "/proc/self/ns/user", "user:[4026532600]");
    link(&machine, "/proc/self/ns/pid", "pid:[4026532601]");
    let report = report(
        &machine,
        &Scripted::new().rule(|_, _| true, ScriptedAnswer::Refuse(Errno::PERM)),
        Err(Errno::PERM),
    );
    assert!(report.verdict.starts_with("tare can count nothing here"), "{}", report.verdict);
    assert_eq!(item(&report, "software").found, "a seccomp filter refuses perf_event_open");
    assert_eq!(
        commands(item(&report, "software")),
        ["docker run --cap-add=PERFMON …", "docker run --security-opt seccomp=unconfined …"]
    );
    assert!(item(&report, "capabilities").found.ends_with("in a user namespace only"));
    assert_eq!(
        commands(item(&report, "other_processes")),
        ["run tare outside of this user namespace"]
    );
    assert_eq!(
        commands(item(&report, "tracepoints")),
        ["docker run -v /sys/kernel/tracing:/sys/kernel/tracing:ro …"]
    );
    assert_eq!(
        item(&report, "paranoid").state,
        State::Limited,
        "rights in a user namespace don't lift the level"
    );
}

/// The container's own line names one option: first the one that allows events at all.
#[test]
fn a_container_names_the_one_option_that_its_engine_needs() {
    let refuses = |errno: Errno| Scripted::new().rule(|_, _| true, ScriptedAnswer::Refuse(errno));
    let bare = "Uid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n";
    let perfmon = "Uid:\t0\t0\t0\t0\nCapEff:\t00000040a80425fb\nSeccomp:\t2\n";
    for (trace, status, kernel, wanted) in [
        ("/.dockerenv", bare, refuses(Errno::PERM), "docker run --cap-add=PERFMON …"),
        (
            "/.dockerenv",
            perfmon,
            refuses(Errno::PERM),
            "docker run --security-opt seccomp=unconfined …",
        ),
        (
            "/run/.containerenv",
            perfmon,
            refuses(Errno::PERM),
            "podman run --security-opt seccomp=unconfined …",
        ),
        ("/.dockerenv", bare, paranoid_2(), "docker run --cap-add=PERFMON …"),
        (
            "/var/run/secrets/kubernetes.io/token",
            bare,
            refuses(Errno::PERM),
            "securityContext: {capabilities: {add: [\"PERFMON\"]}}",
        ),
    ] {
        let machine = machine(&[("/proc/self/status", status), (trace, "")]);
        let report = report(&machine, &kernel, Err(Errno::PERM));
        let container = item(&report, "container");
        assert_eq!((container.state, commands(container)), (State::Limited, vec![wanted]));
    }
    let free = machine(&[("/proc/self/status", perfmon), ("/.dockerenv", "")]);
    let report = report(&free, &Scripted::new(), Ok(()));
    assert_eq!(item(&report, "container").state, State::Ok);
}

#[test]
fn names_the_vendors_setting_that_exposes_a_pmu() {
    for (vendor, product, setting) in [
        ("Google", "Google Compute Engine", "performanceMonitoringUnit"),
        ("Amazon EC2", "m7i.large", ".metal"),
        ("Microsoft Corporation", "Virtual Machine", "Set-VMProcessor"),
        ("VMware, Inc.", "VMware Virtual Platform", "vpmc.enable"),
        ("QEMU", "Standard PC", "pmu=on"),
    ] {
        let machine = machine(&[
            ("/sys/class/dmi/id/sys_vendor", vendor),
            ("/sys/class/dmi/id/product_name", product),
        ]);
        let no_pmu = Scripted::new()
            .rule(|attr, _| attr.kind == PERF_TYPE_HARDWARE, ScriptedAnswer::Refuse(Errno::NOENT));
        let report = report(&machine, &no_pmu, Ok(()));
        assert!(report.verdict.contains("Not hardware events (no PMU)"), "{}", report.verdict);
        let hardware = item(&report, "hardware");
        assert_eq!(
            (hardware.state, hardware.found.as_str()),
            (State::Missing, "no PMU in this virtual machine")
        );
        assert!(
            commands(hardware).len() == 1 && commands(hardware)[0].contains(setting),
            "{vendor}: {:?}",
            commands(hardware)
        );
    }
}

/// No file can be read: the findings of these checks begin with the file that is missing, and
/// checks of tracefs and cgroups have remedies.
#[test]
fn on_a_machine_without_files_checks_are_unknown() {
    let report = report(&machine(&[]), &Scripted::new(), Ok(()));
    for id in [
        "kernel",
        "cpus",
        "capabilities",
        "seccomp",
        "lockdown",
        "paranoid",
        "locked_memory",
        "max_sample_rate",
        "kernel_pointers",
    ] {
        let item = item(&report, id);
        assert_eq!(item.state, State::Unknown, "{id}");
        assert!(
            item.found.starts_with('/') && !item.found.contains("os error"),
            "{id}: {}",
            item.found
        );
    }
    assert_eq!(
        commands(item(&report, "tracepoints")),
        ["sudo mount -t tracefs tracefs /sys/kernel/tracing"]
    );
    assert_eq!(
        commands(item(&report, "cgroup_v2")),
        ["sudo mkdir -p /sys/fs/cgroup && sudo mount -t cgroup2 none /sys/fs/cgroup"]
    );
}

#[test]
fn low_limits_of_files_and_memory_are_reported_with_remedies() {
    let machine = machine(&[
        ("/proc/self/status", UNPRIVILEGED),
        ("/proc/sys/kernel/perf_event_paranoid", "2\n"),
        ("/proc/sys/kernel/perf_event_mlock_kb", "516\n"),
        ("/sys/devices/system/cpu/online", "0-95\n"),
    ]);
    let kernel = Scripted::new();
    let mut facts = Facts::for_test(Host::at(machine.path()), &kernel, Ok(()));
    facts.open_files = Rlimit { current: Some(1024), maximum: Some(524_288) };
    facts.locked_memory = Rlimit { current: Some(64 * 1024), maximum: Some(64 * 1024) };
    let seen = examine(&facts);
    assert!(
        item(&seen, "open_files").cost.as_ref().unwrap().starts_with("about 10 events"),
        "{:?}",
        item(&seen, "open_files")
    );
    assert_eq!(commands(item(&seen, "open_files")), ["ulimit -n 65536"]);
    assert!(item(&seen, "locked_memory").found.starts_with("516 KiB a CPU"));
    facts.open_files = Rlimit { current: Some(20), maximum: Some(20) };
    assert_eq!(
        commands(item(&examine(&facts), "open_files")),
        ["sudo prlimit --pid $$ --nofile=65536"]
    );
    facts.open_files = Rlimit { current: Some(100_000), maximum: Some(100_000) };
    let more = remedy::more_files(&facts).how;
    let more_than_now = "sudo prlimit --pid $$ --nofile=200000";
    assert!(matches!(&more, RemedyAction::Command(raise) if raise == more_than_now), "{more:?}");
    facts.open_files = Rlimit { current: None, maximum: None };
    facts.paranoid = Ok(-1);
    let lifted = examine(&facts);
    assert_eq!(
        [item(&lifted, "open_files").state, item(&lifted, "locked_memory").state],
        [State::Ok, State::Ok]
    );
}

#[test]
fn without_a_descriptor_checks_are_unknown() {
    let report = report(&machine(&[]), &Scripted::new().files(0), Err(Errno::MFILE));
    assert_eq!(
        [item(&report, "software").state, item(&report, "bpf").state],
        [State::Unknown, State::Unknown]
    );
}

#[test]
fn hostile_content_is_escaped_in_text_and_kept_in_json() {
    let hostile = "6.1\u{1b}[31m\"\\\u{7}evil";
    let machine = machine(&[
        ("/proc/sys/kernel/osrelease", hostile),
        ("/proc/self/mountinfo", "1 0 0:26 / /cg\\012\u{1b}x rw - cgroup2 cgroup2 rw\n"),
        ("/cg\n\u{1b}x/cgroup.procs", ""),
        ("/proc/self/cgroup", "0::/\n"),
    ]);
    let report = report(&machine, &Scripted::new(), Ok(()));
    let text = text::render(&report, false);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text}");
    assert!(text.lines().any(|line| line.contains("at /cg\\u{a}\\u{1b}x")), "{text}");
    let document: serde_json::Value =
        serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert!(document["items"][0]["found"].as_str().unwrap().starts_with(hostile));
}

/// On kernels whose per-CPU data starts at zero the first symbols have zero addresses, even if
/// addresses are shown.
#[test]
fn the_first_symbol_may_lie_at_zero() {
    let state = |symbols: &str| {
        item(
            &report(&machine(&[("/proc/kallsyms", symbols)]), &Scripted::new(), Ok(())),
            "kernel_pointers",
        )
        .state
    };
    assert_eq!(
        state("0000000000000000 A fixed_percpu_data\n0000000000001000 A cpu_debug_store\n"),
        State::Ok
    );
    assert_eq!(
        state("0000000000000000 A fixed_percpu_data\n0000000000000000 A cpu_debug_store\n"),
        State::Missing
    );
}

#[test]
fn paths_are_quoted_in_commands() {
    assert_eq!(remedy::shell_word(std::path::Path::new("/a b/it's")), r"'/a b/it'\''s'");
    assert_eq!(remedy::shell_word(std::path::Path::new("/sys/fs/cgroup")), "/sys/fs/cgroup");
}

#[test]
fn text_fits_and_colour_adds_only_escapes() {
    let report =
        report(&machine(&[("/proc/self/status", UNPRIVILEGED)]), &paranoid_2(), Err(Errno::PERM));
    let plain = text::render(&report, false);
    let is_remedy = |line: &str| line.trim_start().starts_with(['$', '>']);
    let long: Vec<_> =
        plain.lines().filter(|line| !is_remedy(line) && line.chars().count() > 100).collect();
    assert!(long.is_empty(), "{long:#?}");
    let mut colored = text::render(&report, true);
    assert_ne!(colored, plain);
    for code in ["1", "2", "31", "32", "33", "36", "0"] {
        colored = colored.replace(&format!("\u{1b}[{code}m"), "");
    }
    assert_eq!(colored, plain);
}

/// Ids are part of the document's format: changing one requires a new version.
#[test]
fn ids_are_stable_and_unique() {
    let report = report(&machine(&[]), &Scripted::new(), Ok(()));
    let ids: Vec<_> = report.items.iter().map(|item| item.id).collect();
    let expected = "kernel cpus virtual_machine container capabilities seccomp lockdown paranoid software hardware kernel_mode system_wide \
                    other_processes tracepoints tracepoint_fields open_files locked_memory max_sample_rate cpu_time_max_percent max_stack \
                    nmi_watchdog kernel_pointers cgroup_v2 cgroup_events cgroup_delegation bpf btf";
    assert_eq!(ids.join(" "), expected);
}

//! Targets for files of `/proc` and `/sys`: every listed file contains the input, and readers of
//! these files run. Also the target for event names.

use std::cell::OnceCell;
use std::fs;
use std::hint::black_box;
use std::path::Path;

use tare_events::Sources;
use tare_kernel::host::Host;
use tare_kernel::{cgroup, mounts, procfs};

/// Files below `/proc`.
const PROC: [&str; 12] = [
    "proc/7/task/7/stat",
    "proc/7/task/7/comm",
    "proc/7/stat",
    "proc/7/status",
    "proc/7/maps",
    "proc/7/cgroup",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "proc/self/status",
    "proc/modules",
    "proc/kallsyms",
    "proc/cpuinfo",
];

/// Files below `/sys`.
const SYS: [&str; 13] = [
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/possible",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id",
    "sys/devices/system/cpu/cpu0/topology/core_id",
    "sys/devices/system/cpu/cpu0/cache/index0/level",
    "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
    "sys/bus/event_source/devices/cpu/type",
    "sys/bus/event_source/devices/cpu/format/event",
    "sys/bus/event_source/devices/cpu/format/umask",
    "sys/bus/event_source/devices/cpu/events/some",
    "sys/bus/event_source/devices/cpu/events/some.scale",
    "sys/bus/event_source/devices/cpu/events/some.unit",
    "sys/bus/event_source/devices/cpu/cpumask",
];

thread_local! {
    /// A simulated machine: a folder whose files contain the input.
    static MACHINE: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
    /// A simulated machine with fixed files, and its event names.
    static NAMES: OnceCell<(tempfile::TempDir, Sources)> = const { OnceCell::new() };
}

fn machine() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no folder: {error}"));
    FIXED.iter().for_each(|(file, text)| write(folder.path(), file, text.as_bytes()));
    folder
}

/// Runs `read` on a machine whose listed files contain the input.
fn on_machine(files: &[&str], input: &[u8], read: impl FnOnce(Host)) {
    MACHINE.with(|machine_of_input| {
        let root = machine_of_input.get_or_init(machine).path();
        files.iter().for_each(|file| write(root, file, input));
        read(Host::at(root));
    });
}

fn write(root: &Path, file: &str, bytes: &[u8]) {
    let path = root.join(file);
    let written = match path.parent().filter(|folder| !folder.is_dir()) {
        Some(folder) => fs::create_dir_all(folder).and_then(|()| fs::write(&path, bytes)),
        None => fs::write(&path, bytes),
    };
    written.unwrap_or_else(|error| panic!("{file}: {error}"));
}

/// The files in which event names are looked up.
const FIXED: [(&str, &str); 12] = [
    ("sys/bus/event_source/devices/cpu/type", "4\n"),
    ("sys/bus/event_source/devices/cpu/format/event", "config:0-7,32-35\n"),
    ("sys/bus/event_source/devices/cpu/format/umask", "config:8-15\n"),
    ("sys/bus/event_source/devices/cpu/events/some", "event=0x3c,umask=1\n"),
    ("sys/bus/event_source/devices/software/type", "1\n"),
    ("sys/bus/event_source/devices/uncore_imc_0/type", "20\n"),
    ("sys/bus/event_source/devices/uncore_imc_0/cpumask", "0\n"),
    ("sys/bus/event_source/devices/uncore_imc_0/format/event", "config:0-7\n"),
    ("sys/bus/event_source/devices/uncore_imc_0/events/reads", "event=0x4\n"),
    ("sys/kernel/tracing/events/sched/sched_switch/id", "300\n"),
    ("sys/kernel/tracing/events/sched/sched_waking/id", "301\n"),
    ("sys/kernel/tracing/events/sched/sched_switch/format", "name: sched_switch\n"),
];

/// Reads files of `/proc`.
pub(crate) fn proc(input: &[u8]) {
    on_machine(&PROC, input, |host| {
        black_box((procfs::process(&host, 7).is_ok(), procfs::start_time(&host, 7).is_ok()));
        black_box((procfs::identity(&host, 7).is_ok(), procfs::process_of(&host, 7).is_ok()));
        black_box((procfs::wait_state(&host, 7, 7), procfs::name(&host, 7).is_some()));
        black_box(procfs::thread_comm(&host, 7, 7).map_or(0, |comm| comm.len()));
        black_box(procfs::mappings(input).map(|mapping| mapping.path.len()).sum::<usize>());
        black_box((procfs::modules(&host).len(), procfs::loaded_modules(&host).len()));
        black_box(procfs::kernel_text(&host).is_some());
        black_box(mounts::mounts(&host, &["cgroup2", "ext4"]).map_or(0, |mounts| mounts.len()));
        black_box(cgroup::Cgroups::read(&host));
        black_box((host.rights().is_ok(), host.hypervisor().is_some(), host.container()));
    });
}

/// Reads files of `/sys`, and parses events with them.
pub(crate) fn sys(input: &[u8]) {
    on_machine(&SYS, input, |host| {
        // Limited, because several files are read per CPU.
        if let Ok(online) = host.online_cpus().map(|cpus| cpus.iter().take(64).collect()) {
            black_box(host.topology_with_caches(&online));
        }
        black_box(host.possible_cpus().is_ok());
        let sources = Sources::new(host);
        for text in ["cpu/some/", "cpu/event=1,umask=2/", "some", "cpu/umask=0xffff/u"] {
            black_box(tare_events::parse(text, &sources).is_ok());
        }
    });
}

/// Parses `-e`, and formats the message of a rejected event.
pub(crate) fn events(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    NAMES.with(|names| {
        let (_, sources) = names.get_or_init(|| {
            let folder = machine();
            let host = Host::at(folder.path());
            (folder, Sources::new(host))
        });
        match tare_events::parse(text, sources) {
            Ok(groups) => black_box(groups.iter().map(|group| group.events.len()).sum()),
            Err(error) => black_box(error.to_string().len()),
        };
    });
}

pub(crate) fn proc_files() -> Vec<Vec<u8>> {
    let texts = [
        "7 (a (name)) S 1 7 7 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 3 0 500 0 0\n",
        "Name:\ta\nTgid:\t7\nUid:\t0\t0\t0\t0\nNSpid:\t7\t1\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n",
        "55d0c0000000-55d0c0021000 r-xp 00002000 fe:00 1234    /usr/bin/a\\012b\n7ffd0000-7ffe0000 rw-s 00000000 00:00 0 [stack]\n",
        "0::/a/b\n4:perf_event,cpu:/c\n",
        "22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw,hidepid=2\n30 1 0:27 /a /sys/fs/cgroup\\040x rw - cgroup2 cgroup2 rw\n31 1 0:28 / /sys/kernel/tracing rw - tracefs tracefs rw\n",
        "ext4 1048576 1 mbcache,jbd2, Live 0xffffffffc0000000\nnet 4096 0 - Live 0xffffffffc0200000 (O)\n",
        "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81e00000 T _etext\nffffffffc0000000 t a\t[ext4]\n",
        "vendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor\n",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub(crate) fn sys_files() -> Vec<Vec<u8>> {
    let texts = [
        "0-3,8\n",
        "0\n",
        "4\n",
        "config:0-7,32-35\n",
        "config1:8\n",
        "event=0x3c,umask=0x1,any=?\n",
        "2.3283064365386962890625e-10\n",
        "Joules\n",
        "0-4194303\n",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub(crate) fn event_texts() -> Vec<Vec<u8>> {
    let texts = [
        "cycles,instructions:u,cpu-clock:ppp",
        "{cycles:D,cpu/event=0x3c,umask=1,name=some/u}:SWe,page-faults",
        "sched:sched_*,raw_syscalls:sys_enter/call-graph=dwarf,stack-size=8192,overwrite/",
        "mem:0xffffffff81000000/8:rwx,r1a8:k,LLC-load-misses:H,L1-dcache-loads",
        "uncore_imc/reads,period=100000,freq=99,percore/,duration_time",
        "cpu/config=18446744073709551615,config1=0x1,name='a b',metric-id=x/G",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

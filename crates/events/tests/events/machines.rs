//! Folders with the files in sysfs and tracefs that describe the events of a machine.

use std::fs;

use tare_events::Sources;
use tare_kernel::host::Host;
use tempfile::TempDir;

/// A folder used as the root of a machine, removed when dropped.
pub(crate) struct TestMachine {
    root: TempDir,
}

impl TestMachine {
    fn new() -> Self {
        Self { root: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn sources(&self) -> Sources {
        Sources::new(Host::at(self.root.path()))
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.root.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("a folder"))
            .expect("a folder in the temporary one");
        fs::write(path, format!("{text}\n")).expect("a file in the temporary folder");
        self
    }

    /// Adds a PMU with the files of its folder.
    fn pmu(self, name: &str, kind: u32, files: &[(&str, &str)]) -> Self {
        let file = |file: &str| format!("/sys/bus/event_source/devices/{name}/{file}");
        let machine = self.file(&file("type"), &kind.to_string());
        files.iter().fold(machine, |machine, (path, text)| machine.file(&file(path), text))
    }

    fn tracepoint(self, name: &str, id: u32, fields: &[&str]) -> Self {
        let folder = format!("/sys/kernel/tracing/events/{}", name.replace(':', "/"));
        let fields = ["unsigned short common_type", "int common_pid"].iter().chain(fields);
        let fields: String = fields
            .map(|field| format!("\tfield:{field};\toffset:8;\tsize:4;\tsigned:1;\n"))
            .collect();
        self.file(&format!("{folder}/id"), &id.to_string())
            .file(&format!("{folder}/format"), &format!("name: x\nformat:\n{fields}"))
    }
}

const X86_FORMATS: [(&str, &str); 7] = [
    ("format/event", "config:0-7"),
    ("format/umask", "config:8-15"),
    ("format/edge", "config:18"),
    ("format/any", "config:21"),
    ("format/inv", "config:23"),
    ("format/cmask", "config:24-31"),
    ("format/ldlat", "config1:0-15"),
];

/// A machine without sysfs and tracefs.
pub(crate) fn bare() -> TestMachine {
    TestMachine::new()
}

/// A cloud VM: no core PMU.
pub(crate) fn vm() -> TestMachine {
    TestMachine::new()
        .pmu("software", 1, &[])
        .pmu("tracepoint", 2, &[])
        .pmu("breakpoint", 5, &[])
        .pmu(
            "msr",
            10,
            &[
                ("format/event", "config:0-63"),
                ("events/tsc", "event=0x00"),
                ("events/smi", "event=0x04"),
            ],
        )
        .tracepoint("raw_syscalls:sys_enter", 23, &["long id", "unsigned long args[6]"])
        .tracepoint("raw_syscalls:sys_exit", 22, &["long id", "long ret"])
        .tracepoint(
            "sched:sched_switch",
            316,
            &["char prev_comm[16]", "pid_t prev_pid", "char next_comm[16]", "pid_t next_pid"],
        )
        .tracepoint("sched:sched_wakeup", 318, &["char comm[16]", "pid_t pid"])
}

/// A server with two packages: PEBS, memory controllers, energy.
pub(crate) fn intel() -> TestMachine {
    let imc: Vec<_> = [
        ("cpumask", "0,28"),
        ("format/event", "config:0-7"),
        ("format/umask", "config:8-15"),
        ("events/cas_count_read", "event=0x04,umask=0x03"),
        ("events/cas_count_read.scale", "6.103515625e-5"),
        ("events/cas_count_read.unit", "MiB"),
        ("events/clockticks", "event=0xff"),
    ]
    .into();
    let cpu: Vec<_> = X86_FORMATS
        .into_iter()
        .chain([("caps/max_precise", "3"), ("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3")])
        .collect();
    let cha = [
        ("cpumask", "0"),
        ("format/event", "config:0-7"),
        ("format/slice", "config1:0-3"),
        ("events/lookups", "event=0x34,slice=?"),
    ];
    let power = [
        ("cpumask", "0,28"),
        ("format/event", "config:0-7"),
        ("events/energy-pkg", "event=0x02"),
        ("events/energy-pkg.scale", "2.3283064365386962890625e-10"),
        ("events/energy-pkg.unit", "Joules"),
    ];
    vm().pmu("cpu", 4, &cpu)
        .pmu("uncore_imc_0", 30, &imc)
        .pmu("uncore_imc_1", 31, &imc)
        .pmu(
            "uncore_imc_free_running_0",
            32,
            &[("cpumask", "0,28"), ("format/event", "config:0-7")],
        )
        .pmu("uncore_cha", 40, &cha)
        .pmu("power", 9, &power)
}

/// A laptop with two kinds of cores.
pub(crate) fn hybrid() -> TestMachine {
    let core: Vec<_> = X86_FORMATS
        .into_iter()
        .chain([("cpus", "0-7"), ("events/mem-stores", "event=0xcd,umask=0x2")])
        .collect();
    let atom: Vec<_> = X86_FORMATS
        .into_iter()
        .chain([("cpus", "8-15"), ("events/mem-stores", "event=0xd0,umask=0x6")])
        .collect();
    vm().pmu("cpu_core", 4, &core).pmu("cpu_atom", 8, &atom)
}

/// An arm64 server whose cores are all of one kind.
pub(crate) fn arm64() -> TestMachine {
    let files = [
        ("cpus", "0-63"),
        ("format/event", "config:0-15"),
        ("format/long", "config1:0"),
        ("events/cpu_cycles", "event=0x0011"),
        ("events/inst_retired", "event=0x0008"),
        ("events/l1d_cache_refill", "event=0x0003"),
    ];
    TestMachine::new().pmu("software", 1, &[]).pmu("armv8_pmuv3_0", 8, &files)
}

//! Plans of command lines on test machines (crates/tare/tests/golden/record_attr.txt), filters and targets.

use std::ffi::OsString;

use rustix::io::Errno;
use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags, ReadFormat};
use tare_kernel::fake::{Scripted, ScriptedAnswer};
use tare_kernel::host::Host;
use tare_kernel::open::EventTarget;
use tempfile::TempDir;

use tare_record::event_filter;
use tare_record::plan::{PlannedEvent, RecordPlan};

use super::wording;
use crate::cli::raw::{Tare, TareCommand};
use crate::cli::resolved::record::RecordOptions;
use crate::exit::Refusal;

const GOLDEN: &str = include_str!("../../../tests/golden/record_attr.txt");

/// A folder with a machine's files, and a scripted kernel.
struct TestMachine {
    root: TempDir,
    kernel: Scripted,
}

/// A kernel that refuses the events for which `fits` is true, and opens all others.
fn refusing(fits: impl Fn(&Attr, EventTarget) -> bool + 'static, errno: Errno) -> Scripted {
    Scripted::new().rule(fits, ScriptedAnswer::Refuse(errno))
}

impl TestMachine {
    /// A VM without hardware events, whose kernel refuses nothing else.
    fn vm() -> Self {
        let fits = |attr: &Attr, _| attr.kind == abi::PERF_TYPE_HARDWARE;
        let machine =
            Self { root: tempfile::tempdir().unwrap(), kernel: refusing(fits, Errno::NOENT) };
        machine
            .file("/sys/devices/system/cpu/online", "0-1")
            .file("/proc/sys/kernel/perf_event_max_sample_rate", "100000")
            .file("/proc/sys/kernel/perf_event_paranoid", "2")
            .pmu("software", 1, &[])
            .pmu("tracepoint", 2, &[])
            .tracepoint("raw_syscalls/sys_enter", 23, &["long id"])
            .tracepoint("sched/sched_switch", 316, &["pid_t prev_pid", "pid_t next_pid"])
    }

    /// Cores whose highest precision (`precise_ip`) is 2, with events for memory loads, and the
    /// memory controller of a package.
    fn intel() -> Self {
        let imprecise = |attr: &Attr, _| attr.precise_ip == 3;
        let machine = Self { kernel: refusing(imprecise, Errno::OPNOTSUPP), ..Self::vm() };
        let imc =
            [("cpumask", "0"), ("format/event", "config:0-7"), ("events/reads", "event=0x04")];
        machine
            .pmu("cpu", 4, &[("format/event", "config:0-7"), ("events/mem-loads", "event=0xcd")])
            .pmu("uncore_imc_0", 30, &imc)
    }

    /// Two kinds of cores.
    fn hybrid() -> Self {
        let machine = Self { kernel: Scripted::new(), ..Self::vm() };
        machine.pmu("cpu_core", 4, &[("cpus", "0")]).pmu("cpu_atom", 8, &[("cpus", "1")])
    }

    /// A kernel that refuses these flags and fields, which came after Linux 4.19.
    fn old() -> Self {
        let new = |attr: &Attr, _| {
            let flags = Flags::BUILD_ID
                | Flags::KSYMBOL
                | Flags::BPF_EVENT
                | Flags::CGROUP
                | Flags::DEFER_CALLCHAIN;
            let fields = abi::PERF_SAMPLE_WEIGHT_STRUCT | abi::PERF_SAMPLE_CGROUP;
            let group = attr.sample_type & u64::from(abi::PERF_SAMPLE_READ) != 0
                && attr.flags.contains(Flags::INHERIT);
            group
                || attr.flags.intersects(flags)
                || attr.read_format.contains(ReadFormat::LOST)
                || attr.sample_type & u64::from(fields) != 0
        };
        Self { kernel: refusing(new, Errno::INVAL), ..Self::vm() }
    }

    /// A kernel that refuses events of the kernel and of whole CPUs, as for an unprivileged user.
    fn unprivileged() -> Self {
        let kernel_side = |attr: &Attr, target| {
            !attr.flags.contains(Flags::EXCLUDE_KERNEL) || matches!(target, EventTarget::Cpu(_))
        };
        Self { kernel: refusing(kernel_side, Errno::ACCESS), ..Self::vm() }
    }

    fn named(name: &str) -> Self {
        match name {
            "vm" => Self::vm(),
            "intel" => Self::intel(),
            "hybrid" => Self::hybrid(),
            "old" => Self::old(),
            "unprivileged" => Self::unprivileged(),
            _ => panic!("no machine {name}"),
        }
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.root.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
        self
    }

    fn pmu(self, name: &str, kind: u32, files: &[(&str, &str)]) -> Self {
        let folder = format!("/sys/bus/event_source/devices/{name}");
        let machine = self.file(&format!("{folder}/type"), &kind.to_string());
        files
            .iter()
            .fold(machine, |machine, (file, text)| machine.file(&format!("{folder}/{file}"), text))
    }

    fn tracepoint(self, name: &str, id: u32, fields: &[&str]) -> Self {
        let folder = format!("/sys/kernel/tracing/events/{name}");
        let fields = ["int common_pid"]
            .iter()
            .chain(fields)
            .map(|field| format!("\tfield:{field};\toffset:8;\tsize:4;\tsigned:1;\n"));
        let format = format!("name: x\nformat:\n{}", fields.collect::<String>());
        self.file(&format!("{folder}/id"), &id.to_string())
            .file(&format!("{folder}/format"), &format)
    }

    fn plan(&self, line: &str) -> Result<RecordPlan, Refusal> {
        let words = shlex::split(line).unwrap().into_iter().map(OsString::from);
        let TareCommand::Record(raw) =
            Tare::parse_typed(words).unwrap_or_else(|error| panic!("{line}: {error}")).command
        else {
            panic!("{line}")
        };
        let host = Host::at(self.root.path());
        RecordPlan::new(&RecordOptions::resolve(*raw.0, &host)?.options, &host, &self.kernel)
            .map_err(|error| wording::plan_error(&error, &host))
    }
}

const FIELDS: [(&str, u32); 25] = [
    ("ip", abi::PERF_SAMPLE_IP),
    ("tid", abi::PERF_SAMPLE_TID),
    ("time", abi::PERF_SAMPLE_TIME),
    ("addr", abi::PERF_SAMPLE_ADDR),
    ("read", abi::PERF_SAMPLE_READ),
    ("callchain", abi::PERF_SAMPLE_CALLCHAIN),
    ("id", abi::PERF_SAMPLE_ID),
    ("cpu", abi::PERF_SAMPLE_CPU),
    ("period", abi::PERF_SAMPLE_PERIOD),
    ("stream_id", abi::PERF_SAMPLE_STREAM_ID),
    ("raw", abi::PERF_SAMPLE_RAW),
    ("branch_stack", abi::PERF_SAMPLE_BRANCH_STACK),
    ("regs_user", abi::PERF_SAMPLE_REGS_USER),
    ("stack_user", abi::PERF_SAMPLE_STACK_USER),
    ("weight", abi::PERF_SAMPLE_WEIGHT),
    ("data_src", abi::PERF_SAMPLE_DATA_SRC),
    ("identifier", abi::PERF_SAMPLE_IDENTIFIER),
    ("transaction", abi::PERF_SAMPLE_TRANSACTION),
    ("regs_intr", abi::PERF_SAMPLE_REGS_INTR),
    ("phys_addr", abi::PERF_SAMPLE_PHYS_ADDR),
    ("aux", abi::PERF_SAMPLE_AUX),
    ("cgroup", abi::PERF_SAMPLE_CGROUP),
    ("data_page_size", abi::PERF_SAMPLE_DATA_PAGE_SIZE),
    ("code_page_size", abi::PERF_SAMPLE_CODE_PAGE_SIZE),
    ("weight_struct", abi::PERF_SAMPLE_WEIGHT_STRUCT),
];

/// The fields that are not zero, without those that every event of a recording has; the fields of
/// samples by name.
fn shown(attr: &Attr) -> String {
    let always = Flags::WATERMARK | Flags::SAMPLE_ID_ALL;
    assert!(attr.flags.contains(always) && attr.wakeup == 0);
    let tracks = Flags::MMAP | Flags::MMAP2 | Flags::COMM | Flags::COMM_EXEC | Flags::TASK;
    let follows = attr.flags.contains(tracks);
    assert!(follows || !attr.flags.intersects(tracks));
    let usual = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING | ReadFormat::ID;
    assert!(attr.read_format.contains(usual));
    let monotonic = attr.flags.contains(Flags::USE_CLOCKID) && attr.clockid == 1;
    let rest = Attr {
        sample_type: 0,
        read_format: attr.read_format - usual,
        flags: attr.flags
            - always
            - tracks
            - if monotonic { Flags::USE_CLOCKID } else { Flags::empty() },
        clockid: if monotonic { 0 } else { attr.clockid },
        ..attr.clone()
    };
    let is_flag = |line: &str| {
        line.strip_suffix(" 1").is_some_and(|name| Flags::from_name(&name.to_uppercase()).is_some())
    };
    let part = |line: &str| {
        if is_flag(line) { line.trim_end_matches(" 1").to_owned() } else { line.to_owned() }
    };
    let mut parts: Vec<String> = rest.to_string().lines().map(part).collect();
    if follows {
        parts.push("tracks".to_owned());
    }
    let samples: Vec<&str> = FIELDS
        .iter()
        .filter(|(_, bit)| attr.sample_type & u64::from(*bit) != 0)
        .map(|(name, _)| *name)
        .collect();
    format!("{}; samples: {}", parts.join(", "), samples.join(" "))
}

fn outcome(machine: &str, line: &str) -> String {
    match TestMachine::named(machine).plan(line) {
        Err(refusal) => format!("  refused: {}\n", refusal.message),
        Ok(plan) => {
            let notes = plan
                .warnings
                .iter()
                .map(|warning| format!("  note: {}\n", wording::warning(warning)));
            let group = |planned: &PlannedEvent| {
                planned.leader.map_or_else(String::new, |leader| format!(", led by event {leader}"))
            };
            let cgroup = |planned: &PlannedEvent| {
                planned.cgroup.map_or_else(String::new, |cgroup| format!(", cgroup {cgroup}"))
            };
            let event = |one: &PlannedEvent| {
                format!(
                    "  {} (CPU {}, {:?}{}{}): {}\n",
                    one.event.name,
                    one.cpus,
                    one.start,
                    group(one),
                    cgroup(one),
                    shown(&one.attr)
                )
            };
            notes.chain(plan.events.iter().map(event)).collect()
        }
    }
}

#[test]
fn every_command_line_gives_its_attributes() {
    let mut now = String::new();
    let mut machine = "";
    let mut lines = 0;
    for line in GOLDEN.lines() {
        if let Some(name) = line.strip_prefix("@ ") {
            machine = name;
            now += &format!("{line}\n");
        } else if let Some(command) = line.strip_prefix("$ ") {
            now += &format!("{line}\n{}", outcome(machine, command));
            lines += 1;
        }
    }
    assert!(lines > 30);
    let expected: String = GOLDEN
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(now, expected, "what the command lines give now:\n{now}");
}

#[test]
fn filters_join_the_users_with_the_recorders_own() {
    let machine = TestMachine::vm();
    let plan = machine.plan("tare record -e sched:sched_switch --filter 'prev_pid == 0 || next_pid == 0' -e page-faults true").unwrap();
    let [switch, faults] = &plan.events[..] else { panic!("{plan}") };
    let filter = event_filter(switch, &[7]).unwrap().unwrap();
    assert_eq!(
        filter.to_str(),
        Ok("(prev_pid == 0 || next_pid == 0) && common_pid != 7 && next_pid != 7")
    );
    assert_eq!(event_filter(faults, &[7]).unwrap(), None);
    let scattered: Vec<i32> = (1..400).map(|number| number * 3).collect();
    assert!(event_filter(switch, &scattered).unwrap_err().to_string().contains("shorten it"));
}

#[test]
fn targets_are_cpus_and_what_of_them_is_recorded() {
    use tare_kernel::open::EventTarget::{CgroupOnCpu, Cpu, TaskOnCpu};
    let machine = TestMachine::vm();
    let of_tasks = machine.plan("tare record -p 1").unwrap();
    let places: Vec<_> = of_tasks.events[0].targets(&[5, 6], &[]).collect();
    assert_eq!(
        places,
        [(0, TaskOnCpu(5, 0)), (0, TaskOnCpu(6, 0)), (1, TaskOnCpu(5, 1)), (1, TaskOnCpu(6, 1))]
    );
    let of_cgroups = machine.plan("tare record -e cs,faults -G a,b -C 1").unwrap();
    let places: Vec<Vec<_>> =
        of_cgroups.events.iter().map(|event| event.targets(&[], &[8, 9]).collect()).collect();
    assert_eq!(places, [[(1, CgroupOnCpu(8, 1))], [(1, CgroupOnCpu(9, 1))], [(1, Cpu(1))]]);
}

#[test]
fn a_command_is_recorded_where_the_cpuset_lets_it_run() {
    let cgroups = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
    let machine = TestMachine::vm()
        .file("/sys/devices/system/cpu/online", "0-7")
        .file("/proc/self/mountinfo", cgroups);
    let machine = machine
        .file("/proc/self/cgroup", "0::/box/inner")
        .file("/sys/fs/cgroup/box/cpuset.cpus.effective", "2-3,9");
    let machine = machine
        .file("/sys/fs/cgroup/box/inner/cgroup.procs", "1")
        .file("/sys/fs/cgroup/cpuset.cpus.effective", "0-7");
    assert_eq!(machine.plan("tare record true").unwrap().events[0].cpus.to_string(), "2-3");
    assert_eq!(machine.plan("tare record -a true").unwrap().events[0].cpus.to_string(), "0-7");
    assert_eq!(machine.plan("tare record -p 1").unwrap().events[0].cpus.to_string(), "0-7");
}

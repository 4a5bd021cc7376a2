//! Tries each option of perf that docs/perf-options.md calls the same or accepted.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tare::cli::perf::{self, PerfOption, Support, ValueKind};

use crate::support::{is_root, status, stderr, tare};

/// A temporary folder.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs tare in a folder.
fn run(folder: &Path, words: &[&str]) -> Output {
    let mut tare = tare();
    tare.args(words).current_dir(folder).stdin(Stdio::null());
    tare.output().unwrap()
}

/// A temporary folder with perf.data of a shell that starts programs.
fn recording(name: &str) -> Scratch {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let folder = Scratch(folder);
    let line = "for i in 1 2 3 4 5 6 7 8; do /bin/true; done";
    let shell = ["-g", "-s", "--", "sh", "-c", line];
    let output = run(
        &folder.0,
        &[&["record", "--latency", "-e", "cpu-clock", "-F4000"], &shell[..]].concat(),
    );
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    folder
}

/// Arguments of options; a command before the name limits the entry to it. `pid` and `tid` get this
/// process's id, and all others 10.
const VALUES: [(&str, &str); 70] = [
    ("annotate cpu", "0"),
    ("annotate symbol", "main"),
    ("disassembler-style", "intel"),
    ("percent-type", "global-hits"),
    ("unit", "msr"),
    ("trace event", "openat"),
    ("expr", "openat"),
    ("pf", "all"),
    ("trace pid", "1"),
    ("trace call-graph", "fp"),
    ("report field-separator", ";"),
    ("column-widths", "8,10"),
    ("parent", "main"),
    ("ignore-callees", "main"),
    ("percentage", "relative"),
    ("socket-filter", "0"),
    ("switch-on", "cpu-clock"),
    ("switch-off", "cpu-clock"),
    ("time-quantum", "10ms"),
    ("group-sort-idx", "0"),
    ("report fields", "overhead,comm"),
    ("script fields", "comm,tid,time"),
    ("report call-graph", "caller,0.5"),
    ("record call-graph", "fp"),
    ("top call-graph", "dwarf"),
    ("top fields", "overhead,comm"),
    ("top cpu", "0"),
    ("top count", "1000000000000"),
    ("script cpu", "0"),
    ("record cpu", "0"),
    ("report cpu", "0,1"),
    ("symbol-filter", "a"),
    ("stat cpu", "0"),
    ("script pid", "1"),
    ("script tid", "1"),
    ("script time", "1,2"),
    ("report time", "10%-90%"),
    ("comms", "sh,true"),
    ("dsos", "sh"),
    ("symbols", "main"),
    ("input", "perf.data"),
    ("kallsyms", "/proc/kallsyms"),
    ("percent-limit", "1"),
    ("sort", "comm,dso"),
    ("symfs", "/"),
    ("vmlinux", "/nonexistent"),
    ("max-stack", "3"),
    ("stop-bt", "main"),
    ("cgroup", "/"),
    ("for-each-cgroup", "/"),
    ("clockid", "mono"),
    ("branch-filter", "any"),
    ("control", "fd:0"),
    ("count", "1000000"),
    ("delay", "1"),
    ("event", "cpu-clock"),
    ("filter", "prev_pid!=0"),
    ("freq", "99"),
    ("max-size", "10M"),
    ("metrics", "CPUs_utilized"),
    ("mmap-pages", "8"),
    ("output", "other"),
    ("realtime", "1"),
    ("synth", "no"),
    ("uid", "root"),
    ("field-separator", ","),
    ("log-fd", "2"),
    ("post", "true"),
    ("pre", "true"),
    ("timeout", "1000"),
];

/// Options that an option requires before it.
const BEFORE: [(&str, &[&str]); 16] = [
    ("trace summary", &[]),
    ("interval-clear", &["-I", "10"]),
    ("record cgroup", &["-e", "cpu-clock"]),
    ("filter", &["-e", "sched:sched_switch"]),
    ("strict-freq", &["-F", "99"]),
    ("switch-max-files", &["--switch-output=1G"]),
    ("append", &["-o", "counts.txt"]),
    ("stat cgroup", &["-a", "-e", "cpu-clock"]),
    ("interval-count", &["-I", "10"]),
    ("stat per-thread", &["-p", "1", "--timeout", "20"]),
    ("no-csv-summary", &["-x,", "-I10", "--summary"]),
    ("summary", &["-I", "10"]),
    ("table", &["-r", "2"]),
    ("addr-range", &["-S", "0x4007a0"]),
    ("annotate prefix-strip", &["--prefix", "/"]),
    ("off-cpu-thresh", &["--off-cpu"]),
];

/// Options that may fail on this machine, but not as a usage error.
const OF_MACHINES: [&str; 12] = [
    "branch-any",
    "branch-filter",
    "buildid-mmap",
    "cgroup",
    "for-each-cgroup",
    "phys-data",
    "realtime",
    "symbol",
    "transaction",
    "unit",
    "vmlinux",
    "weight",
];

/// Looks up an option in a list, by command and option or by option alone.
fn find_option<T: Copy>(list: &[(&str, T)], command: &str, name: &str) -> Option<T> {
    let here = format!("{command} {name}");
    list.iter().find(|(what, _)| *what == here || *what == name).map(|(_, found)| *found)
}

/// The command line that tries an option.
fn trial(command: &str, option: &PerfOption, letter: bool) -> Vec<String> {
    let name = option.long.unwrap_or("g");
    let mut words = vec![command.to_owned()];
    let before = find_option(&BEFORE, command, name).unwrap_or_default();
    words.extend(before.iter().map(|&word| word.to_owned()));
    words.push(match option.short.filter(|_| letter) {
        Some(short) => format!("-{short}"),
        None => option.typed(),
    });
    let own_id = std::process::id().to_string();
    let own_id = ["pid", "tid"].contains(&name).then_some(own_id.as_str());
    if option.value == ValueKind::Required {
        words.push(find_option(&VALUES, command, name).or(own_id).unwrap_or("10").to_owned());
    }
    let then: &[&str] = match name {
        "tui" => &["--stdio"],
        "per-cache" | "per-cluster" | "per-core" | "per-die" | "per-node" | "per-socket"
        | "no-aggr" => &["-a"],
        _ => &[],
    };
    words.extend(then.iter().map(|&word| word.to_owned()));
    if command == "top" {
        words.extend(["--timeout", "60"].map(str::to_owned));
        words.extend((!["stdio", "tui"].contains(&name)).then(|| "--stdio".to_owned()));
        // A low rate, because a screen of the whole machine reads the kernel's symbols first.
        let is_of_rates = ["count", "freq"].contains(&name);
        words.extend((!is_of_rates).then(|| "-c1000000000000".to_owned()));
    }
    if ["record", "stat", "trace"].contains(&command) {
        words.extend(["--", "true"].map(str::to_owned));
    }
    words
}

fn each_same_option_runs(command: &str) {
    if !is_root() {
        return;
    }
    let folder = recording(&format!("perf_options_{command}"));
    let there = |option: &PerfOption| option.state == Support::Same || option.is_accepted();
    for option in perf::options(command).filter(there) {
        for letter in [false, true].into_iter().take(1 + usize::from(option.short.is_some())) {
            if (command, option.long) == ("trace", Some("input")) {
                continue; // It reads recordings of `trace --data`, which have no other option.
            }
            let words = trial(command, &option, letter);
            let output = run(&folder.0, &words.iter().map(String::as_str).collect::<Vec<_>>());
            let said = stderr(&output);
            if OF_MACHINES.contains(&option.long.unwrap_or_default()) {
                assert_ne!(status(&output), 2, "{words:?}: {said}");
            } else {
                assert_eq!(status(&output), 0, "{words:?}: {said}");
            }
            let has_message = option.message().is_some_and(|message| said.contains(message));
            assert_eq!(has_message, option.message().is_some(), "{words:?}: {said}");
        }
    }
}

#[test]
fn each_option_of_report_that_is_perfs_runs() {
    each_same_option_runs("report");
}

#[test]
fn each_option_of_script_that_is_perfs_runs() {
    each_same_option_runs("script");
}

#[test]
fn each_option_of_record_that_is_perfs_runs() {
    each_same_option_runs("record");
}

#[test]
fn each_option_of_stat_that_is_perfs_runs() {
    each_same_option_runs("stat");
}

#[test]
fn each_option_of_annotate_that_is_perfs_runs() {
    each_same_option_runs("annotate");
}

#[test]
fn each_option_of_list_that_is_perfs_runs() {
    each_same_option_runs("list");
}

#[test]
fn each_option_of_trace_that_is_perfs_runs() {
    each_same_option_runs("trace");
}

#[test]
fn each_option_of_top_that_is_perfs_runs() {
    each_same_option_runs("top");
}

/// What people type from habit of `perf trace`, `perf sched` and `perf lock`, with a part of what
/// tare prints: the result.
const WORKING: [(&str, &str); 25] = [
    ("trace -S true", "execve("),
    ("trace --with-summary true", "total ms"),
    ("trace -e epoll_* true", "+++ exited with 0 +++"),
    ("trace -e !mmap,brk true", "execve("),
    ("trace --duration 0 true", "execve("),
    ("trace --call-graph fp true", " > "),
    ("trace --call-graph=dwarf true", " > "),
    ("trace --max-events 1 true", "execve("),
    ("trace -s --errno-summary ls /nonexistent", "ENOENT"),
    ("trace --no-syscalls true", "+++ exited with 0 +++"),
    ("trace --no-syscalls -e sched:sched_process_exit true", "sched:sched_process_exit"),
    ("trace --no-comm true", "execve("),
    ("trace --force-btf true", "execve("),
    ("trace -m 4096 true", "`--ring-size SIZE`"),
    ("trace -F all --no-syscalls true", "minor-fault {"),
    ("trace record -o trace.data true", "trace.data"),
    ("trace -i trace.data", "openat(AT_FDCWD, "),
    ("sched record -o sched.data sleep 0.01", "sched.data"),
    ("sched latency -i sched.data", "task"),
    ("sched timehist -i sched.data", "task name"),
    ("sched map --compact -i sched.data", " secs A0 => "),
    ("sched script -i sched.data", "sched:sched_switch"),
    ("lock record -o lock.data true", "lock.data"),
    ("lock report -i lock.data", "total ms"),
    ("lock contention -i lock.data", "total ms"),
];

/// The same, with a part of the answer: the line to type instead.
const ANSWERED: [(&str, &str); 14] = [
    ("trace -C 0 true", "`tare trace -p PID`"),
    ("trace --cpu 0 true", "`tare trace -p PID`"),
    ("trace -t 1", "`-p PID`"),
    ("trace --tid 1", "`-p PID`"),
    ("trace -u root true", "`tare trace -p $(pgrep -d, -u USER)`"),
    ("trace -D 100 true", "`tare trace -p PID`"),
    ("trace -G / true", "`tare trace -s -a --per-cgroup`"),
    ("trace -e write --filter count>9 true", "`tare record -e EVENT --filter EXPR`"),
    ("trace --filter-pids 1 true", "`-p`"),
    ("trace --summary-mode=thread -s true", "`-s --per-thread`"),
    ("trace --max-summary 4 -s true", "`tare trace -s -o FILE CMD`"),
    ("sched replay", "tare doesn't replay recorded tasks"),
    ("sched stats", "`tare sched -a`"),
    ("lock info", "`tare lock --stacks`"),
];

#[test]
fn tracing_commands_of_perf_work_or_are_answered_with_the_line_to_type() {
    if !crate::trace::can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |line: &str| {
        let output = run(folder.path(), &line.split(' ').collect::<Vec<_>>());
        let text = format!("{}{}", stderr(&output), String::from_utf8_lossy(&output.stdout));
        (status(&output), text)
    };
    for (line, part) in WORKING {
        let (status, text) = run(line);
        assert!(status != 127 && !text.contains("is not supported"), "{line}: {text}");
        assert!(text.contains(part), "{line}: {status} {text}");
    }
    for (line, part) in ANSWERED {
        let (status, text) = run(line);
        assert!(status == 2 && text.lines().count() == 1, "{line}: {status} {text}");
        assert!(text.contains(part), "{line}: {text}");
    }
}

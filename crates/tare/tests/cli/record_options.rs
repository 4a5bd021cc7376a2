//! `tare record` with each of its options: perf reads the recording, and finds as many samples as the ledger says.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{is_root, stderr, tare};

/// Some milliseconds of work, system calls and children.
const WORK: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; /bin/true; /bin/true"];

/// Runs perf on a recording: its stdout.
fn perf(args: &[&str], file: &Path) -> String {
    let output = Command::new("perf").args(args).arg("-i").arg(file).stdin(Stdio::null()).output().expect("perf is there");
    let empty = stderr(&output).contains("has no samples");
    assert!(output.status.success() || empty, "perf {args:?}: {}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What the ledger's line says: `1,234 samples in 0.1 s`.
fn samples_of_ledger(text: &str) -> usize {
    let line = text.lines().find_map(|line| line.split_once(" samples").map(|(before, _)| before)).unwrap_or_else(|| panic!("no ledger: {text}"));
    line.rsplit(' ').next().unwrap_or_default().replace(',', "").parse().unwrap()
}

/// Samples by `perf report --stats`.
fn samples_of_stats(file: &Path) -> usize {
    let text = perf(&["report", "--stats"], file);
    let line = text.lines().find(|line| line.contains(" SAMPLE events:"));
    line.map_or(0, |line| line.split_whitespace().nth(2).unwrap_or_default().parse().unwrap())
}

/// Samples by `perf script`, which shows each in a line.
fn samples_of_script(file: &Path) -> usize {
    perf(&["script", "-F", "comm,tid,event"], file).lines().filter(|line| !line.trim().is_empty()).count()
}

/// Whether recordings can be made and checked here.
fn ready() -> bool {
    let there = Command::new("perf").arg("--version").output().is_ok();
    if !there {
        println!("skipped: there is no perf to read recordings");
    }
    there && is_root()
}

/// Records with these options, a command of its own where they name none, and has perf read what came out.
fn check(options: &str, command: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let options_typed = shlex::split(options).unwrap();
    let output = tare().arg("record").arg("-o").arg(folder.path().join("perf.data")).args(&options_typed).args(command).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "tare record {options}: {said}");
    let mut files: Vec<PathBuf> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{options}");
    let in_ledger = samples_of_ledger(&said);
    let by_stats: usize = files.iter().map(|file| samples_of_stats(file)).sum();
    assert_eq!(by_stats, in_ledger, "tare record {options}: {said}");
    let may_have_none = ["-n", "mem:0x1000:w", "-u"].iter().any(|word| options_typed.iter().any(|typed| typed == word));
    assert!(in_ledger > 0 || may_have_none, "tare record {options}: {said}");
    let by_script: usize = files.iter().map(|file| samples_of_script(file)).sum();
    // perf shows a group's sample once for each member that went on.
    assert!(by_script == in_ledger || options.contains(":S") && by_script >= in_ledger, "{options}: {by_script} {in_ledger}");
    for file in &files {
        perf(&["report", "--stdio"], file);
        assert!(perf(&["report", "--header-only"], file).contains("# cmdline"), "{options}");
    }
}

/// Each with some dozen samples of the command.
fn check_all(options: &[&str]) {
    if ready() {
        options.iter().for_each(|options| check(options, &WORK));
    }
}

#[test]
fn rates_and_call_chains() {
    check_all(&[
        "",
        "-F 4000 --strict-freq",
        "-F max",
        "-c 100000 -g",
        "-n",
        "-c 100000 --call-graph dwarf",
        "-c 100000 --call-graph dwarf,1024 --user-callchains",
        "-c 100000 --no-call-graph",
        "-c 100000 --kernel-callchains --all-kernel",
        "-c 100000 --user-callchains --all-user",
    ]);
}

#[test]
fn what_samples_hold() {
    check_all(&[
        "-c 100000 -d --phys-data --data-page-size --code-page-size -W --transaction",
        "-c 100000 --user-regs -T -P --sample-cpu -R",
        "-c 100000 --intr-regs",
        "-c 100000 -k raw",
        "-c 100000 -k real",
        "-c 100000 --clockid boot",
        "-c 100000 -k tai",
        "-c 100000 -k perf",
        "-e page-faults -c 1 -d",
        "-e page-faults -c 3 -P",
    ]);
}

#[test]
fn what_is_recorded_beside_samples() {
    check_all(&[
        "-c 100000 -s",
        "-c 100000 --switch-events",
        "-c 100000 --namespaces --all-cgroups",
        "-c 100000 --buildid-mmap",
        "-c 100000 --no-bpf-event -B -N --proc-map-timeout 100",
        "-c 100000 --tail-synthesize",
        "-c 100000 --synth=no",
        "-c 100000 --synth=task,cgroup",
    ]);
}

#[test]
fn several_events() {
    check_all(&[
        "-e cpu-clock,page-faults,cs",
        "-e '{cpu-clock,page-faults}'",
        "-e '{cpu-clock,page-faults,cs}:S' -F 4000",
        "-e cs/time=0/,cpu-clock",
        "-e cs/no-inherit/,faults",
        "-e cpu-clock/call-graph=no/,faults/call-graph=dwarf,stack-size=1024/,cs/max-stack=5/",
        "-e cpu-clock/freq=2000/,faults/period=3,name=three/",
        "-e mem:0x1000:w",
    ]);
}

#[test]
fn tracepoints() {
    check_all(&[
        "-e raw_syscalls:sys_enter,raw_syscalls:sys_exit",
        "-e raw_syscalls:sys_enter -g",
        "-a -e 'raw_syscalls:*,sched:sched_switch'",
        "-a --include-self -e sched:sched_switch",
        "-e raw_syscalls:sys_enter --filter 'id == 1 || id == 0' --exclude-perf",
        "-e sched:sched_switch -F 999",
    ]);
}

#[test]
fn where_and_when() {
    check_all(&["-a", "-C 0", "-c 100000 -i", "-c 100000 -D 1", "-F 99 -u 0"]);
    if !ready() {
        return;
    }
    let mut spinning = Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn().unwrap();
    for option in ["-p", "-t", "-C 0 -p"] {
        check(&format!("--timeout 100 {option} {}", spinning.id()), &[]);
    }
    spinning.kill().unwrap();
    spinning.wait().unwrap();
}

#[test]
fn rings_and_output() {
    check_all(&[
        "-c 100000 -m 4",
        "-c 100000 -m 64K -r 5",
        "-c 100000 -z",
        "-c 100000 -z9 --flush-interval 2",
        "-c 100000 --max-size 100M --sync",
        "-c 100000 --output-path=write",
        "-c 100000 --output-path=mmap --out-pages 1M",
        "-c 100000 --output-path=auto --timestamp-filename",
        "-c 100000 --switch-output=1G --switch-max-files 2",
        "-c 100000 -v --overwrite",
        "-c 100000 --keep-last 5",
        "-e cs/overwrite/,cpu-clock",
    ]);
}

#[test]
fn cgroups() {
    if !ready() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tried = tare().args(["record", "-q", "-G", "/", "-o"]).arg(folder.path().join("perf.data")).arg("true").output().unwrap();
    if !tried.status.success() {
        return println!("skipped: cgroups can't be recorded here: {}", stderr(&tried));
    }
    check("-G /", &WORK);
    check("-e cs,faults -G /,/", &WORK);
}

/// What the machine lacks is refused with the remedy, and nothing is written.
#[test]
fn refusals_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for (options, says) in [("-b -e cpu-clock", "leave out -b"), ("--call-graph lbr -e cpu-clock", "leave out -b"), ("-e nonsense", "no event here")]
    {
        let output = tare().arg("record").args(options.split(' ')).arg("true").current_dir(folder.path()).output().unwrap();
        assert!(!output.status.success() && stderr(&output).contains(says), "{options}: {}", stderr(&output));
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

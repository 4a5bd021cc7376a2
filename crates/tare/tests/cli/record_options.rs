//! `tare record` with its options: tare and perf read the recording and find as many
//! samples as the ledger states; perf also copies it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::{
    ProcessGuard, document, is_root, left_out, sh, status, stderr, tare, until_it_ran,
};

/// Some work with system calls and children.
const WORK: [&str; 3] =
    ["sh", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; /bin/true; /bin/true"];

/// Runs perf on a recording and returns its stdout.
fn perf(args: &[&str], file: &Path) -> String {
    let output = Command::new("perf")
        .args(args)
        .arg("-i")
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .expect("perf is there");
    let empty = stderr(&output).contains("has no samples");
    assert!(output.status.success() || empty, "perf {args:?}: {}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The number in the ledger's line: `1,234 samples in 0.1 s`.
fn samples_of_ledger(text: &str) -> usize {
    let line = text
        .lines()
        .find_map(|line| line.split_once(" sample").map(|(before, _)| before))
        .unwrap_or_else(|| panic!("no ledger: {text}"));
    line.rsplit(' ').next().unwrap_or_default().replace(',', "").parse().unwrap()
}

/// Runs tare on a recording and returns its output.
fn own(args: &[&str], file: &Path) -> Output {
    let output = tare().args(args).arg("-i").arg(file).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "tare {args:?}: {}", stderr(&output));
    output
}

/// The number of samples according to `tare report --stats`.
fn samples_of_own_stats(file: &Path) -> usize {
    samples_of_stats(&String::from_utf8_lossy(&own(&STATS, file).stdout))
}

/// The number of samples that `tare script` prints or reports as left out.
fn samples_of_own_script(file: &Path) -> usize {
    let output = own(&SCRIPT, file);
    samples_of_script(&String::from_utf8_lossy(&output.stdout)) + left_out(&output)
}

/// Parses the number of samples that `report --stats` prints.
fn samples_of_stats(text: &str) -> usize {
    let line = text.lines().find(|line| line.contains(" SAMPLE events:"));
    line.map_or(0, |line| line.split_whitespace().nth(2).unwrap_or_default().parse().unwrap())
}

/// Counts the samples that `script` prints, one per line.
fn samples_of_script(text: &str) -> usize {
    text.lines().filter(|line| !line.trim().is_empty()).count()
}

/// Whether this machine can make and check recordings.
fn ready() -> bool {
    let there = Command::new("perf").arg("--version").output().is_ok();
    if !there {
        println!("skipped: there is no perf to read recordings");
    }
    there && is_root()
}

const SCRIPT: [&str; 3] = ["script", "-F", "comm,tid,event"];
const STATS: [&str; 2] = ["report", "--stats"];

/// The number of samples in `perf inject`'s copy.
fn samples_of_copy(file: &Path) -> usize {
    let copy = file.with_extension("copy");
    perf(&["inject", "-o", copy.to_str().unwrap()], file);
    let samples = samples_of_stats(&perf(&STATS, &copy));
    std::fs::remove_file(copy).unwrap();
    samples
}

/// Records a command with these options, and checks what perf and tare read.
fn check(options: &str, command: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let options_typed = shlex::split(options).unwrap();
    let output = tare()
        .arg("record")
        .arg("-o")
        .arg(folder.path().join("perf.data"))
        .args(&options_typed)
        .args(command)
        .output()
        .unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "tare record {options}: {said}");
    let mut files: Vec<PathBuf> =
        folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{options}");
    let in_ledger = samples_of_ledger(&said);
    let sum = |count: &dyn Fn(&Path) -> usize| files.iter().map(|file| count(file)).sum::<usize>();
    assert_eq!(
        sum(&|file| samples_of_stats(&perf(&STATS, file))),
        in_ledger,
        "tare record {options}: {said}"
    );
    assert_eq!(sum(&samples_of_own_stats), in_ledger, "tare report, tare record {options}: {said}");
    let may_have_none = ["-n", "mem:0x1000:w", "-u"]
        .iter()
        .any(|word| options_typed.iter().any(|typed| typed == word));
    assert!(in_ledger > 0 || may_have_none, "tare record {options}: {said}");
    assert!(
        in_ledger == 0 || sum(&samples_of_copy) == in_ledger,
        "perf inject, tare record {options}: {said}"
    );
    let by_script = sum(&|file| samples_of_script(&perf(&SCRIPT, file)));
    // script prints a group's sample once per member that counted on, but counts left-out samples
    // once.
    let by_own_script = sum(&samples_of_own_script);
    assert!(
        by_own_script == by_script || options.contains(":S") && by_own_script <= by_script,
        "{options}: {by_own_script} {by_script}: {said}"
    );
    assert!(
        by_script == in_ledger || options.contains(":S") && by_script >= in_ledger,
        "{options}: {by_script} {in_ledger}"
    );
    for file in &files {
        perf(&["report", "--stdio"], file);
        assert!(perf(&["report", "--header-only"], file).contains("# cmdline"), "{options}");
    }
}

/// Checks all options, two at a time.
fn check_all(options: &[&str]) {
    if !ready() {
        return;
    }
    let (first, second) = options.split_at(options.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| first.iter().for_each(|options| check(options, &WORK)));
        second.iter().for_each(|options| check(options, &WORK));
    });
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
    let spinning = ProcessGuard::spawn(Command::new("taskset").args([
        "-c",
        "0",
        "sh",
        "-c",
        "while :; do :; done",
    ]));
    // Beside other loops the process may wait for its CPU for longer than any short time.
    let until_it_ran = until_it_ran(spinning.id());
    for option in ["-p", "-t", "-C 0 -p"] {
        check(&format!("{option} {}", spinning.id()), &["sh", "-c", &until_it_ran]);
    }
}

/// Without call chains, which perf prints for a stream even if they weren't requested.
const RECORD: &str = "\"$TARE\" record -e cpu-clock -c 100000 --no-call-graph";

/// tare reads the recording from stdin and from its file. perf reads it from stdin, and copies it,
/// unless it is compressed: perf 6.1 fails on small compressed
/// streams, including its own, with `Couldn't decompress data`.
fn check_stream(stream: &Path, in_ledger: usize, is_compressed: bool) {
    let read = |reader: &str, words: &[&str]| {
        let output = Command::new(reader)
            .args(words)
            .args(["-i", "-"])
            .stdin(File::open(stream).unwrap())
            .output()
            .unwrap();
        assert!(output.status.success(), "{reader} {words:?}: {}", stderr(&output));
        output
    };
    let readers = [env!("CARGO_BIN_EXE_tare"), "perf"];
    for reader in readers.into_iter().take(if is_compressed { 1 } else { 2 }) {
        assert_eq!(
            samples_of_stats(&String::from_utf8_lossy(&read(reader, &STATS).stdout)),
            in_ledger,
            "{reader}"
        );
        let script = read(reader, &SCRIPT);
        assert_eq!(
            samples_of_script(&String::from_utf8_lossy(&script.stdout)) + left_out(&script),
            in_ledger,
            "{reader}"
        );
    }
    assert_eq!(samples_of_own_script(stream), in_ledger);
    if is_compressed {
        return;
    }
    let copy = stream.with_extension("copy");
    read("perf", &["inject", "-o", copy.to_str().unwrap()]);
    assert_eq!(samples_of_stats(&perf(&STATS, &copy)), in_ledger, "perf inject");
}

#[test]
fn streams() {
    if !ready() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let [fifo, saved, work] = [
        path("fifo").display().to_string(),
        path("saved").display().to_string(),
        shlex::try_join(WORK).unwrap(),
    ];
    for line in [
        format!("{RECORD} -o - -- {work} >{saved}"),
        format!("{RECORD} -z -o - -- {work} | cat >{saved}"),
        format!("mkfifo {fifo}; cat {fifo} >{saved} & {RECORD} -o {fifo} -- {work}; wait"),
    ] {
        let done = Command::new("sh")
            .args(["-c", &line])
            .env("TARE", env!("CARGO_BIN_EXE_tare"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let in_ledger = samples_of_ledger(&stderr(&done));
        assert!(done.status.success() && in_ledger > 0, "{line}: {}", stderr(&done));
        check_stream(&path("saved"), in_ledger, line.contains(" -z "));
    }
}

#[test]
fn a_command_switches_its_own_recording() {
    if !ready() {
        return;
    }
    let fifo = tempfile::tempdir().unwrap();
    let orders = fifo.path().join("orders");
    assert!(sh(&format!("mkfifo {}", orders.display())).status.success());
    let line = format!(
        "exec 3<>{}; echo enable >&3; sleep 0.2; {}; echo disable >&3; sleep 0.2",
        orders.display(),
        WORK[2]
    );
    check(&format!("-c 100000 -D -1 --control fifo:{}", orders.display()), &["sh", "-c", &line]);
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
    let tried = tare()
        .args(["record", "-q", "-G", "/", "-o"])
        .arg(folder.path().join("perf.data"))
        .arg("true")
        .output()
        .unwrap();
    if !tried.status.success() {
        return println!("skipped: cgroups can't be recorded here: {}", stderr(&tried));
    }
    check("-G /", &WORK);
    check("-e cs,faults -G /,/", &WORK);
}

/// Options that the event doesn't support and unknown events are refused, and no file is written.
#[test]
fn refusals_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for (options, says) in [
        ("-b -e cpu-clock", "leave out -b"),
        ("--call-graph lbr -e cpu-clock", "leave out -b"),
        ("-e nonsense", "unknown event"),
    ] {
        let output = tare()
            .arg("record")
            .args(options.split(' '))
            .arg("true")
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(
            !output.status.success() && stderr(&output).contains(says),
            "{options}: {}",
            stderr(&output)
        );
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

/// Linux 6.12 and later sample inherited groups; each thread then has its own counts.
#[test]
fn samples_of_an_inherited_group_have_periods_that_fit_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let mut record = tare();
    record.args(["record", "-q", "-F", "2000", "-e", "{cpu-clock,page-faults}:S", "-o"]).arg(&file);
    let work = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    record.args(["--", "sh", "-c", &format!("({work})& ({work})& ({work})& wait")]);
    let output = record.output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    let output = tare().args(["report", "--json", "-i"]).arg(&file).output().unwrap();
    let document = document(&output);
    let recorded = document["ledger"]["recorded_ns"].as_u64().unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    let clock = document["events"].as_array().unwrap().iter();
    let mut clock = clock.filter(|event| event["event"].as_str().unwrap().contains("cpu-clock"));
    let sampled = clock.next().unwrap()["period"].as_u64().unwrap();
    assert!(sampled > 0 && sampled <= recorded * cpus, "{sampled} of {recorded} x {cpus}");
    assert_eq!(document["loss"]["decreased_counts"], 0, "{document}");
}

#[test]
fn a_dry_run_prints_each_field_on_a_line() {
    let output = tare().args(["record", "--dry-run", "-e", "cpu-clock", "true"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line == "sample_freq 999"), "{text}");
}

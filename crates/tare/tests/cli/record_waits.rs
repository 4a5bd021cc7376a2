//! `tare record --off-cpu` of disks, pipelines, cgroups and whole machines, and by perf events
//! where BPF programs can't be loaded.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;

use crate::blocked::{BlockedTimes, stolen_ns};
use crate::support::{
    ProcessGuard, document, is_root, sh, status, stderr, tare, wait_until, workload,
};
use crate::trace::can_trace;

const TARE: &str = env!("CARGO_BIN_EXE_tare");

/// The report's document; an empty one if there are no samples.
fn report(file: &Path) -> Value {
    let output =
        tare().args(["report", "--json", "--no-children", "-i"]).arg(file).output().unwrap();
    if stderr(&output).contains("there are no samples") {
        return serde_json::json!({ "events": [], "ledger": { "recorded_ns": 0 } });
    }
    assert_eq!(status(&output), 0, "{output:?}");
    document(&output)
}

/// The entries of off-CPU time.
fn entries(document: &Value) -> impl Iterator<Item = &Value> {
    let mut events = document["events"].as_array().unwrap().iter();
    let event = events.find(|event| event["event"] == "offcpu-time");
    event.into_iter().flat_map(|event| event["entries"].as_array().unwrap())
}

/// Nanoseconds of a program's waits for this reason.
fn waited(document: &Value, comm: &str, reason: &str) -> u64 {
    let symbol = format!("off-CPU ({reason})");
    entries(document)
        .filter(|entry| entry["comm"] == comm && entry["symbol"] == symbol.as_str())
        .map(|entry| entry["own"]["period"].as_u64().unwrap())
        .sum()
}

fn recorded_ns(document: &Value) -> u64 {
    document["ledger"]["recorded_ns"].as_u64().unwrap()
}

/// Compares the recorded waits for a reason, of which there were `waits`, with the times that the
/// workload measured. `stolen_before` is [`stolen_ns`] before the recording.
fn compare_waits(
    document: &Value,
    reason: &str,
    times: BlockedTimes,
    waits: u64,
    stolen_before: u64,
) -> Result<(), String> {
    let recorded = waited(document, "blocked", reason);
    let queued = waited(document, "blocked", "run queue");
    let least = times.least_off_cpu(waits, stolen_ns() - stolen_before);
    if recorded <= times.waited + times.tolerance(waits) && recorded + queued >= least {
        return Ok(());
    }
    Err(format!("{reason}: {recorded} and {queued} queued, at least {least} of {times:?}"))
}

/// Tries a measurement up to five times: a machine that stalls for a moment spoils one try, but a
/// mistake in tare spoils all of them.
fn tries(is_right: impl Fn() -> Result<(), String>) -> Result<(), String> {
    let mut last = is_right();
    for _ in 1..5 {
        if last.is_ok() {
            break;
        }
        last = is_right();
    }
    last
}

fn one_of_five(is_right: impl Fn() -> Result<(), String>) {
    let found = tries(is_right);
    assert!(found.is_ok(), "{found:?}");
}

/// A loop device whose reads are slow for the tasks of a cgroup. Device and cgroup are removed on
/// drop.
struct SlowDisk {
    _image: tempfile::NamedTempFile,
    device: PathBuf,
    cgroup: PathBuf,
}

impl SlowDisk {
    /// If it can't be made, prints the reason and returns `None`.
    fn new(bytes_a_second: u64) -> Option<Self> {
        let said = |why: String| println!("skipped: no disk with slow reads: {why}");
        if !is_root() {
            return None;
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let Some((mount, file, word)) = throttling(&mounts) else {
            said("no cgroup has the controller blkio or io".to_owned());
            return None;
        };
        let image = tempfile::NamedTempFile::new().unwrap();
        fs::write(image.path(), vec![7; 4 << 20]).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(image.path()).output();
        let Some(made) = made.ok().filter(|made| made.status.success()) else {
            said("no loop device".to_owned());
            return None;
        };
        let device = PathBuf::from(String::from_utf8_lossy(&made.stdout).trim());
        let cgroup = mount.join(format!("tare-test-slow-{}", std::process::id()));
        let disk = Self { _image: image, device, cgroup };
        let number = fs::metadata(&disk.device).unwrap().rdev();
        let major = rustix::fs::major(number);
        let minor = rustix::fs::minor(number);
        let limit = format!("{major}:{minor} {word}{bytes_a_second}");
        let limited =
            fs::create_dir(&disk.cgroup).and_then(|()| fs::write(disk.cgroup.join(file), &limit));
        if let Err(error) = limited {
            said(format!("{}: {error}", disk.cgroup.join(file).display()));
            return None;
        }
        Some(disk)
    }
}

/// The mount of the cgroup controller that limits disks, its file, and the prefix of the limit
/// there.
fn throttling(mounts: &str) -> Option<(PathBuf, &'static str, &'static str)> {
    let find = |kind: &str, option: &str| {
        let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let line = lines.find(|words| words[2] == kind && words[3].contains(option))?;
        Some(PathBuf::from(line[1]))
    };
    if let Some(first) = find("cgroup", "blkio") {
        return Some((first, "blkio.throttle.read_bps_device", ""));
    }
    let second = find("cgroup2", "")?;
    let given = fs::read_to_string(second.join("cgroup.subtree_control")).ok()?;
    given.split_whitespace().any(|name| name == "io").then_some((second, "io.max", "rbps="))
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
        let _ = fs::remove_dir(&self.cgroup);
    }
}

#[test]
fn waits_for_a_slow_disk_are_those_that_the_program_knows() {
    if !can_trace() {
        return;
    }
    let Some(disk) = SlowDisk::new(4 << 20) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let line = format!(
        "echo $$ > {}/cgroup.procs && exec {TARE} record -q --off-cpu -o {} -- {} read 0 12 {}",
        disk.cgroup.display(),
        file.display(),
        workload("blocked").display(),
        disk.device.display(),
    );
    one_of_five(|| {
        let stolen_before = stolen_ns();
        let output = sh(&line);
        assert_eq!(status(&output), 0, "{output:?}");
        let times = BlockedTimes::parse(&output);
        // 12 x 64 KiB at 4 MiB/s take 190 ms.
        if times.waited < 50_000_000 {
            return Err(format!("the disk is not slow: {times:?}"));
        }
        compare_waits(&report(&file), "I/O", times, 12, stolen_before)
    });
}

/// The call chains of a program's waits in a function: from the innermost frame of the wait to the
/// outermost frame of the waker.
fn chains(file: &Path, comm: &str, function: &str) -> Vec<Vec<String>> {
    let script =
        tare().args(["script", "-F", "comm,event,ip,sym", "-i"]).arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    let frame = |line: &str| Some(line.trim().split_once(' ')?.1.to_owned());
    text.split("\n\n")
        .filter(|sample| sample.trim_start().starts_with(comm) && sample.contains("offcpu-time"))
        .map(|sample| sample.lines().skip(1).filter_map(frame).collect::<Vec<_>>())
        .filter(|chain| {
            let end = chain.iter().position(|frame| frame.starts_with("woken by "));
            chain[..end.unwrap_or(chain.len())].iter().any(|frame| frame == function)
        })
        .collect()
}

#[test]
fn each_process_of_a_pipeline_is_woken_by_the_one_before() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let mut record = tare();
    record.args(["record", "-q", "--off-cpu", "--wakers", "-o"]).arg(&file).arg("--");
    let output = record.arg(workload("pipeline")).args(["40", "3"]).output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    for (comm, function, waker, of_waker) in [
        ("source", "produce", "woken by an interrupt", None),
        ("relay", "pass_on", "woken by source", Some("produce")),
        ("sink", "consume", "woken by relay", Some("pass_on")),
    ] {
        let chains = chains(&file, comm, function);
        let is_wait = |chain: &&Vec<String>| !chain[0].contains("run queue");
        let waits: Vec<_> = chains.iter().filter(is_wait).collect();
        assert!(!waits.is_empty(), "{comm} doesn't wait: {chains:#?}");
        for chain in waits {
            // A wait that is still in progress at the end has no waker.
            let Some(at) = chain.iter().position(|frame| frame.starts_with("woken by ")) else {
                continue;
            };
            assert_eq!(chain[at], waker, "{comm}: {chain:#?}");
            let below = &chain[at..];
            assert!(chain[..at].iter().any(|frame| frame == "_start"), "{comm}: {chain:#?}");
            let is_there = |name| below.iter().any(|frame| frame == name);
            // A waker that is exiting is in none of these functions.
            let ends = below.iter().any(|frame| frame.contains("do_exit"));
            assert!(of_waker.is_none_or(is_there) || ends, "{comm}: {chain:#?}");
        }
        let told = chains.iter().any(|chain| {
            let has = |name: &str| chain.iter().any(|frame| frame == name);
            has(waker) && of_waker.is_none_or(has)
        });
        assert!(told, "{comm} is not woken: {chains:#?}");
    }
}

/// A task of the command is woken by the command's first process, whose introduction is older than
/// its execve, or by a process outside of the command.
#[test]
fn followed_commands_are_woken_by_their_first_process_and_by_others() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let fifo = folder.path().join("fifo");
    let writes = "exec > \"$1\"; for i in 1 2 3 4 5; do sleep 0.03; echo; done";
    let of_first = format!("cat < \"$1\" > /dev/null & {writes}");
    for (command, beside) in [(of_first.as_str(), None), ("exec cat \"$1\"", Some(writes))] {
        sh(&format!("rm -f {0} && mkfifo {0}", fifo.display()));
        let mut writer = beside.map(|line| {
            ProcessGuard::spawn(Command::new("sh").args(["-c", line, "outside"]).arg(&fifo))
        });
        let mut record = tare();
        record.args(["record", "-q", "--off-cpu", "--wakers", "-o"]).arg(&file).arg("--");
        let output = record.args(["sh", "-c", command, "inside"]).arg(&fifo).output().unwrap();
        writer.iter_mut().for_each(ProcessGuard::end);
        assert_eq!(status(&output), 0, "{output:?}");
        let chains = chains(&file, "cat", "vfs_read");
        let is_woken = chains.iter().flatten().any(|frame| frame == "woken by sh");
        assert!(is_woken, "{command}: {chains:#?}");
    }
}

/// A program that sleeps all the time.
fn sleeper(line: &str) -> ProcessGuard {
    let sleeper = ProcessGuard::spawn(Command::new("sh").args(["-c", line]));
    let pid = sleeper.id();
    wait_until("sleep sleeps", || {
        let wchan = fs::read_to_string(format!("/proc/{pid}/wchan"));
        wchan.is_ok_and(|wchan| wchan.contains("nanosleep"))
    });
    sleeper
}

#[test]
fn a_cgroups_waits_are_those_of_its_tasks_and_a_machines_those_of_all() {
    let cgroups = Cgroups::read(&Host::default()).for_events.filter(|_| is_root() && can_trace());
    let Some(cgroups) = cgroups else { return println!("skipped: no cgroups of events") };
    let name = format!("tare-test-waits-{}", std::process::id());
    let cgroup = cgroups.mount.join(&name);
    if let Err(error) = fs::create_dir(&cgroup) {
        return println!("skipped: {}: {error}", cgroup.display());
    }
    let enters = format!("echo $$ > {}/cgroup.procs && exec sleep 1000", cgroup.display());
    let mut within = sleeper(&enters);
    let mut beside = sleeper("exec sleep 1000");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let record = |words: &[&str]| {
        let mut record = tare();
        record.args(["record", "-q", "--off-cpu", "-e", "dummy", "--timeout", "500", "-a", "-o"]);
        record.arg(&file);
        let output = record.args(words).output().unwrap();
        if status(&output) != 0 {
            return Err(format!("{output:?}"));
        }
        let document = report(&file);
        let names = entries(&document).map(|entry| entry["comm"].to_string()).collect::<Vec<_>>();
        Ok((waited(&document, "sleep", "sleep"), recorded_ns(&document), names))
    };
    // Two processes sleep all the time, one of them in the cgroup.
    let of_all = tries(|| {
        let (ns, recorded, _) = record(&[])?;
        if ns > recorded * 3 / 2 { Ok(()) } else { Err(format!("{ns} of {recorded}")) }
    });
    let of_cgroup = tries(|| {
        let (ns, recorded, names) = record(&["-G", &name])?;
        let is_alone = names.iter().all(|name| name == "\"sleep\"");
        let is_right = ns.abs_diff(recorded) < recorded / 5 && is_alone;
        if is_right { Ok(()) } else { Err(format!("{ns} of {recorded}: {names:?}")) }
    });
    within.end();
    beside.end();
    fs::remove_dir(&cgroup).unwrap();
    assert_eq!((of_all, of_cgroup), (Ok(()), Ok(())));
}

/// Runs tare as on a kernel without BTF.
pub(crate) fn without_btf(words: &str) -> Output {
    sh(&format!(
        "LC_ALL=C exec unshare -m sh -c 'mount -t tmpfs none /sys/kernel/btf && exec {TARE} {words}'"
    ))
}

/// Whether perf events on context switches can be opened here; otherwise prints why the test is
/// skipped.
pub(crate) fn can_step_back() -> bool {
    let output = without_btf("record --off-cpu -o /dev/null true");
    let text = stderr(&output);
    let can = status(&output) == 0 && text.contains("no BTF");
    if !can {
        println!("skipped: {text}");
    }
    can
}

#[test]
fn perf_events_tell_reasons_and_times_where_programs_cannot_be_loaded() {
    if !can_step_back() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    for (what, reason) in [("sleep", "sleep"), ("pipe", "pipe")] {
        let to = file.display();
        let program = workload("blocked");
        let line =
            format!("record --off-cpu -e dummy -o {to} -- {} {what} 5 30", program.display());
        one_of_five(|| {
            let stolen_before = stolen_ns();
            let output = without_btf(&line);
            let messages = stderr(&output);
            assert_eq!(status(&output), 0, "{messages}");
            let lines = messages.lines().filter(|line| line.contains("by perf events instead"));
            assert_eq!(lines.count(), 1, "{messages}");
            let times = BlockedTimes::parse(&output);
            let document = report(&file);
            let off_cpu = &document["ledger"]["off_cpu"];
            if off_cpu["missing_waits"] != 0 {
                // The machine switches between tasks faster than tare can read the records.
                println!("skipped: records were lost: {off_cpu}");
                return Ok(());
            }
            if what == "sleep" {
                return compare_waits(&document, reason, times, 30, stolen_before);
            }
            // The helper thread waits for the same reason, so the sum may exceed the first
            // thread's.
            let recorded = waited(&document, "blocked", reason);
            let queued = waited(&document, "blocked", "run queue");
            let least = times.least_off_cpu(30, stolen_ns() - stolen_before);
            if recorded + queued < least || recorded > times.lived {
                let found = format!("{recorded} and {queued} queued, at least {least}");
                return Err(format!("{what}: {found} of {times:?}: {off_cpu}"));
            }
            Ok(())
        });
    }
}

#[test]
fn perf_events_tell_of_processes_machines_and_forks() {
    if !can_step_back() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let to = file.display();
    let mut sleeper = sleeper("exec sleep 1000");
    for whose in [format!("-p {}", sleeper.id()), "-a".to_owned()] {
        let output =
            without_btf(&format!("record --off-cpu -e dummy -o {to} {whose} --timeout 400"));
        assert_eq!(status(&output), 0, "{output:?}");
        let document = report(&file);
        let recorded = recorded_ns(&document);
        // It began to wait before the recording and didn't wake, so its reason is unknown.
        let slept = waited(&document, "sleep", "interruptible");
        assert!(slept + recorded / 5 >= recorded, "{whose}: {slept} of {recorded}");
        let own = document["ledger"]["recorder"]["pid"].to_string();
        let script = tare().args(["script", "-F", "pid,event", "-i"]).arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&script.stdout).into_owned();
        let mut waits = text.lines().filter(|line| line.contains("offcpu-time"));
        assert!(!waits.any(|line| line.split_whitespace().next() == Some(&own)), "{whose}: {own}");
    }
    sleeper.end();
    let output = without_btf(&format!(
        "record -q --off-cpu -o {to} -- sh -c \"sleep 0.1 & sleep 0.2; wait\""
    ));
    assert_eq!(status(&output), 0, "{output:?}");
    let document = report(&file);
    let waits = [waited(&document, "sleep", "sleep"), waited(&document, "sh", "child")];
    assert!(waits[0] > 250_000_000 && waits[1] > 50_000_000, "{waits:?}");
    let refused = without_btf("record --off-cpu -a -G no/such -o /dev/null --timeout 10");
    assert_ne!(status(&refused), 0, "{refused:?}");
}

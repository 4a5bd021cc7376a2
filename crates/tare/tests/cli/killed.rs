//! Kills recorders and tracers at random moments: no BPF object or probe of theirs stays in the
//! kernel, and the next run removes a leftover cgroup.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;

use crate::support::{
    PidFileGuard, ProcessGuard, is_root, status, stderr, tare, wait_until, workload,
};
use crate::trace::can_trace;

/// Kills per command.
const TIMES: u64 = 4;

/// BPF objects that a process holds: kind and id, from the fdinfo of its descriptors. Program arrays
/// are left out: bpftool, asking twice while the kernel empties one, keeps it for ever
/// (`prog_array_map_clear` in kernel/bpf/arraymap.c takes a reference though its work is pending).
fn held(pid: u32) -> BTreeSet<(&'static str, String)> {
    let folder = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten();
    let texts = folder.filter_map(|file| fs::read_to_string(file.ok()?.path()).ok());
    let mut all = BTreeSet::new();
    let is_program_array = |text: &String| text.lines().any(|line| line == "map_type:\t3");
    for text in texts.filter(|text| !is_program_array(text)) {
        for line in text.lines() {
            let Some((name, id)) = line.split_once(':') else { continue };
            let kind = match name {
                "prog_id" => "prog",
                "map_id" => "map",
                "link_id" => "link",
                _ => continue,
            };
            all.insert((kind, id.trim().to_owned()));
        }
    }
    all
}

fn exists(object: &(&'static str, String)) -> bool {
    let (kind, id) = object;
    let output = Command::new("bpftool").args([*kind, "show", "id", id]).output().unwrap();
    output.status.success()
}

/// A random delay of less than `most` milliseconds.
fn moment(most: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Duration::from_micros(u64::from(now.subsec_nanos()) / 7 % (most * 1000))
}

#[test]
fn whoever_is_killed_leaves_nothing_loaded() {
    if !is_root() || !can_trace() {
        return;
    }
    if Command::new("bpftool").arg("version").stdout(Stdio::null()).status().is_err() {
        return println!("skipped: bpftool isn't installed");
    }
    let probe = format!("{}:work", workload("latency").display());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data").display().to_string();
    let ways: [&[&str]; 6] = [
        &["record", "-g", "-a", "-F", "99", "-o", &file],
        &["record", "--off-cpu", "-a", "-o", &file],
        &["record", "--off-cpu", "--wakers", "-o", &file],
        &["sched", "-a", "-o", "/dev/null"],
        &["lock", "-a", "-o", "/dev/null"],
        &["trace", "--probe", &probe, "-o", "/dev/null"],
    ];
    let mut seen = 0;
    for way in ways {
        for time in 0..TIMES {
            let command = ["--", "sleep", "1"];
            let mut killed = tare();
            killed.args(way).args(command).stdout(Stdio::null()).stderr(Stdio::null());
            let mut killed = ProcessGuard::spawn(&mut killed);
            if time == 0 {
                // The first kill comes when programs are attached, even on a slow machine.
                let pid = killed.id();
                wait_until("programs are loaded", || {
                    let is_there = |(kind, _): &(&str, String)| match way[1] {
                        "-g" => *kind == "prog",
                        _ => *kind == "link",
                    };
                    held(pid).iter().any(is_there)
                });
            } else {
                std::thread::sleep(moment(300));
            }
            let held = held(killed.id());
            seen += held.len();
            killed.end();
            // The kernel frees some of them asynchronously.
            wait_until(&format!("{way:?}: {held:?} is gone"), || !held.iter().any(exists));
        }
    }
    assert!(seen > 0);
    let probes = ["/sys/kernel/tracing/uprobe_events", "/sys/kernel/debug/tracing/uprobe_events"];
    let left = probes.iter().filter_map(|path| fs::read_to_string(path).ok());
    assert!(left.into_iter().all(|text| !text.contains("latency")));
}

#[test]
fn the_cgroup_of_a_killed_recorder_goes_with_the_next_run() {
    let cgroups = Cgroups::read(&Host::default()).for_events.filter(|_| is_root() && can_trace());
    let Some(own) = cgroups.and_then(|cgroups| cgroups.own) else {
        return println!("skipped: no cgroup can be made");
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let pid = PidFileGuard(folder.path().join("pid"));
    let record = |line: &str| {
        let mut record = tare();
        record.args(["record", "-q", "--off-cpu", "--follow=cgroup", "-e", "cpu-clock", "-o"]);
        record.arg(&file).args(["--", "sh", "-c", line]);
        record
    };
    let line = format!("echo $$ > {}; exec sleep 60", pid.0.display());
    let mut killed = ProcessGuard::spawn(record(&line).stderr(Stdio::null()));
    let is_over = |killed: &mut ProcessGuard| !matches!(killed.try_wait(), Ok(None));
    while pid.pid().is_none() && !is_over(&mut killed) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let Some(command) = pid.pid() else {
        return println!("skipped: {}", stderr(&record("true").output().unwrap()));
    };
    let text = fs::read_to_string(format!("/proc/{command}/cgroup")).unwrap();
    let name = text.lines().find_map(|line| line.rsplit_once('/')?.1.strip_prefix("tare-"));
    let cgroup: PathBuf = own.join(format!("tare-{}", name.unwrap()));
    assert!(cgroup.exists(), "{}", cgroup.display());
    killed.end();
    drop(pid);
    wait_until("the command is gone", || !PathBuf::from(format!("/proc/{command}")).exists());
    let next = record("true").output().unwrap();
    assert_eq!(status(&next), 0, "{next:?}");
    wait_until("the cgroup is gone", || !cgroup.exists());
}

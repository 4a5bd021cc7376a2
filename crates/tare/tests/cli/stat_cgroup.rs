//! `tare stat` on cgroups made by the test; needs root and a kernel that counts cgroups.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;

use crate::support::{is_root, stat, stderr, until_it_ran, wait_until};

/// A cgroup with its processes; both are removed on drop.
struct TestCgroup {
    folder: PathBuf,
    inside: Option<Child>,
}

impl TestCgroup {
    fn new(name: &str) -> Option<Self> {
        let hierarchy = Cgroups::read(&Host::default()).for_events?;
        let folder = hierarchy.mount.join(format!("tare-test-{}-{name}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        Some(Self { folder, inside: None })
    }

    fn name(&self) -> &str {
        self.folder.file_name().unwrap().to_str().unwrap()
    }

    /// Starts a loop in the cgroup, waits until it runs there, and returns its process. A timeout
    /// ends it if the test can't.
    fn keep_busy(&mut self) -> u32 {
        let script = format!(
            "echo $$ > {}/cgroup.procs; exec timeout 300 sh -c 'while :; do :; done'",
            self.folder.display()
        );
        self.inside = Some(
            Command::new("sh")
                .args(["-c", &script])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        let is_loop = |pid: &str| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.starts_with("sh\0-c\0while")
        };
        let find = || {
            let processes = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap();
            let found = processes.lines().find(|pid| is_loop(pid))?;
            found.parse().ok()
        };
        wait_until("the loop runs in its cgroup", || find().is_some());
        find().unwrap()
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        if let Some(inside) = &mut self.inside {
            // timeout(1) forwards SIGTERM to the loop.
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_child(inside),
                rustix::process::Signal::TERM,
            );
            let _ = inside.wait();
        }
        // An exited process leaves its cgroup with a delay.
        for _ in 0..1000 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The milliseconds of task-clock by line, while the process uses 100 ms of CPU time; with `-A` each
/// line starts with the CPU.
fn clocks(args: &[&str], busy: u32) -> Vec<f64> {
    let output = stat(&[&["-x,"], args, &["sh", "-c", &until_it_ran(busy)]].concat());
    let text = stderr(&output);
    let clock = |line: &str| line.split(',').find_map(|column| column.parse().ok());
    text.lines().map(|line| clock(line).unwrap_or_else(|| panic!("{args:?}: {text}"))).collect()
}

#[test]
fn cgroups_each_in_turn_and_by_cpu() {
    if !is_root() {
        return;
    }
    let pair = TestCgroup::new("busy").zip(TestCgroup::new("idle"));
    let Some((mut busy, idle)) = pair else {
        println!("skipped: no cgroups that can be counted");
        return;
    };
    let pid = busy.keep_busy();
    let pair = format!("{},{}", busy.name(), idle.name());
    let each = clocks(&["-e", "task-clock", "--for-each-cgroup", &pair], pid);
    assert!(each.len() == 2 && each[0] > 5.0 && each[1] == 0.0, "{each:?}");
    let turns = format!("{},,{}", idle.name(), busy.name());
    let in_turn = clocks(&["-e", "task-clock,task-clock,task-clock", "-G", &turns], pid);
    assert!(in_turn[0] == 0.0 && in_turn[1] > in_turn[2] && in_turn[2] > 5.0, "{in_turn:?}");
    let by_cpu = clocks(&["-e", "task-clock", "-A", "-G", busy.name()], pid);
    let online = Host::default().online_cpus().unwrap();
    assert!(
        by_cpu.len() == online.as_slice().len() && by_cpu.iter().sum::<f64>() > 5.0,
        "{by_cpu:?}"
    );
    let missing = stat(&["-G", "no-such-cgroup", "true"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
}

/// As in perf, a pattern of `--for-each-cgroup` matches anywhere in a cgroup's path.
#[test]
fn a_pattern_stands_for_all_cgroups_that_match() {
    let Some(first) = is_root().then(|| TestCgroup::new("pattern-a")).flatten() else { return };
    let Some(second) = TestCgroup::new("pattern-b") else { return };
    let pattern = format!("^tare-test-{}-pattern-[ab]$", std::process::id());
    let count = |pattern: &str| {
        let options = ["-a", "-x,", "-e", "task-clock", "--for-each-cgroup", pattern];
        stat(&[&options[..], &["--", "true"]].concat())
    };
    let rows = stderr(&count(&pattern));
    let names: Vec<&str> = rows.lines().filter_map(|row| row.split(',').nth(3)).collect();
    assert_eq!(names, [first.name(), second.name()], "{rows}");
    let refused = count("^tare-no-such-[xy]");
    assert!(!refused.status.success());
    assert!(stderr(&refused).contains("no cgroup's path matches"), "{}", stderr(&refused));
}

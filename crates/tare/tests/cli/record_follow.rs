//! `tare record --follow`: each mode sees the command's children as documented, reports its
//! coverage, and cleans up.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tare_format::file::Reader;
use tare_format::ledger::{FollowMode, Ledger};
use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;

use crate::support::{ProcessGuard, Unprivileged, is_root, stderr, tare};

/// Starts many short-lived children.
const CHILDREN: [&str; 3] =
    ["sh", "-c", "i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i+1)); done"];

struct FollowRecording {
    folder: tempfile::TempDir,
    said: String,
}

impl FollowRecording {
    fn file(&self) -> PathBuf {
        self.folder.path().join("perf.data")
    }

    fn ledger(&self) -> Ledger {
        let mut reader = Reader::open(File::open(self.file()).unwrap()).unwrap();
        while reader.next_record().unwrap().is_some() {}
        reader
            .description()
            .notes()
            .iter()
            .filter_map(|note| Ledger::from_note(note))
            .next_back()
            .unwrap()
    }

    /// The report by command name.
    fn report(&self) -> String {
        let output = tare()
            .args(["report", "-G", "--sort", "comm", "-i"])
            .arg(self.file())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn record(options: &[&str], command: &[&str]) -> FollowRecording {
    let folder = tempfile::tempdir().unwrap();
    let mut tare = tare();
    tare.args(["record", "-v"])
        .arg("-o")
        .arg(folder.path().join("perf.data"))
        .args(options)
        .arg("--")
        .args(command)
        .stdin(Stdio::null());
    let output = tare.output().unwrap();
    assert!(output.status.success(), "{options:?}: {}", stderr(&output));
    FollowRecording { said: stderr(&output), folder }
}

/// The folder of this process's cgroup, where transient ones are made.
fn own_cgroup() -> Option<PathBuf> {
    Cgroups::read(&Host::default()).for_events?.own
}

fn transient_cgroups() -> Vec<PathBuf> {
    let entries = own_cgroup().and_then(|own| own.read_dir().ok()).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("tare-"))
        .collect()
}

/// Whether the command can get a cgroup here; if root can't make one, prints the reason.
fn has_cgroup() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let tried = is_root().then(|| {
        tare()
            .args(["record", "-q", "--follow=cgroup", "-o"])
            .arg(file)
            .arg("true")
            .output()
            .unwrap()
    });
    let why = tried.filter(|tried| !tried.status.success()).map(|tried| stderr(&tried));
    if let Some(why) = &why {
        println!("skipped: {why}");
    }
    is_root() && why.is_none()
}

/// Coverage of the first event, in percent. Samples include interrupts and stolen time, which are
/// large on a busy machine.
fn coverage(ledger: &Ledger) -> f64 {
    ledger.events[0].coverage.unwrap().percent().unwrap()
}

#[test]
fn a_cgroup_and_whole_cpus_see_every_child_at_a_low_rate() {
    if !has_cgroup() {
        return;
    }
    for (option, mode) in
        [("--follow=cgroup", FollowMode::Cgroup), ("--follow=system", FollowMode::System)]
    {
        let recorded = record(&[option, "-e", "cpu-clock", "-F", "999"], &CHILDREN);
        let ledger = recorded.ledger();
        let follow = ledger.follow.clone().unwrap();
        assert_eq!(
            (follow.mode, follow.tasks, follow.left_cgroup, follow.outlived),
            (mode, Some(151), 0, 0),
            "{option}"
        );
        assert!((60.0..160.0).contains(&coverage(&ledger)), "{option}: {ledger:?}");
        assert!(
            recorded.said.contains("follows the command") && recorded.said.contains("coverage: "),
            "{}",
            recorded.said
        );
        let report = recorded.report();
        assert!(
            report.contains(" true") && report.contains(" sh") && report.contains("# coverage: "),
            "{report}"
        );
        assert!(
            !report.lines().any(|row| !row.starts_with('#') && row.contains("tare")),
            "{option}: before execve the child is tare: {report}"
        );
    }
}

#[test]
fn whole_cpus_are_narrowed_to_the_commands_tasks() {
    if !is_root() {
        return;
    }
    let mut other = ProcessGuard::busy();
    let recorded = record(&["--follow=system", "-e", "cpu-clock", "-F", "999"], &CHILDREN);
    other.end();
    let report = recorded.report();
    assert!(report.contains("samples from outside the command were dropped"), "{report}");
    let script = tare().args(["script", "-F", "tid", "-i"]).arg(recorded.file()).output().unwrap();
    let tids = String::from_utf8(script.stdout).unwrap();
    assert!(
        !tids.is_empty() && !tids.lines().any(|tid| tid.trim() == other.id().to_string()),
        "{}",
        other.id()
    );
}

#[test]
fn inherited_events_miss_children_and_say_so() {
    let recorded = record(&["--follow=inherit", "-e", "cpu-clock", "-F", "99"], &CHILDREN);
    let ledger = recorded.ledger();
    let follow = ledger.follow.clone().unwrap();
    assert_eq!((follow.mode, follow.tasks), (FollowMode::Inherit, Some(151)));
    assert!(follow.unseen_tasks > 100 && coverage(&ledger) < 90.0, "{ledger:?}");
    if !ledger.events[0].coverage.unwrap().is_little {
        assert!(recorded.said.contains("--follow=cgroup"), "{}", recorded.said);
    }
}

/// Clock events fire regularly; page faults don't.
#[test]
fn inherited_clocks_have_a_fixed_period_and_say_so() {
    let recorded =
        record(&["--follow=inherit", "-e", "cpu-clock,page-faults", "-F", "1000"], &CHILDREN);
    let ledger = recorded.ledger();
    assert_eq!(
        ledger.events[0].fixed.map(|fixed| (fixed.hz, fixed.period)),
        Some((1000, 1_000_000)),
        "{ledger:?}"
    );
    assert_eq!(ledger.events[1].fixed, None);
    assert!(
        recorded.said.contains("cpu-clock every 1,000,000 (1,000 samples per second of CPU"),
        "{}",
        recorded.said
    );
    assert!(ledger.events[1].counted.unwrap() > 151, "each task has page faults: {ledger:?}");
    let by_count = record(&["--follow=inherit", "-e", "cpu-clock", "-c", "700000"], &["true"]);
    assert_eq!(by_count.ledger().events[0].fixed, None, "the user's own period");
}

#[test]
fn the_choice_steps_down_and_says_why() {
    assert!(record(&["-i"], &["true"]).said.contains("by inherited events: -i asks for it"));
    let refused = tare().args(["record", "--follow=system", "-s", "true"]).output().unwrap();
    assert!(
        refused.status.code() == Some(2) && stderr(&refused).contains("--follow=inherit"),
        "{}",
        stderr(&refused)
    );
    let Some(nobody) = Unprivileged::new() else { return };
    let output = nobody.tare("record", &["-e", "cpu-clock:u", "-o", "/dev/null", "true"]);
    let paranoid = Host::default().sysctl("kernel.perf_event_paranoid").unwrap_or(2);
    if paranoid > 0 {
        assert!(
            stderr(&output).contains("by inherited events: events on whole CPUs are not allowed"),
            "{}",
            stderr(&output)
        );
        let refused = nobody.tare("record", &["--follow=cgroup", "true"]);
        assert!(
            refused.status.code() == Some(125)
                && stderr(&refused).contains("use --follow=system or inherit"),
            "{}",
            stderr(&refused)
        );
    }
}

/// A command that leaves a process behind, and one whose child moves to another cgroup.
#[test]
fn who_outlives_the_command_or_leaves_is_counted() {
    if !has_cgroup() {
        return;
    }
    let own = own_cgroup().unwrap();
    let left = record(
        &["--follow=cgroup"],
        &["sh", "-c", "sleep 5 >/dev/null 2>&1 & echo $! >/tmp/tare-outlives.$PPID"],
    );
    assert_eq!(left.ledger().follow.unwrap().outlived, 1);
    let pids = Path::new("/tmp")
        .read_dir()
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("tare-outlives."));
    for file in pids {
        let pid = std::fs::read_to_string(file.path()).unwrap();
        std::fs::remove_file(file.path()).unwrap();
        Command::new("kill").arg(pid.trim()).status().unwrap();
    }
    let leaves = format!(
        "sh -c 'echo $$ >{}/cgroup.procs; i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done'; true",
        own.display()
    );
    let left = record(&["--follow=cgroup"], &["sh", "-c", &leaves]);
    assert_eq!(left.ledger().follow.unwrap().left_cgroup, 1, "{}", left.said);
    assert!(left.said.contains("left the command's cgroup"), "{}", left.said);
}

/// The command sees the same limits as without tare.
#[test]
fn limits_are_those_that_the_command_would_have_had() {
    if !has_cgroup() {
        return;
    }
    let line = "nproc; ulimit -a; grep -v :/ /proc/self/cgroup; grep -E 'Cpus_allowed_list|Mems_allowed_list' /proc/self/status; \
                cat $(sed -n 's/^0:://p' /proc/self/cgroup | sed 's|^|/sys/fs/cgroup|')/{cpu,memory,io,pids}.max 2>/dev/null; true";
    let bare = Command::new("sh").args(["-c", line]).output().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let inside = tare()
        .args(["record", "-q", "--follow=cgroup", "-o"])
        .arg(file)
        .args(["sh", "-c", line])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(inside.stdout).unwrap(), String::from_utf8(bare.stdout).unwrap());
}

/// Killed recorders leave cgroups with running commands. After these exit, the next run removes the
/// cgroups.
#[test]
fn what_killed_recorders_leave_is_swept() {
    if !has_cgroup() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mine: Vec<PathBuf> =
        (0..6).filter_map(|number| run_and_kill(number, folder.path())).collect();
    assert!(!mine.is_empty());
    let gone = |path: &PathBuf| !path.exists();
    let patience = Instant::now() + Duration::from_secs(20);
    while !mine.iter().all(gone) {
        assert!(Instant::now() < patience, "{:?}", transient_cgroups());
        std::thread::sleep(Duration::from_millis(200));
        record(&["--follow=cgroup"], &["true"]);
    }
}

/// Runs a recorder, and kills it if the number is even. Returns the cgroup of a killed one.
fn run_and_kill(number: u32, folder: &Path) -> Option<PathBuf> {
    let killed = number.is_multiple_of(2);
    let file = folder.join(number.to_string());
    let command = if killed { ["sleep", "0.7"] } else { ["true", ""] };
    let mut recorder = tare()
        .args(["record", "-q", "--follow=cgroup", "-o"])
        .arg(file)
        .args(command)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let of_recorder = format!("-{}-", recorder.id());
    let find = || {
        transient_cgroups().into_iter().find(|path| path.to_string_lossy().contains(&of_recorder))
    };
    let patience = Instant::now() + Duration::from_secs(20);
    let mut made = None;
    while killed && made.is_none() && Instant::now() < patience {
        made = find();
        std::thread::sleep(Duration::from_millis(5));
    }
    if killed {
        // Wait until the child is in the cgroup; the pause after that gives it time for its execve.
        while made.as_ref().is_some_and(|path| {
            std::fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default().is_empty()
        }) {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(100));
        recorder.kill().unwrap();
    }
    let status = recorder.wait().unwrap();
    assert!(killed || status.success());
    assert!(killed || find().is_none(), "a run that ends leaves nothing");
    made
}

#[test]
fn a_command_that_cannot_run_leaves_no_cgroup() {
    let before = transient_cgroups().len();
    let output: Output =
        tare().args(["record", "-o", "/dev/null", "/etc/passwd"]).output().unwrap();
    assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
    assert!(transient_cgroups().len() <= before + 3, "others may run at the same time");
}

/// With exact counts, page faults and time by command name are right even for children without
/// samples.
#[test]
fn exact_weights_are_what_each_command_counted() {
    let line =
        "i=0; while [ $i -lt 200 ]; do date >/dev/null; expr 1 + $i >/dev/null; i=$((i+1)); done";
    let events = "task-clock,page-faults,context-switches,minor-faults";
    let recorded = record(&["--follow=inherit", "-e", events, "-F", "99"], &["sh", "-c", line]);
    let faults = |command: &[&str]| {
        let output = tare().args(["stat", "-x,", "-e", "page-faults"]).args(command).output();
        let text = stderr(&output.unwrap());
        text.lines().next().unwrap().split(',').next().unwrap().parse::<f64>().unwrap()
    };
    let total = faults(&["sh", "-c", line]);
    let alone = |program: &str| faults(&[program, "1"]);
    let json = tare()
        .args(["report", "-G", "--sort", "comm", "--weight=exact", "--json", "-i"])
        .arg(recorded.file())
        .output()
        .unwrap();
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let of = |event: &str, comm: &str| {
        let rows = document["counted"].as_array().unwrap().iter();
        let row = rows
            .filter(|row| row["event"] == event && row["comm"] == comm)
            .map(|row| row["counted"].as_f64().unwrap());
        row.sum::<f64>()
    };
    let [sh, date, expr] = ["sh", "date", "expr"].map(|comm| of("page-faults", comm));
    assert!(((sh + date + expr) / total - 1.0).abs() < 0.02, "{sh} {date} {expr} of {total}");
    // A task's count also has the page faults between its fork and its execve.
    assert!(expr > 200.0 * alone("expr") && expr < 200.0 * (alone("expr") + 60.0), "{expr}");
    // The few faults that read from the disk are major faults.
    let minor = of("minor-faults", "date") / date;
    assert!((0.98..=1.0).contains(&minor), "{minor} {}", String::from_utf8_lossy(&json.stdout));
    let time: f64 = ["sh", "date", "expr"].map(|comm| of("task-clock", comm)).iter().sum();
    let ledger = recorded.ledger();
    let used = ledger.command.as_ref().unwrap();
    // A task's events stop before its exit completes; for such short tasks a tenth of the time
    // comes after. task-clock includes stolen time; the loop runs one process at a time.
    let used_ns = (used.user_ns + used.system_ns) as f64;
    assert!(
        time > 0.7 * used_ns && time < 1.1 * used_ns.max(ledger.recorded_ns as f64),
        "{time} {ledger:?}"
    );
    let weighed: f64 = document["events"][0]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["own"]["period"].as_f64().unwrap())
        .sum();
    assert!((weighed / time - 1.0).abs() < 1e-6, "{weighed} of {time}");
    assert!(recorded.report().contains("# Sampled periods beside exact counts"));
    let other = record(&["-i", "-e", "task-clock"], &["true"]);
    let refused =
        tare().args(["report", "--weight=exact", "-i"]).arg(other.file()).output().unwrap();
    assert!(
        refused.status.code() == Some(2) && stderr(&refused).contains("--follow=inherit"),
        "{}",
        stderr(&refused)
    );
}

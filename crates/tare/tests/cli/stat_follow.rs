//! `tare stat --follow`: a cgroup's counts equal inherited counts, the output states the
//! difference, and the cgroup is removed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;

use crate::support::{is_root, stat, stderr, tare};

const LOOP: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 500 ]; do /bin/true; i=$((i+1)); done"];

fn transient_cgroups(of: u32) -> Vec<PathBuf> {
    let own = Cgroups::read(&Host::default()).for_events.and_then(|hierarchy| hierarchy.own);
    let entries = own
        .and_then(|own| own.read_dir().ok())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    entries
        .filter(|path| path.file_name().unwrap().to_string_lossy().contains(&format!("-{of}-")))
        .collect()
}

/// Whether the command can get a cgroup here; otherwise prints that the test is skipped.
fn has_cgroup() -> bool {
    let tried = is_root().then(|| stat(&["--follow=cgroup", "-e", "page-faults", "true"]));
    let why = tried.filter(|tried| !tried.status.success()).map(|tried| stderr(&tried));
    if let Some(why) = &why {
        println!("skipped: {why}");
    }
    is_root() && why.is_none()
}

/// Counts by event from `-x,` output.
fn counts(follow: &str) -> BTreeMap<String, f64> {
    let output = tare()
        .args(["stat", "-x,", follow, "-e", "task-clock,page-faults,context-switches"])
        .args(LOOP)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    stderr(&output)
        .lines()
        .map(fields)
        .map(|fields| (fields[2].clone(), fields[0].parse().unwrap()))
        .collect()
}

#[test]
fn a_cgroup_counts_what_children_inherit() {
    if !has_cgroup() {
        return;
    }
    let inherited = counts("--follow=inherit");
    let own = counts("--follow=cgroup");
    let ratio = |event: &str| own[event] / inherited[event];
    assert!((ratio("page-faults") - 1.0).abs() < 0.03, "{own:?} {inherited:?}");
    // These vary between runs and with the machine's load.
    for event in ["context-switches", "task-clock"] {
        assert!((0.3..3.3).contains(&ratio(event)), "{event}: {own:?} {inherited:?}");
    }
}

#[test]
fn that_execve_is_counted_is_said() {
    if !has_cgroup() {
        return;
    }
    let text = stderr(&stat(&["--follow=cgroup", "-e", "page-faults", "true"]));
    assert!(text.contains("counts include the command's execve"), "{text}");
    let json = stderr(&stat(&["--follow=cgroup", "--json", "-e", "page-faults", "true"]));
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["follow"], serde_json::json!({"mode": "cgroup", "counts_exec": true}));
    assert!(!stderr(&stat(&["-e", "page-faults", "true"])).contains("execve"));
}

#[test]
fn what_a_count_cannot_follow_is_refused() {
    for (options, why) in [
        (&["--follow=system", "true"][..], "-a counts the whole machine"),
        (&["--follow=cgroup"], "give a command"),
        (&["--follow=cgroup", "-i", "true"], "--follow=inherit"),
        (&["--follow=cgroup", "--vs", "true", "true"], "--follow=inherit"),
    ] {
        let refused = stat(options);
        assert!(
            refused.status.code() == Some(2) && stderr(&refused).contains(why),
            "{options:?}: {}",
            stderr(&refused)
        );
        assert_eq!(stderr(&refused).lines().count(), 1, "{}", stderr(&refused));
    }
}

/// An interrupted run leaves nothing; the next run removes what a killed one leaves.
#[test]
fn nothing_is_left_behind() {
    if !has_cgroup() {
        return;
    }
    for (signal, swept) in [("-INT", false), ("-KILL", true)] {
        let mut counting = tare();
        counting
            .args(["stat", "--follow=cgroup", "-e", "page-faults", "sleep", "1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut counting = counting.spawn().unwrap();
        let patience = Instant::now() + Duration::from_secs(20);
        let runs = |path: &PathBuf| {
            std::fs::read_to_string(path.join("cgroup.procs")).is_ok_and(|text| !text.is_empty())
        };
        while !transient_cgroups(counting.id()).iter().any(runs) {
            assert!(Instant::now() < patience);
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(50));
        Command::new("kill").args([signal, &counting.id().to_string()]).status().unwrap();
        counting.wait().unwrap();
        while swept && !transient_cgroups(counting.id()).is_empty() {
            assert!(Instant::now() < patience);
            std::thread::sleep(Duration::from_millis(200));
            stat(&["--follow=cgroup", "-e", "page-faults", "true"]);
        }
        assert_eq!(transient_cgroups(counting.id()), Vec::<PathBuf>::new(), "{signal}");
    }
}

//! `tare doctor` on the test machine: as root, as an unprivileged user, with few descriptors, in a
//! cgroup namespace, without `/proc` and `/sys`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

const TARE: &str = env!("CARGO_BIN_EXE_tare");

fn document(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["version"], 1);
    document
}

fn item<'a>(document: &'a serde_json::Value, id: &str) -> &'a serde_json::Value {
    document["items"].as_array().unwrap().iter().find(|item| item["id"] == id).unwrap()
}

fn shell(script: &str) -> Output {
    Command::new("sh").args(["-c", script, "sh", TARE]).output().unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn text_has_a_verdict_and_no_colour_in_a_pipe() {
    let output = Command::new(TARE).arg("doctor").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("tare can count "), "{text}");
    assert!(!text.contains('\u{1b}'));
    for heading in ["Machine", "User", "Events", "Limits", "Symbols", "Cgroups", "BPF"] {
        assert!(text.lines().any(|line| line == heading), "{heading} is missing in {text}");
    }
}

/// Each limited or missing item states its cost.
#[test]
fn shortcomings_have_their_price() {
    let document = document(&Command::new(TARE).args(["doctor", "--json"]).output().unwrap());
    for item in document["items"].as_array().unwrap() {
        match item["state"].as_str().unwrap() {
            "limited" | "missing" => assert!(item["cost"].is_string(), "{item}"),
            state => assert!(matches!(state, "ok" | "unknown"), "{item}"),
        }
        for remedy in item["remedies"].as_array().into_iter().flatten() {
            assert!(remedy["command"].is_string() != remedy["setting"].is_string(), "{item}");
        }
    }
}

/// An unprivileged user gets the same items as root, with different answers.
#[test]
fn as_an_unprivileged_user() {
    if !is_root() {
        println!("skipped: becoming another user needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let tare = folder.path().join("tare");
    std::fs::copy(TARE, &tare).unwrap();
    std::fs::set_permissions(&tare, PermissionsExt::from_mode(0o755)).unwrap();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let run = Command::new("setpriv")
        .args(nobody)
        .arg(&tare)
        .args(["doctor", "--json"])
        .current_dir("/")
        .output();
    let Ok(output) = run else {
        println!("skipped: setpriv (util-linux) is not installed");
        return;
    };
    let unprivileged = document(&output);
    let root = document(&Command::new(TARE).args(["doctor", "--json"]).output().unwrap());
    let ids = |document: &serde_json::Value| {
        document["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&unprivileged), ids(&root));
    assert_eq!(item(&unprivileged, "capabilities")["state"], "limited");
    assert_eq!(item(&unprivileged, "other_processes")["state"], "limited");
    let level: i32 = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert_eq!(unprivileged["abilities"]["system_wide"], level < 1);
    assert_eq!(unprivileged["abilities"]["kernel_mode"], level < 2);
}

#[test]
fn with_few_files() {
    let low = document(&shell("ulimit -n 20; exec \"$1\" doctor --json"));
    let files = item(&low, "open_files");
    assert_eq!(files["state"], "limited");
    assert!(files["found"].as_str().unwrap().starts_with("20 ("), "{files}");
    // One descriptor suffices: doctor closes each event before it opens the next.
    let one = document(&shell("ulimit -n 4; exec \"$1\" doctor --json"));
    assert_eq!(one["abilities"], low["abilities"]);
}

/// In a new cgroup namespace the mounts start above its root: doctor reports that and continues.
#[test]
fn in_a_cgroup_namespace() {
    let output = Command::new("unshare").args(["--cgroup", TARE, "doctor", "--json"]).output();
    match output {
        Ok(output) if output.status.success() => {
            assert!(item(&document(&output), "cgroup_v2")["found"].is_string());
        }
        _ => println!("skipped: a cgroup namespace needs unshare (util-linux) and CAP_SYS_ADMIN"),
    }
}

/// Some containers have no readable `/proc` and `/sys`.
#[test]
fn without_proc_and_sys() {
    let script =
        "mount -t tmpfs none /sys && mount -t tmpfs none /proc && exec \"$1\" doctor --json";
    let output = Command::new("unshare").args(["--mount", "sh", "-c", script, "sh", TARE]).output();
    let Ok(output) = output else {
        println!("skipped: unshare (util-linux) is not installed");
        return;
    };
    if String::from_utf8_lossy(&output.stderr).contains("ermitted") {
        println!("skipped: mounting needs CAP_SYS_ADMIN");
        return;
    }
    let document = document(&output);
    assert_eq!(item(&document, "paranoid")["state"], "unknown");
    assert_eq!(item(&document, "cpus")["state"], "unknown");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let output = shell("\"$1\" doctor | true; exec \"$1\" doctor >/dev/full");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), errors.lines().count()), (Some(1), 1), "{errors}");
    assert!(errors.starts_with("tare: "), "{errors}");
}

#[test]
fn help_has_examples() {
    let output = Command::new(TARE).args(["doctor", "--help"]).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("tare doctor --json | jq"));
}

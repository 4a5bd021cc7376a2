//! The shell functions that the scripts share.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tare_tidy::root;

/// Runs `./x install PACKAGE` with an `apt-get` that runs `body`, whose calls are counted in the
/// file `calls`.
fn install(folder: &Path, body: &str) -> Output {
    for (name, text) in [
        ("apt-get", format!("echo \"$*\" >>{}/calls\n{body}", folder.display())),
        ("id", "echo 0".into()),
    ] {
        let file = folder.join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut script = Command::new(root().join("x"));
    script.args(["install", "a-package"]).env("PATH", path).output().unwrap()
}

fn calls(folder: &Path) -> Vec<String> {
    fs::read_to_string(folder.join("calls")).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn installing_waits_for_locks_of_apt_and_dpkg() {
    let folder = std::env::temp_dir().join(format!("tare-install-waits-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    // The first call of each kind finds a lock.
    let locked = "n=$(wc -l <\"$(dirname \"$0\")/calls\")
case $n in
1) echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)' >&2; exit 100 ;;
3) echo 'E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?' >&2; exit 100 ;;
esac";
    let output = install(&folder, locked);
    let calls = calls(&folder);
    fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(calls.len(), 4, "{calls:?}");
    assert!(calls[..2].iter().all(|call| call.ends_with(" update")), "{calls:?}");
    assert!(calls[2..].iter().all(|call| call.contains(" install ")), "{calls:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("waiting for another process"));
}

#[test]
fn installing_fails_at_once_for_another_reason() {
    let folder = std::env::temp_dir().join(format!("tare-install-fails-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let output = install(&folder, "echo 'E: Unable to locate package a-package' >&2; exit 100");
    let calls = calls(&folder);
    fs::remove_dir_all(&folder).unwrap();
    assert!(!output.status.success());
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("Unable to locate package"));
}

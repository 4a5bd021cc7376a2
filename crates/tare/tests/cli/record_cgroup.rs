//! Commands that make cgroups below the one from `tare record --follow=cgroup`: tare removes them
//! or names what it leaves, and records the tasks in them.

use std::path::PathBuf;
use std::process::Command;

use tare_format::ledger::Follow;
use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;

use crate::recorded::{RecordingFolder, read};
use crate::support::{PidFileGuard, is_root, stderr};

fn own_cgroup() -> Option<PathBuf> {
    Cgroups::read(&Host::default()).for_events?.own
}

/// Records a shell whose variable `$own` is the folder of its cgroup.
fn record(place: &RecordingFolder, line: &str) -> Option<(String, Follow)> {
    let top = own_cgroup().filter(|_| is_root())?;
    let line = format!("own={}/$(sed -n 's|^0::.*/||p' /proc/self/cgroup); {line}", top.display());
    let output = place.run(&["--follow=cgroup", "-e", "cpu-clock", "--", "sh", "-c", &line]);
    if stderr(&output).contains("--follow=cgroup: ") {
        println!("skipped: {}", stderr(&output));
        return None;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    Some((stderr(&output), read(&place.file()).ledger.unwrap().follow.unwrap()))
}

/// The folder of the command's cgroup, which the command wrote into a file.
fn folder(place: &RecordingFolder) -> PathBuf {
    let text = std::fs::read_to_string(place.folder.path().join("own")).unwrap();
    PathBuf::from(text.trim())
}

#[test]
fn cgroups_below_are_removed() {
    let place = RecordingFolder::new();
    let to = place.folder.path().join("own");
    let line = format!("mkdir -p $own/sub/deep $own/other && echo $own >{}", to.display());
    let Some((said, follow)) = record(&place, &line) else { return };
    assert!(!folder(&place).exists(), "{said}");
    assert_eq!((follow.outlived, follow.left_cgroup), (0, 0), "{said}");
}

#[test]
fn a_daemon_in_a_cgroup_below_outlives_the_command_and_has_not_left() {
    let place = RecordingFolder::new();
    let to = place.folder.path().join("own");
    let daemon = PidFileGuard(place.folder.path().join("pid"));
    let line = format!(
        "mkdir $own/sub && echo $own >{}; sh -c 'echo $$ >'$own/sub/cgroup.procs'; echo $$ >{}; exec sleep 60' \
         >/dev/null 2>&1 & sleep 0.3",
        to.display(),
        daemon.0.display()
    );
    let Some((said, follow)) = record(&place, &line) else { return };
    assert!(daemon.is_alive(), "{said}");
    assert_eq!((follow.outlived, follow.left_cgroup), (1, 0), "{said}");
    assert!(said.contains("1 process outlives") || said.contains("1 processes outlive"), "{said}");
    assert!(!folder(&place).exists(), "{said}");
    let cgroup =
        std::fs::read_to_string(format!("/proc/{}/cgroup", daemon.pid().unwrap())).unwrap();
    assert!(!cgroup.contains("tare-"), "{cgroup}");
}

/// A mount keeps a cgroup from being removed, and tare reports it.
#[test]
fn what_cannot_be_removed_is_named() {
    let place = RecordingFolder::new();
    let to = place.folder.path().join("own");
    let line =
        format!("mkdir $own/sub && mount --bind $own/sub $own/sub && echo $own >{}", to.display());
    let Some((said, _)) = record(&place, &line) else { return };
    let own = folder(&place);
    let name = folder(&place);
    let name = name.file_name().unwrap().to_string_lossy().into_owned();
    let is_left = own.exists();
    let _ = Command::new("umount").arg(own.join("sub")).status();
    let _ = std::fs::remove_dir(own.join("sub"));
    let _ = std::fs::remove_dir(&own);
    if is_left {
        assert!(said.contains(&name), "{said}");
    } else {
        println!("skipped: this kernel removes a cgroup that is mounted");
    }
}

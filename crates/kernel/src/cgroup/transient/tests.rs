use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::*;
use crate::host::fixture::{self, FixtureHost};

/// Whoever makes a cgroup sweeps what dead owners left, also what another test has just made as
/// such: tests on the running kernel hold this, one at a time.
static RUNNING_KERNEL: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    RUNNING_KERNEL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn machine(more: &[(&str, &str)]) -> FixtureHost {
    let mut files = vec![
        ("/proc/self/mountinfo", "41 31 0:38 / /cg rw - cgroup2 cgroup2 rw\n"),
        ("/proc/self/cgroup", "0::/job\n"),
        ("/cg/job/cgroup.procs", ""),
        ("/cg/job/cgroup.type", "domain\n"),
        ("/cg/job/cgroup.subtree_control", "\n"),
    ];
    files.extend(more);
    fixture::machine(&files)
}

#[test]
fn a_child_that_would_change_limits_is_not_made() {
    assert!(TransientParent::find(&machine(&[]).host()).is_ok());
    let find = |more| TransientParent::find(&machine(&[more]).host()).unwrap_err();
    assert_eq!(
        find(("/cg/job/cgroup.subtree_control", "cpu memory\n")),
        TransientError::Controllers("cpu, memory".to_owned())
    );
    assert_eq!(
        find(("/cg/job/cgroup.type", "threaded\n")),
        TransientError::Type("threaded".to_owned())
    );
    assert_eq!(find(("/proc/self/cgroup", "0::/elsewhere\n")), TransientError::OwnUnknown);
    assert_eq!(
        find(("/proc/self/cgroup", "3:perf_event:/\n0::/job\n")),
        TransientError::NoVersion2
    );
}

#[test]
fn names_tell_their_owners_and_nothing_else_is_swept() {
    let owner = Owner { namespace: 7, pid: 42, started: 99 };
    assert_eq!(Owner::from_name(&format!("{}-0", owner.name())), Some(owner));
    for other in ["tare-7-42-99", "tare-7-42-99-0-1", "tare-7--1-99-0", "tare-x", "system.slice"] {
        assert_eq!(Owner::from_name(other), None, "{other}");
    }
}

/// Of the three owners one is dead, one is another process by now, and one is alive.
#[test]
fn what_dead_owners_left_is_swept() {
    let stat = |pid: i32, started: u32| {
        (format!("/proc/{pid}/stat"), format!("{pid} (a) b) S{} {started} 0\n", " 1".repeat(18)))
    };
    let reused = stat(2, 11);
    let alive = stat(3, 10);
    let machine = machine(&[(&reused.0, &reused.1), (&alive.0, &alive.1)]);
    let host = machine.host();
    for pid in 1..=3 {
        std::fs::create_dir_all(host.path(&format!("/cg/job/tare-0-{pid}-10-0"))).unwrap();
    }
    std::fs::create_dir_all(host.path("/cg/job/tare-5-1-10-0")).unwrap();
    let place = TransientParent::find(&host).unwrap();
    assert_eq!(place.sweep(&host), 2);
    assert!(
        host.path("/cg/job/tare-0-3-10-0").exists() && host.path("/cg/job/tare-5-1-10-0").exists()
    );
}

/// On the running kernel: a process goes in and is moved out, and nothing stays.
#[test]
fn made_and_removed() {
    let _alone = alone();
    let Some((transient, path)) = transient() else { return };
    let mut sleeping = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    move_to(transient.as_fd(), i32::try_from(sleeping.id()).unwrap()).unwrap();
    assert_eq!((transient.processes().unwrap().len(), transient.threads().unwrap().len()), (1, 1));
    assert!(transient.cpu_time().is_ok());
    assert!(path.is_dir());
    assert_eq!(transient.remove(), CgroupRemoval { moved: 1, gone: true });
    assert!(!path.exists());
    sleeping.kill().unwrap();
    sleeping.wait().unwrap();
}

/// A cgroup of this process, or `None` where it can't have one.
fn transient() -> Option<(TransientCgroup, PathBuf)> {
    let host = Host::default();
    match TransientParent::find(&host).and_then(|place| Ok((place.create(&host)?, place))) {
        Ok((transient, place)) => {
            let path = below(&host, &place.parent).join(transient.name());
            Some((transient, path))
        }
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// A process that sleeps in the cgroup at `folder` until it is dropped.
struct Sleeping(std::process::Child);

impl Sleeping {
    fn in_cgroup(folder: &Path) -> Self {
        let sleeping = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::write(folder.join("cgroup.procs"), sleeping.id().to_string()).unwrap();
        Self(sleeping)
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A command may make cgroups below its own, and leave processes in them.
#[test]
fn cgroups_below_are_removed_and_their_processes_moved() {
    let _alone = alone();
    let Some((transient, path)) = transient() else { return };
    std::fs::create_dir_all(path.join("a/deep")).unwrap();
    std::fs::create_dir_all(path.join("b")).unwrap();
    let _daemons = [Sleeping::in_cgroup(&path.join("a/deep")), Sleeping::in_cgroup(&path)];
    assert_eq!(transient.processes().unwrap().len(), 2);
    assert_eq!(transient.threads().unwrap().len(), 2);
    assert_eq!(transient.remove(), CgroupRemoval { moved: 2, gone: true });
    assert!(!path.exists());
}

/// What a killed run left is swept with the cgroups below it, unless a process lives in one.
#[test]
fn trees_of_dead_owners_are_swept() {
    let _alone = alone();
    let Some((transient, path)) = transient() else { return };
    let host = Host::default();
    let dead = Owner { namespace: pid_namespace(&host), pid: 1, started: 1 };
    let left = path.with_file_name(format!("{}-0", dead.name()));
    std::fs::create_dir_all(left.join("sub/empty")).unwrap();
    let daemon = Sleeping::in_cgroup(&left.join("sub"));
    let place = TransientParent::find(&host).unwrap();
    place.sweep(&host);
    assert!(left.join("sub/empty").exists(), "a process lives there");
    drop(daemon);
    // A task that has been waited for can hold its cgroup for a moment.
    let until = Instant::now() + Duration::from_secs(10);
    while !is_unpopulated(&left) && Instant::now() < until {
        std::thread::sleep(PAUSE);
    }
    place.sweep(&host);
    let is_gone = !left.exists();
    _ = remove_tree(&left);
    assert!(is_gone && path.exists());
    drop(transient);
}

//! A cgroup of version 2 that exists while a command runs, so that events can be opened on exactly
//! the command's tasks.
//!
//! It is a child of this process's cgroup, and is created only if that cgroup gives its children no
//! controllers: then the command runs under the same limits as without it. Its name holds the
//! owner's pid namespace, pid and start time, by which the next owner finds the cgroups of killed
//! ones.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::{Cgroups, Delegation, PerfEvent, below, members};
use crate::host::Host;
use crate::procfs;

/// Prefix of the names of transient cgroups.
const PREFIX: &str = "tare-";

/// Most rounds of moving processes out, after which the rest stays. It takes several, as a process
/// can fork while it is moved.
const ROUNDS: usize = 20;

/// Pause after a round that found no process but couldn't remove the cgroup. An exited task keeps
/// its cgroup busy (`EBUSY`) until its CPU has switched away from it.
const PAUSE: Duration = Duration::from_millis(1);

/// Why a command can't have a cgroup of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransientError {
    /// Events use cgroups of version 1 or none, or version 2 isn't mounted.
    #[error("events don't use cgroups of version 2 here")]
    NoVersion2,
    /// The cgroup of this process is not below the mount.
    #[error("the cgroup of this process is not below the mounted part of the hierarchy")]
    OwnUnknown,
    /// A new child would change the command's limits.
    #[error(
        "the current cgroup gives its children controllers ({0}): in a new one the command would run under other limits"
    )]
    Controllers(String),
    /// The current cgroup takes no processes below it.
    #[error("the current cgroup is {0}, and takes no processes below it")]
    Type(String),
    /// The user may not create a child or move a process there.
    #[error("no write access to the current cgroup ({0})")]
    NotWritable(Errno),
    /// The cgroup could not be created.
    #[error("a cgroup can't be made: {0}")]
    Failed(Errno),
}

/// The parent of transient cgroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransientParent {
    parent: PathBuf,
}

/// A cgroup that exists until it is removed or dropped. Its processes are then moved to the parent.
#[derive(Debug)]
pub struct TransientCgroup {
    parent: OwnedFd,
    name: String,
    folder: OwnedFd,
}

/// CPU time of tasks. The sum is exact; many kernels only estimate by samples how it divides into
/// user and system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

impl CpuTime {
    /// Returns the time since an earlier reading.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
        }
    }
}

/// The result of removing a transient cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupRemoval {
    /// Number of processes moved to the parent.
    pub moved: usize,
    /// Whether the cgroup is removed.
    pub gone: bool,
}

impl TransientParent {
    /// Finds where this process can create one, without creating it.
    ///
    /// # Errors
    /// See [`TransientError`].
    pub fn find(host: &Host) -> Result<Self, TransientError> {
        let cgroups = Cgroups::read(host);
        let hierarchy = cgroups
            .for_events
            .filter(|_| cgroups.perf_event == PerfEvent::Version2)
            .ok_or(TransientError::NoVersion2)?;
        let parent = hierarchy.own.ok_or(TransientError::OwnUnknown)?;
        let delegation = Delegation::read(host, &parent);
        if !delegation.for_children.is_empty() {
            return Err(TransientError::Controllers(delegation.for_children.join(", ")));
        }
        if let Some(kind) = delegation.odd_type {
            return Err(TransientError::Type(kind));
        }
        delegation.create.and(delegation.attach).map_err(TransientError::NotWritable)?;
        Ok(Self { parent })
    }

    /// Creates one for this process, and removes those without processes that dead owners left.
    ///
    /// # Errors
    /// [`TransientError::Failed`].
    pub fn create(&self, host: &Host) -> Result<TransientCgroup, TransientError> {
        let failed = TransientError::Failed;
        let parent = open_folder(&below(host, &self.parent)).map_err(failed)?;
        self.sweep(host);
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let owner = Owner {
            namespace: pid_namespace(host),
            pid,
            started: procfs::start_time(host, pid).unwrap_or(0),
        };
        // A process can create several in a row while the last one isn't removed yet.
        let names = (0..100).map(|number| format!("{}-{number}", owner.name()));
        for name in names {
            match mkdirat(&parent, &name, Mode::from_raw_mode(0o755)) {
                Ok(()) => {
                    let folder =
                        openat(&parent, &name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                            .map_err(failed)?;
                    return Ok(TransientCgroup { parent, name, folder });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Err(failed(Errno::EXIST))
    }

    /// Removes the cgroups, with those below them, whose owners in this pid namespace are dead and
    /// that hold no process. Returns their number.
    pub fn sweep(&self, host: &Host) -> usize {
        let folder = below(host, &self.parent);
        let namespace = pid_namespace(host);
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let left = entries.filter(|entry| {
            let owner = entry.file_name().to_str().and_then(Owner::from_name);
            owner.is_some_and(|owner| owner.namespace == namespace && owner.is_dead(host))
        });
        left.filter(|entry| is_unpopulated(&entry.path()) && remove_tree(&entry.path())).count()
    }
}

impl TransientCgroup {
    /// Returns its name in its parent.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the CPU time of its tasks (`cpu.stat`, which needs no controller).
    ///
    /// # Errors
    /// Fails if the file can't be read, or lacks a time.
    pub fn cpu_time(&self) -> io::Result<CpuTime> {
        let text = members::read(self.folder.as_fd(), "cpu.stat")?;
        let micros = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value
                .and_then(|micros| micros.trim().parse().ok())
                .map(Duration::from_micros)
                .ok_or(io::ErrorKind::InvalidData)
        };
        Ok(CpuTime { user: micros("user_usec")?, system: micros("system_usec")? })
    }

    /// Returns the processes in it and in the cgroups below it.
    ///
    /// # Errors
    /// Fails if its own file can't be read.
    pub fn processes(&self) -> io::Result<Vec<i32>> {
        members::ids(self.folder.as_fd(), "cgroup.procs")
    }

    /// Returns the threads in it and in the cgroups below it.
    ///
    /// # Errors
    /// Fails if its own file can't be read.
    pub fn threads(&self) -> io::Result<Vec<i32>> {
        members::ids(self.folder.as_fd(), "cgroup.threads")
    }

    /// Moves the remaining processes in and below it to the parent, removes the cgroups below it,
    /// and then removes it.
    pub fn remove(&self) -> CgroupRemoval {
        let remove = || {
            let result = unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR);
            matches!(result, Ok(()) | Err(Errno::NOENT))
        };
        // Most cgroups are empty by now, and removed at once.
        let mut removed = CgroupRemoval { moved: 0, gone: remove() };
        for _ in 0..ROUNDS {
            if removed.gone {
                break;
            }
            let still: Vec<i32> = self.processes().unwrap_or_default();
            let moved =
                still.iter().filter(|&&pid| move_to(self.parent.as_fd(), pid).is_ok()).count();
            removed.moved += moved;
            for below in members::below(self.folder.as_fd()).iter().rev() {
                // A cgroup that can't be removed also keeps its ancestors, which the last removal
                // reports.
                _ = unlinkat(&self.folder, below, AtFlags::REMOVEDIR);
            }
            removed.gone = remove();
            if moved == 0 && !still.is_empty() {
                break;
            }
            if still.is_empty() && !removed.gone {
                std::thread::sleep(PAUSE);
            }
        }
        removed
    }
}

impl AsFd for TransientCgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

impl Drop for TransientCgroup {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Moves a process into the cgroup of a folder.
pub(crate) fn move_to(folder: BorrowedFd<'_>, pid: i32) -> io::Result<()> {
    let file = openat(folder, "cgroup.procs", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, pid.to_string().as_bytes())?;
    Ok(())
}

/// Whether no process is in a cgroup or below it (`cgroup.events`); true if that can't be read.
fn is_unpopulated(folder: &Path) -> bool {
    let events = std::fs::read_to_string(folder.join("cgroup.events"));
    events.map_or(true, |events| events.lines().any(|line| line == "populated 0"))
}

/// Removes a cgroup and those below it. Returns whether it is removed; the kernel keeps cgroups
/// with processes (`EBUSY`).
fn remove_tree(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    below.for_each(|entry| _ = remove_tree(&entry.path()));
    std::fs::remove_dir(folder).is_ok()
}

fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    openat(rustix::fs::CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Returns the pid namespace: pids are meaningful in one namespace only.
fn pid_namespace(host: &Host) -> u32 {
    host.namespace("pid").unwrap_or(0)
}

/// The creator of a transient cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    namespace: u32,
    pid: i32,
    /// Start time in ticks since the boot, as in `/proc/PID/stat`; 0 if unknown.
    started: u64,
}

impl Owner {
    /// Returns the cgroup's name without its number.
    fn name(self) -> String {
        format!("{PREFIX}{}-{}-{}", self.namespace, self.pid, self.started)
    }

    fn from_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let owner = Self {
            namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        };
        let number = parts.next()?.parse::<u32>();
        (number.is_ok() && parts.next().is_none() && owner.pid > 0).then_some(owner)
    }

    /// Whether the process is gone, or its pid is another's. A process that exists but can't be
    /// read counts as alive.
    fn is_dead(self, host: &Host) -> bool {
        match procfs::start_time(host, self.pid) {
            Ok(started) => started != self.started,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::Instant;

    use super::*;
    use crate::host::fixture::{self, FixtureHost};

    /// Creating a cgroup sweeps those of dead owners, including one that another test has just
    /// made. Tests on the running kernel hold this lock.
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
    fn names_identify_their_owners() {
        let owner = Owner { namespace: 7, pid: 42, started: 99 };
        assert_eq!(Owner::from_name(&format!("{}-0", owner.name())), Some(owner));
        for other in
            ["tare-7-42-99", "tare-7-42-99-0-1", "tare-7--1-99-0", "tare-x", "system.slice"]
        {
            assert_eq!(Owner::from_name(other), None, "{other}");
        }
    }

    /// Of the three owners in this pid namespace one is dead, one pid is reused, and one is alive.
    /// A fourth owner is of another namespace.
    #[test]
    fn cgroups_of_dead_owners_are_swept() {
        let stat = |pid: i32, started: u32| {
            (
                format!("/proc/{pid}/stat"),
                format!("{pid} (a) b) S{} {started} 0\n", " 1".repeat(18)),
            )
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
            host.path("/cg/job/tare-0-3-10-0").exists()
                && host.path("/cg/job/tare-5-1-10-0").exists()
        );
    }

    /// On the running kernel: a process is moved in and out, and nothing stays.
    #[test]
    fn a_process_is_moved_in_and_out() {
        let _alone = alone();
        let Some((transient, path)) = transient() else { return };
        let mut sleeping = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        move_to(transient.as_fd(), i32::try_from(sleeping.id()).unwrap()).unwrap();
        assert_eq!(
            (transient.processes().unwrap().len(), transient.threads().unwrap().len()),
            (1, 1)
        );
        assert!(transient.cpu_time().is_ok());
        assert!(path.is_dir());
        assert_eq!(transient.remove(), CgroupRemoval { moved: 1, gone: true });
        assert!(!path.exists());
        sleeping.kill().unwrap();
        sleeping.wait().unwrap();
    }

    /// A cgroup of this process; `None` if it can't have one.
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

    /// A command may create cgroups below its own, and leave processes in them.
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

    /// The cgroups of a killed run are swept unless a process lives in one.
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
        // An exited task can keep its cgroup busy for a moment.
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
}

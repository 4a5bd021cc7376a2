//! The tasks that a recording targets.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;
use tare_kernel::procfs;
use tare_kernel::targets::Targets;

use crate::error::RecordError;
use crate::off_cpu::OffCpuTarget;
use crate::options::Target;
use crate::synthesize;

/// The tasks that a recording targets. Their CPUs are in the plan.
#[derive(Debug, Default)]
pub(super) struct TargetTasks {
    /// The threads; empty for whole CPUs and cgroups.
    pub(super) threads: Vec<i32>,
    /// Folders of the cgroups, in the order of the options.
    cgroups: Vec<OwnedFd>,
    /// Existing tasks to describe; `None` if only tasks that the command starts are recorded.
    pub(super) existing: Option<synthesize::Targets>,
    /// Tasks after whose exit the state is `TargetsEnded`.
    pub(super) waited_for: Targets,
}

impl TargetTasks {
    /// Looks up the tasks. `child` is the waiting command, `cgroup` the folder of its cgroup.
    ///
    /// # Errors
    /// Fails if a process or cgroup doesn't exist or can't be accessed, or if a user has no
    /// processes. Doesn't check threads.
    pub(super) fn find(
        target: &Target,
        child: Option<i32>,
        cgroup: Option<BorrowedFd<'_>>,
        host: &Host,
    ) -> Result<Self, RecordError> {
        Ok(match target {
            Target::CommandOnCpus(_) => Self::default(),
            Target::CommandInCgroup(_) => {
                let folder = cgroup.map(|cgroup| cgroup.try_clone_to_owned()).transpose();
                let folder = folder.map_err(|source| RecordError::CgroupFolder {
                    name: "of the command".to_owned(),
                    source,
                })?;
                Self { cgroups: folder.into_iter().collect(), ..Self::default() }
            }
            Target::Command(_) => Self { threads: child.into_iter().collect(), ..Self::default() },
            Target::Processes(pids, _) => {
                let existing = Some(synthesize::Targets::Processes(pids.clone()));
                Self {
                    threads: threads(pids, host)?,
                    existing,
                    waited_for: Targets::processes(pids)?,
                    ..Self::default()
                }
            }
            Target::Threads(tids, _) => {
                let existing = Some(synthesize::Targets::Threads(tids.clone()));
                Self {
                    threads: tids.clone(),
                    existing,
                    waited_for: Targets::threads(tids),
                    ..Self::default()
                }
            }
            Target::User(uid, _) => Self::find_user(*uid, host)?,
            Target::Cpus(_) => Self { existing: Some(synthesize::Targets::All), ..Self::default() },
            Target::Cgroups { names, .. } => Self::find_cgroups(names, host)?,
        })
    }

    fn find_user(uid: u32, host: &Host) -> Result<Self, RecordError> {
        let pids = processes_of_user(uid, host)?;
        // A process that exits during the lookup has no threads.
        let threads =
            pids.iter().flat_map(|&pid| procfs::threads(host, pid).unwrap_or_default()).collect();
        let existing = Some(synthesize::Targets::Processes(pids));
        Ok(Self { threads, existing, ..Self::default() })
    }

    fn find_cgroups(names: &[String], host: &Host) -> Result<Self, RecordError> {
        let known = Cgroups::read(host);
        let open = |name: &String| -> Result<OwnedFd, RecordError> {
            let folder = std::fs::File::open(known.find(host, name)?);
            let failed = |source| RecordError::CgroupFolder { name: name.clone(), source };
            Ok(folder.map_err(failed)?.into())
        };
        let cgroups = names.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { cgroups, existing: Some(synthesize::Targets::All), ..Self::default() })
    }

    /// Returns the tasks for off-CPU time; `command` waits for its execve.
    pub(super) fn off_cpu_target(&self, command: Option<i32>) -> OffCpuTarget<'_> {
        OffCpuTarget {
            command,
            processes: match &self.existing {
                Some(synthesize::Targets::Processes(pids)) => pids.clone(),
                _ => self.threads.clone(),
            },
            cgroups: self.cgroups.iter().map(AsFd::as_fd).collect(),
        }
    }

    /// Returns the folders of the cgroups, in the order of the options.
    pub(super) fn cgroups(&self) -> Vec<RawFd> {
        self.cgroups.iter().map(AsRawFd::as_raw_fd).collect()
    }
}

fn threads(pids: &[i32], host: &Host) -> Result<Vec<i32>, RecordError> {
    let mut tids = BTreeSet::new();
    for &pid in pids {
        tids.extend(procfs::threads(host, pid).map_err(|_| RecordError::NoProcess(pid))?);
    }
    Ok(tids.into_iter().collect())
}

/// Returns the processes of a user, other than this one.
fn processes_of_user(uid: u32, host: &Host) -> Result<Vec<i32>, RecordError> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let owner = |pid: &i32| {
        std::fs::metadata(host.path(&format!("/proc/{pid}"))).ok().map(|metadata| metadata.uid())
    };
    let pids: Vec<i32> = procfs::processes(host)
        .map_err(RecordError::Processes)?
        .into_iter()
        .filter(|pid| *pid != own && owner(pid) == Some(uid))
        .collect();
    if pids.is_empty() { Err(RecordError::NoProcessesOfUser(uid)) } else { Ok(pids) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Cpus;

    /// Makes a folder with the files of a machine, where process 7 has the threads 7 and 9. Returns
    /// the folder, and a host that reads it.
    fn machine() -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().unwrap();
        for tid in [7, 9] {
            std::fs::create_dir_all(root.path().join(format!("proc/7/task/{tid}"))).unwrap();
        }
        let host = Host::at(root.path());
        (root, host)
    }

    #[test]
    fn a_command_has_no_existing_tasks_to_describe() {
        let (_root, host) = machine();
        let find = |target| TargetTasks::find(&target, Some(5), None, &host).unwrap();
        let command = find(Target::Command(Cpus::All));
        assert_eq!((command.threads, command.existing), (vec![5], None));
        let on_cpus = find(Target::CommandOnCpus("0".parse().unwrap()));
        assert_eq!((on_cpus.threads, on_cpus.existing), (Vec::new(), None));
        let everything = find(Target::Cpus("0".parse().unwrap()));
        assert_eq!(everything.existing, Some(synthesize::Targets::All));
    }

    #[test]
    fn a_user_has_all_threads_of_its_processes() {
        let (root, host) = machine();
        let uid = std::fs::metadata(root.path()).unwrap().uid();
        let found = TargetTasks::find(&Target::User(uid, Cpus::All), None, None, &host).unwrap();
        assert_eq!(found.threads, [7, 9]);
        assert_eq!(found.off_cpu_target(None).processes, [7]);
        let missing = TargetTasks::find(&Target::User(uid + 1, Cpus::All), None, None, &host);
        assert!(matches!(missing, Err(RecordError::NoProcessesOfUser(_))));
        let gone = TargetTasks::find(&Target::Processes(vec![8], Cpus::All), None, None, &host);
        assert!(matches!(gone, Err(RecordError::NoProcess(8))));
    }
}

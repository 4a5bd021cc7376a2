//! Whom a recording is made of.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

use anyhow::Context;
use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;
use tare_kernel::procfs;

use crate::cli::resolved::record::Target;
use crate::command::targets::Targets;
use crate::exit::Refusal;
use crate::pipeline::synthesize;

/// Whom a recording is made of; on which CPUs, the plan says.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    /// These threads; none for whole CPUs and cgroups.
    pub(super) threads: Vec<i32>,
    /// The folders of cgroups, in the order of their names.
    cgroups: Vec<OwnedFd>,
    /// Who was there before and is to be described; `None` where all that is recorded is what the
    /// command starts.
    pub(super) existing: Option<synthesize::Targets>,
    /// Whose end ends the recording.
    pub(super) waited_for: Targets,
}

impl Subjects {
    /// Finds them. `child` is the command that waits, `cgroup` its own.
    ///
    /// # Errors
    /// A process, thread or cgroup that isn't there.
    pub(super) fn find(
        target: &Target,
        child: Option<i32>,
        cgroup: Option<BorrowedFd<'_>>,
        host: &Host,
    ) -> anyhow::Result<Self> {
        Ok(match target {
            Target::CommandOnCpus(_) => Self::default(),
            Target::CommandInCgroup(_) => {
                let folder = cgroup
                    .map(|cgroup| cgroup.try_clone_to_owned())
                    .transpose()
                    .context("the command's cgroup")?;
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
            Target::User(uid, _) => {
                let pids = of_user(*uid, host)?;
                // Processes come and go while they are looked at; one that went has no threads.
                let threads = pids
                    .iter()
                    .flat_map(|&pid| procfs::threads(host, pid).unwrap_or_default())
                    .collect();
                Self {
                    threads,
                    existing: Some(synthesize::Targets::Processes(pids)),
                    ..Self::default()
                }
            }
            Target::Cpus(_) => Self { existing: Some(synthesize::Targets::All), ..Self::default() },
            Target::Cgroups { names, .. } => {
                let known = Cgroups::of(host);
                let open = |name: &String| -> anyhow::Result<OwnedFd> {
                    let folder = known
                        .find(host, name)
                        .map_err(|error| Refusal::usage(error.to_string()))?;
                    let folder = std::fs::File::open(&folder)
                        .with_context(|| format!("cgroup '{name}' ({})", folder.display()))?;
                    Ok(folder.into())
                };
                let cgroups = names.iter().map(open).collect::<Result<_, _>>()?;
                Self { cgroups, existing: Some(synthesize::Targets::All), ..Self::default() }
            }
        })
    }

    /// The folders of cgroups, in the order of their names.
    pub(super) fn cgroups(&self) -> Vec<RawFd> {
        self.cgroups.iter().map(AsRawFd::as_raw_fd).collect()
    }
}

fn threads(pids: &[i32], host: &Host) -> anyhow::Result<Vec<i32>> {
    let mut tids = BTreeSet::new();
    for &pid in pids {
        tids.extend(
            procfs::threads(host, pid)
                .map_err(|_| Refusal::usage(format!("there is no process {pid}")))?,
        );
    }
    Ok(tids.into_iter().collect())
}

/// The processes of a user, other than this one.
fn of_user(uid: u32, host: &Host) -> anyhow::Result<Vec<i32>> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let owner = |pid: &i32| {
        std::fs::metadata(host.path(&format!("/proc/{pid}"))).ok().map(|metadata| metadata.uid())
    };
    let pids: Vec<i32> = procfs::processes(host)
        .context("cannot list processes")?
        .into_iter()
        .filter(|pid| *pid != own && owner(pid) == Some(uid))
        .collect();
    if pids.is_empty() {
        Err(Refusal::usage(format!("-u: user {uid} has no processes")).into())
    } else {
        Ok(pids)
    }
}

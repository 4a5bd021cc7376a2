//! Whose events are recorded, and from when on.

use std::time::Duration;

use tare_kernel::host::{CpuList, Host};

use crate::cli::raw;
use crate::cli::resolved::place;
use crate::cli::resolved::stat::Begin;
use crate::exit::Refusal;

/// Whose events are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Those of the command and what it starts.
    Command(Cpus),
    /// The same, by events on whole CPUs: what other tasks do is left out when the recording is
    /// read.
    CommandOnCpus(CpuList),
    /// The same, by events on a cgroup of the command's own, on these CPUs.
    CommandInCgroup(CpuList),
    /// Those of all threads of these processes.
    Processes(Vec<i32>, Cpus),
    /// Those of these threads.
    Threads(Vec<i32>, Cpus),
    /// Those of the running processes of this user.
    User(u32, Cpus),
    /// All that happens on these CPUs.
    Cpus(CpuList),
    /// What tasks of cgroups do on these CPUs.
    Cgroups {
        /// One name for all events, or one for each event in turn.
        names: Vec<String>,
        /// The CPUs.
        cpus: CpuList,
    },
}

/// On which CPUs tasks are recorded: each of their events is opened on each of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// Wherever they can run.
    All,
    /// Only there.
    These(CpuList),
}

impl Target {
    pub(super) fn resolve(
        raw: &raw::record::Target,
        no_command: bool,
        host: &Host,
    ) -> Result<Self, Refusal> {
        let of_tasks = || {
            raw.cpu
                .as_deref()
                .map_or(Ok(Cpus::All), |text| place::cpus(Some(text), host).map(Cpus::These))
        };
        if !raw.pid.is_empty() {
            return Ok(Self::Processes(place::tasks(&raw.pid)?, of_tasks()?));
        }
        if !raw.tid.is_empty() {
            return Ok(Self::Threads(place::tasks(&raw.tid)?, of_tasks()?));
        }
        if let Some(user) = &raw.uid {
            return Ok(Self::User(uid(user, host)?, of_tasks()?));
        }
        if !raw.cgroup.is_empty() {
            return Ok(Self::Cgroups {
                names: raw.cgroup.clone(),
                cpus: place::cpus(raw.cpu.as_deref(), host)?,
            });
        }
        if raw.all_cpus || raw.cpu.is_some() || no_command {
            return Ok(Self::Cpus(place::cpus(raw.cpu.as_deref(), host)?));
        }
        Ok(Self::Command(Cpus::All))
    }

    /// Whether whole CPUs are recorded, which needs more rights than recording one's own tasks.
    #[must_use]
    pub fn is_per_cpu(&self) -> bool {
        matches!(
            self,
            Self::Cpus(_)
                | Self::Cgroups { .. }
                | Self::CommandOnCpus(_)
                | Self::CommandInCgroup(_)
        )
    }
}

/// A user by number or by name, in `/etc/passwd`.
fn uid(user: &str, host: &Host) -> Result<u32, Refusal> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
    }
    let passwd = host.read("/etc/passwd").unwrap_or_default();
    let found = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(user)).then(|| fields.nth(1)?.parse().ok())?
    });
    found.ok_or_else(|| {
        Refusal::usage(format!(
            "-u: no user '{user}' in /etc/passwd; give the number (`id -u {user}`)"
        ))
    })
}

pub(super) fn begin(raw: &raw::record::Target) -> Result<Begin, Refusal> {
    match raw.delay.as_deref() {
        None | Some("0") => Ok(Begin::AtOnce),
        Some("-1") if raw.control.is_some() => Ok(Begin::OnControl),
        Some("-1") => {
            Err(Refusal::usage("-D -1 waits for --control to enable the events: give one"))
        }
        Some(text) => {
            let number = text.parse().map(|ms| Begin::After(Duration::from_millis(ms)));
            number.map_err(|_| {
                Refusal::usage(format!(
                    "-D {text}: give milliseconds, or -1; for ranges of time use --control"
                ))
            })
        }
    }
}

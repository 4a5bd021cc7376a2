//! Target and start of a recording.

use std::time::Duration;

use tare_kernel::host::Host;
use tare_record::options::{Begin, Cpus, Target};

use crate::cli::raw;
use crate::cli::resolved::targets;
use crate::exit::Refusal;

pub(super) fn resolve(
    raw: &raw::record::TargetArgs,
    no_command: bool,
    host: &Host,
) -> Result<Target, Refusal> {
    let task_cpus = || {
        raw.attach
            .cpu
            .as_deref()
            .map_or(Ok(Cpus::All), |text| targets::cpus(Some(text), host).map(Cpus::These))
    };
    if !raw.attach.pid.is_empty() {
        return Ok(Target::Processes(targets::tasks(&raw.attach.pid)?, task_cpus()?));
    }
    if !raw.attach.tid.is_empty() {
        return Ok(Target::Threads(targets::tasks(&raw.attach.tid)?, task_cpus()?));
    }
    if let Some(user) = &raw.attach.uid {
        return Ok(Target::User(uid(user, host)?, task_cpus()?));
    }
    if !raw.attach.cgroup.is_empty() {
        return Ok(Target::Cgroups {
            names: raw.attach.cgroup.clone(),
            cpus: targets::cpus(raw.attach.cpu.as_deref(), host)?,
        });
    }
    if raw.attach.all_cpus || raw.attach.cpu.is_some() || no_command {
        return Ok(Target::Cpus(targets::cpus(raw.attach.cpu.as_deref(), host)?));
    }
    Ok(Target::Command(Cpus::All))
}

/// Returns a user's id, by number or by name in `/etc/passwd`.
fn uid(user: &str, host: &Host) -> Result<u32, Refusal> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
    }
    let passwd = host.read("/etc/passwd").unwrap_or_default();
    let uid = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(user)).then(|| fields.nth(1)?.parse().ok())?
    });
    uid.ok_or_else(|| {
        Refusal::usage(format!(
            "-u: no user '{user}' in /etc/passwd; give the number (`id -u {user}`)"
        ))
    })
}

pub(super) fn begin(raw: &raw::record::TargetArgs) -> Result<Begin, Refusal> {
    match raw.delay.as_deref() {
        None | Some("0") => Ok(Begin::AtOnce),
        Some("-1") if raw.control.is_some() => Ok(Begin::OnRequest),
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

//! Target and start of a recording.

use tare_kernel::host::Host;
use tare_record::options::{Begin, Cpus, Target};

use crate::cli::raw;
use crate::cli::resolved::{schedule, targets};
use crate::exit::Refusal;

pub(super) fn resolve(
    raw: &raw::record::TargetArgs,
    no_command: bool,
    host: &Host,
) -> Result<Target, Refusal> {
    let task_cpus = || {
        raw.attach
            .running
            .cpu
            .as_deref()
            .map_or(Ok(Cpus::All), |text| targets::cpus(Some(text), host).map(Cpus::These))
    };
    if !raw.attach.running.pid.is_empty() {
        return Ok(Target::Processes(
            targets::tasks(raw::TaskList::ids(&raw.attach.running.pid))?,
            task_cpus()?,
        ));
    }
    if !raw.attach.running.tid.is_empty() {
        return Ok(Target::Threads(
            targets::tasks(raw::TaskList::ids(&raw.attach.running.tid))?,
            task_cpus()?,
        ));
    }
    if let Some(user) = &raw.attach.uid {
        return Ok(Target::User(uid(user, host)?, task_cpus()?));
    }
    if !raw.attach.running.cgroup.is_empty() {
        return Ok(Target::Cgroups {
            names: raw.attach.running.cgroup.clone(),
            cpus: targets::cpus(raw.attach.running.cpu.as_deref(), host)?,
        });
    }
    if raw.attach.running.all_cpus || raw.attach.running.cpu.is_some() || no_command {
        return Ok(Target::Cpus(targets::cpus(raw.attach.running.cpu.as_deref(), host)?));
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

pub(super) fn begin(raw: &raw::ControlArgs) -> Result<Begin, Refusal> {
    Ok(match schedule::begin(raw)? {
        schedule::Begin::AtOnce => Begin::AtOnce,
        schedule::Begin::After(delay) => Begin::After(delay),
        schedule::Begin::OnControl => Begin::OnRequest,
    })
}

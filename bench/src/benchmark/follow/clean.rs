//! Processes, cgroups and files that recorders leave behind when half of them are killed, and the
//! limits that their commands see.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, test_kill_process_group};
use serde_json::json;
use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;

use super::recorded::RecorderKind;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

/// How long the commands of killed recorders may run on after the last recorder.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let temporary = scratch.path("temporary");
    std::fs::create_dir(&temporary)?;
    let before = cgroups()?;
    let script = [setting.workload("commands.sh"), "60".to_owned()];
    let words = scratch.following(
        RecorderKind::Tare("cgroup"),
        &["-e", "cpu-clock", "-F", "4000"],
        &script,
    );
    let count = setting.rounds.unwrap_or(100);
    let mut groups = Vec::new();
    for at in 0..count {
        groups.push(once(&words, &temporary, at % 2 == 1)?);
    }
    let started = Instant::now();
    while groups.iter().any(|&group| is_there(group)) && started.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let processes = groups.iter().filter(|&&group| is_there(group)).count();
    let swept = cgroups()?.difference(&before).count();
    groups.push(once(&words, &temporary, false)?);
    let left = cgroups()?.difference(&before).count();
    let expected = ["perf.data", "perf.data.old", "temporary"];
    let files = std::fs::read_dir(scratch.folder())?
        .chain(std::fs::read_dir(&temporary)?)
        .collect::<std::io::Result<Vec<_>>>()?;
    let files: Vec<_> = files
        .iter()
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .filter(|name| !expected.contains(&name.as_str()))
        .collect();
    let limits = limits(&scratch)?;
    let table = vec![format!(
        "{count} recorders, of which {} were killed and left {swept} cgroups for the next to sweep; files: {files:?}",
        count / 2
    )];
    let none = |what: &str, value: usize| Finding {
        what: what.to_owned(),
        measured: Estimate::exact(value as f64),
        bound: Bound::AtMost(0.0),
    };
    let findings = vec![
        none("cgroups that are left", left),
        none("commands that are left", processes),
        none("files that are left", files.len()),
        none("modes in which the command runs under other limits", limits),
    ];
    Ok(Report {
        table,
        findings,
        raw: json!({ "killed": count / 2, "left_for_next": swept, "files": files }),
    })
}

/// Runs one recorder in a process group of its own, and returns the group. With `kill`, SIGKILL
/// ends it within 150 ms, so it can't clean up.
fn once(words: &[String], temporary: &PathBuf, kill: bool) -> anyhow::Result<Pid> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env("TMPDIR", temporary);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    let group = Pid::from_raw(i32::try_from(child.id())?).context("a process has a number")?;
    if kill {
        std::thread::sleep(Duration::from_secs_f64(0.15 * fastrand::f64()));
        child.kill()?;
        child.wait()?;
    } else {
        let ended = child.wait()?;
        anyhow::ensure!(ended.success(), "'{}': {ended}", words.join(" "));
    }
    Ok(group)
}

fn is_there(group: Pid) -> bool {
    test_kill_process_group(group).is_ok()
}

/// The cgroups in the folder where recorders make theirs.
fn cgroups() -> anyhow::Result<BTreeSet<PathBuf>> {
    let own = Cgroups::read(&Host::default())
        .for_events
        .and_then(|hierarchy| hierarchy.own)
        .context("events don't go by cgroups here")?;
    let entries = std::fs::read_dir(own)?.collect::<std::io::Result<Vec<_>>>()?;
    Ok(entries.iter().map(std::fs::DirEntry::path).filter(|path| path.is_dir()).collect())
}

/// In how many modes the command's limits differ from those without tare.
fn limits(scratch: &Scratch<'_>) -> anyhow::Result<usize> {
    let command = [scratch.setting.workload("limits.sh")];
    let bare = succeed(&command)?.stdout;
    let mut differ = 0;
    for who in RecorderKind::ALL.into_iter().filter(|who| *who != RecorderKind::Perf) {
        differ += usize::from(
            succeed(&scratch.following(who, &["-e", "cpu-clock"], &command))?.stdout != bare,
        );
    }
    Ok(differ)
}

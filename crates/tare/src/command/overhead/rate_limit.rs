//! Restores `kernel.perf_event_max_sample_rate` after a study: the kernel lowers it permanently
//! when samples take too long.
//!
//! The limit is noted in a file. If a study is killed, the next one restores the limit.

use serde::{Deserialize, Serialize};
use tare_kernel::host::Host;
use tare_kernel::procfs;
use tare_measure::overhead::kept::StateFolder;

use crate::exit::say;

const SYSCTL: &str = "/proc/sys/kernel/perf_event_max_sample_rate";
const NAME: &str = "kernel.perf_event_max_sample_rate";
const NOTE: &str = "max-sample-rate";

/// The limit before a study.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    limit: i64,
    /// Boot id: after a restart the note is void.
    boot: String,
    pid: i32,
}

/// Restores the limit when dropped.
#[derive(Debug)]
pub(super) struct RateLimit<'a> {
    host: &'a Host,
    before: Option<i64>,
    note: Option<&'a StateFolder>,
    /// Whether the user was told that the limit can't be restored.
    is_reported: bool,
}

impl<'a> RateLimit<'a> {
    /// Restores the limit that a killed study left lowered, then notes the limit if this user may
    /// restore it.
    pub(super) fn keep(host: &'a Host, folder: Option<&'a StateFolder>) -> Self {
        if let Some(folder) = folder {
            restore_after_kill(host, folder);
        }
        let before = limit(host);
        let writable = rustix::fs::access(host.path(SYSCTL), rustix::fs::Access::WRITE_OK).is_ok();
        let note = folder.filter(|_| writable).zip(before).and_then(|(folder, limit)| {
            let pid = i32::try_from(std::process::id()).ok()?;
            let text = serde_json::to_string(&Note { limit, boot: boot(host), pid }).ok()?;
            folder.write(NOTE, &text).ok().map(|()| folder)
        });
        Self { host, before, note, is_reported: false }
    }

    /// The limit before the study, in Hz.
    pub(super) fn before(&self) -> Option<i64> {
        self.before
    }

    /// Returns the limit that the kernel lowered to since the last call, and restores it if this
    /// user may.
    pub(super) fn lowered_to(&mut self) -> Option<i64> {
        let before = self.before?;
        let now = limit(self.host)?;
        if now >= before {
            return None;
        }
        if let Err(error) = set(self.host, before)
            && !std::mem::replace(&mut self.is_reported, true)
        {
            say(&format!(
                "the kernel lowered {NAME} from {before} to {now}, and tare can't restore it ({error}): `sudo sysctl {NAME}={before}`"
            ));
        }
        Some(now)
    }
}

impl Drop for RateLimit<'_> {
    fn drop(&mut self) {
        self.lowered_to();
        if let Some(folder) = self.note {
            folder.remove(NOTE);
        }
    }
}

/// Restores the limit that a study noted whose process is gone.
fn restore_after_kill(host: &Host, folder: &StateFolder) {
    let Ok(Some(text)) = folder.read(NOTE) else { return };
    let Ok(note) = serde_json::from_str::<Note>(&text) else {
        folder.remove(NOTE);
        return;
    };
    // Another study at work keeps its own note.
    if note.boot == boot(host)
        && procfs::name(host, note.pid).is_some_and(|name| name.starts_with("tare"))
    {
        return;
    }
    let lowered = note.boot == boot(host) && limit(host).is_some_and(|now| now < note.limit);
    if lowered && set(host, note.limit).is_ok() {
        say(&format!(
            "restored {NAME} to {}: a study that was killed had left it lowered",
            note.limit
        ));
    }
    folder.remove(NOTE);
}

fn limit(host: &Host) -> Option<i64> {
    host.sysctl("kernel.perf_event_max_sample_rate").ok()
}

fn set(host: &Host, limit: i64) -> std::io::Result<()> {
    std::fs::write(host.path(SYSCTL), format!("{limit}\n"))
}

fn boot(host: &Host) -> String {
    host.read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with this limit, and a state folder beside it.
    fn machine(limit: i64) -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().unwrap();
        for folder in ["proc/sys/kernel/random", "proc/7", "state"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        std::fs::write(root.path().join("proc/sys/kernel/random/boot_id"), "b\n").unwrap();
        let host = Host::at(root.path());
        set(&host, limit).unwrap();
        (root, host)
    }

    fn folder(root: &tempfile::TempDir) -> StateFolder {
        StateFolder::make(&root.path().join("state"), "overhead").unwrap()
    }

    #[test]
    fn a_lowered_limit_is_reported_and_restored() {
        let (root, host) = machine(100_000);
        let folder = folder(&root);
        let mut kept = RateLimit::keep(&host, Some(&folder));
        assert_eq!((kept.before(), kept.lowered_to()), (Some(100_000), None));
        set(&host, 50_000).unwrap();
        assert_eq!((kept.lowered_to(), limit(&host)), (Some(50_000), Some(100_000)));
        assert!(folder.read(NOTE).unwrap().is_some());
        set(&host, 40_000).unwrap();
        drop(kept);
        assert_eq!((limit(&host), folder.read(NOTE).unwrap()), (Some(100_000), None));
    }

    #[test]
    fn the_next_study_restores_the_limit_after_a_killed_one() {
        let left = |boot: &str, pid: i32| {
            let (root, host) = machine(100_000);
            let folder = folder(&root);
            std::fs::write(root.path().join("proc/7/comm"), "tare\n").unwrap();
            let note = Note { limit: 100_000, boot: boot.into(), pid };
            folder.write(NOTE, &serde_json::to_string(&note).unwrap()).unwrap();
            set(&host, 25_000).unwrap();
            restore_after_kill(&host, &folder);
            (limit(&host).unwrap(), folder.read(NOTE).unwrap().is_some())
        };
        assert_eq!(left("b", 8), (100_000, false), "its process is gone");
        assert_eq!(left("b", 7), (25_000, true), "it is still at work");
        assert_eq!(left("before", 8), (25_000, false), "the machine has restarted");
    }
}

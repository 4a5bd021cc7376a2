//! Keeps a second agent from sampling the same tasks.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use thiserror::Error;

/// Bytes that are read of another agent's id.
const PID_BYTES: u64 = 16;

/// A file that an agent of the whole machine, or of a cgroup, holds as long as it runs. It has the
/// agent's process id.
#[derive(Debug)]
pub struct HostLock {
    _file: File,
}

/// Why an agent doesn't hold the lock.
#[derive(Debug, Error)]
pub enum HostLockError {
    /// Another agent samples the same tasks.
    #[error("{}", other_agent(*pid))]
    Taken {
        /// Its process id, if it could be read.
        pid: Option<i32>,
    },
    /// The file can't be locked.
    #[error(transparent)]
    File(#[from] io::Error),
}

fn other_agent(pid: Option<i32>) -> String {
    match pid {
        Some(pid) => format!(
            "the agent {pid} samples these tasks already: end it with `kill {pid}`, or sample a cgroup with --cgroup"
        ),
        None => "another agent samples these tasks already: end it first".to_owned(),
    }
}

impl HostLock {
    /// Takes the lock of the whole machine, or of a cgroup, in a folder that all agents of the host
    /// share. The folder is created.
    ///
    /// # Errors
    /// Fails if another agent holds it, or the file can't be created or locked.
    pub fn take(folder: &Path, cgroup: Option<&str>) -> Result<Self, HostLockError> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let name = cgroup.map_or_else(|| "agent.lock".to_owned(), lock_of_cgroup);
        // An agent of another user may own the folder, so a link isn't followed.
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.custom_flags(flags).open(folder.join(name))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                // The message then lacks the id.
                let _ = file.take(PID_BYTES).read_to_string(&mut text);
                return Err(HostLockError::Taken { pid: text.trim().parse().ok() });
            }
            Err(error) => return Err(io::Error::from(error).into()),
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self { _file: file })
    }
}

/// Returns the name of a cgroup's lock: letters and digits of its path, and a hash (FNV-1a) of all
/// of it.
fn lock_of_cgroup(path: &str) -> String {
    let path = path.trim_matches('/');
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    let is_plain = |letter: char| letter.is_ascii_alphanumeric();
    let readable = path.chars().take(64).map(|letter| if is_plain(letter) { letter } else { '_' });
    format!("agent-{}-{hash:016x}.lock", readable.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_agent_per_machine_and_per_cgroup() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let taken = |cgroup| match HostLock::take(&folder, cgroup) {
            Err(HostLockError::Taken { pid }) => pid == i32::try_from(std::process::id()).ok(),
            _ => false,
        };
        let machine = HostLock::take(&folder, None).unwrap();
        let cgroup = HostLock::take(&folder, Some("a/b")).unwrap();
        assert!(taken(None) && taken(Some("/a/b/")) && !taken(Some("a_b")) && !taken(Some("a")));
        drop((machine, cgroup));
        assert!(!taken(None) && !taken(Some("a/b")));
    }

    #[test]
    fn a_cgroups_name_leads_nowhere_else() {
        for path in ["../../etc", "a\nb", "", &"x".repeat(4096)] {
            let name = lock_of_cgroup(path);
            assert!(name.len() < 128 && !name.contains(['/', '\n']), "{name}");
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        std::fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, folder.path().join("agent.lock")).unwrap();
        let taken = HostLock::take(folder.path(), None);
        assert!(matches!(taken, Err(HostLockError::File(_))), "{taken:?}");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
    }
}

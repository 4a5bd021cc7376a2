//! Keeps perf maps and jitdumps. Process numbers are reused, so the folder names also have the
//! start time.
//!
//! ```text
//! FOLDER/jit/PID-START/perf.map    START: start of the process, in clock ticks since boot
//! FOLDER/jit/PID-START/jit.dump
//! ```
//! A copy belongs to the recording user, and is therefore trusted. The process chooses the content
//! of paths below its root, so a file is only copied if the process's user owns it, or if root or
//! the recording user owns it and all users may read it.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use tare_format::jit_note::JitProcess;
use tare_kernel::host::Host;
use tare_kernel::procfs;
use tare_kernel::timestamp::was_written_before;

use super::store::{LARGEST, StorageKind, Store};

/// A file that a just-in-time compiler may have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JitFile {
    /// The process that may have written it.
    pub(crate) process: JitProcess,
    /// The path as the process sees it.
    pub(crate) path: Vec<u8>,
    /// The name of the kept file.
    pub(crate) name: String,
}

/// Keeps a file. Returns `None` if it can't be opened, isn't trusted, is too large, or is an earlier
/// process's.
pub(super) fn store(
    store: &Store,
    host: &Host,
    wanted: &JitFile,
) -> Option<io::Result<StorageKind>> {
    let file = open(host, wanted).filter(|file| is_trusted(file, wanted))?;
    // A perf map of an earlier process with the same id. A process maps its own jitdump.
    let started_ns = wanted.process.started_ns.filter(|_| wanted.name == "perf.map");
    if started_ns.is_some_and(|started_ns| was_written_before(&file, started_ns)) {
        return None;
    }
    let process = &wanted.process;
    let folder = format!("{}-{}", process.pid, process.start_ticks);
    Some(store.jit(&folder, &wanted.name, &file))
}

/// Opens the file below its process's root while the process runs. If that fails, opens it here,
/// where a perf map has the process's number in this pid namespace.
fn open(host: &Host, wanted: &JitFile) -> Option<File> {
    let JitFile { process, path, name } = wanted;
    let pid = process.pid;
    if procfs::start_time(host, pid).is_ok_and(|start| start == process.start_ticks)
        && let Ok(root) = File::open(host.path(&format!("/proc/{pid}/root")))
        && let Some(file) = open_at(&root, path, ResolveFlags::IN_ROOT)
    {
        return Some(file);
    }
    let here =
        if name == "perf.map" { format!("/tmp/perf-{pid}.map").into_bytes() } else { path.clone() };
    let here = host.path(std::str::from_utf8(&here).ok()?);
    open_at(CWD, here.as_os_str().as_bytes(), ResolveFlags::empty())
}

/// Opens the file. Follows neither a symbolic link at the end of the path nor a magic link; with
/// `IN_ROOT`, other links stay below the folder.
fn open_at(folder: impl std::os::fd::AsFd, path: &[u8], resolve: ResolveFlags) -> Option<File> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve).map(File::from).ok()
}

fn is_trusted(file: &File, wanted: &JitFile) -> bool {
    let own = rustix::process::geteuid().as_raw();
    file.metadata().is_ok_and(|meta| {
        let is_theirs = [0, own, wanted.process.uid].contains(&meta.uid());
        let can_read = meta.uid() == wanted.process.uid || meta.mode() & 0o004 != 0;
        meta.is_file() && meta.len() <= LARGEST && is_theirs && can_read
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_the_processs_user_may_not_read_is_not_kept() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = file.as_file().metadata().unwrap().uid();
        let is_kept = |mode, uid| {
            file.as_file().set_permissions(PermissionsExt::from_mode(mode)).unwrap();
            let process = JitProcess { uid, ..JitProcess::default() };
            let path = b"/tmp/perf-7.map".to_vec();
            is_trusted(file.as_file(), &JitFile { process, path, name: "perf.map".to_owned() })
        };
        assert!(is_kept(0o600, own));
        assert!(!is_kept(0o600, own + 1) && !is_kept(0o640, own + 1));
        assert!(is_kept(0o644, own + 1), "everyone may read it");
    }
}

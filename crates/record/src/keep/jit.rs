//! Keeps perf maps and jitdumps. Process numbers are reused, so the folder names also have the
//! start time.
//!
//! ```text
//! FOLDER/jit/PID-START/perf.map    START: start of the process, in clock ticks since boot
//! FOLDER/jit/PID-START/jit.dump
//! ```
//! A copy belongs to the user, and is therefore trusted. So a file is only copied if it belongs to
//! the process's user, to root or to the recording user, and if the process's user may read it: the
//! process chooses what is at a path below its root.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use tare_format::jit_note::JitProcess;
use tare_kernel::host::Host;
use tare_kernel::procfs;

use super::store::{StorageKind, Store};

/// A file that a compiler may have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JitFile {
    /// The process that wrote it.
    pub(crate) process: JitProcess,
    /// The path as the process sees it.
    pub(crate) path: Vec<u8>,
    /// The name of the kept file.
    pub(crate) name: String,
}

/// Limit on the bytes of a kept file.
const LARGEST: u64 = 1 << 32;

/// Keeps a file. Returns `None` if it doesn't exist or isn't trusted.
pub(super) fn store(
    store: &Store,
    host: &Host,
    wanted: &JitFile,
) -> Option<io::Result<StorageKind>> {
    let file = open(host, wanted).filter(|file| is_trusted(file, wanted))?;
    let process = &wanted.process;
    let folder = format!("{}-{}", process.pid, process.start_ticks);
    Some(store.jit(&folder, &wanted.name, &file))
}

/// Opens the file as its process sees it while that runs, otherwise as seen from here.
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

/// Opens the file, and follows no link at its end and none that leads out of a process's root.
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

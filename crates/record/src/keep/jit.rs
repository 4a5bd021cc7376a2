//! Perf maps and jitdumps, which are found by the number of a process: numbers are used again.
//!
//! ```text
//! FOLDER/jit/PID-START/perf.map    START: when the process began, in clock ticks since the machine did
//! FOLDER/jit/PID-START/jit.dump
//! ```
//! A copy is the user's own, and so believed: only what belongs to the process's user, to root or to
//! who records is copied.

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

/// A file that a compiler may have left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JitFile {
    /// Whose it is.
    pub(crate) process: JitProcess,
    /// As the process sees it.
    pub(crate) path: Vec<u8>,
    /// What it is called where it is kept.
    pub(crate) name: String,
}

/// Bytes of a file that is kept.
const LARGEST: u64 = 1 << 32;

/// Keeps a file; `None` where there is none, or none to be believed.
pub(super) fn store(
    store: &Store,
    host: &Host,
    wanted: &JitFile,
) -> Option<io::Result<StorageKind>> {
    let file = open(host, wanted).filter(|file| is_believed(file, wanted))?;
    let process = &wanted.process;
    let folder = format!("{}-{}", process.pid, process.start_ticks);
    Some(store.jit(&folder, &wanted.name, &file))
}

/// As its process sees it while that runs, else as it is seen from here.
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

/// Neither by a link at its end, nor by one that leads out of a process's root.
fn open_at(folder: impl std::os::fd::AsFd, path: &[u8], resolve: ResolveFlags) -> Option<File> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve).map(File::from).ok()
}

fn is_believed(file: &File, wanted: &JitFile) -> bool {
    let own = rustix::process::geteuid().as_raw();
    file.metadata().is_ok_and(|meta| {
        let is_theirs = [0, own, wanted.process.uid].contains(&meta.uid());
        meta.is_file() && meta.len() <= LARGEST && is_theirs
    })
}

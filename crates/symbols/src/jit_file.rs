//! Opens files of just-in-time compilers: perf maps and jitdumps.
//!
//! Usually they are in a world-writable folder. A file is trusted only if the recorded process's
//! user, the reader or root owns it, and if it is a regular file with a single name, not a symbolic
//! link. A process in a container writes to its own `/tmp` under its own process id: while it runs,
//! its files are found through `/proc/PID/root`.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use tare_kernel::timestamp::was_written_before;

use crate::dso::{Dso, DsoKind};
use crate::search::{SymbolOptions, used};
use crate::unresolved::Unresolved;

/// Flags that refuse a symbolic link, and don't wait for the writer of a FIFO.
const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Data about a process that its records lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedProcess {
    /// Effective user id.
    pub uid: u32,
    /// Process id in its own PID namespace.
    pub own_pid: i32,
    /// Start time in clock ticks since boot (field 22 of `/proc/PID/stat`). It tells the process
    /// from a later one with the same id.
    pub start_ticks: u64,
    /// Start time in nanoseconds since 1970; `None` if unknown.
    pub started_ns: Option<u64>,
}

/// Limit of processes whose start is known from their records.
const STARTS: usize = 1 << 16;

/// Data about processes, by process id.
#[derive(Debug, Default)]
pub struct RecordedProcesses {
    described: HashMap<i32, RecordedProcess, foldhash::fast::RandomState>,
    /// Start times of processes that began during the recording, in nanoseconds since 1970.
    starts: HashMap<i32, u64, foldhash::fast::RandomState>,
}

impl RecordedProcesses {
    /// Adds the recorder's description of a process.
    pub fn describe(&mut self, pid: i32, process: RecordedProcess) {
        self.described.insert(pid, process);
    }

    /// Notes when a process began, in nanoseconds since 1970.
    pub fn note_start(&mut self, pid: i32, started_ns: u64) {
        if self.starts.len() < STARTS || self.starts.contains_key(&pid) {
            self.starts.insert(pid, started_ns);
        }
    }

    /// Forgets an exited process.
    pub fn forget(&mut self, pid: i32) {
        self.described.remove(&pid);
        self.starts.remove(&pid);
    }

    fn get(&self, pid: i32) -> Option<&RecordedProcess> {
        self.described.get(&pid)
    }

    /// Returns when a process began, if that is known.
    fn started_ns(&self, pid: i32) -> Option<u64> {
        let described = self.get(pid).and_then(|process| process.started_ns);
        described.or_else(|| self.starts.get(&pid).copied())
    }
}

/// Opens the perf map or the jitdump of a DSO.
///
/// # Errors
/// Fails if the file is missing, not readable or not trusted.
pub(crate) fn open(
    options: &SymbolOptions,
    processes: &RecordedProcesses,
    dso: &Dso,
) -> Result<File, Unresolved> {
    let file = find(options, processes, dso)?;
    options.note_recorded(&dso.name, Path::new(""), used::file(&file));
    Ok(file)
}

fn find(
    options: &SymbolOptions,
    processes: &RecordedProcesses,
    dso: &Dso,
) -> Result<File, Unresolved> {
    let (DsoKind::PerfMap { pid } | DsoKind::JitDump { pid }) = dso.kind else {
        return Err(Unresolved::NoFile);
    };
    let process = processes.get(pid);
    if let Some(file) = process.and_then(|process| open_kept(options, dso, pid, process)) {
        return Ok(file);
    }
    let file = open_current(options, dso, pid, process)?;
    // An earlier process with the same id wrote the map. A process maps its own jitdump.
    let is_map = matches!(dso.kind, DsoKind::PerfMap { .. });
    match processes.started_ns(pid).filter(|_| is_map) {
        Some(started_ns) if was_written_before(&file, started_ns) => Err(Unresolved::OlderPerfMap),
        _ => Ok(file),
    }
}

/// Opens the file below the root of the process while it runs, or else at its path.
fn open_current(
    options: &SymbolOptions,
    dso: &Dso,
    pid: i32,
    process: Option<&RecordedProcess>,
) -> Result<File, Unresolved> {
    let owner = process.map(|process| process.uid);
    let running = process.filter(|process| still_runs(options, pid, process.start_ticks));
    if let Some(process) = running {
        let path = match dso.kind {
            DsoKind::PerfMap { .. } => format!("/tmp/perf-{}.map", process.own_pid).into_bytes(),
            _ => dso.name.clone(),
        };
        if let Ok(file) = open_in_root(options, pid, &path) {
            return check(options, file, owner).and_then(|file| check_reach(file, process.uid));
        }
    }
    match rustix::fs::open(options.path(&dso.name), FLAGS, Mode::empty()) {
        Ok(file) => check(options, file.into(), owner),
        Err(Errno::LOOP) => Err(Unresolved::NotTrusted),
        Err(Errno::ACCESS | Errno::PERM) => Err(Unresolved::NotReadable),
        Err(_) => Err(Unresolved::NoFile),
    }
}

/// Opens a file that `tare record --keep-binaries` kept of a process. It is trusted if the reader
/// or root owns it.
fn open_kept(
    options: &SymbolOptions,
    dso: &Dso,
    pid: i32,
    process: &RecordedProcess,
) -> Option<File> {
    let folder = options.build_id_cache.as_ref()?;
    let name = if let DsoKind::PerfMap { .. } = dso.kind { "perf.map" } else { "jit.dump" };
    let path = folder.join(format!("jit/{pid}-{}/{name}", process.start_ticks));
    let file = rustix::fs::open(path, FLAGS, Mode::empty()).ok()?;
    check(options, file.into(), None).ok()
}

/// Opens a file in a process's root folder, which no link leaves.
fn open_in_root(options: &SymbolOptions, pid: i32, path: &[u8]) -> rustix::io::Result<File> {
    let root = options.path(format!("/proc/{pid}/root").as_bytes());
    let root = rustix::fs::open(root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(&root, path, FLAGS, Mode::empty(), resolve).map(File::from)
}

/// Whether the process with this id is the recorded one.
fn still_runs(options: &SymbolOptions, pid: i32, start_ticks: u64) -> bool {
    let stat = std::fs::read(options.path(format!("/proc/{pid}/stat").as_bytes()));
    stat.is_ok_and(|stat| start_of(&stat) == Some(start_ticks))
}

/// Returns field 22 of `/proc/PID/stat`. Field 2, the name, may contain spaces and brackets.
fn start_of(stat: &[u8]) -> Option<u64> {
    let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let start = stat.get(behind_name..)?.split(|byte| *byte == b' ').nth(22 - 3)?;
    std::str::from_utf8(start).ok()?.parse().ok()
}

/// Returns the file if it is trusted.
fn check(options: &SymbolOptions, file: File, owner: Option<u32>) -> Result<File, Unresolved> {
    let meta = file.metadata().map_err(|_| Unresolved::NotReadable)?;
    let is_trusted = [Some(0), Some(options.reader_uid), owner].contains(&Some(meta.uid()));
    // Another user may be able to link one of root's files into the folder.
    let is_file = meta.is_file() && meta.nlink() <= 1;
    if is_file && is_trusted { Ok(file) } else { Err(Unresolved::NotTrusted) }
}

/// Refuses a file unless the process's user owns it or everyone may read it. The process chooses
/// what is at a path below its root: in a mount namespace of its own it can put one of root's files
/// there.
fn check_reach(file: File, uid: u32) -> Result<File, Unresolved> {
    let meta = file.metadata().map_err(|_| Unresolved::NotReadable)?;
    let can_read = meta.uid() == uid || meta.mode() & 0o004 != 0;
    if can_read { Ok(file) } else { Err(Unresolved::NotTrusted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_the_process_may_not_read_is_not_read_for_it() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = file.as_file().metadata().unwrap().uid();
        let reach = |mode, uid| {
            file.as_file().set_permissions(PermissionsExt::from_mode(mode)).unwrap();
            check_reach(file.reopen().unwrap(), uid).err()
        };
        assert_eq!(reach(0o600, own), None);
        assert_eq!(reach(0o600, own + 1), Some(Unresolved::NotTrusted));
        assert_eq!(reach(0o640, own + 1), Some(Unresolved::NotTrusted));
        assert_eq!(reach(0o644, own + 1), None);
    }

    #[test]
    fn reads_the_start_time_after_any_name() {
        let stat = b"12 (a) b (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        assert_eq!(start_of(stat), Some(4711));
        assert_eq!((start_of(b""), start_of(b"1 (x"), start_of(b"1 (x) S 1")), (None, None, None));
    }

    /// The container's root.
    const ROOT: &str = "proc/7/root";

    /// A folder with a machine's files: of process 7, which is 1 in its container, with a perf map
    /// inside the container and one outside.
    fn machine() -> (tempfile::TempDir, SymbolOptions, RecordedProcesses) {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("proc/7/stat", "7 (node) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 50 20 21");
        put(&format!("{ROOT}/tmp/perf-1.map"), "inside");
        put("tmp/perf-7.map", "outside");
        let uid = folder.path().metadata().unwrap().uid();
        let options = SymbolOptions {
            symfs: folder.path().into(),
            reader_uid: uid.wrapping_add(1),
            ..SymbolOptions::default()
        };
        let process = RecordedProcess { uid, own_pid: 1, start_ticks: 50, started_ns: None };
        let mut processes = RecordedProcesses::default();
        processes.describe(7, process);
        (folder, options, processes)
    }

    fn read(options: &SymbolOptions, processes: &RecordedProcesses) -> Result<String, Unresolved> {
        let name = b"/tmp/perf-7.map".to_vec();
        let dso = Dso { kind: DsoKind::PerfMap { pid: 7 }, name, build_id: None };
        open(options, processes, &dso).map(|file| std::io::read_to_string(file).unwrap())
    }

    #[test]
    fn a_process_in_a_container_is_found_while_it_runs() {
        let (folder, options, mut processes) = machine();
        assert_eq!(read(&options, &processes), Ok("inside".into()));
        processes.described.get_mut(&7).unwrap().start_ticks = 51;
        assert_eq!(read(&options, &processes), Ok("outside".into()), "another process");
        // An absolute link stays in the container.
        processes.described.get_mut(&7).unwrap().start_ticks = 50;
        let root = folder.path().join(ROOT);
        let inside = root.join("tmp");
        std::fs::rename(&inside, root.join("real")).unwrap();
        std::os::unix::fs::symlink("/real", &inside).unwrap();
        assert_eq!(read(&options, &processes), Ok("inside".into()));
    }

    #[test]
    fn a_perf_map_older_than_its_process_is_not_believed() {
        let (folder, options, mut processes) = machine();
        let inside = folder.path().join(ROOT).join("tmp/perf-1.map");
        let written = inside.metadata().unwrap().modified().unwrap();
        let written_ns = written.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let written_ns = u64::try_from(written_ns).unwrap();
        let later_ns = written_ns + 10_000_000_000;
        processes.described.get_mut(&7).unwrap().started_ns = Some(written_ns);
        assert_eq!(read(&options, &processes), Ok("inside".into()));
        processes.described.get_mut(&7).unwrap().started_ns = Some(later_ns);
        assert_eq!(read(&options, &processes), Err(Unresolved::OlderPerfMap));
        std::fs::remove_dir_all(folder.path().join("proc")).unwrap();
        assert_eq!(read(&options, &processes), Err(Unresolved::OlderPerfMap), "at its path");
        // Without a description, the start is known from the process's first record.
        let mut processes = RecordedProcesses::default();
        let options = SymbolOptions { reader_uid: options.reader_uid.wrapping_sub(1), ..options };
        assert_eq!(read(&options, &processes), Ok("outside".into()));
        processes.note_start(7, later_ns);
        assert_eq!(read(&options, &processes), Err(Unresolved::OlderPerfMap));
    }

    #[test]
    fn trusts_files_of_the_process_user_the_reader_and_root() {
        let (folder, mut options, processes) = machine();
        std::fs::remove_dir_all(folder.path().join("proc")).unwrap();
        assert_eq!(read(&options, &processes), Ok("outside".into()), "the process's user");
        let nobody = RecordedProcesses::default();
        if folder.path().metadata().unwrap().uid() != 0 {
            assert_eq!(read(&options, &nobody), Err(Unresolved::NotTrusted));
        }
        options.reader_uid = options.reader_uid.wrapping_sub(1);
        assert_eq!(read(&options, &nobody), Ok("outside".into()), "the reader");
        let map = folder.path().join("tmp/perf-7.map");
        std::fs::rename(&map, folder.path().join("tmp/other")).unwrap();
        std::os::unix::fs::symlink("other", &map).unwrap();
        assert_eq!(read(&options, &processes), Err(Unresolved::NotTrusted), "a symbolic link");
        std::fs::remove_file(&map).unwrap();
        std::fs::hard_link(folder.path().join("tmp/other"), &map).unwrap();
        assert_eq!(read(&options, &processes), Err(Unresolved::NotTrusted), "another name");
        std::fs::remove_file(folder.path().join("tmp/other")).unwrap();
        assert_eq!(read(&options, &processes), Ok("outside".into()), "its only name");
    }

    /// Opening a FIFO for reading would wait for a writer.
    #[test]
    fn does_not_wait_for_a_fifo() {
        let (folder, options, processes) = machine();
        std::fs::remove_dir_all(folder.path().join("proc")).unwrap();
        let map = folder.path().join("tmp/perf-7.map");
        std::fs::remove_file(&map).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&map).status();
        if !made.is_ok_and(|status| status.success()) {
            return println!("skipped: no mkfifo");
        }
        assert_eq!(read(&options, &processes), Err(Unresolved::NotTrusted));
    }
}

//! Notes about processes that generate code at run time. With the notes a reader finds the code
//! files that the processes wrote, checks whose they are, and converts the times in them.
//!
//! A process is looked up when a record shows that it maps code without a file, or a jitdump. If it
//! has exited by then, it is left out. Clocks are read when the first jitdump is mapped, and again
//! from time to time, since they drift apart.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tare_format::Endian;
use tare_format::file::note;
use tare_format::jit_note::{JitNote, JitProcess};
use tare_format::record::{FileId, Mmap, Record, Records};
use tare_kernel::host::Host;
use tare_kernel::procfs;

use crate::clock::Clock;
use crate::keep::JitFile;

/// Limit on noted processes. A note with this many stays below its size limit.
const PROCESSES: usize = 1 << 13;

/// Clocks are read again after `AGAIN`, or after 1/`PART` of the time since the first reading if
/// that is longer: some 530 times in the first day.
const AGAIN: Duration = Duration::from_secs(1);
const PART: u32 = 64;

/// `PROT_EXEC` of `mmap(2)`.
const PROT_EXEC: u32 = 4;

/// Processes that generate code, and which of them still need a note.
#[derive(Debug)]
pub(crate) struct JitProcesses {
    host: Host,
    clock: Arc<dyn Clock>,
    /// `clockid` of the events; `None`: the kernel's default.
    clockid: Option<i32>,
    known: BTreeMap<i32, JitProcess>,
    /// Paths of jitdumps, by process.
    dump_paths: BTreeMap<i32, Vec<u8>>,
    /// Processes that no note contains yet.
    new: Vec<JitProcess>,
    dumps: Option<Dumps>,
}

/// When the first jitdump was mapped, and when the clocks are to be read next.
#[derive(Clone, Copy, Debug)]
struct Dumps {
    first: Instant,
    next: Instant,
}

impl JitProcesses {
    pub(crate) fn new(host: Host, clock: Arc<dyn Clock>, clockid: Option<i32>) -> Self {
        Self {
            host,
            clock,
            clockid,
            known: BTreeMap::new(),
            dump_paths: BTreeMap::new(),
            new: Vec::new(),
            dumps: None,
        }
    }

    /// Takes in whole records, and ignores all but mappings of code.
    pub(crate) fn see(&mut self, records: &[u8]) {
        for record in Records::new(records, Endian::NATIVE) {
            if let Ok(Record::Mmap(mmap)) = record.decode() {
                self.see_mapping(&mmap);
            }
        }
    }

    fn see_mapping(&mut self, mmap: &Mmap<'_>) {
        let is_code = !mmap.is_data && (mmap.prot & PROT_EXEC != 0 || mmap.file == FileId::None);
        let is_dump = is_jitdump(mmap.path);
        if !is_code || mmap.pid < 0 || !(is_dump || is_anonymous(mmap.path)) {
            return;
        }
        if is_dump && self.dumps.is_none() {
            let now = self.clock.now();
            self.dumps = Some(Dumps { first: now, next: now });
        }
        if is_dump && self.dump_paths.len() < PROCESSES {
            self.dump_paths.insert(mmap.pid, mmap.path.to_vec());
        }
        if self.known.contains_key(&mmap.pid) || self.known.len() >= PROCESSES {
            return;
        }
        let pid = mmap.pid;
        let found = procfs::identity(&self.host, pid)
            .and_then(|found| Ok((found, procfs::start_time(&self.host, pid)?)));
        if let Ok((procfs::Identity { uid, own_pid }, start_ticks)) = found {
            let offset_ns = |process: &dyn fmt::Display| {
                procfs::monotonic_offset_ns(&self.host, process).unwrap_or(0)
            };
            let process = JitProcess {
                pid,
                uid,
                own_pid,
                start_ticks,
                started_ns: self.clock.time_of_ticks(start_ticks),
                monotonic_ahead_ns: offset_ns(&pid).saturating_sub(offset_ns(&"self")),
            };
            self.known.insert(pid, process);
            self.new.push(process);
        }
    }

    /// Returns a note's records with the processes that no note contains yet, and a pair of clock
    /// readings if one is due; empty if there is neither.
    pub(crate) fn take_note(&mut self) -> Vec<u8> {
        let now = self.dumps.map(|_| self.clock.now());
        let is_due = self.dumps.zip(now).is_some_and(|(dumps, now)| dumps.next <= now);
        if self.new.is_empty() && !is_due {
            return Vec::new();
        }
        let mut made = JitNote { processes: std::mem::take(&mut self.new), ..JitNote::default() };
        if let (true, Some(now), Some(dumps)) = (is_due, now, &mut self.dumps) {
            made.clock = self.clock.clock_pair(self.clockid);
            dumps.next = now + AGAIN.max(now.saturating_duration_since(dumps.first) / PART);
        }
        // `PROCESSES` keeps the note below its size limit.
        note::encode(&made.to_note()).unwrap_or_default()
    }

    /// The files that compilers may have written for each process; they need not exist.
    pub(crate) fn files(&self) -> Vec<JitFile> {
        let of = |process: &JitProcess| {
            let own = format!("/tmp/perf-{}.map", process.own_pid).into_bytes();
            let map = JitFile { process: *process, path: own, name: "perf.map".to_owned() };
            let dump = self.dump_paths.get(&process.pid).map(|path| JitFile {
                process: *process,
                path: path.clone(),
                name: "jit.dump".to_owned(),
            });
            [Some(map), dump]
        };
        self.known.values().flat_map(of).flatten().collect()
    }

    /// Returns a note with all processes, and a pair of clock readings if a jitdump was mapped, for
    /// the beginning of a file.
    pub(crate) fn take_note_of_all(&mut self) -> Vec<u8> {
        self.new = self.known.values().copied().collect();
        if let Some(dumps) = &mut self.dumps {
            dumps.next = self.clock.now();
        }
        self.take_note()
    }
}

fn is_anonymous(path: &[u8]) -> bool {
    path == b"//anon" || path.starts_with(b"/anon_hugepage") || path.starts_with(b"/dev/zero")
}

/// Whether the last part of a path looks like `jit-123.dump`.
fn is_jitdump(path: &[u8]) -> bool {
    let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let number = base.strip_prefix(b"jit-").and_then(|rest| rest.strip_suffix(b".dump"));
    number.is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn each_process_is_noted_once_per_file() {
        let mut processes = JitProcesses::new(Host::default(), Arc::new(SystemClock), None);
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let code = Mmap {
            pid,
            tid: pid,
            start: 0x1000,
            len: 0x1000,
            pgoff: 0,
            file: FileId::Inode { major: 0, minor: 0, inode: 0, generation: 0 },
            prot: PROT_EXEC,
            flags: 0,
            path: b"//anon",
            is_data: false,
        };
        processes.see_mapping(&Mmap { path: b"/usr/bin/true", ..code });
        processes.see_mapping(&Mmap { prot: 0, ..code });
        assert!(processes.take_note().is_empty(), "neither a file nor data is generated code");
        processes.see_mapping(&code);
        processes.see_mapping(&code);
        assert!(!processes.take_note().is_empty());
        assert!(processes.take_note().is_empty());
        assert!(!processes.take_note_of_all().is_empty());
        let names: Vec<_> = processes.files().into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["perf.map"]);
    }

    #[test]
    fn only_names_of_jitdumps_are_recognized() {
        let paths = ["/tmp/jit-12.dump", "jit-1.dump", "/tmp/jit-.dump", "/tmp/jit-a.dump", "/x"];
        let found = paths.map(|path| is_jitdump(path.as_bytes()));
        assert_eq!(found, [true, true, false, false, false]);
    }
}

//! Processes, their threads and mappings.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use tare_format::record::{Comm, FileId, Mmap, NamespaceLink, Task};
use tare_kernel::host::Host;
use tare_kernel::procfs::{self, Mapping, ProcessStat};

use super::buffer::RecordBuffer;
use super::{SynthesisCounts, SynthesizeOptions};

/// The kernel's name for mappings without a file.
const ANONYMOUS: &[u8] = b"//anon";

/// `PROT_READ` and `PROT_EXEC` of `include/uapi/asm-generic/mman-common.h`.
const READ: u32 = 1;
const EXECUTE: u32 = 4;

pub(super) struct Processes<'a, 'b> {
    host: &'a Host,
    options: &'a SynthesizeOptions,
    buffer: &'a mut RecordBuffer<'b>,
    done: &'a mut SynthesisCounts,
    /// Buffer for the text of a process's mappings, reused.
    text: Vec<u8>,
}

impl<'a, 'b> Processes<'a, 'b> {
    pub(super) fn new(
        host: &'a Host,
        options: &'a SynthesizeOptions,
        buffer: &'a mut RecordBuffer<'b>,
        done: &'a mut SynthesisCounts,
    ) -> Self {
        Self { host, options, buffer, done, text: Vec::new() }
    }

    /// Describes a process with all its threads.
    pub(super) fn describe_process(&mut self, pid: i32) -> io::Result<()> {
        let Some(process) = self.leader(pid)? else { return Ok(()) };
        if process.threads > 1 {
            let tids = procfs::threads(self.host, pid).unwrap_or_default();
            tids.into_iter().filter(|tid| *tid != pid).try_for_each(|tid| self.thread(pid, tid))?;
        }
        self.mappings(pid, &process)
    }

    /// Describes single threads.
    pub(super) fn describe_threads(&mut self, tids: &[i32]) -> io::Result<()> {
        let mut by_process = BTreeMap::<i32, Vec<i32>>::new();
        for tid in tids {
            match procfs::process_of(self.host, *tid) {
                Ok(pid) => by_process.entry(pid).or_default().push(*tid),
                Err(error) => self.count_failure(&error),
            }
        }
        for (pid, mut tids) in by_process {
            let Some(process) = self.leader(pid)? else { continue };
            tids.sort_unstable();
            tids.dedup();
            tids.into_iter().filter(|tid| *tid != pid).try_for_each(|tid| self.thread(pid, tid))?;
            self.mappings(pid, &process)?;
        }
        Ok(())
    }

    /// Describes a process's first thread; returns `None` if it can't be read.
    fn leader(&mut self, pid: i32) -> io::Result<Option<ProcessStat>> {
        let process = match procfs::process(self.host, pid) {
            Ok(process) => process,
            Err(error) => {
                self.count_failure(&error);
                return Ok(None);
            }
        };
        self.add_task(
            &Task { pid, ppid: process.ppid, tid: pid, ptid: process.ppid, time_ns: 0 },
            &process.comm,
        )?;
        self.done.processes += 1;
        Ok(Some(process))
    }

    fn thread(&mut self, pid: i32, tid: i32) -> io::Result<()> {
        match procfs::thread_comm(self.host, pid, tid) {
            Ok(comm) => self.add_task(&Task { pid, ppid: pid, tid, ptid: pid, time_ns: 0 }, &comm),
            Err(error) => {
                self.count_failure(&error);
                Ok(())
            }
        }
    }

    fn add_task(&mut self, task: &Task, comm: &[u8]) -> io::Result<()> {
        let Task { pid, tid, .. } = *task;
        self.buffer.fork(task)?;
        if self.options.namespaces {
            let links = procfs::namespaces(self.host, pid, tid)
                .map(|(dev, inode)| NamespaceLink { dev, inode });
            self.buffer.namespaces(pid, tid, &links)?;
        }
        self.buffer.comm(&Comm { pid, tid, comm, is_exec: false })?;
        self.done.threads += 1;
        Ok(())
    }

    fn mappings(&mut self, pid: i32, process: &ProcessStat) -> io::Result<()> {
        if process.is_kernel_thread || !self.options.mappings {
            return Ok(());
        }
        if let Err(error) = procfs::read_mappings(self.host, pid, &mut self.text) {
            self.count_failure(&error);
            return Ok(());
        }
        for mapping in procfs::mappings(&self.text) {
            if let Some(mmap) = record(pid, &mapping, self.options.data) {
                self.buffer.mmap(&mmap)?;
                self.done.mappings += 1;
            }
        }
        Ok(())
    }

    fn count_failure(&mut self, error: &io::Error) {
        let is_hidden = error.kind() == ErrorKind::PermissionDenied;
        *if is_hidden { &mut self.done.hidden } else { &mut self.done.gone } += 1;
    }
}

/// Returns the record of a mapping; `None` for one without code, unless `data` is set and it can be
/// read.
fn record<'a>(pid: i32, mapping: &'a Mapping<'_>, data: bool) -> Option<Mmap<'a>> {
    let is_data = mapping.prot & EXECUTE == 0;
    if is_data && !(data && mapping.prot & READ != 0) {
        return None;
    }
    let (major, minor) = mapping.device;
    Some(Mmap {
        pid,
        tid: pid,
        start: mapping.start,
        len: mapping.end.checked_sub(mapping.start)?,
        pgoff: mapping.offset,
        file: FileId::Inode { major, minor, inode: mapping.inode, generation: 0 },
        prot: mapping.prot,
        flags: mapping.flags,
        path: if mapping.path.is_empty() { ANONYMOUS } else { &mapping.path },
        is_data,
    })
}

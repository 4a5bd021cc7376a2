//! What was there before a recording began, as the records that the kernel would have made of it:
//! the kernel's own code, processes, their threads and mappings, cgroups.
//!
//! Who records starts the events first: what begins while this is read is told by the kernel then,
//! and here perhaps once more, which readers take.

mod buffer;
mod process;
#[cfg(test)]
mod tests;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tare_format::abi::bindings::{PERF_BPF_EVENT_PROG_LOAD, PERF_RECORD_KSYMBOL_TYPE_BPF};
use tare_format::record::encode::{Encoder, TooLong};
use tare_format::record::{BpfEvent, Cgroup, FileId, Ksymbol, Layout, Mmap, SampleId};
use tare_kernel::bpf::{LoadedFunction, LoadedProgram};
use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;
use tare_kernel::procfs::{self, KernelModule};

use buffer::Buffer;
use process::Processes;

/// Whose processes are described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Everyone's.
    All,
    /// These processes, with all their threads.
    Processes(Vec<i32>),
    /// These threads, and of each thread's process the name and the mappings.
    Threads(Vec<i32>),
}

/// What of them is described.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Where the kernel and its modules lie. Not needed where no event counts in the kernel.
    pub kernel: bool,
    /// What processes map.
    pub mappings: bool,
    /// Also mappings that hold no code (`-d`).
    pub data: bool,
    /// The namespaces of each thread (`--namespaces`).
    pub namespaces: bool,
    /// The cgroups of the machine (`--all-cgroups`).
    pub cgroups: bool,
}

/// What was described, and what could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synthesized {
    /// Processes.
    pub processes: u64,
    /// Threads, those that processes begin with included.
    pub threads: u64,
    /// Mappings of processes.
    pub mappings: u64,
    /// Modules of the kernel.
    pub modules: Vec<KernelModule>,
    /// Cgroups.
    pub cgroups: u64,
    /// Whether the place of the kernel is known, where it was asked for.
    pub kernel: bool,
    /// Processes and threads that ended while they were looked at.
    pub gone: u64,
    /// Processes whose mappings this user may not see.
    pub hidden: u64,
    /// Records that would have been too long to be one: a path of more than some 65,000 bytes.
    pub left_out: u64,
    /// Bytes of records.
    pub bytes: u64,
}

/// Hands out records in pieces of some 64 KiB, each of whole records. They end as those of an event
/// with this `layout` do, with zeros: they belong to no time and no event.
///
/// # Errors
/// What `emit` returns; `/proc` can't be read. That a single process can't be is counted.
pub fn synthesize(
    host: &Host,
    targets: &Targets,
    options: &Options,
    layout: &Layout,
    emit: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Synthesized> {
    let mut buffer = Buffer::new(layout, emit);
    let mut done = Synthesized::default();
    if options.kernel {
        kernel(host, &mut buffer, &mut done)?;
    }
    if options.cgroups {
        cgroups(host, &mut buffer, &mut done)?;
    }
    let mut processes = Processes::new(host, options, &mut buffer, &mut done);
    match targets {
        Targets::All => {
            procfs::processes(host)?.into_iter().try_for_each(|pid| processes.whole(pid))?;
        }
        Targets::Processes(pids) => pids.iter().try_for_each(|pid| processes.whole(*pid))?,
        Targets::Threads(tids) => processes.threads(tids)?,
    }
    buffer.flush()?;
    done.bytes = buffer.bytes();
    done.left_out = buffer.left_out();
    Ok(done)
}

/// The kernel and its modules, as perf names them. The offset of the kernel's mapping is the
/// address of the symbol that its name ends with: by it readers find how far the kernel was moved
/// from where it was linked to.
fn kernel(host: &Host, buffer: &mut Buffer<'_>, done: &mut Synthesized) -> io::Result<()> {
    done.modules = procfs::modules(host);
    if let Some(text) = procfs::kernel_text(host) {
        // Up to the modules, or to the end of all addresses, where the length is a secret.
        let next = done.modules.iter().map(|one| one.start).find(|start| *start > text.start);
        let len = text.len.unwrap_or_else(|| next.unwrap_or(u64::MAX) - text.start);
        let name = format!("[kernel.kallsyms]{}", text.symbol);
        buffer.mmap(&kernel_mapping(text.start, len, text.start, name.as_bytes()))?;
        done.kernel = true;
    }
    for module in &done.modules {
        let name = module_name(module);
        buffer.mmap(&kernel_mapping(module.start, module.len, 0, name.as_bytes()))?;
    }
    Ok(())
}

/// BPF programs that were loaded before: the symbol of each function, and where `events` are recorded
/// of those that are loaded later, that of the program. Those that are too long are left out.
pub(crate) fn bpf_programs(programs: &[LoadedProgram], events: bool, layout: &Layout) -> Vec<u8> {
    let encoder = Encoder::new(layout, &SampleId::default());
    let mut bytes = Vec::new();
    for program in programs {
        for LoadedFunction { name, start, len } in &program.functions {
            let ksym_type = u16::try_from(PERF_RECORD_KSYMBOL_TYPE_BPF).unwrap_or(0);
            let symbol = Ksymbol { addr: *start, len: *len, ksym_type, flags: 0, name };
            _ = encoder.ksymbol(&mut bytes, &symbol);
        }
        if events {
            let event_type = u16::try_from(PERF_BPF_EVENT_PROG_LOAD).unwrap_or(0);
            let event = BpfEvent { event_type, flags: 0, id: program.id, tag: program.tag };
            _ = encoder.bpf_event(&mut bytes, &event);
        }
    }
    bytes
}

/// A module's file, or its name in brackets.
pub(crate) fn module_name(module: &KernelModule) -> String {
    module.path.clone().unwrap_or_else(|| format!("[{}]", module.name))
}

/// The mapping of a module that was loaded while events were recorded, of which the kernel makes no
/// record. It has its build id with it: the same module may have been loaded before as another build.
pub(crate) fn module(
    module: &KernelModule,
    build_id: Option<&[u8]>,
    layout: &Layout,
) -> Result<Vec<u8>, TooLong> {
    let name = module_name(module);
    let mut mapping = kernel_mapping(module.start, module.len, 0, name.as_bytes());
    mapping.file = build_id.map_or(FileId::None, FileId::BuildId);
    let mut bytes = Vec::new();
    Encoder::new(layout, &SampleId::default()).mmap(&mut bytes, &mapping)?;
    Ok(bytes)
}

fn kernel_mapping(start: u64, len: u64, pgoff: u64, path: &[u8]) -> Mmap<'_> {
    Mmap {
        pid: -1,
        tid: 0,
        start,
        len,
        pgoff,
        file: FileId::None,
        prot: 0,
        flags: 0,
        path,
        is_data: false,
    }
}

/// The cgroups of the hierarchy that events go by, by the id that samples hold: the folder's inode
/// (Linux 5.5).
fn cgroups(host: &Host, buffer: &mut Buffer<'_>, done: &mut Synthesized) -> io::Result<()> {
    let Some(hierarchy) = Cgroups::read(host).for_events else { return Ok(()) };
    let top = host.path(&hierarchy.mount.to_string_lossy());
    let mut folders = vec![top.clone()];
    while let Some(folder) = folders.pop() {
        // One that went away in between has nothing left to tell.
        let (Ok(metadata), Ok(entries)) = (std::fs::metadata(&folder), std::fs::read_dir(&folder))
        else {
            continue;
        };
        let below = folder.strip_prefix(&top).unwrap_or(Path::new(""));
        let path = [b"/", below.as_os_str().as_encoded_bytes()].concat();
        buffer.cgroup(&Cgroup { id: metadata.ino(), path: &path })?;
        done.cgroups += 1;
        let inside = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut inside: Vec<_> = inside.map(|entry| entry.path()).collect();
        inside.sort_unstable_by(|a, b| b.cmp(a));
        folders.append(&mut inside);
    }
    Ok(())
}

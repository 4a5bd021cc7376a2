//! Describes the kernel's code, processes with their threads and mappings, and cgroups that existed
//! before a recording, in the records that the kernel would have written.
//!
//! The recorder first enables the event that tracks processes. A process that starts during the
//! description may therefore appear twice, once from the kernel, which readers tolerate.

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

use buffer::RecordBuffer;
use process::Processes;

/// The processes or threads to describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// All processes.
    All,
    /// These processes, with all their threads.
    Processes(Vec<i32>),
    /// These threads, with the names and mappings of their processes.
    Threads(Vec<i32>),
}

/// The properties to describe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynthesizeOptions {
    /// Addresses of the kernel and its modules. Not needed if no event counts in the kernel.
    pub kernel: bool,
    /// Mappings of processes.
    pub mappings: bool,
    /// Include mappings without code (`-d`).
    pub data: bool,
    /// The namespaces of each thread (`--namespaces`).
    pub namespaces: bool,
    /// The cgroups of the machine (`--all-cgroups`).
    pub cgroups: bool,
}

/// Counts of described and skipped items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SynthesisCounts {
    /// Processes.
    pub processes: u64,
    /// Threads, including each process's first.
    pub threads: u64,
    /// Mappings of processes.
    pub mappings: u64,
    /// The kernel's modules.
    pub modules: Vec<KernelModule>,
    /// Cgroups.
    pub cgroups: u64,
    /// Whether the kernel's address was requested and is known.
    pub kernel: bool,
    /// Processes and threads that could not be read for another reason than missing rights: they
    /// have exited.
    pub gone: u64,
    /// Processes and threads that this user may not read.
    pub hidden: u64,
    /// Records that are too long, with a path of more than some 65,000 bytes.
    pub left_out: u64,
    /// Bytes of records.
    pub bytes: u64,
}

/// Emits records in pieces of some 64 KiB, each of whole records. Their trailing fields have this
/// `layout` and are zero: they have no time and no event.
///
/// # Errors
/// Returns the error of `emit`; with [`Targets::All`] fails if `/proc` can't be listed. Unreadable
/// single processes are counted instead.
pub fn synthesize(
    host: &Host,
    targets: &Targets,
    options: &SynthesizeOptions,
    layout: &Layout,
    emit: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<SynthesisCounts> {
    let mut buffer = RecordBuffer::new(layout, emit);
    let mut done = SynthesisCounts::default();
    if options.kernel {
        kernel(host, &mut buffer, &mut done)?;
    }
    if options.cgroups {
        cgroups(host, &mut buffer, &mut done)?;
    }
    let mut processes = Processes::new(host, options, &mut buffer, &mut done);
    match targets {
        Targets::All => {
            for pid in procfs::processes(host)? {
                processes.describe_process(pid)?;
            }
        }
        Targets::Processes(pids) => {
            for pid in pids {
                processes.describe_process(*pid)?;
            }
        }
        Targets::Threads(tids) => processes.describe_threads(tids)?,
    }
    buffer.flush()?;
    done.bytes = buffer.emitted_bytes();
    done.left_out = buffer.left_out();
    Ok(done)
}

/// Describes the kernel and its modules, as perf names them. The offset of the kernel's mapping is
/// the address of the symbol in its name, from which readers compute the kernel's relocation.
fn kernel(
    host: &Host,
    buffer: &mut RecordBuffer<'_>,
    done: &mut SynthesisCounts,
) -> io::Result<()> {
    done.modules = procfs::modules(host);
    if let Some(text) = procfs::kernel_text(host) {
        // If the length is hidden, the mapping ends at the first module after the text, or at the
        // end of all addresses.
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

/// Returns records of already loaded BPF programs: the symbols of their functions, and if `events`,
/// the load of each program, as for programs loaded later. Leaves out records that are too long.
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

/// Returns a module's file, or its name in brackets.
pub(crate) fn module_name(module: &KernelModule) -> String {
    module.path.clone().unwrap_or_else(|| format!("[{}]", module.name))
}

/// Returns the mapping of a module that was loaded during the recording, which the kernel doesn't
/// report. It includes the build id if there is one: another build of the module may have been
/// loaded before.
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

/// Describes the cgroups of the hierarchy that perf events use, by the id in samples: the folder's
/// inode (Linux 5.5).
fn cgroups(
    host: &Host,
    buffer: &mut RecordBuffer<'_>,
    done: &mut SynthesisCounts,
) -> io::Result<()> {
    let Some(hierarchy) = Cgroups::read(host).for_events else { return Ok(()) };
    let top = host.path(&hierarchy.mount.to_string_lossy());
    let mut folders = vec![top.clone()];
    while let Some(folder) = folders.pop() {
        // A removed cgroup needs no description.
        let Ok(metadata) = std::fs::metadata(&folder) else { continue };
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
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

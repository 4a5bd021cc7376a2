//! The loader for the compiled objects of `bpf/`.
//!
//! ```text
//! ObjectLoader    constants, map sizes, programs to attach
//!   load          LoadedObject: the verifier accepted the programs; maps are taken out and filled
//!   start         marks the followed tasks, then attaches the programs
//! ```

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Map, MapError};
use aya::programs::links::LinkError;
use aya::programs::{BtfTracePoint, Iter, Program, ProgramError, UProbe};
use aya::sys::SyscallError;
use aya::{Btf, BtfError, Ebpf, EbpfLoader, Endianness};
use rustix::io::Errno;

use super::btf::{iterator_types, tracepoint_types};
use super::btf_subset::subset_for;
use super::error::BpfError;
use super::follow::FollowedTasks;
use super::syscall::try_load;

/// The kernel's description of its types.
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// The bytes of an object for this architecture.
#[cfg(target_arch = "x86_64")]
macro_rules! object {
    ($name:literal) => {
        aya::include_bytes_aligned!(concat!("../../bpf/", $name, ".x86_64.o"))
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! object {
    ($name:literal) => {
        aya::include_bytes_aligned!(concat!("../../bpf/", $name, ".aarch64.o"))
    };
}

pub(crate) static CALLS: &[u8] = object!("calls");
pub(crate) static DEEP: &[u8] = object!("deep");
pub(crate) static LOCK: &[u8] = object!("lock");
pub(crate) static OFF_CPU: &[u8] = object!("offcpu");
pub(crate) static PROBES: &[u8] = object!("probes");
pub(crate) static SAMPLES: &[u8] = object!("samples");
pub(crate) static SCHED: &[u8] = object!("sched");
pub(crate) static SUMMARY: &[u8] = object!("summary");

/// An object and its settings, before it is loaded.
pub(crate) struct ObjectLoader {
    object: &'static [u8],
    /// Programs that [`LoadedObject::attach`] attaches, in this order, each named after its
    /// tracepoint.
    programs: Vec<&'static str>,
    constants: Vec<(&'static str, u32)>,
    map_sizes: Vec<(&'static str, u32)>,
}

impl ObjectLoader {
    pub(crate) fn new(object: &'static [u8], programs: &[&'static str]) -> Self {
        Self { object, programs: programs.to_vec(), constants: Vec::new(), map_sizes: Vec::new() }
    }

    /// Adds a program to attach, after the earlier ones.
    pub(crate) fn program(mut self, name: &'static str) -> Self {
        self.programs.push(name);
        self
    }

    /// Sets a constant of the source, which must exist.
    pub(crate) fn constant(mut self, name: &'static str, value: u32) -> Self {
        self.constants.push((name, value));
        self
    }

    /// Sets the constant that selects whether the programs follow all tasks or only marked ones.
    pub(crate) fn follow(self, tasks: &FollowedTasks) -> Self {
        self.constant("all_tasks", tasks.all_tasks())
    }

    /// Replaces the size that the source gives a map: entries, or bytes of a ring buffer.
    pub(crate) fn map_size(mut self, map: &'static str, size: u32) -> Self {
        self.map_sizes.push((map, size));
        self
    }

    /// Sets the size of the map `ring`, in bytes. Each record that finds more than an eighth of it
    /// pending wakes the reader.
    pub(crate) fn record_ring(self, ring_bytes: u32) -> Self {
        self.map_size("ring", ring_bytes).constant("watermark", ring_bytes / 8)
    }

    /// Loads the object and its tracepoint programs.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub(crate) fn load(self) -> Result<LoadedObject, BpfError> {
        try_load().map_err(BpfError::NotPermitted)?;
        let (mut loader, types) = loader_and_types(self.object, &self.programs);
        let types = types.map_err(BpfError::NoBtf)?;
        if let Some(subset) = &types.relocations {
            loader.btf(Some(subset));
        }
        loader.allow_unsupported_maps();
        for (name, value) in &self.constants {
            loader.override_global(name, value, true);
        }
        for (map, size) in &self.map_sizes {
            loader.map_max_entries(map, *size);
        }
        let ebpf = loader.load(self.object).map_err(|error| BpfError::Object(Box::new(error)))?;
        let mut loaded = LoadedObject { ebpf, programs: self.programs };
        loaded.for_each_program(|name, program| program.load(name, &types.tracepoints))?;
        Ok(loaded)
    }
}

/// The parts of the kernel's BTF that loading an object needs.
struct KernelTypes {
    tracepoints: Btf,
    /// The types for relocations; `None` leaves aya with all types.
    relocations: Option<Btf>,
}

/// Creates aya's loader, which parses all of the kernel's BTF, and finds the types that are needed
/// on another thread meanwhile: each takes milliseconds.
fn loader_and_types<'a>(
    object: &[u8],
    tracepoints: &[&str],
) -> (EbpfLoader<'a>, Result<KernelTypes, BtfError>) {
    let find_types = || {
        kernel_types(|bytes| {
            let subset = subset_for(object, bytes);
            let relocations = subset.map(|bytes| Btf::parse(&bytes, Endianness::default()));
            Ok(KernelTypes {
                tracepoints: tracepoint_types(bytes, tracepoints)?,
                relocations: relocations.transpose()?,
            })
        })
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, find_types);
        let loader = EbpfLoader::new();
        let types = thread.ok().and_then(|thread| thread.join().ok());
        (loader, types.unwrap_or_else(find_types))
    })
}

pub(super) fn kernel_types<T>(
    select: impl Fn(&[u8]) -> Result<T, BtfError>,
) -> Result<T, BtfError> {
    std::fs::read(VMLINUX)
        .map_err(|error| BtfError::FileError { path: VMLINUX.into(), error })
        .and_then(|bytes| select(&bytes))
}

/// An object whose programs are in the kernel. Dropping it detaches and unloads them; maps that
/// were taken out stay.
pub(crate) struct LoadedObject {
    ebpf: Ebpf,
    programs: Vec<&'static str>,
}

impl std::fmt::Debug for LoadedObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedObject").field("programs", &self.programs).finish_non_exhaustive()
    }
}

impl LoadedObject {
    /// Marks the followed tasks in the task storage `tasks`, then attaches the programs.
    pub(crate) fn start(&mut self, follow: &FollowedTasks) -> Result<(), BpfError> {
        follow.mark(self.storage("tasks")?)?;
        self.attach()
    }

    /// Attaches the tracepoint programs.
    pub(crate) fn attach(&mut self) -> Result<(), BpfError> {
        self.for_each_program(|_, program| program.attach().map(drop))
    }

    fn for_each_program(
        &mut self,
        act: impl Fn(&'static str, &mut BtfTracePoint) -> Result<(), ProgramError>,
    ) -> Result<(), BpfError> {
        for at in 0..self.programs.len() {
            let name = self.programs[at];
            act(name, self.program(name)?).map_err(program_error(name))?;
        }
        Ok(())
    }

    fn program<'a, P>(&'a mut self, name: &'static str) -> Result<P, BpfError>
    where
        P: TryFrom<&'a mut Program, Error = ProgramError>,
    {
        let program = self.ebpf.program_mut(name).ok_or(Errno::NOENT)?;
        program.try_into().map_err(program_error(name))
    }

    /// Loads the named program as an iterator over tasks, for [`Self::visit_tasks`].
    pub(crate) fn load_task_iterator(&mut self, name: &'static str) -> Result<(), BpfError> {
        let types = kernel_types(|bytes| iterator_types(bytes, "task")).map_err(BpfError::NoBtf)?;
        self.program::<&mut Iter>(name)?.load("task", &types).map_err(program_error(name))
    }

    pub(crate) fn is_loaded(&self, name: &str) -> bool {
        self.ebpf.program(name).is_some_and(|program| program.fd().is_ok())
    }

    /// Runs a loaded iterator once for each task. Returns the bytes that it wrote.
    pub(crate) fn visit_tasks(&mut self, name: &'static str) -> Result<Vec<u8>, BpfError> {
        let program: &mut Iter = self.program(name)?;
        let link = program.attach().and_then(|link| program.take_link(link));
        let errno = |error: &std::io::Error| {
            error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
        };
        let mut file =
            link.map_err(program_error(name))?.into_file().map_err(|error| match error {
                LinkError::SyscallError(SyscallError { io_error, .. }) => errno(&io_error),
                _ => Errno::IO,
            })?;
        // Reading the link's file runs the program.
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| errno(&error))?;
        Ok(bytes)
    }

    /// Loads a program that is attached to functions ([`Self::probe`]).
    pub(crate) fn load_probe(&mut self, name: &'static str) -> Result<(), BpfError> {
        self.program::<&mut UProbe>(name)?.load().map_err(program_error(name))
    }

    /// Returns the descriptor of a loaded program.
    pub(crate) fn file_of(&self, name: &str) -> Result<BorrowedFd<'_>, BpfError> {
        let program = self.ebpf.program(name).ok_or(Errno::NOENT)?;
        Ok(program.fd().map_err(|_| Errno::NOENT)?.as_fd())
    }

    /// Takes a map out, so that it outlives the programs.
    pub(crate) fn take_map<M>(&mut self, name: &str) -> Result<M, BpfError>
    where
        M: TryFrom<Map, Error = MapError>,
    {
        Ok(self.take_untyped_map(name)?.try_into()?)
    }

    /// Takes out a map whose descriptor the caller needs itself.
    pub(crate) fn take_untyped_map(&mut self, name: &str) -> Result<Map, BpfError> {
        Ok(self.ebpf.take_map(name).ok_or(Errno::NOENT)?)
    }

    /// Returns the descriptor of task storage, a map that aya has no type for.
    pub(crate) fn storage(&self, name: &str) -> Result<BorrowedFd<'_>, BpfError> {
        match self.ebpf.map(name) {
            Some(Map::Unsupported(map)) => Ok(map.fd().as_fd()),
            _ => Err(BpfError::Kernel(Errno::NOENT)),
        }
    }
}

fn program_error(name: &'static str) -> impl FnOnce(ProgramError) -> BpfError {
    move |error| BpfError::Program { name, error: Box::new(error) }
}

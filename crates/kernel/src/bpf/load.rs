//! Loading an object, and why that fails.

use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Map, MapError};
use aya::programs::links::LinkError;
use aya::programs::{BtfTracePoint, Iter, ProgramError, UProbe};
use aya::sys::SyscallError;
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader};
use rustix::io::Errno;
use thiserror::Error;

use super::allowed::try_load;
use super::type_ids::{of_iterator, of_tracepoints};

/// The kernel's description of its types.
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Why programs can't be loaded, attached or asked.
#[derive(Debug, Error)]
pub enum BpfError {
    /// bpf(2) refuses this process.
    #[error("BPF programs are not allowed to this user")]
    NotPermitted(Errno),
    /// The kernel doesn't describe its types.
    #[error("this kernel has no BTF (/sys/kernel/btf/vmlinux)")]
    NoBtf(#[source] BtfError),
    /// The object doesn't fit the running kernel.
    #[error("a BPF object can't be loaded: {0}")]
    Object(#[source] Box<EbpfError>),
    /// A program is refused, or its tracepoint isn't there.
    #[error("the BPF program '{name}' can't be attached: {}", without_log(error))]
    Program {
        /// The program, called as its tracepoint.
        name: &'static str,
        /// What the kernel said.
        error: Box<ProgramError>,
    },
    /// A table can't be read or written.
    #[error("a BPF map can't be used: {0}")]
    Map(#[source] Box<MapError>),
    /// A process that was to be followed is gone.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// Another answer of the kernel.
    #[error("bpf(2): {0}")]
    Kernel(#[from] Errno),
}

/// What the kernel's verifier says to a program that it refuses has thousands of lines.
fn without_log(error: &ProgramError) -> String {
    let text = error.to_string();
    text.split(". Verifier output").next().unwrap_or_default().to_owned()
}

impl BpfError {
    /// What happened, in a line: what the kernel's verifier says to a program has many.
    #[must_use]
    pub fn first_line(&self) -> String {
        let text = self.to_string();
        let line = text.lines().next().unwrap_or_default();
        line.split(". Verifier output").next().unwrap_or_default().to_owned()
    }
}

impl From<MapError> for BpfError {
    fn from(error: MapError) -> Self {
        Self::Map(Box::new(error))
    }
}

/// What is told to an object before it is loaded.
pub(crate) struct ObjectPlan<'a> {
    pub(crate) object: &'static [u8],
    /// Its constants, by name.
    pub(crate) constants: &'a [(&'static str, u32)],
    /// The sizes of its maps, where not those of the source.
    pub(crate) sizes: &'a [(&'static str, u32)],
    /// The programs to attach, each called as its tracepoint.
    pub(crate) programs: &'a [&'static str],
}

/// A loader, which parses all of the kernel's BTF by itself, and what the programs are asked for
/// by their tracepoints; this is found meanwhile, as both take some 10 ms and more.
fn loader_and_types(tracepoints: &[&str]) -> (EbpfLoader<'static>, Result<Btf, BtfError>) {
    let types = || {
        std::fs::read(VMLINUX)
            .map_err(|error| BtfError::FileError { path: VMLINUX.into(), error })
            .and_then(|bytes| of_tracepoints(&bytes, tracepoints))
    };
    std::thread::scope(|scope| {
        let meanwhile = std::thread::Builder::new().spawn_scoped(scope, types);
        let loader = EbpfLoader::new();
        let found = meanwhile.ok().and_then(|thread| thread.join().ok());
        (loader, found.unwrap_or_else(types))
    })
}

/// An object whose programs are in the kernel, not attached yet. Dropping it takes all of it back.
pub(crate) struct LoadedObject {
    ebpf: Ebpf,
    programs: Vec<&'static str>,
}

impl LoadedObject {
    /// # Errors
    /// `NotPermitted`, `NoBtf`, `Object` or `Program` of [`BpfError`].
    pub(crate) fn load(plan: &ObjectPlan<'_>) -> Result<Self, BpfError> {
        try_load().map_err(BpfError::NotPermitted)?;
        let (mut loader, btf) = loader_and_types(plan.programs);
        let btf = btf.map_err(BpfError::NoBtf)?;
        loader.allow_unsupported_maps();
        for (name, value) in plan.constants {
            loader.override_global(name, value, true);
        }
        for (name, size) in plan.sizes {
            loader.map_max_entries(name, *size);
        }
        let ebpf = loader.load(plan.object).map_err(|error| BpfError::Object(Box::new(error)))?;
        let mut loaded = Self { ebpf, programs: plan.programs.to_vec() };
        loaded.each(|name, program| program.load(name, &btf))?;
        Ok(loaded)
    }

    /// From now on the programs run.
    pub(crate) fn attach(&mut self) -> Result<(), BpfError> {
        self.each(|_, program| program.attach().map(drop))
    }

    fn each(
        &mut self,
        act: impl Fn(&'static str, &mut BtfTracePoint) -> Result<(), ProgramError>,
    ) -> Result<(), BpfError> {
        for &name in &self.programs {
            let program =
                self.ebpf.program_mut(name).ok_or(BpfError::Kernel(Errno::NOENT))?.try_into();
            let done = program.and_then(|program| act(name, program));
            done.map_err(failed(name))?;
        }
        Ok(())
    }

    /// Loads the program of this name that visits each task ([`Self::visit_tasks`]).
    pub(crate) fn load_task_iterator(&mut self, name: &'static str) -> Result<(), BpfError> {
        let kernel_types = std::fs::read(VMLINUX)
            .map_err(|error| BtfError::FileError { path: VMLINUX.into(), error })
            .and_then(|bytes| of_iterator(&bytes, "task"));
        let btf = kernel_types.map_err(BpfError::NoBtf)?;
        self.iterator(name)?.load("task", &btf).map_err(failed(name))
    }

    /// Runs it for each task there is.
    pub(crate) fn visit_tasks(&mut self, name: &'static str) -> Result<(), BpfError> {
        let program = self.iterator(name)?;
        let link = program.attach().and_then(|link| program.take_link(link));
        let errno = |error: &std::io::Error| {
            error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
        };
        let file = link.map_err(failed(name))?.into_file().map_err(|error| match error {
            LinkError::SyscallError(SyscallError { io_error, .. }) => errno(&io_error),
            _ => Errno::IO,
        })?;
        let done = std::io::copy(&mut &file, &mut std::io::sink());
        Ok(done.map(drop).map_err(|error| errno(&error))?)
    }

    fn iterator(&mut self, name: &'static str) -> Result<&mut Iter, BpfError> {
        let program = self.ebpf.program_mut(name).ok_or(BpfError::Kernel(Errno::NOENT))?;
        program.try_into().map_err(failed(name))
    }

    /// Loads a program that is to be attached to functions.
    pub(crate) fn load_probe(&mut self, name: &'static str) -> Result<(), BpfError> {
        let program = self.ebpf.program_mut(name).ok_or(BpfError::Kernel(Errno::NOENT))?;
        let loaded = <&mut UProbe>::try_from(program).and_then(UProbe::load);
        loaded.map_err(|error| BpfError::Program { name, error: Box::new(error) })
    }

    /// Such a program, once it is loaded.
    pub(crate) fn probe(&self, name: &str) -> Result<BorrowedFd<'_>, BpfError> {
        let program = self.ebpf.program(name).ok_or(BpfError::Kernel(Errno::NOENT))?;
        let fd = program.fd().map_err(|_| BpfError::Kernel(Errno::NOENT))?;
        Ok(fd.as_fd())
    }

    /// Takes a map out, to be used after the programs are gone.
    pub(crate) fn take(&mut self, name: &str) -> Result<Map, BpfError> {
        self.ebpf.take_map(name).ok_or(BpfError::Kernel(Errno::NOENT))
    }

    /// A map that the loader has no type for, as task storage.
    pub(crate) fn storage(&self, name: &str) -> Result<BorrowedFd<'_>, BpfError> {
        match self.ebpf.map(name) {
            Some(Map::Unsupported(map)) => Ok(map.fd().as_fd()),
            _ => Err(BpfError::Kernel(Errno::NOENT)),
        }
    }
}

fn failed(name: &'static str) -> impl FnOnce(ProgramError) -> BpfError {
    move |error| BpfError::Program { name, error: Box::new(error) }
}

//! Loading an object, and why that fails.

use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Map, MapError};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{BtfError, Ebpf, EbpfError, EbpfLoader};
use rustix::io::Errno;
use thiserror::Error;

use super::allowed::try_load;
use super::type_ids::of_tracepoints;

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
    #[error("the BPF program '{name}' can't be attached: {error}")]
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

impl From<MapError> for BpfError {
    fn from(error: MapError) -> Self {
        Self::Map(Box::new(error))
    }
}

/// What is told to an object before it is loaded.
pub(super) struct Plan<'a> {
    pub(super) object: &'static [u8],
    /// Its constants, by name.
    pub(super) constants: &'a [(&'static str, u32)],
    /// The sizes of its maps, where not those of the source.
    pub(super) sizes: &'a [(&'static str, u32)],
    /// The programs to attach, each called as its tracepoint.
    pub(super) programs: &'a [&'static str],
}

/// An object whose programs are in the kernel, not attached yet. Dropping it takes all of it back.
pub(super) struct Loaded {
    ebpf: Ebpf,
    programs: Vec<&'static str>,
}

impl Loaded {
    /// # Errors
    /// `NotPermitted`, `NoBtf`, `Object` or `Program` of [`BpfError`].
    pub(super) fn load(plan: &Plan<'_>) -> Result<Self, BpfError> {
        try_load().map_err(BpfError::NotPermitted)?;
        let kernel_types = std::fs::read(VMLINUX)
            .map_err(|error| BtfError::FileError { path: VMLINUX.into(), error })
            .and_then(|bytes| of_tracepoints(&bytes, plan.programs));
        let btf = kernel_types.map_err(BpfError::NoBtf)?;
        // It parses the kernel's BTF by itself.
        let mut loader = EbpfLoader::new();
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
    pub(super) fn attach(&mut self) -> Result<(), BpfError> {
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
            done.map_err(|error| BpfError::Program { name, error: Box::new(error) })?;
        }
        Ok(())
    }

    /// Takes a map out, to be used after the programs are gone.
    pub(super) fn take(&mut self, name: &str) -> Result<Map, BpfError> {
        self.ebpf.take_map(name).ok_or(BpfError::Kernel(Errno::NOENT))
    }

    /// The task storage, which the loader has no type for.
    pub(super) fn storage(&self, name: &str) -> Result<BorrowedFd<'_>, BpfError> {
        match self.ebpf.map(name) {
            Some(Map::Unsupported(map)) => Ok(map.fd().as_fd()),
            _ => Err(BpfError::Kernel(Errno::NOENT)),
        }
    }
}

//! Names of addresses: functions and source lines. Addresses of call chains: unwinding of copied
//! stacks.
//!
//! ```text
//! pid, address --AddressSpaces--> mapping --Mapping::to_dso--> DSO, address in it
//! DSO, address in it --Symbolizer--> symbol
//! registers, copied stack --Unwinder--> call chain
//! ```
//! The caller describes what is mapped where ([`AddressSpaces`], [`DsoTable`]), in the order of the
//! recording's mapping records. The [`Symbolizer`] reads the symbols of a DSO at the first lookup
//! there: of ELF files and their debug files, of the kernel and its modules, of the vDSO, of perf
//! maps and jitdumps. Several threads may use a [`Symbolizer`] at once. For an address without a
//! name it returns the reason ([`Unresolved`]). Of several symbols at one address it chooses by
//! `perf`'s rules, except between the variants of a constructor or destructor.
//!
//! Where to search comes from [`SymbolOptions`], not from the environment. The files that a
//! recording names are untrusted, and reading them is bounded ([`limits`]).
//!
//! # Example
//! Find the name of one of this process's own functions:
//! ```
//! use tare_symbols::{AddressSpaces, Dso, DsoKind, DsoTable, Mapping, SymbolOptions, Symbolizer};
//!
//! #[unsafe(no_mangle)]
//! extern "C" fn answer() -> i32 {
//!     42
//! }
//!
//! let (mut dsos, mut spaces) = (DsoTable::default(), AddressSpaces::default());
//! // In a recording, the mappings are records of type PERF_RECORD_MMAP or PERF_RECORD_MMAP2.
//! for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
//!     let words: Vec<&str> = line.split_whitespace().collect();
//!     let [range, prot, pgoff, _device, _inode, path] = words[..] else { continue };
//!     let number = |digits| u64::from_str_radix(digits, 16).expect("hexadecimal digits");
//!     let (start, end) = range.split_once('-').expect("two addresses");
//!     if prot.contains('x') && path.starts_with('/') {
//!         let dso = Dso { kind: DsoKind::Elf, name: path.into(), build_id: None };
//!         let dso = dsos.intern(dso).expect("not too many");
//!         let (start, end, pgoff) = (number(start), number(end), number(pgoff));
//!         spaces.add(1, Mapping { start, end, pgoff, dso, is_code: true });
//!     }
//! }
//! let symbolizer = Symbolizer::new(SymbolOptions::default());
//! let address = answer as *const () as u64;
//! let mapping = spaces.find_user(1, address).expect("code is mapped");
//! let symbol = symbolizer.find(&dsos, mapping.dso, mapping.to_dso(address))?;
//! assert_eq!(symbolizer.name(symbol), "answer");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Unwinding
//! [`Unwinder::call_chain`] converts a thread's [`Registers`] and a copy of its [`Stack`] to a
//! [`CallChain`]. An [`Unwinder`] keeps the unwind tables of files for all threads, and each thread
//! has an [`UnwindCache`]. `examples/own_stack.rs` takes both from its own thread and prints the
//! functions. Where code has no table, frame pointers find the caller; signal frames, stubs of the
//! procedure linkage table and Python's trampolines need neither.
#![forbid(unsafe_code)]

mod address_space;
mod answers;
mod binary;
mod cache;
mod debug_info;
mod debuginfod;
mod demangle;
mod dso;
mod elf;
mod file_functions;
mod jit_file;
mod jitdump;
mod kallsyms;
mod kallsyms_copy;
mod kernel;
mod kernel_file;
mod line_source;
mod name_source;
mod once_vec;
mod packed;
mod perf_map;
mod runtime;
mod search;
mod symbolizer;
mod table;
mod texts;
mod unresolved;
mod unwind;

pub use address_space::{AddressSpace, AddressSpaces, Mapping};
pub use cache::SymbolCache;
pub use debuginfod::{Artifact, Debuginfod, DownloadProgress, Servers};
pub use dso::{BuildId, Dso, DsoAddress, DsoId, DsoKind, DsoMapping, DsoRenumbering, DsoTable};
pub use file_functions::{FileFunction, FileFunctions, SelectionSlot, count_inlined_calls};
pub use jit_file::{RecordedProcess, RecordedProcesses};
pub use jitdump::{JitChange, JitDump, JitDumpError, JitLine, ReadAt};
pub use kallsyms::{KallsymsLine, LOCK_SECTIONS};
pub use kernel::RecordedKernel;
pub use kernel_file::check_vmlinux;
pub use name_source::NameSource;
pub use perf_map::PerfMap;
pub use runtime::Runtime;
pub use search::{
    SharedDebuginfod, SymbolOptions, UnpackedFolder, UsedContent, UsedFile, UsedFiles,
};
pub use symbolizer::{Frame, FunctionCode, ResolvedFrames, SourceLocation, Symbol, Symbolizer};
pub use tare_kernel::bpf::UNREAD_BYTE;
pub use tare_kernel::file_identity::FileIdentity;
pub use unresolved::Unresolved;
pub use unwind::{CallChain, Registers, Stack, UnwindCache, UnwindOutcome, Unwinder, UnwoundFrame};

/// Limits on the memory and work that an untrusted file can cause.
pub mod limits {
    /// Bytes of a section; a larger one counts as empty. Sections of mapped files, such as debug
    /// info, have no such limit.
    pub const SECTION_BYTES: u64 = 1 << 30;
    /// Segments read of an ELF file, or sections with code.
    pub const SEGMENTS: usize = 1 << 10;
    /// Symbols of a file.
    pub const SYMBOLS: usize = 1 << 25;
    /// Bytes of symbol tables, cached results and debug info in memory, of all files together. The
    /// kernel's symbol list doesn't count.
    pub const TABLE_BYTES: usize = 1 << 31;
    /// Bytes of a symbol's name, or of the path of a source file; a longer one is cut.
    pub const NAME_BYTES: usize = 1 << 14;
    /// Bytes of each further name once the names of a file, which may overlap, exceed a limit that
    /// grows with its tables.
    pub const SHORT_NAME_BYTES: usize = 1 << 6;
    /// Bytes of a file's names that are demangled to choose among symbols at one address.
    pub const COMPARED_BYTES: usize = 1 << 24;
    /// Mappings of one address space. Linux allows 65,530 by default.
    pub const MAPPINGS: usize = 1 << 17;
    /// Bytes of the mappings of all processes together, shared ones counted once, in addition to
    /// [`MAPPING_RECORD_BYTES`] per mapping record.
    pub const MAPPING_BYTES: usize = 1 << 24;
    /// Bytes of the shortest mapping record: header, pid and tid, address, length, offset, and
    /// eight bytes of path.
    pub const MAPPING_RECORD_BYTES: usize = 48;
    /// Bytes of the mappings of all processes together, however many records there are.
    pub const ALL_MAPPING_BYTES: usize = 1 << 28;
    /// Bytes of a function's instructions.
    pub const CODE_BYTES: usize = 1 << 24;
    /// DSOs of one recording.
    pub const DSOS: usize = 1 << 20;
    /// Bytes of the unwind tables of all files.
    pub const UNWIND_BYTES: u64 = 1 << 30;
    /// Bytes of the unwind table's entries for one function (FDE and CIE): the work of unwinding
    /// one frame.
    pub const UNWIND_INSTRUCTIONS: usize = 1 << 16;
    /// Bytes of such entries that a thread reads in total: many times those of all functions of a
    /// large program.
    pub const UNWIND_WORK: usize = 1 << 30;
    /// Addresses for which a thread caches how to unwind them. At the limit, it clears the cache.
    pub const UNWIND_ADDRESSES: usize = 1 << 20;
    /// Frames unwound from one copied stack.
    pub const FRAMES: usize = 8000;
    /// Bytes of a debug file that is identified by its checksum, which takes reading all of it.
    pub const CHECKED_BYTES: u64 = 1 << 31;
    /// Bytes read of a text, such as the kernel's list of symbols; the rest is ignored.
    pub const TEXT_BYTES: u64 = 1 << 28;
    /// Bytes of the decompressed debug sections of a file.
    pub const DECOMPRESSED_BYTES: u64 = 1 << 32;
    /// Bytes of one abbreviation table of debug info.
    pub const ABBREVIATION_BYTES: usize = 1 << 18;
    /// Range list entries of all units of a file's debug info.
    pub const UNIT_RANGES: usize = 1 << 24;
    /// Functions at one address, each inlined into the next.
    pub const INLINED: usize = 1 << 8;
    /// Bytes of the content of a compressed file.
    pub const UNPACKED_BYTES: u64 = 1 << 29;
    /// Size of a compressed file's content, as a multiple of the compressed size.
    pub const UNPACKED_TIMES: u64 = 64;
    /// Bytes of a perf map.
    pub const PERF_MAP_BYTES: u64 = 1 << 28;
    /// Lines of a perf map; of more lines, the first ones are left out.
    pub const PERF_MAP_LINES: usize = 1 << 23;
    /// Bytes of a jitdump, after which records are ignored. Most of it is code, which isn't parsed.
    pub const JITDUMP_BYTES: u64 = 1 << 36;
    /// Functions of a jitdump.
    pub const JIT_FUNCTIONS: usize = 1 << 22;
    /// Bytes of the names of a jitdump's functions.
    pub const JIT_NAME_BYTES: usize = 1 << 28;
    /// Bytes of the code of a function in a jitdump; a larger function is ignored.
    pub const JIT_CODE_BYTES: u64 = 1 << 30;
    /// Bytes of the record with a function's lines in a jitdump; a larger record is ignored.
    pub const JIT_LINES_BYTES: u64 = 1 << 20;
}

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

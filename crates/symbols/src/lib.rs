//! Symbols, address spaces and unwinding: addresses in, names out.
//!
//! ```text
//! pid, address --AddressSpaces--> mapping --Mapping::to_dso--> DSO, address in it --Symbolizer--> symbol
//! registers, copied stack --Unwinder--> addresses
//! ```
//! The caller says what was mapped where ([`AddressSpaces`], [`DsoTable`]), as the records of a
//! profile tell it in order of time. The [`Symbolizer`] reads the symbols of a DSO when it is first
//! asked for an address there: of ELF files and their debug files, of the kernel and its modules,
//! and of perf maps. It may be asked from several threads at once. Where there is no name, there is
//! a reason ([`Unresolved`]). Rules of address spaces and the choice among symbols of one address
//! are those of `perf`, so that both print the same names.
//!
//! Nothing here reads the environment: [`SymbolOptions`] has the folders that are searched. What
//! comes from files is untrusted and bounded ([`limits`]).
//!
//! # Example
//! What this process calls one of its own functions:
//! ```
//! use tare_symbols::{AddressSpaces, Dso, DsoKind, DsoTable, Mapping, SymbolOptions, Symbolizer};
//!
//! #[unsafe(no_mangle)]
//! extern "C" fn answer() -> i32 {
//!     42
//! }
//!
//! let (mut dsos, mut spaces) = (DsoTable::default(), AddressSpaces::default());
//! // A recording has the mappings as records of type PERF_RECORD_MMAP2.
//! for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
//!     let words: Vec<&str> = line.split_whitespace().collect();
//!     let [range, prot, pgoff, _device, _inode, path] = words[..] else { continue };
//!     let number = |digits| u64::from_str_radix(digits, 16).expect("hexadecimal digits");
//!     let (start, end) = range.split_once('-').expect("two addresses");
//!     if prot.contains('x') && path.starts_with('/') {
//!         let dso = Dso { kind: DsoKind::Elf, name: path.into(), build_id: None };
//!         let dso = dsos.intern(dso).expect("not too many");
//!         let (start, end, pgoff) = (number(start), number(end), number(pgoff));
//!         spaces.add(1, Mapping { start, end, pgoff, dso });
//!     }
//! }
//! let symbolizer = Symbolizer::new(SymbolOptions::default());
//! let address = answer as *const () as u64;
//! let mapping = spaces.find_user(1, address).expect("code is mapped");
//! let symbol = symbolizer.find(&dsos, mapping.dso, mapping.to_dso(address))?;
//! assert_eq!(symbolizer.name(symbol), "answer");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod address_space;
mod answers;
mod binary;
mod cache;
mod code;
mod debug_info;
mod debuginfod;
mod demangle;
mod dso;
mod elf;
mod frames;
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
pub use code::Code;
pub use debuginfod::{Artifact, Debuginfod, Progress, Servers};
pub use dso::{BuildId, Dso, DsoAddress, DsoId, DsoKind, DsoTable, Mapped, RenumberedDsos};
pub use frames::{Frame, Frames, Location};
pub use jit_file::{RecordedProcess, RecordedProcesses};
pub use jitdump::{JitChange, JitDump, JitDumpError, JitLine, ReadAt};
pub use kallsyms::{KallsymsLine, LOCK_SECTIONS};
pub use kernel::RecordedKernel;
pub use kernel_file::check_vmlinux;
pub use name_source::NameSource;
pub use perf_map::PerfMap;
pub use runtime::Runtime;
pub use search::{Download, SymbolOptions, Unpacked, UsedContent, UsedFile, UsedFiles};
pub use symbolizer::{Symbol, Symbolizer};
pub use unresolved::Unresolved;
pub use unwind::{Registers, Stack, UnwindCache, UnwindEnd, Unwinder};

/// How much a file can make its reader do. A file of symbols is untrusted.
pub mod limits {
    /// Bytes of one table of symbols or of names.
    pub const SECTION_BYTES: u64 = 1 << 30;
    /// Segments of an ELF file that are looked at.
    pub const SEGMENTS: usize = 1 << 10;
    /// Symbols of a file.
    pub const SYMBOLS: usize = 1 << 25;
    /// Bytes of the symbols of all files together.
    pub const TABLE_BYTES: usize = 1 << 31;
    /// Bytes of a symbol's name; what is longer is cut.
    pub const NAME_BYTES: usize = 1 << 14;
    /// Bytes of each further name where those of a file that were asked for are many times what the
    /// file has: they overlap.
    pub const SHORT_NAME_BYTES: usize = 1 << 6;
    /// Bytes of the names of a file that are demangled to choose among symbols of one address.
    pub const COMPARED_BYTES: usize = 1 << 24;
    /// Mappings of one address space. Linux itself allows 65,530 unless told otherwise.
    pub const MAPPINGS: usize = 1 << 17;
    /// Bytes of the mappings of all address spaces together, those that several share once, to which
    /// [`MAPPING_RECORD_BYTES`] are added for each record of a mapping.
    pub const MAPPING_BYTES: usize = 1 << 24;
    /// Bytes of the shortest record of a mapping: header, thread, addresses, eight bytes of path.
    pub const MAPPING_RECORD_BYTES: usize = 48;
    /// Bytes of the mappings of all address spaces together, however many records there are.
    pub const ALL_MAPPING_BYTES: usize = 1 << 28;
    /// Bytes of a function's instructions.
    pub const CODE_BYTES: usize = 1 << 24;
    /// DSOs of one recording.
    pub const DSOS: usize = 1 << 20;
    /// Bytes of the tables of call frames of all files.
    pub const UNWIND_BYTES: u64 = 1 << 30;
    /// Bytes of the instructions for one function in a table of call frames: what unwinding one
    /// frame may have to go through.
    pub const UNWIND_INSTRUCTIONS: usize = 1 << 16;
    /// Bytes of instructions in tables of call frames that a thread goes through in all: many times
    /// what all functions of a large program have.
    pub const UNWIND_WORK: usize = 1 << 30;
    /// Addresses that a thread that unwinds knows rows of.
    pub const UNWIND_ADDRESSES: usize = 1 << 20;
    /// Frames of one stack.
    pub const FRAMES: usize = 1 << 12;
    /// Bytes of a debug file without a build id, whose checksum is to be told from others'.
    pub const CHECKED_BYTES: u64 = 1 << 31;
    /// Bytes of a list of the kernel's symbols.
    pub const TEXT_BYTES: u64 = 1 << 28;
    /// Bytes of a section of debug info that is compressed.
    pub const DECOMPRESSED_BYTES: u64 = 1 << 32;
    /// Bytes of one table of abbreviations of debug info.
    pub const ABBREVIATION_BYTES: usize = 1 << 18;
    /// Ranges of addresses of all units of debug info.
    pub const UNIT_RANGES: usize = 1 << 24;
    /// Functions that are inlined into each other at one address.
    pub const INLINED: usize = 1 << 8;
    /// Bytes of a compressed file's content, and how many times the compressed bytes it may be.
    pub const UNPACKED_BYTES: u64 = 1 << 29;
    /// See [`UNPACKED_BYTES`].
    pub const UNPACKED_TIMES: u64 = 64;
    /// Bytes of a perf map.
    pub const PERF_MAP_BYTES: u64 = 1 << 28;
    /// Bytes of a jitdump that are gone through; most of them are code, which isn't read.
    pub const JITDUMP_BYTES: u64 = 1 << 36;
    /// Functions of a jitdump.
    pub const JIT_FUNCTIONS: usize = 1 << 22;
    /// Bytes of the names of a jitdump's functions.
    pub const JIT_NAME_BYTES: usize = 1 << 28;
    /// Bytes of the code of one function in a jitdump; what is larger is left out.
    pub const JIT_CODE_BYTES: u64 = 1 << 30;
    /// Bytes of the lines of one function in a jitdump; more are left out.
    pub const JIT_LINES_BYTES: u64 = 1 << 20;
}

//! Address spaces over time, and symbols: addresses in, names out.
//!
//! ```text
//! pid, address --Spaces--> map --Map::to_file--> file, address in it --Symbolizer--> symbol
//! registers, stack --Unwinder--> addresses
//! ```
//! Rules of address spaces and the choice among symbols of one address are those of `perf`, so that
//! both print the same names.
#![forbid(unsafe_code)]

mod demangle;
mod disk;
mod elf;
mod files;
mod kallsyms;
mod perf_map;
mod space;
mod symbolizer;
mod table;
mod unwind;

pub use files::{BuildId, File, FileId, Files, Kind};
pub use kallsyms::Kallsyms;
pub use space::{Map, Space, Spaces};
pub use symbolizer::{Options, Symbol, Symbolizer, Unresolved};
pub use table::{Builder, Rank, Table};
pub use unwind::{End, Registers, Unwinder};

/// How much a file can make its reader do. A file of symbols is untrusted.
pub mod limits {
    /// Bytes of one table of symbols or of names.
    pub const SECTION_BYTES: u64 = 1 << 30;
    /// Symbols of all files together.
    pub const SYMBOLS: usize = 1 << 25;
    /// Bytes of a symbol's name; what is longer is cut.
    pub const NAME_BYTES: usize = 1 << 14;
    /// Maps of one address space. Linux itself allows 65,530 unless told otherwise.
    pub const MAPS: usize = 1 << 17;
    /// Files of one recording.
    pub const FILES: usize = 1 << 20;
    /// Bytes of the tables of call frames of all files.
    pub const UNWIND_BYTES: u64 = 1 << 30;
    /// Bytes of the instructions for one function in a table of call frames: what unwinding one
    /// frame may have to go through.
    pub const UNWIND_INSTRUCTIONS: usize = 1 << 16;
    /// Frames of one stack.
    pub const FRAMES: usize = 1 << 12;
    /// Bytes of a text of symbols: kallsyms, or what a just-in-time compiler wrote.
    pub const TEXT_BYTES: u64 = 1 << 30;
}

//! The values in a profile's tables.

use std::hash::{Hash, Hasher};

use crate::ids::{DsoId, EventId, StringId, SymbolId, pair};

/// An event that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProfileEvent {
    /// The name in the recording. Two events may have the same name.
    pub name: StringId,
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The process id; -1 if unknown.
    pub pid: i32,
    /// The thread id; -1 if unknown.
    pub tid: i32,
}

/// A file that contains code, or a name in place of one: `[kernel.kallsyms]`, `[vdso]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dso {
    /// The whole path.
    pub path: StringId,
    /// The name in tables: the last part of the path, or for a perf map its process.
    pub short: StringId,
}

/// A function. Functions of the same name at different addresses are different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The file that contains it.
    pub dso: DsoId,
    /// Its name.
    pub name: StringId,
    /// Its first address in the file, as an offset for an ELF file; 0 for an inlined function.
    pub start: u64,
}

/// The privilege level and machine in which code ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// The kernel.
    Kernel,
    /// A program.
    User,
    /// A guest's kernel.
    GuestKernel,
    /// A guest's program.
    GuestUser,
    /// A hypervisor.
    Hypervisor,
    /// Not recorded.
    Unknown,
}

impl Space {
    /// Returns the letter that perf prints before a symbol.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Kernel => 'k',
            Self::User => '.',
            Self::GuestKernel => 'g',
            Self::GuestUser => 'u',
            Self::Hypervisor => 'H',
            Self::Unknown => '?',
        }
    }
}

/// A frame of a call chain, or the location of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileFrame {
    /// The space in which it ran.
    pub space: Space,
    /// The file; `None` if nothing was mapped there.
    pub dso: Option<DsoId>,
    /// The function, or the reason in words why it is unknown.
    pub function: Result<SymbolId, StringId>,
    /// The start of the function, 0 if it is inlined; if that is unknown, the address in the file;
    /// without a file, the address in the address space. Frames that will be replaced, and all if
    /// addresses are kept, have the sampled address.
    pub address: u64,
    /// Whether the function is inlined into that of the next frame.
    pub is_inlined: bool,
    /// The source line, if requested and known.
    pub line: Option<SourceLine>,
}

impl Hash for ProfileFrame {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let symbol = self.function.ok();
        state.write_u64(pair(self.dso, symbol));
        state.write_u64(self.address);
        if let Some(line) = &self.line {
            line.hash(state);
        }
    }
}

/// A source line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// The path of the file at compile time.
    pub file: StringId,
    /// Line number from 1; 0 if unknown.
    pub line: u32,
    /// Column from 1; 0 if unknown.
    pub column: u32,
    /// Line of the function's declaration, from 1; 0 if unknown.
    pub first_line: u32,
}

/// A range of addresses at which a part of a file was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MappedRange {
    /// First address.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// Address of `start` as frames of the file have it ([`ProfileFrame::address`]).
    pub offset: u64,
}

impl MappedRange {
    /// Converts an address in the file to an address in this range; `None` if it isn't mapped here.
    #[must_use]
    pub fn to_mapped(&self, address: u64) -> Option<u64> {
        let mapped = address.checked_sub(self.offset)?.checked_add(self.start)?;
        (mapped < self.end).then_some(mapped)
    }
}

/// The mappings of a file and its build id, if addresses are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappedFile {
    /// The first mapping of each part with samples, in the order of the samples.
    pub ranges: Vec<MappedRange>,
    /// Empty if unknown, or if files with several build ids have this name.
    pub build_id: Vec<u8>,
}

/// The count of an event in all tasks with the same last name, and the weight of their samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExactCount {
    /// The event.
    pub event: EventId,
    /// The last name of the tasks.
    pub comm: StringId,
    /// The weight of their samples.
    pub sampled: Weight,
    /// Occurrences (nanoseconds for clocks).
    pub counted: u64,
}

/// The sum of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight {
    /// The number of occurrences that they represent (nanoseconds for clocks), unless the reader
    /// weighs samples otherwise.
    pub period: u64,
    /// The number of samples.
    pub samples: u64,
}

impl Weight {
    /// Adds another weight; the sums saturate.
    pub fn add(&mut self, other: Self) {
        self.period = self.period.saturating_add(other.period);
        self.samples = self.samples.saturating_add(other.samples);
    }
}

//! What the tables hold.

use std::hash::{Hash, Hasher};

use crate::ids::{DsoId, EventId, StringId, SymbolId, pair};

/// An event that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProfileEvent {
    /// As the recording names it. Two events may have one name.
    pub name: StringId,
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Its process; -1 is unknown.
    pub pid: i32,
    /// Its own number.
    pub tid: i32,
}

/// A file that code came from, or what stands for one: `[kernel.kallsyms]`, `[vdso]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dso {
    /// The whole path.
    pub path: StringId,
    /// What tables show: the path's last part.
    pub short: StringId,
}

/// A function. Two of one name at different addresses are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The file that has it.
    pub dso: DsoId,
    /// Its name.
    pub name: StringId,
    /// Its first address, as the file's symbol table has it.
    pub start: u64,
}

/// Which part of an address space code ran in.
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
    /// The recording doesn't say.
    Unknown,
}

impl Space {
    /// As perf has it before a symbol.
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

/// A frame of a call chain, or where a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileFrame {
    /// Where it was.
    pub space: Space,
    /// The file; `None` where nothing was mapped.
    pub dso: Option<DsoId>,
    /// The function, or in words why none is known.
    pub function: Result<SymbolId, StringId>,
    /// The address: of a function its start, else in the file, else in the address space. Frames
    /// that are still to be replaced by others may have any.
    pub address: u64,
    /// The compiler put the function into that of the frame behind it.
    pub is_inlined: bool,
    /// Where in the source it was, where that was asked for and is known.
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

/// A line of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// The path of the file as it was compiled.
    pub file: StringId,
    /// Line number from 1; 0 if unknown.
    pub line: u32,
    /// Column from 1; 0 if unknown.
    pub column: u32,
}

/// What an event counted in all tasks that had a name last, and what their samples stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExactCount {
    /// The event.
    pub event: EventId,
    /// The last name of the tasks.
    pub comm: StringId,
    /// What their samples weigh.
    pub sampled: Weight,
    /// Occurrences (nanoseconds for clocks).
    pub counted: u64,
}

/// How much samples weigh together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight {
    /// The occurrences that they stand for (nanoseconds for clocks).
    pub period: u64,
    /// How many there are.
    pub samples: u64,
}

impl Weight {
    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.period = self.period.saturating_add(other.period);
        self.samples = self.samples.saturating_add(other.samples);
    }
}

//! Where names come from.

/// Source of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameSource {
    /// The full symbol table of an ELF file or of its debug file (`SHT_SYMTAB`).
    Symtab,
    /// The dynamic linker's symbol table of an ELF file (`SHT_DYNSYM`).
    Dynsym,
    /// The small compressed symbol table of a stripped ELF file (`.gnu_debugdata`).
    MiniDebugInfo,
    /// The function table of Go's runtime (`.gopclntab`).
    Pclntab,
    /// The procedure linkage table: a stub that jumps to a function of another file.
    Plt,
    /// None: a function without a symbol is named by its address, which the unwind tables
    /// (`.eh_frame`) list.
    UnwindTable,
    /// Debug info.
    Dwarf,
    /// The kernel's symbol list.
    Kallsyms,
    /// A record of the kernel about code added at run time, such as a BPF program.
    Ksymbol,
    /// A just-in-time compiler's list of functions.
    PerfMap,
    /// A just-in-time compiler's record of its code.
    Jitdump,
}

impl NameSource {
    /// The usual name of the source.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Symtab => "symtab",
            Self::Dynsym => "dynsym",
            Self::MiniDebugInfo => "MiniDebugInfo",
            Self::Pclntab => "pclntab",
            Self::Plt => "PLT",
            Self::UnwindTable => "unwind table",
            Self::Dwarf => "DWARF",
            Self::Kallsyms => "kallsyms",
            Self::Ksymbol => "ksymbol",
            Self::PerfMap => "perf map",
            Self::Jitdump => "jitdump",
        }
    }
}

//! Where names come from.

/// Where a name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameSource {
    /// The full table of symbols of an ELF file or of its debug file (`SHT_SYMTAB`).
    Symtab,
    /// What the dynamic linker needs of an ELF file (`SHT_DYNSYM`).
    Dynsym,
    /// A small table of symbols that a stripped ELF file carries, compressed (`.gnu_debugdata`).
    MiniDebugInfo,
    /// What Go's runtime knows of its functions (`.gopclntab`).
    Pclntab,
    /// The procedure linkage table: a stub that jumps to a function of another file.
    Plt,
    /// Debug info.
    Dwarf,
    /// The list of the kernel's symbols.
    Kallsyms,
    /// A record of the kernel about code that came at run time, such as a BPF program.
    Ksymbol,
    /// A just-in-time compiler's list of functions.
    PerfMap,
    /// A just-in-time compiler's record of its code.
    Jitdump,
}

impl NameSource {
    /// In the field's words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Symtab => "symtab",
            Self::Dynsym => "dynsym",
            Self::MiniDebugInfo => "MiniDebugInfo",
            Self::Pclntab => "pclntab",
            Self::Plt => "PLT",
            Self::Dwarf => "DWARF",
            Self::Kallsyms => "kallsyms",
            Self::Ksymbol => "ksymbol",
            Self::PerfMap => "perf map",
            Self::Jitdump => "jitdump",
        }
    }
}

//! Why an address has no symbol.

use crate::runtime::Runtime;

/// Why an address has no symbol, in words for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Unresolved {
    /// Nothing was mapped there, as far as the recording says.
    #[error("nothing was mapped at the address")]
    NoMapping,
    /// The file is not there any more.
    #[error("the file is gone")]
    NoFile,
    /// This user may not read it.
    #[error("the file is not readable for this user")]
    NotReadable,
    /// A just-in-time compiler made the code, and told nobody.
    #[error("{0}")]
    NoPerfMap(Runtime),
    /// The same, of a runtime that isn't known.
    #[error("code without a file, and its process wrote no perf map (docs/jit.md)")]
    NoPerfMapAtAll,
    /// The same, of a process whose jitdump isn't there any more.
    #[error("the jitdump of compiled code is gone")]
    NoJitDumpFile,
    /// Another user wrote the perf map or the jitdump, or it is no regular file with one name.
    #[error(
        "the perf map or jitdump is not believed: it is neither the process's user's, nor root's, nor yours, or no regular file with one name"
    )]
    NotTrusted,
    /// Another version of the file is there now.
    #[error("the file has changed since (another build id)")]
    OtherBuild,
    /// The recording is of another kernel than the one whose symbols are at hand.
    #[error(
        "another kernel was recorded than the one that runs here (--kallsyms or --vmlinux has its symbols)"
    )]
    OtherKernel,
    /// The file of [`crate::SymbolOptions::vmlinux`] is not the recorded kernel's.
    #[error("the file is of another kernel than the recorded one (another build id)")]
    OtherVmlinux,
    /// The same file says nothing of which kernel it is.
    #[error("the file has no build id, so that nothing says which kernel it is")]
    NoBuildId,
    /// Neither a build id nor a release says which kernel was recorded.
    #[error("the recording doesn't say which kernel it is of (--kallsyms has its symbols)")]
    UnknownKernel,
    /// The kernel has other addresses since it was started again.
    #[error("the machine was started again since, and its modules lie elsewhere")]
    OtherBoot,
    /// The module isn't there now.
    #[error("the kernel's module is not loaded now")]
    NotLoaded,
    /// The kernel hides its addresses.
    #[error(
        "the kernel hides its addresses from this user (as root: sysctl kernel.kptr_restrict=0)"
    )]
    Hidden,
    /// It is no jitdump, or one without functions.
    #[error("the jitdump has no functions")]
    NoJitDump,
    /// What was kept of its symbols is damaged. It is removed.
    #[error("the cache had damaged symbols, which are removed now: run the command once more")]
    DamagedCache,
    /// It is no ELF file, or a damaged one.
    #[error("the file is not a whole ELF file")]
    Malformed,
    /// It has no table of symbols.
    #[error("the file has no symbols")]
    Stripped,
    /// Its instructions are in another file: this one has symbols and debug info alone.
    #[error("the file has no instructions at the address")]
    NoCode,
    /// It has one, and nothing in it lies at this address.
    #[error("no symbol of the file lies at the address")]
    NoSymbol,
    /// More symbols than a reader's limit.
    #[error("more symbols than a reader's limit")]
    OverLimit,
}

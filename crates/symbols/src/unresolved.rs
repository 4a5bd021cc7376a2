//! Why an address has no symbol.

use crate::runtime::Runtime;

/// Why an address has no symbol, with a message for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Unresolved {
    /// The recording has no mapping at the address.
    #[error("nothing was mapped at the address")]
    NoMapping,
    /// The file no longer exists, or isn't on this machine.
    #[error("the file is gone")]
    NoFile,
    /// This user may not read the file.
    #[error("the file is not readable for this user")]
    NotReadable,
    /// The code was compiled at run time, and this runtime wrote no symbols.
    #[error("{0}")]
    NoPerfMap(Runtime),
    /// The code was compiled at run time, by an unknown runtime.
    #[error("code without a file, and its process wrote no perf map (docs/jit.md)")]
    NoPerfMapAtAll,
    /// The code was compiled at run time, and its jitdump no longer exists.
    #[error("the jitdump of compiled code is gone")]
    NoJitDumpFile,
    /// The perf map or the jitdump belongs to another user, or isn't a regular file with one name.
    #[error(
        "the perf map or jitdump is not trusted: it must be a regular file with one name, owned by the process's user, root or you"
    )]
    NotTrusted,
    /// The perf map was last written before its process began: another process with the same id
    /// wrote it.
    #[error("the perf map is older than its process: an earlier process with the same id wrote it")]
    OlderPerfMap,
    /// The file has another build id than the recorded one.
    #[error("the file has changed since (another build id)")]
    OtherBuild,
    /// Another file has the recorded path. The recording has no build id of it.
    #[error("another file is at its path, and no build id was recorded")]
    OtherFile,
    /// The file was changed after it was recorded. The recording has no build id of it.
    #[error("the file was changed after it was recorded, and it had no build id")]
    ChangedFile,
    /// The recording is of another kernel than the running one.
    #[error(
        "the recording is of another kernel than the running one (--kallsyms FILE or --vmlinux FILE names its symbols)"
    )]
    OtherKernel,
    /// The file of [`crate::SymbolOptions::vmlinux`] belongs to another kernel.
    #[error("the file is of another kernel than the recorded one (another build id)")]
    OtherVmlinux,
    /// The file of [`crate::SymbolOptions::vmlinux`] has no build id.
    #[error("the file has no build id that would identify its kernel")]
    NoBuildId,
    /// The recorded kernel can't be compared with the running one or a file: the recording, or this
    /// machine, gives neither build id nor release.
    #[error("the recording doesn't identify its kernel (--kallsyms FILE names its symbols)")]
    UnknownKernel,
    /// The machine has rebooted since, so that modules are at other addresses.
    #[error("the machine has rebooted since, and its modules are at other addresses")]
    OtherBoot,
    /// The kernel's symbol list doesn't have the module.
    #[error("the kernel module is not loaded")]
    NotLoaded,
    /// The kernel hides its addresses from this user.
    #[error(
        "the kernel hides its addresses from this user (as root: sysctl kernel.kptr_restrict=0)"
    )]
    Hidden,
    /// The file is no jitdump, or reading it failed.
    #[error("the jitdump has no functions")]
    NoJitDump,
    /// The cached symbols are damaged; they were removed from the cache.
    #[error("the cache had damaged symbols, which were removed: run the command again")]
    DamagedCache,
    /// The file is no ELF file, or is damaged.
    #[error("the file is not a whole ELF file")]
    Malformed,
    /// The file has no symbols.
    #[error("the file has no symbols")]
    Stripped,
    /// The file of the kernel or of a module has no instructions at the address.
    #[error("the file has no instructions at the address")]
    NoCode,
    /// The file has symbols, but none at the address.
    #[error("no symbol of the file lies at the address")]
    NoSymbol,
    /// The symbols exceed [`crate::limits`].
    #[error("more symbols than a reader's limit")]
    OverLimit,
}

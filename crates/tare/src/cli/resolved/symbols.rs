//! Where symbols are looked for, by whichever command shows them.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use tare_symbols::SymbolOptions;

/// What a command line says about symbols.
#[derive(Debug, Default)]
pub(crate) struct Typed {
    /// The folder that recorded paths begin in.
    pub(crate) symfs: Option<PathBuf>,
    /// The kernel's symbols, where they are not this machine's.
    pub(crate) kallsyms: Option<PathBuf>,
    /// Names as in the file.
    pub(crate) no_demangle: bool,
}

impl Typed {
    /// The folders that are searched: those of this machine and user, unless others were named.
    /// perf keeps files by build id in `~/.debug`.
    pub(crate) fn resolve(self) -> SymbolOptions {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let usual = SymbolOptions::default();
        let is_here = self.symfs.is_none() && self.kallsyms.is_none();
        SymbolOptions {
            kallsyms_copy: if is_here { kallsyms_copy(home.as_deref()) } else { None },
            symfs: self.symfs.unwrap_or(usual.symfs),
            build_id_cache: home.map(|home| home.join(".debug")),
            kallsyms: self.kallsyms,
            reader_uid: rustix::process::geteuid().as_raw(),
            demangle: !self.no_demangle,
            ..usual
        }
    }
}

/// Where a copy of the kernel's symbols is kept: `$XDG_CACHE_HOME/tare`, else `~/.cache/tare`. `None`
/// where that folder is not this user's, as with `sudo`, or can't be made.
fn kallsyms_copy(home: Option<&Path>) -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = named.filter(|path| path.is_absolute());
    let cache = cache.or_else(|| home.map(|home| home.join(".cache")))?;
    let is_own = |folder: &Path| {
        let meta = std::fs::symlink_metadata(folder).ok()?;
        let euid = rustix::process::geteuid().as_raw();
        (meta.is_dir() && meta.uid() == euid && meta.mode() & 0o022 == 0).then_some(())
    };
    // A home that is somebody else's gets no folder.
    is_own(if cache.exists() { &cache } else { home? })?;
    let folder = cache.join("tare");
    if !folder.exists() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    }
    is_own(&folder)?;
    Some(folder.join("kallsyms"))
}

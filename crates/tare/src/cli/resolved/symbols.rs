//! Where symbols are looked for, by whichever command shows them.

use std::path::PathBuf;

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
        SymbolOptions {
            symfs: self.symfs.unwrap_or(usual.symfs),
            build_id_cache: home.map(|home| home.join(".debug")),
            kallsyms: self.kallsyms,
            reader_uid: rustix::process::geteuid().as_raw(),
            demangle: !self.no_demangle,
            ..usual
        }
    }
}

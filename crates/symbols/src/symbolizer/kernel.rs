//! The kernel and its modules: by the list of their symbols, or by their files.

use super::{DsoSymbols, Source, Symbolizer};
use crate::dso::{DsoId, DsoKind, DsoTable, RecordedDso};
use crate::kernel::KernelSymbols;
use crate::kernel_file::KernelFile;
use crate::unresolved::Unresolved;

impl Symbolizer {
    /// Where names come from, and the file that was opened for it: the list of symbols if that is the
    /// recorded kernel's, unless the user named a file of the kernel; else the file.
    pub(super) fn kernel_source(
        &self,
        recorded: &RecordedDso<'_>,
    ) -> Result<(Source, Option<KernelFile>), Unresolved> {
        let is_named = recorded.dso.kind == DsoKind::Kernel && self.options.vmlinux.is_some();
        let listed = if is_named { None } else { Some(self.listed(recorded)) };
        let why = match listed {
            Some(Ok(source)) => {
                if self.options.used.is_some() {
                    self.note_kernel_file(&source, recorded);
                }
                return Ok((source, None));
            }
            Some(Err(why)) => Some(why),
            None => None,
        };
        let file = self.open_kernel_file(recorded, None);
        let table = file.and_then(|file| Ok((file.table(&self.options, recorded)?, file)));
        // What the list was refused for says more than that there is no file.
        let (table, file) = table.map_err(|own| why.unwrap_or(own))?;
        Ok((self.table(table)?, Some(file)))
    }

    /// The list of the kernel's symbols.
    fn listed(&self, recorded: &RecordedDso<'_>) -> Result<Source, Unresolved> {
        let kernel = self.kernel()?;
        if recorded.dso.kind == DsoKind::Kernel {
            return Ok(Source::Kernel);
        }
        let name = module_name(recorded);
        let shift = kernel.check_module(&self.options, name, recorded)?;
        Ok(Source::Module { name: name.to_vec(), shift })
    }

    /// Whoever packs the files wants those with lines too.
    fn note_kernel_file(&self, source: &Source, recorded: &RecordedDso<'_>) {
        if let Ok(file) = self.open_kernel_file(recorded, Some(source)) {
            file.debug_info(&self.options, recorded);
        }
    }

    /// The file of the kernel or of a module, which is opened when it is first needed.
    pub(super) fn kernel_file<'s>(
        &self,
        symbols: &'s DsoSymbols,
        recorded: &RecordedDso<'_>,
    ) -> Result<&'s KernelFile, Unresolved> {
        let open = || self.open_kernel_file(recorded, Some(&symbols.source)).ok();
        symbols.kernel_file.get_or_init(open).as_ref().ok_or(Unresolved::NoFile)
    }

    /// The same by the DSO's number.
    pub(crate) fn kernel_file_of(
        &self,
        dsos: &DsoTable,
        dso: DsoId,
    ) -> Result<&KernelFile, Unresolved> {
        let recorded = dsos.recorded(dso).ok_or(Unresolved::NoMapping)?;
        self.kernel_file(self.symbols(dsos, dso)?, &recorded)
    }

    fn open_kernel_file(
        &self,
        recorded: &RecordedDso<'_>,
        source: Option<&Source>,
    ) -> Result<KernelFile, Unresolved> {
        let options = &self.options;
        let kernel = &self.recorded_kernel;
        if recorded.dso.kind == DsoKind::Kernel {
            return KernelFile::vmlinux(options, kernel);
        }
        let known = match source {
            Some(Source::Module { name, shift }) => {
                self.kernel().map(|kernel| kernel.known(name, *shift)).unwrap_or_default()
            }
            _ => std::collections::HashMap::new(),
        };
        KernelFile::module(options, kernel, recorded, known)
    }

    fn kernel(&self) -> Result<&KernelSymbols, Unresolved> {
        let load = || KernelSymbols::load(&self.options, &self.recorded_kernel);
        self.kernel.get_or_init(load).as_ref().map_err(|why| *why)
    }
}

/// A module's name without brackets.
fn module_name<'r>(recorded: &RecordedDso<'r>) -> &'r [u8] {
    let name = &recorded.dso.name[..];
    name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]")).unwrap_or(name)
}

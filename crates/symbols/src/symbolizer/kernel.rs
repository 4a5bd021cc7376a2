//! Symbols of the kernel and its modules: from the kernel's symbol list, or from ELF files.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::source::SymbolSource;
use crate::dso::{DsoKind, RecordedDso};
use crate::kernel::{KernelSymbols, RecordedKernel};
use crate::kernel_file::KernelFile;
use crate::search::SymbolOptions;
use crate::unresolved::Unresolved;

/// The recorded kernel, and its symbol list.
///
/// Invariant: the list is read at most once, at the first lookup. It belongs to the recorded
/// kernel; otherwise an error says why it can't be used.
#[derive(Debug, Default)]
pub(super) struct KernelLookup {
    recorded: RecordedKernel,
    symbols: OnceLock<Result<KernelSymbols, Unresolved>>,
}

impl KernelLookup {
    pub(super) fn recorded(&self) -> &RecordedKernel {
        &self.recorded
    }

    pub(super) fn recorded_mut(&mut self) -> &mut RecordedKernel {
        &mut self.recorded
    }

    /// Returns the symbol list if a lookup has read it.
    pub(super) fn loaded(&self) -> Option<&KernelSymbols> {
        self.symbols.get()?.as_ref().ok()
    }

    fn symbols(&self, options: &SymbolOptions) -> Result<&KernelSymbols, Unresolved> {
        let load = || KernelSymbols::load(options, &self.recorded);
        self.symbols.get_or_init(load).as_ref().map_err(|why| *why)
    }

    /// Returns the symbols of the kernel or of a module: those in the symbol list; or if it can't
    /// be used, or the user named the kernel's file, those of the ELF file, with that file.
    pub(super) fn source(
        &self,
        options: &SymbolOptions,
        recorded: &RecordedDso<'_>,
    ) -> Result<(SymbolSource, Option<KernelFile>), Unresolved> {
        let is_named = recorded.dso.kind == DsoKind::Kernel && options.vmlinux.is_some();
        let mut list_error = None;
        if !is_named {
            match self.listed(options, recorded) {
                Ok(source) => {
                    if options.used.is_some() {
                        self.note_file(options, recorded, &source);
                    }
                    return Ok((source, None));
                }
                Err(why) => list_error = Some(why),
            }
        }
        let file = self.open_file(options, recorded, None);
        let table = file.and_then(|file| Ok((file.table(options, recorded)?, file)));
        // The reason why the list was refused helps more than "no file".
        let (table, file) = table.map_err(|why| list_error.unwrap_or(why))?;
        Ok((SymbolSource::Table(table), Some(file)))
    }

    /// Returns the symbols in the kernel's list.
    fn listed(
        &self,
        options: &SymbolOptions,
        recorded: &RecordedDso<'_>,
    ) -> Result<SymbolSource, Unresolved> {
        let symbols = self.symbols(options)?;
        if recorded.dso.kind == DsoKind::Kernel {
            return Ok(SymbolSource::Kernel);
        }
        let name = module_name(recorded);
        let shift = symbols.check_module(options, name, recorded)?;
        Ok(SymbolSource::Module { name: name.to_vec(), shift })
    }

    /// Opens the file and its debug info, to list them among the used files: an archive should also
    /// have the lines.
    fn note_file(
        &self,
        options: &SymbolOptions,
        recorded: &RecordedDso<'_>,
        source: &SymbolSource,
    ) {
        if let Ok(file) = self.open_file(options, recorded, Some(source)) {
            file.debug_info(options, recorded);
        }
    }

    /// Opens the ELF file of the kernel or of a module. `source` is where its symbols come from.
    pub(super) fn open_file(
        &self,
        options: &SymbolOptions,
        recorded: &RecordedDso<'_>,
        source: Option<&SymbolSource>,
    ) -> Result<KernelFile, Unresolved> {
        if recorded.dso.kind == DsoKind::Kernel {
            return KernelFile::vmlinux(options, &self.recorded);
        }
        let known = match source {
            Some(SymbolSource::Module { name, shift }) => self
                .symbols(options)
                .map(|symbols| symbols.function_addresses(name, *shift))
                .unwrap_or_default(),
            _ => HashMap::new(),
        };
        KernelFile::module(options, &self.recorded, recorded, known)
    }
}

/// Returns a module's name without brackets.
fn module_name<'r>(recorded: &RecordedDso<'r>) -> &'r [u8] {
    let name = &recorded.dso.name[..];
    name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dso::Dso;

    #[test]
    fn reads_the_list_at_the_first_lookup() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("kallsyms");
        std::fs::write(&list, "1000 T _text\n1100 T f\nc000 t in_module\t[mod]\n").unwrap();
        let options = SymbolOptions { kallsyms: Some(list), ..SymbolOptions::default() };
        let kernel = KernelLookup::default();
        assert!(kernel.loaded().is_none());
        let dso = Dso { kind: DsoKind::Kernel, name: b"[kernel]".to_vec(), build_id: None };
        let recorded = RecordedDso { dso: &dso, identity: None, mapped: &[], path: None };
        let (source, file) = kernel.source(&options, &recorded).unwrap();
        assert!(file.is_none() && kernel.loaded().is_some());
        let range = source.find(|| kernel.loaded(), 0x1104).unwrap();
        assert_eq!(range.start, 0x1100);
    }

    #[test]
    fn reads_the_list_once() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("kallsyms");
        let options = SymbolOptions { kallsyms: Some(list.clone()), ..SymbolOptions::default() };
        let dso = Dso { kind: DsoKind::Kernel, name: b"[kernel]".to_vec(), build_id: None };
        let recorded = RecordedDso { dso: &dso, identity: None, mapped: &[], path: None };
        let kernel = KernelLookup::default();
        std::fs::write(&list, "1000 T _text\n1100 T f\n").unwrap();
        let (source, _) = kernel.source(&options, &recorded).unwrap();
        std::fs::write(&list, "1000 T _text\n1200 T g\n").unwrap();
        let (again, _) = kernel.source(&options, &recorded).unwrap();
        let first = |source: &SymbolSource| Some(source.find(|| kernel.loaded(), 0x1210)?.start);
        assert_eq!([first(&source), first(&again)], [Some(0x1100); 2]);
    }

    #[test]
    fn reports_why_the_list_was_refused() {
        let folder = tempfile::tempdir().unwrap();
        let options = SymbolOptions { symfs: folder.path().into(), ..SymbolOptions::default() };
        let dso = Dso { kind: DsoKind::Kernel, name: b"[kernel]".to_vec(), build_id: None };
        let recorded = RecordedDso { dso: &dso, identity: None, mapped: &[], path: None };
        let refused = KernelLookup::default().source(&options, &recorded);
        assert_eq!(refused.err(), Some(Unresolved::UnknownKernel));
    }
}

//! From an address in a DSO to a symbol.

mod answers;
mod jit;
mod kernel;
mod renumber;

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::binary::{self, Binary};
use crate::cache::{KeptAnswers, KeptTable, NewAnswers};
use crate::demangle::demangle;
use crate::dso::{BuildId, DsoId, DsoKind, DsoTable, RecordedDso};
use crate::elf::Segments;
use crate::jit_file::RecordedProcesses;
use crate::jitdump::JitDump;
use crate::kernel::{KernelSymbols, RecordedKernel};
use crate::kernel_file::KernelFile;
use crate::limits;
use crate::line_source::LineSource;
use crate::name_source::NameSource;
use crate::once_vec::OnceVec;
use crate::perf_map::PerfMap;
use crate::search::SymbolOptions;
use crate::table::{SymbolMatch, Table};
use crate::unresolved::Unresolved;

/// A symbol. Number and DSO together stay the same as long as the [`Symbolizer`] lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// Where it lies.
    pub dso: DsoId,
    /// Its number in the DSO.
    pub number: u32,
    /// Its first address, as the DSO calls it.
    pub start: u64,
    /// The first address behind it, as the DSO calls it.
    pub end: u64,
}

/// Finds symbols. Several threads may ask at once: a DSO's symbols are read when it is first asked
/// for, by one thread, while others that ask for the same DSO wait.
///
/// It serves one [`DsoTable`], whose numbers it knows DSOs by.
#[derive(Debug)]
pub struct Symbolizer {
    options: SymbolOptions,
    recorded_kernel: RecordedKernel,
    recorded_processes: RecordedProcesses,
    kernel: OnceLock<Result<KernelSymbols, Unresolved>>,
    dsos: OnceVec<Result<DsoSymbols, Unresolved>>,
    /// Memory of all tables of symbols.
    bytes: AtomicUsize,
    /// What is to be kept, by build id.
    new_answers: Mutex<HashMap<BuildId, NewAnswers>>,
}

/// The symbols of a DSO, and their names as far as they were asked for.
#[derive(Debug)]
struct DsoSymbols {
    source: Source,
    /// The file, where it is an ELF file and was needed.
    binary: OnceLock<Option<Binary>>,
    /// The file of the kernel or of a module, where it was needed.
    kernel_file: OnceLock<Option<KernelFile>>,
    /// What was kept of its debug info's answers.
    kept_answers: OnceLock<Option<KeptAnswers>>,
    /// The debug info, where it was asked for and there is some.
    debug_info: OnceLock<Option<LineSource>>,
    names: OnceVec<Box<str>>,
    /// Bytes of the names that were asked for, as the file has them.
    name_bytes: AtomicUsize,
}

#[derive(Debug)]
enum Source {
    Table(Table),
    Kept(Box<KeptTable>),
    PerfMap(PerfMap),
    JitDump(JitDump<File>),
    Kernel,
    /// By its name without brackets, and what is added to recorded addresses.
    Module {
        name: Vec<u8>,
        shift: u64,
    },
    /// A symbol of its own, of this size.
    Ksymbol(u64, Vec<u8>),
}

impl Symbolizer {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(options: SymbolOptions) -> Self {
        Self {
            options,
            recorded_kernel: RecordedKernel::default(),
            recorded_processes: RecordedProcesses::default(),
            kernel: OnceLock::new(),
            dsos: OnceVec::default(),
            bytes: AtomicUsize::new(0),
            new_answers: Mutex::default(),
        }
    }

    /// What the recording says of its kernel, to be completed before the kernel is asked for.
    pub fn recorded_kernel(&mut self) -> &mut RecordedKernel {
        &mut self.recorded_kernel
    }

    /// Whether a recorded address of the kernel lies in a function of its locks or of its scheduler:
    /// known once the kernel was asked for a symbol, by a list of its symbols.
    #[must_use]
    pub fn is_lock_function(&self, address: u64) -> bool {
        let kernel = self.kernel.get().and_then(|kernel| kernel.as_ref().ok());
        kernel.is_some_and(|kernel| kernel.is_lock_function(address))
    }

    /// The symbol at an address, as [`crate::Mapping::to_dso`] gives it.
    ///
    /// # Errors
    /// There is none: see [`Unresolved`].
    pub fn find(&self, dsos: &DsoTable, dso: DsoId, address: u64) -> Result<Symbol, Unresolved> {
        let source = &self.symbols(dsos, dso)?.source;
        let Some(found) = self.find_in(source, address) else {
            return Err(self.why_none(dsos, dso, source));
        };
        Ok(Symbol { dso, number: found.number, start: found.start, end: found.end })
    }

    fn symbols(&self, dsos: &DsoTable, dso: DsoId) -> Result<&DsoSymbols, Unresolved> {
        let symbols = match self.dsos.get(dso.number()) {
            Some(symbols) => symbols,
            None => {
                let recorded = dsos.recorded(dso).ok_or(Unresolved::NoMapping)?;
                self.dsos.get_or_init(dso.number(), || self.load(&recorded))
            }
        };
        symbols.as_ref().map_err(|why| *why)
    }

    fn why_none(&self, dsos: &DsoTable, dso: DsoId, source: &Source) -> Unresolved {
        match source {
            Source::Kept(table) if table.is_damaged() => {
                dsos.get(dso).into_iter().for_each(|dso| self.forget_table(dso));
                Unresolved::DamagedCache
            }
            _ => Unresolved::NoSymbol,
        }
    }

    fn find_in(&self, source: &Source, address: u64) -> Option<SymbolMatch> {
        match source {
            Source::Table(table) => table.find(address),
            Source::Kept(table) => table.find(address),
            Source::PerfMap(map) => map.find(address),
            Source::JitDump(dump) => dump.find(address),
            Source::Kernel => {
                let kernel = self.kernel.get()?.as_ref().ok()?;
                let SymbolMatch { number, start, end } =
                    kernel.kernel().find(address.wrapping_add(kernel.shift))?;
                let recorded = |address: u64| address.wrapping_sub(kernel.shift);
                Some(SymbolMatch { number, start: recorded(start), end: recorded(end) })
            }
            Source::Module { name, shift } => {
                let module = self.kernel.get()?.as_ref().ok()?.module(name)?;
                let found = module.find(address.wrapping_add(*shift))?;
                let recorded = |address: u64| address.wrapping_sub(*shift);
                Some(SymbolMatch {
                    start: recorded(found.start),
                    end: recorded(found.end),
                    ..found
                })
            }
            Source::Ksymbol(bytes, _) => {
                (address < *bytes).then_some(SymbolMatch { number: 0, start: 0, end: *bytes })
            }
        }
    }

    /// Whether all symbols are known that a DSO's file can have, as far as it was asked for: what a
    /// stripped file's dynamic linker needs are not.
    #[must_use]
    pub fn has_all_symbols(&self, dso: DsoId) -> bool {
        match self.dsos.get(dso.number()) {
            Some(Ok(DsoSymbols { source: Source::Table(table), .. })) => table.is_full(),
            Some(Ok(_)) => true,
            _ => false,
        }
    }

    /// Where the bytes of an ELF file's own address lie in it: what addresses of its DSO are. `None`
    /// where the file has no such address, or isn't there.
    #[must_use]
    pub fn file_offset(&self, dsos: &DsoTable, dso: DsoId, address: u64) -> Option<u64> {
        let symbols = self.symbols(dsos, dso).ok()?;
        self.binary(symbols, &dsos.recorded(dso)?)?.segments.to_offset(address)
    }

    /// Where files are looked for.
    pub(crate) fn options(&self) -> &SymbolOptions {
        &self.options
    }

    /// Between addresses of a DSO and those that its file itself has.
    pub(crate) fn segments(&self, dsos: &DsoTable, dso: DsoId) -> Result<&Segments, Unresolved> {
        let symbols = self.symbols(dsos, dso)?;
        let recorded = dsos.recorded(dso).ok_or(Unresolved::NoMapping)?;
        if recorded.dso.kind.has_kernel_file() {
            return self.kernel_file(symbols, &recorded).map(|file| &file.own);
        }
        let binary = self.binary(symbols, &recorded);
        binary.map(|binary| &binary.segments).ok_or(Unresolved::NoFile)
    }

    /// The name of a symbol; empty for one of another symbolizer. Untrusted: it comes from the
    /// file.
    #[must_use]
    pub fn name(&self, symbol: Symbol) -> &str {
        let Some(Ok(symbols)) = self.dsos.get(symbol.dso.number()) else { return "" };
        let number = symbol.number;
        if let Some(name) = symbols.names.get(number) {
            return name;
        }
        let Some((raw, origin)) = self.raw_name(&symbols.source, number) else { return "" };
        symbols.names.get_or_init(number, || {
            let is_over =
                symbols.name_bytes.load(Ordering::Relaxed) > self.most_names(&symbols.source);
            let mut name = if is_over {
                String::from_utf8_lossy(&raw[..raw.len().min(limits::SHORT_NAME_BYTES)])
                    .into_owned()
            } else if self.options.demangle {
                demangle(raw)
            } else {
                String::from_utf8_lossy(raw).into_owned()
            };
            name.push_str(if origin == NameSource::Plt { "@plt" } else { "" });
            // In source code a name is a few times as long as in the file.
            let bytes = raw.len().max(name.len() / 4);
            symbols.name_bytes.fetch_add(bytes, Ordering::Relaxed);
            name.into()
        })
    }

    /// Whether names are shown as in source code.
    pub(crate) fn demangles(&self) -> bool {
        self.options.demangle
    }

    /// Where a symbol's name comes from; `None` for one of another symbolizer.
    #[must_use]
    pub fn name_source(&self, symbol: Symbol) -> Option<NameSource> {
        let symbols = self.dsos.get(symbol.dso.number())?.as_ref().ok()?;
        Some(self.raw_name(&symbols.source, symbol.number)?.1)
    }

    /// Bytes of names before further ones are cut short: more than a file has of names that don't
    /// overlap.
    fn most_names(&self, source: &Source) -> usize {
        let of_kernel = || self.kernel.get()?.as_ref().ok();
        let table_bytes = match source {
            Source::Table(table) => table.bytes(),
            Source::Kept(table) => table.bytes(),
            Source::PerfMap(map) => map.bytes(),
            Source::JitDump(dump) => dump.bytes(),
            Source::Kernel => of_kernel().map_or(0, |kernel| kernel.kernel().bytes()),
            Source::Module { name, .. } => {
                of_kernel().and_then(|kernel| kernel.module(name)).map_or(0, Table::bytes)
            }
            Source::Ksymbol(_, name) => name.len(),
        };
        table_bytes.saturating_add(1 << 20)
    }

    /// A symbol's name as the file has it (of a stub that of its target), and where it comes from.
    fn raw_name<'a>(&'a self, source: &'a Source, number: u32) -> Option<(&'a [u8], NameSource)> {
        match source {
            Source::Table(table) => table.name(number),
            Source::Kept(table) => table.name(number),
            Source::PerfMap(map) => Some((map.name(number)?, NameSource::PerfMap)),
            Source::JitDump(dump) => Some((dump.name(number)?, NameSource::Jitdump)),
            Source::Kernel => self.kernel.get()?.as_ref().ok()?.kernel().name(number),
            Source::Module { name, .. } => {
                self.kernel.get()?.as_ref().ok()?.module(name)?.name(number)
            }
            Source::Ksymbol(_, name) => (number == 0).then_some((name, NameSource::Ksymbol)),
        }
    }

    fn load(&self, recorded: &RecordedDso<'_>) -> Result<DsoSymbols, Unresolved> {
        let dso = recorded.dso;
        let binary = OnceLock::new();
        let mut kernel_file = OnceLock::new();
        let source = match dso.kind {
            DsoKind::Kernel | DsoKind::Module => {
                let (source, file) = self.kernel_source(recorded)?;
                if file.is_some() {
                    kernel_file = OnceLock::from(file);
                }
                source
            }
            DsoKind::Ksymbol { bytes } => Source::Ksymbol(bytes, dso.name.clone()),
            DsoKind::Elf => {
                if let Some(table) = self.kept_table(dso) {
                    Source::Kept(Box::new(table))
                } else {
                    let (table, found) = binary::load(&self.options, recorded)?;
                    let _ = binary.set(Some(found));
                    self.keep_table(dso, &table);
                    self.table(table)?
                }
            }
            DsoKind::Vdso => {
                if dso.build_id.is_none() {
                    self.recorded_kernel.is_running(&self.options)?;
                }
                self.table(binary::load_vdso(&self.options, dso)?)?
            }
            DsoKind::PerfMap { .. } => {
                let map = PerfMap::read(self.jit_file(dso)?)?;
                self.account(map.bytes(), map.is_empty())?;
                Source::PerfMap(map)
            }
            DsoKind::JitDump { .. } => {
                let dump = JitDump::read(self.jit_file(dso)?);
                let dump = dump.map_err(|_| Unresolved::NoJitDump)?;
                self.account(dump.bytes(), dump.is_empty())?;
                Source::JitDump(dump)
            }
            DsoKind::Anonymous => return Err(Unresolved::NoSymbol),
        };
        Ok(DsoSymbols {
            source,
            binary,
            kernel_file,
            kept_answers: OnceLock::new(),
            debug_info: OnceLock::new(),
            names: OnceVec::default(),
            name_bytes: AtomicUsize::new(0),
        })
    }

    fn table(&self, table: Table) -> Result<Source, Unresolved> {
        self.account(table.bytes(), table.is_empty())?;
        Ok(Source::Table(table))
    }

    /// Adds a table's memory to that of all.
    fn account(&self, bytes: usize, is_empty: bool) -> Result<(), Unresolved> {
        if is_empty {
            return Err(Unresolved::Stripped);
        }
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= limits::TABLE_BYTES {
            return Ok(());
        }
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Err(Unresolved::OverLimit)
    }
}

#[cfg(test)]
mod tests;

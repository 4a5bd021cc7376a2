//! From addresses in DSOs to symbols, functions, source lines and code.

mod budget;
mod code;
mod frames;
mod kernel;
mod lookup_cache;
mod names;
mod open_lines;
mod source;

use std::fs::File;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use crate::answers::{AnswerFrame, Answers};
use crate::binary::{self, Binary};
use crate::cache::{AnswerMerge, KeptAnswers};
use crate::dso::{BuildId, Dso, DsoAddress, DsoId, DsoKind, DsoRenumbering, DsoTable, RecordedDso};
use crate::elf::Segments;
use crate::jit_file::{self, RecordedProcesses};
use crate::jitdump::JitDump;
use crate::kernel::RecordedKernel;
use crate::kernel_file::KernelFile;
use crate::limits;
use crate::line_source::LineSource;
use crate::name_source::NameSource;
use crate::once_vec::OnceVec;
use crate::perf_map::PerfMap;
use crate::search::{SymbolOptions, find};
use crate::texts::Texts;
use crate::unresolved::Unresolved;
use crate::unwind;
use budget::TableBudget;
pub use code::FunctionCode;
pub use frames::{Frame, ResolvedFrames, SourceLocation};
use kernel::KernelLookup;
use lookup_cache::LookupCache;
use names::NameCache;
use open_lines::{FileLines, LineDetail, OpenLines, ReservedPart};
use source::SymbolSource;

/// Bytes of a table of symbols from which on the one that was just written into the cache replaces
/// it.
const LARGE_TABLE: usize = 1 << 20;

/// Bytes freed by [`Symbolizer::renumber`] above which memory goes back to the system at once.
const GIVE_BACK_BYTES: usize = 4 << 20;

/// A symbol. DSO and number identify it until the next [`Symbolizer::renumber`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// DSO with the symbol.
    pub dso: DsoId,
    /// Number of the symbol in the DSO.
    pub number: u32,
    /// First address, as an address of the DSO.
    pub start: u64,
    /// Address after the last byte, as an address of the DSO.
    pub end: u64,
}

/// Finds symbols. Any number of threads may use it at once: the first thread that needs a DSO reads
/// its symbols, and others that need the same DSO wait.
///
/// It serves a single [`DsoTable`]: it identifies DSOs by their number there.
#[derive(Debug)]
pub struct Symbolizer {
    options: SymbolOptions,
    processes: RecordedProcesses,
    kernel: KernelLookup,
    /// In boxes: a hostile recording has many DSOs without a file.
    dsos: OnceVec<Result<Box<DsoSymbols>, Unresolved>>,
    budget: Arc<TableBudget>,
    cache: LookupCache,
    open_lines: OpenLines,
}

/// The symbols of a DSO, and parts that are read when they are first needed. `None` in a part: it
/// doesn't exist, can't be read, or exceeds the [`TableBudget`].
#[derive(Debug)]
struct DsoSymbols {
    source: SymbolSource,
    /// The ELF file.
    binary: OnceLock<Option<Binary>>,
    /// The file of the kernel or of a module.
    kernel_file: OnceLock<Option<KernelFile>>,
    line_detail: OnceLock<LineDetail>,
    names: NameCache,
}

impl Symbolizer {
    /// Creates a symbolizer that has read nothing yet.
    #[must_use]
    pub fn new(options: SymbolOptions) -> Self {
        Self {
            processes: RecordedProcesses::default(),
            kernel: KernelLookup::default(),
            dsos: OnceVec::default(),
            budget: Arc::default(),
            cache: LookupCache::new(&options),
            open_lines: OpenLines::default(),
            options,
        }
    }

    /// The recording's description of its kernel. Complete it before looking up a kernel address.
    pub fn recorded_kernel(&mut self) -> &mut RecordedKernel {
        self.kernel.recorded_mut()
    }

    /// The recording's description of its processes. Complete it before looking up compiled code.
    pub fn recorded_processes(&mut self) -> &mut RecordedProcesses {
        &mut self.processes
    }

    /// Forgets the description of an exited process.
    pub fn forget_process(&mut self, pid: i32) {
        self.processes.forget(pid);
    }

    /// Whether a recorded kernel address is in a function of the kernel's locks or of its
    /// scheduler. `false` until a kernel symbol was looked up in a symbol list.
    #[must_use]
    pub fn is_lock_function(&self, address: u64) -> bool {
        self.kernel.loaded().is_some_and(|kernel| kernel.is_lock_function(address))
    }

    /// Finds the symbol at an address, as [`crate::Mapping::to_dso`] returns it.
    ///
    /// # Errors
    /// Fails if the address has no symbol: see [`Unresolved`].
    pub fn find(&self, dsos: &DsoTable, dso: DsoId, address: u64) -> Result<Symbol, Unresolved> {
        let source = &self.symbols(dsos, dso)?.source;
        let Some(range) = source.find(|| self.kernel.loaded(), address) else {
            return Err(self.missing_symbol(dsos, dso, source));
        };
        Ok(Symbol { dso, number: range.number, start: range.start, end: range.end })
    }

    /// Returns why an address has no symbol, and drops a damaged table from the cache.
    fn missing_symbol(&self, dsos: &DsoTable, dso: DsoId, source: &SymbolSource) -> Unresolved {
        match source {
            SymbolSource::Kept(table) if table.is_damaged() => {
                dsos.get(dso).into_iter().for_each(|dso| self.cache.remove_table(dso));
                Unresolved::DamagedCache
            }
            SymbolSource::PerfMap(map) if map.is_cut() => Unresolved::OverLimit,
            _ => Unresolved::NoSymbol,
        }
    }

    /// Whether the symbols read of a DSO are all that its file can have: a stripped file's dynamic
    /// symbols are not. `false` if none were read.
    #[must_use]
    pub fn has_all_symbols(&self, dso: DsoId) -> bool {
        match self.dsos.get(dso.number()) {
            Some(Ok(symbols)) => match &symbols.source {
                SymbolSource::Table(table) => table.is_full(),
                _ => true,
            },
            _ => false,
        }
    }

    /// Returns the name of a symbol; empty for a symbol of another symbolizer. Untrusted: it comes
    /// from the file.
    #[must_use]
    pub fn name(&self, symbol: Symbol) -> &str {
        let Some(Ok(symbols)) = self.dsos.get(symbol.dso.number()) else { return "" };
        if let Some(name) = symbols.names.get(symbol.number) {
            return name;
        }
        let loaded = || self.kernel.loaded();
        let Some((raw, origin)) = symbols.source.raw_name(loaded, symbol.number) else { return "" };
        let max_bytes = symbols.source.name_table_bytes(loaded).saturating_add(1 << 20);
        symbols.names.add(symbol.number, raw, origin, max_bytes)
    }

    /// Returns the name that a symbol has in its file, if it differs from [`Self::name`].
    /// Untrusted.
    #[must_use]
    pub fn linkage_name(&self, symbol: Symbol) -> Option<&str> {
        let symbols = self.dsos.get(symbol.dso.number())?.as_ref().ok()?;
        let (raw, _) = symbols.source.raw_name(|| self.kernel.loaded(), symbol.number)?;
        let raw = str::from_utf8(&raw[..raw.len().min(limits::NAME_BYTES)]).ok()?;
        (self.demangles() && self.name(symbol) != raw).then_some(raw)
    }

    pub(crate) fn demangles(&self) -> bool {
        self.options.demangle
    }

    /// Returns where the name of a symbol comes from; `None` for a symbol of another symbolizer.
    #[must_use]
    pub fn name_source(&self, symbol: Symbol) -> Option<NameSource> {
        let symbols = self.dsos.get(symbol.dso.number())?.as_ref().ok()?;
        Some(symbols.source.raw_name(|| self.kernel.loaded(), symbol.number)?.1)
    }

    /// Looks up functions, inlined ones too, and source lines of all addresses, with at most
    /// `threads` threads. It reads the debug info of each file once for all of its addresses, so
    /// collect them first. Without need for lines or inlined functions, [`Symbolizer::find`] is far
    /// cheaper: it reads no debug info.
    #[must_use]
    pub fn frames(
        &self,
        dsos: &DsoTable,
        addresses: &[DsoAddress],
        threads: NonZeroUsize,
    ) -> ResolvedFrames<'_> {
        frames::resolve(self, dsos, addresses, threads)
    }

    /// Reads the bytes of a function from the recorded build of its file.
    ///
    /// # Errors
    /// Fails if the DSO's symbols can't be loaded, or if that file isn't found, can't be read, or
    /// doesn't contain the function's start.
    pub fn code(&self, dsos: &DsoTable, symbol: Symbol) -> Result<FunctionCode, Unresolved> {
        let recorded = dsos.recorded(symbol.dso).ok_or(Unresolved::NoMapping)?;
        let length = symbol.end.saturating_sub(symbol.start);
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(limits::CODE_BYTES);
        let symbols = self.symbols(dsos, symbol.dso)?;
        if recorded.dso.kind.has_kernel_file() {
            let file = self.kernel_file(&self.options, symbols, &recorded)?;
            let (address, offset) = file.code_at(symbol.start).ok_or(Unresolved::NoCode)?;
            return FunctionCode::read(file.found(), address, offset, length);
        }
        let segments = self.segments(&self.options, symbols, &recorded)?;
        let address = segments.to_address(symbol.start).ok_or(Unresolved::NoSymbol)?;
        let file = find::binary(&self.options, &recorded)?;
        FunctionCode::read(&file, address, symbol.start, length)
    }

    /// Reads `length` bytes at an address of a DSO from its file, fewer at the file's end.
    ///
    /// # Errors
    /// Fails if the file isn't here or has no segment at the address.
    pub fn code_at(
        &self,
        dsos: &DsoTable,
        at: DsoAddress,
        length: usize,
    ) -> Result<FunctionCode, Unresolved> {
        let DsoAddress { dso, address: start } = at;
        let end = start.saturating_add(length as u64);
        self.code(dsos, Symbol { dso, start, end, number: u32::MAX })
    }

    /// Whether signal handlers return to a function: it calls `rt_sigreturn(2)`.
    #[must_use]
    pub fn returns_from_signal(&self, dsos: &DsoTable, function: Symbol) -> bool {
        if dsos.get(function.dso).is_some_and(|dso| dso.kind == DsoKind::Vdso) {
            return self.name(function).contains("sigreturn");
        }
        let code = self.code(dsos, Symbol { end: function.start + 16, ..function });
        code.is_ok_and(|code| unwind::is_signal_return(&code.bytes))
    }

    /// Converts an address of an ELF file to an address of its DSO, the offset in the file. `None`
    /// if the file has no such address, or isn't here.
    #[must_use]
    pub fn file_offset(&self, dsos: &DsoTable, dso: DsoId, address: u64) -> Option<u64> {
        let symbols = self.symbols(dsos, dso).ok()?;
        self.binary(&self.options, symbols, &dsos.recorded(dso)?)?.segments.to_offset(address)
    }

    /// Converts an address of the file with a symbol to an address of the DSO, for the kernel too.
    #[must_use]
    pub fn offset_of(&self, dsos: &DsoTable, symbol: Symbol, address: u64) -> Option<u64> {
        let symbols = self.symbols(dsos, symbol.dso).ok()?;
        self.segments(&self.options, symbols, &dsos.recorded(symbol.dso)?).ok()?.to_offset(address)
    }

    /// Returns the build id of a DSO: the recorded one, else that of the recorded file if it is
    /// here, or of the running kernel.
    #[must_use]
    pub fn build_id(&self, dsos: &DsoTable, dso: DsoId) -> Option<BuildId> {
        let recorded = dsos.recorded(dso)?;
        let known = recorded.dso.build_id;
        known.or_else(|| match recorded.dso.kind {
            DsoKind::Elf => find::binary(&self.options, &recorded).ok()?.build_id,
            DsoKind::Kernel => self.kernel.recorded().known_build_id(&self.options),
            _ => None,
        })
    }

    /// Whether the recorded file of a DSO is here, and is an ELF file.
    #[must_use]
    pub fn has_elf_file(&self, dsos: &DsoTable, dso: DsoId) -> bool {
        let recorded = dsos.recorded(dso);
        recorded.is_some_and(|recorded| find::binary(&self.options, &recorded).is_ok())
    }

    /// Opens the perf map or the jitdump of a DSO.
    ///
    /// # Errors
    /// [`Unresolved::NoFile`] if it is missing or the DSO has another kind,
    /// [`Unresolved::NotReadable`] if this user may not read it, [`Unresolved::NotTrusted`] if
    /// another user could have written it, [`Unresolved::OlderPerfMap`] if an earlier process did.
    pub fn jit_file(&self, dso: &Dso) -> Result<File, Unresolved> {
        jit_file::open(&self.options, &self.processes, dso)
    }

    /// Returns the jitdump of a DSO, and reads it at the first call.
    ///
    /// # Errors
    /// Fails if the DSO is no jitdump, or its file can't be read or has no functions.
    pub fn jitdump(&self, dsos: &DsoTable, dso: DsoId) -> Result<&JitDump<File>, Unresolved> {
        match &self.symbols(dsos, dso)?.source {
            SymbolSource::JitDump(dump) => Ok(dump),
            _ => Err(Unresolved::NoJitDump),
        }
    }

    /// Takes over the numbers of [`DsoTable::retain`] and frees the DSOs without one. It also frees
    /// perf maps, jitdumps, and failures: these are read again at the next lookup, since the files
    /// may have changed by then.
    pub fn renumber(&mut self, numbers: &DsoRenumbering) {
        let old = std::mem::take(&mut self.dsos);
        let bytes_before = self.bytes();
        self.open_lines.close();
        let retained = OnceVec::default();
        for (number, symbols) in old.into_values() {
            match (numbers.number(number), symbols) {
                (Some(number), Ok(symbols)) if !symbols.source.may_grow() => {
                    retained.get_or_init(number, || Ok(symbols));
                }
                (_, Ok(symbols)) => self.budget.release(symbols.source.own_bytes()),
                (_, Err(_)) => {}
            }
        }
        self.dsos = retained;
        if bytes_before.saturating_sub(self.bytes()) >= GIVE_BACK_BYTES {
            tare_kernel::heap::return_freed_memory();
        }
    }

    /// Bytes of the tables of all DSOs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.budget.bytes()
    }

    /// Bytes of the tables of the DSOs that `is_counted` selects.
    #[must_use]
    pub fn table_bytes(&self, is_counted: impl Fn(DsoId) -> bool) -> usize {
        let counted = self.dsos.iter().filter(|(number, _)| is_counted(DsoId::from_index(*number)));
        let loaded = counted.filter_map(|(_, symbols)| symbols.as_ref().ok());
        loaded.map(|symbols| symbols.source.own_bytes()).sum()
    }

    /// Returns what debug info knows of sorted addresses in a DSO: an answer for each, or `None` if
    /// there is no debug info.
    pub(crate) fn answers(
        &self,
        dsos: &DsoTable,
        dso: DsoId,
        addresses: &[u64],
        threads: NonZeroUsize,
    ) -> Option<Answers> {
        let symbols = self.symbols(dsos, dso).ok()?;
        if let SymbolSource::JitDump(dump) = &symbols.source {
            return Some(jit_answers(dump, addresses));
        }
        let recorded = dsos.recorded(dso)?;
        let lines = self.open_lines.get(dso);
        if self.line_detail(symbols, &recorded, &lines) == LineDetail::Nothing {
            return None;
        }
        let kept = self.kept_answers(&recorded, &lines);
        let merge = AnswerMerge::look_up(kept, addresses);
        let missing = merge.missing(addresses);
        if missing.is_empty() {
            return merge.finish(None);
        }
        let fresh = self.fresh_answers(symbols, &recorded, &lines, &missing, threads);
        if let Some(fresh) = &fresh
            && lines.open_source().is_some_and(LineSource::is_complete)
        {
            self.cache.add_answers(recorded.dso, &missing, fresh);
        }
        merge.finish(fresh)
    }

    /// Whether addresses of a DSO may have source lines: whether any symbols of it were found.
    #[must_use]
    pub fn may_have_lines(&self, dsos: &DsoTable, dso: DsoId) -> bool {
        self.symbols(dsos, dso).is_ok()
    }

    /// Whether addresses of a DSO may have inlined functions: whether it has debug info, or the
    /// tables of Go's runtime.
    #[must_use]
    pub fn may_have_inlined(&self, dsos: &DsoTable, dso: DsoId) -> bool {
        let Ok(symbols) = self.symbols(dsos, dso) else { return false };
        let detail = symbols.line_detail.get().copied().or_else(|| {
            let recorded = dsos.recorded(dso)?;
            Some(self.line_detail(symbols, &recorded, &self.open_lines.get(dso)))
        });
        detail == Some(LineDetail::Functions)
    }

    /// Returns what is known about addresses of a file, and finds out at the first call.
    fn line_detail(
        &self,
        symbols: &DsoSymbols,
        recorded: &RecordedDso<'_>,
        lines: &FileLines,
    ) -> LineDetail {
        *symbols.line_detail.get_or_init(|| {
            if self.kept_answers(recorded, lines).is_some() {
                return LineDetail::Functions;
            }
            let options = self.options.for_debug_info();
            match self.line_source(&options, symbols, recorded, lines) {
                Some(source) if source.has_functions() => LineDetail::Functions,
                Some(_) => LineDetail::Files,
                None => LineDetail::Nothing,
            }
        })
    }

    /// Opens the answers of earlier runs.
    fn kept_answers<'l>(
        &self,
        recorded: &RecordedDso<'_>,
        lines: &'l FileLines,
    ) -> Option<&'l KeptAnswers> {
        lines.kept(|| {
            let value = self.cache.answers(recorded.dso)?;
            let memory = self.budget.hold(value.bytes()).ok()?;
            Some(ReservedPart { value, _memory: memory })
        })
    }

    /// Opens the debug info of a file.
    fn line_source<'l>(
        &self,
        options: &SymbolOptions,
        symbols: &DsoSymbols,
        recorded: &RecordedDso<'_>,
        lines: &'l FileLines,
    ) -> Option<&'l LineSource> {
        lines.source(|| {
            let value = if recorded.dso.kind.has_kernel_file() {
                let file = self.kernel_file(options, symbols, recorded).ok()?;
                LineSource::Dwarf(Box::new(file.debug_info(options, recorded)?))
            } else {
                self.binary(options, symbols, recorded)?.lines(options, recorded)?
            };
            let memory = self.budget.hold(value.bytes()).ok()?;
            Some(ReservedPart { value, _memory: memory })
        })
    }

    /// Looks addresses up in the debug info of the file, with at most `threads` threads.
    fn fresh_answers(
        &self,
        symbols: &DsoSymbols,
        recorded: &RecordedDso<'_>,
        lines: &FileLines,
        addresses: &[u64],
        threads: NonZeroUsize,
    ) -> Option<Answers> {
        let options = self.options.for_debug_info();
        let debug_info = self.line_source(&options, symbols, recorded, lines)?;
        let segments = self.segments(&options, symbols, recorded).ok()?;
        // The order of segments in memory can differ from their order in the file.
        let file_address = |offset: &u64| segments.to_address(*offset).unwrap_or(0);
        let file_addresses: Vec<u64> = addresses.iter().map(file_address).collect();
        if file_addresses.is_sorted() {
            return debug_info.answers(&options, &file_addresses, threads).ok();
        }
        let mut sorted = file_addresses.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let answers = debug_info.answers(&options, &sorted, threads).ok()?;
        let index = |address: &u64| sorted.partition_point(|sorted| sorted < address);
        Some(answers.in_order(file_addresses.iter().map(index)))
    }

    fn symbols(&self, dsos: &DsoTable, dso: DsoId) -> Result<&DsoSymbols, Unresolved> {
        let symbols = match self.dsos.get(dso.number()) {
            Some(symbols) => symbols,
            None => {
                let recorded = dsos.recorded(dso).ok_or(Unresolved::NoMapping)?;
                self.dsos.get_or_init(dso.number(), || self.load(&recorded).map(Box::new))
            }
        };
        symbols.as_ref().map(AsRef::as_ref).map_err(|why| *why)
    }

    /// Returns the mapping between addresses of a DSO and addresses of its file.
    fn segments<'s>(
        &self,
        options: &SymbolOptions,
        symbols: &'s DsoSymbols,
        recorded: &RecordedDso<'_>,
    ) -> Result<&'s Segments, Unresolved> {
        if recorded.dso.kind.has_kernel_file() {
            return self.kernel_file(options, symbols, recorded).map(|file| &file.addresses);
        }
        let binary = self.binary(options, symbols, recorded);
        binary.map(|binary| &binary.segments).ok_or(Unresolved::NoFile)
    }

    /// Returns the ELF file of a DSO, and opens it at the first call. A search that asked no server
    /// doesn't keep a later one from asking.
    fn binary<'s>(
        &self,
        options: &SymbolOptions,
        symbols: &'s DsoSymbols,
        recorded: &RecordedDso<'_>,
    ) -> Option<&'s Binary> {
        let is_elf = recorded.dso.kind == DsoKind::Elf;
        let open = || binary::open(options, recorded).ok().filter(|_| is_elf);
        if symbols.binary.get().is_none() && options.asks_servers_less(&self.options) {
            let _ = symbols.binary.set(Some(open()?));
        }
        symbols.binary.get_or_init(open).as_ref()
    }

    /// Returns the file of the kernel or of a module, and opens it at the first call.
    fn kernel_file<'s>(
        &self,
        options: &SymbolOptions,
        symbols: &'s DsoSymbols,
        recorded: &RecordedDso<'_>,
    ) -> Result<&'s KernelFile, Unresolved> {
        let open = || self.kernel.open_file(options, recorded, Some(&symbols.source)).ok();
        if symbols.kernel_file.get().is_none() && options.asks_servers_less(&self.options) {
            let _ = symbols.kernel_file.set(Some(open().ok_or(Unresolved::NoFile)?));
        }
        symbols.kernel_file.get_or_init(open).as_ref().ok_or(Unresolved::NoFile)
    }

    fn load(&self, recorded: &RecordedDso<'_>) -> Result<DsoSymbols, Unresolved> {
        let dso = recorded.dso;
        let binary = OnceLock::new();
        let mut kernel_file = OnceLock::new();
        let source = match dso.kind {
            DsoKind::Kernel | DsoKind::Module => {
                let (source, file) = self.kernel.source(&self.options, recorded)?;
                if file.is_some() {
                    kernel_file = OnceLock::from(file);
                }
                source
            }
            DsoKind::Ksymbol { bytes } => SymbolSource::Ksymbol { bytes, name: dso.name.clone() },
            DsoKind::Elf => {
                if let Some(table) = self.cache.table(dso)
                    && self.budget.reserve(table.bytes()).is_ok()
                {
                    return Ok(DsoSymbols::new(
                        SymbolSource::Kept(Box::new(table)),
                        binary,
                        kernel_file,
                        self.options.demangle,
                    ));
                }
                let (table, file) = binary::load(&self.options, recorded)?;
                let _ = binary.set(Some(file));
                self.cache.keep_table(dso, &table);
                match self.cache.table(dso).filter(|_| table.bytes() >= LARGE_TABLE) {
                    // The kernel may drop its pages when memory is short.
                    Some(kept) => SymbolSource::Kept(Box::new(kept)),
                    None => SymbolSource::Table(table),
                }
            }
            DsoKind::Vdso => {
                if dso.build_id.is_none() {
                    self.kernel.recorded().is_running(&self.options)?;
                }
                SymbolSource::Table(binary::load_vdso(&self.options, dso)?)
            }
            DsoKind::PerfMap { .. } => SymbolSource::PerfMap(PerfMap::read(self.jit_file(dso)?)?),
            DsoKind::JitDump { .. } => {
                let dump = JitDump::read(self.jit_file(dso)?);
                SymbolSource::JitDump(dump.map_err(|_| Unresolved::NoJitDump)?)
            }
            DsoKind::Anonymous => return Err(Unresolved::NoSymbol),
        };
        if source.is_empty() {
            return Err(Unresolved::Stripped);
        }
        self.budget.reserve(source.own_bytes())?;
        Ok(DsoSymbols::new(source, binary, kernel_file, self.options.demangle))
    }
}

impl DsoSymbols {
    fn new(
        source: SymbolSource,
        binary: OnceLock<Option<Binary>>,
        kernel_file: OnceLock<Option<KernelFile>>,
        demangle: bool,
    ) -> Self {
        Self {
            source,
            binary,
            kernel_file,
            line_detail: OnceLock::new(),
            names: NameCache::new(demangle),
        }
    }
}

/// Returns the source lines of addresses in a jitdump.
fn jit_answers(dump: &JitDump<File>, addresses: &[u64]) -> Answers {
    let mut answers = Answers::new(Texts::new(dump.bytes()));
    for address in addresses {
        let frame = dump.line(*address).map(|line| AnswerFrame {
            name: None,
            file: Some(answers.texts.add(&line.file)),
            line: line.line,
            column: line.column,
            first_line: 0,
            is_inlined: false,
        });
        answers.push(frame);
    }
    answers
}

#[cfg(test)]
mod tests;

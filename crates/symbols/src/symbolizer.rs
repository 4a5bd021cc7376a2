//! From an address in a DSO to a symbol.

mod jit;

use std::fs::File;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::binary;
use crate::demangle::demangle;
use crate::dso::{DsoId, DsoKind, DsoTable, Recorded};
use crate::jit_file::RecordedProcesses;
use crate::jitdump::JitDump;
use crate::kernel::{KernelSymbols, RecordedKernel};
use crate::limits;
use crate::name_source::NameSource;
use crate::once_vec::OnceVec;
use crate::perf_map::PerfMap;
use crate::search::SymbolOptions;
use crate::table::{Found, Table};
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
}

/// The symbols of a DSO, and their names as far as they were asked for.
#[derive(Debug)]
struct DsoSymbols {
    source: Source,
    names: OnceVec<Box<str>>,
    /// Bytes of the names that were asked for.
    name_bytes: AtomicUsize,
}

#[derive(Debug)]
enum Source {
    Table(Table),
    PerfMap(PerfMap),
    JitDump(JitDump<File>),
    Kernel,
    /// By its name without brackets.
    Module(Vec<u8>),
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
        }
    }

    /// What the recording says of its kernel, to be completed before the kernel is asked for.
    pub fn recorded_kernel(&mut self) -> &mut RecordedKernel {
        &mut self.recorded_kernel
    }

    /// The symbol at an address, as [`crate::Mapping::to_dso`] gives it.
    ///
    /// # Errors
    /// There is none: see [`Unresolved`].
    pub fn find(&self, dsos: &DsoTable, dso: DsoId, address: u64) -> Result<Symbol, Unresolved> {
        let source = &self.symbols(dsos, dso)?.source;
        let found = self.find_in(source, address).ok_or(Unresolved::NoSymbol)?;
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

    fn find_in(&self, source: &Source, address: u64) -> Option<Found> {
        match source {
            Source::Table(table) => table.find(address),
            Source::PerfMap(map) => map.find(address),
            Source::JitDump(dump) => dump.find(address),
            Source::Kernel => {
                let kernel = self.kernel.get()?.as_ref().ok()?;
                let Found { number, start, end } =
                    kernel.kernel().find(address.wrapping_add(kernel.shift))?;
                let recorded = |address: u64| address.wrapping_sub(kernel.shift);
                Some(Found { number, start: recorded(start), end: recorded(end) })
            }
            Source::Module(name) => self.kernel.get()?.as_ref().ok()?.module(name)?.find(address),
            Source::Ksymbol(bytes, _) => {
                (address < *bytes).then_some(Found { number: 0, start: 0, end: *bytes })
            }
        }
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
            symbols.name_bytes.fetch_add(name.len(), Ordering::Relaxed);
            name.into()
        })
    }

    /// Where a symbol's name comes from; `None` for one of another symbolizer.
    #[must_use]
    pub fn name_source(&self, symbol: Symbol) -> Option<NameSource> {
        let symbols = self.dsos.get(symbol.dso.number())?.as_ref().ok()?;
        Some(self.raw_name(&symbols.source, symbol.number)?.1)
    }

    /// Bytes of names before further ones are cut short: more than names need that don't overlap,
    /// demangled ones too.
    fn most_names(&self, source: &Source) -> usize {
        let of_kernel = || self.kernel.get()?.as_ref().ok();
        let table_bytes = match source {
            Source::Table(table) => table.bytes(),
            Source::PerfMap(map) => map.bytes(),
            Source::JitDump(dump) => dump.bytes(),
            Source::Kernel => of_kernel().map_or(0, |kernel| kernel.kernel().bytes()),
            Source::Module(name) => {
                of_kernel().and_then(|kernel| kernel.module(name)).map_or(0, Table::bytes)
            }
            Source::Ksymbol(_, name) => name.len(),
        };
        table_bytes.saturating_mul(8).saturating_add(1 << 20)
    }

    /// A symbol's name as the file has it (of a stub that of its target), and where it comes from.
    fn raw_name<'a>(&'a self, source: &'a Source, number: u32) -> Option<(&'a [u8], NameSource)> {
        match source {
            Source::Table(table) => table.name(number),
            Source::PerfMap(map) => Some((map.name(number)?, NameSource::PerfMap)),
            Source::JitDump(dump) => Some((dump.name(number)?, NameSource::Jitdump)),
            Source::Kernel => self.kernel.get()?.as_ref().ok()?.kernel().name(number),
            Source::Module(name) => self.kernel.get()?.as_ref().ok()?.module(name)?.name(number),
            Source::Ksymbol(_, name) => (number == 0).then_some((name, NameSource::Ksymbol)),
        }
    }

    fn load(&self, recorded: &Recorded<'_>) -> Result<DsoSymbols, Unresolved> {
        let dso = recorded.dso;
        let source = match dso.kind {
            DsoKind::Kernel => {
                self.kernel()?;
                Source::Kernel
            }
            DsoKind::Module => {
                let name = dso.name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]"));
                let name = name.unwrap_or(&dso.name);
                self.kernel()?.check_module(&self.options, name, dso.build_id)?;
                Source::Module(name.to_vec())
            }
            DsoKind::Ksymbol { bytes } => Source::Ksymbol(bytes, dso.name.clone()),
            DsoKind::Elf => self.table(binary::load(&self.options, recorded)?)?,
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
        Ok(DsoSymbols { source, names: OnceVec::default(), name_bytes: AtomicUsize::new(0) })
    }

    fn kernel(&self) -> Result<&KernelSymbols, Unresolved> {
        let load = || KernelSymbols::load(&self.options, &self.recorded_kernel);
        self.kernel.get_or_init(load).as_ref().map_err(|why| *why)
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
mod tests {
    use super::*;
    use crate::dso::Dso;

    /// The files with code of this process, a perf map, and files that don't exist.
    fn dsos(folder: &std::path::Path) -> (DsoTable, Vec<DsoId>) {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut paths: Vec<&str> =
            maps.lines().filter_map(|line| Some(&line[line.find('/')?..])).collect();
        paths.dedup();
        let mut dsos = DsoTable::default();
        let mut intern = |kind, name: &str| {
            dsos.intern(Dso { kind, name: name.into(), build_id: None }).unwrap()
        };
        let mut ids: Vec<_> = paths.iter().map(|path| intern(DsoKind::Elf, path)).collect();
        let map = folder.join("perf-1.map");
        let lines: String = (0..4096).map(|at| format!("{:x} 10 f{at}\n", at * 16)).collect();
        std::fs::write(&map, lines).unwrap();
        ids.push(intern(DsoKind::PerfMap { pid: 1 }, map.to_str().unwrap()));
        ids.push(intern(DsoKind::Elf, "/nowhere"));
        ids.push(intern(DsoKind::Ksymbol { bytes: 1 << 12 }, "bpf_prog"));
        (dsos, ids)
    }

    fn symbolizer(folder: &std::path::Path) -> Symbolizer {
        use std::os::unix::fs::MetadataExt;
        let reader_uid = folder.metadata().unwrap().uid();
        Symbolizer::new(SymbolOptions { reader_uid, ..SymbolOptions::default() })
    }

    /// Symbols and names all over each file.
    fn ask(
        symbolizer: &Symbolizer,
        dsos: &DsoTable,
        ids: &[DsoId],
    ) -> Vec<Result<(Symbol, String), Unresolved>> {
        let addresses = ids.iter().flat_map(|id| (0..1 << 10).map(|at| (*id, at * 0x73)));
        let found = addresses.map(|(id, address)| {
            let symbol = symbolizer.find(dsos, id, address)?;
            Ok((symbol, symbolizer.name(symbol).to_owned()))
        });
        found.collect()
    }

    #[test]
    fn threads_that_ask_at_once_get_what_one_gets() {
        let folder = tempfile::tempdir().unwrap();
        let (dsos, ids) = dsos(folder.path());
        let expected = ask(&symbolizer(folder.path()), &dsos, &ids);
        assert!(expected.iter().filter(|found| found.is_ok()).count() > 100);
        assert!(expected.contains(&Err(Unresolved::NoFile)));
        let (shared, start) = (symbolizer(folder.path()), std::sync::Barrier::new(8));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (shared, dsos, start) = (&shared, &dsos, &start);
                let (mut ids, expected) = (ids.clone(), &expected);
                scope.spawn(move || {
                    // Each begins with another file.
                    let first = thread % ids.len();
                    ids.rotate_left(first);
                    start.wait();
                    let mut found = ask(shared, dsos, &ids);
                    found.rotate_right(first << 10);
                    assert!(found == *expected, "thread {thread}");
                });
            }
        });
    }

    #[test]
    fn a_name_stays_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (dsos, ids) = dsos(folder.path());
        let symbolizer = symbolizer(folder.path());
        let map = ids[ids.len() - 3];
        let symbol = symbolizer.find(&dsos, map, 0x18).unwrap();
        let name = symbolizer.name(symbol);
        ask(&symbolizer, &dsos, &ids);
        assert_eq!((name, name.as_ptr()), ("f1", symbolizer.name(symbol).as_ptr()));
    }

    /// A file whose symbols share one long name: 250,000 x 16 KiB is 4 GiB.
    #[test]
    fn symbols_that_share_a_long_name_need_little_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared_name");
        let bytes = shared_name(20_000, 1 << 20);
        std::fs::write(&path, &bytes).unwrap();
        let mut dsos = DsoTable::default();
        let name = path.into_os_string().into_encoded_bytes();
        let id = dsos.intern(Dso { kind: DsoKind::Elf, name, build_id: None }).unwrap();
        let symbolizer = Symbolizer::new(SymbolOptions::default());
        let symbol = symbolizer.find(&dsos, id, 0x1000).unwrap();
        assert_eq!(symbolizer.name(symbol).len(), limits::NAME_BYTES);
        let used = symbolizer.bytes.load(Ordering::Relaxed);
        assert!(used < 2 * bytes.len(), "{used} bytes for a file of {}", bytes.len());
        let find = |at: u64| symbolizer.find(&dsos, id, at * 16).unwrap();
        let shown: usize = (0..20_000).map(|at| symbolizer.name(find(at)).len()).sum();
        assert!(shown < 20 * bytes.len(), "{shown} bytes of names for a file of {}", bytes.len());
    }

    /// Each byte changed, and the file cut at each: reading ends, in little memory.
    #[test]
    fn damaged_files_are_read_to_an_end() {
        use crate::elf::{Frames, Image};
        let whole = shared_name(8, 64);
        let read = |bytes: &[u8]| {
            let symbols = Image::read(bytes, None);
            let symbols = symbols.map(|image| image.into_symbols(None).build(true));
            let frames = Frames::read(bytes, 1 << 10);
            assert!(symbols.as_ref().map_or(0, Table::bytes) < 1 << 16);
            assert!(frames.as_ref().map_or(0, |frames| frames.bytes) <= 1 << 10);
            symbols.is_ok() && frames.is_ok()
        };
        for at in 0..whole.len() {
            read(&whole[..at]);
            for value in [0, 1, 2, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                read(&changed);
            }
        }
        assert!(read(&whole));
        for text in [&whole[..], b"0 0 \n-1 5 x\nffffffffffffffff ffffffffffffffff y\n \n\n1 1"] {
            assert!(PerfMap::parse(text.to_vec()).bytes() < 1 << 16);
            assert!(crate::kallsyms::Kallsyms::parse(text).is_hidden());
        }
    }

    /// An ELF file with so many functions of 16 bytes, from offset 0 on, whose names are the rest of
    /// one long name from another byte on.
    fn shared_name(symbols: usize, name_bytes: usize) -> Vec<u8> {
        const HEADER: usize = 64;
        const SEGMENT: usize = 56;
        const SECTION: usize = 64;
        const SYMBOL: usize = 24;
        let put = |bytes: &mut Vec<u8>, at: usize, value: u64, size: usize| {
            bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        };
        let sections = HEADER + SEGMENT;
        let table = sections + 3 * SECTION;
        let names = table + symbols * SYMBOL;
        let mut bytes = vec![0; names];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let fields: [(usize, u64, usize); 8] = [
            (16, 3, 2),
            (18, 62, 2),
            (20, 1, 4),
            (32, HEADER as u64, 8),
            (40, sections as u64, 8),
            (54, SEGMENT as u64, 2),
            (56, 1, 2),
            (58, SECTION as u64, 2),
        ];
        fields.into_iter().for_each(|(at, value, size)| put(&mut bytes, at, value, size));
        put(&mut bytes, 60, 3, 2);
        // The segment: PT_LOAD, of 1 GiB in memory.
        put(&mut bytes, HEADER, 1, 4);
        put(&mut bytes, HEADER + 40, 1 << 30, 8);
        for (section, kind, at, size, link) in
            [(1, 2, table, symbols * SYMBOL, 2), (2, 3, names, name_bytes, 0)]
        {
            let section = sections + section * SECTION;
            put(&mut bytes, section + 4, kind, 4);
            put(&mut bytes, section + 24, at as u64, 8);
            put(&mut bytes, section + 32, size as u64, 8);
            put(&mut bytes, section + 40, link, 4);
        }
        for symbol in 0..symbols {
            let at = table + symbol * SYMBOL;
            put(&mut bytes, at, symbol as u64 + 1, 4);
            bytes[at + 4] = 0x12; // STB_GLOBAL, STT_FUNC
            put(&mut bytes, at + 6, 1, 2);
            put(&mut bytes, at + 8, symbol as u64 * 16, 8);
            put(&mut bytes, at + 16, 16, 8);
        }
        bytes.resize(names + name_bytes, b'x');
        bytes
    }
}

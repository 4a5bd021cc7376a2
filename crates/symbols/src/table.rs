//! Symbol tables: symbols by address, and the choice among several at one address.

use std::cmp::Reverse;
use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;

use crate::demangle::demangle;
use crate::limits;
use crate::name_source::NameSource;

/// Binding of a symbol. Where several have the same address, a global one wins over a local one,
/// and a local one over a weak one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Binding {
    /// `STB_LOCAL`, and any other binding.
    Local,
    /// `STB_WEAK`.
    Weak,
    /// `STB_GLOBAL`.
    Global,
}

/// A symbol to be added to a [`SymbolTable`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewSymbol {
    /// Its first address.
    pub(crate) start: u64,
    /// Size in bytes; 0 for up to the next symbol.
    pub(crate) size: u64,
    pub(crate) binding: Binding,
    pub(crate) kind: SymbolKind,
}

/// Kind of a symbol; the higher one wins where several have the same address and a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SymbolKind {
    /// A label in code that is invisible to other files (`STV_HIDDEN` or `STV_INTERNAL`), from
    /// hand-written assembly. It names code that no other symbol covers, up to the next symbol.
    HiddenLabel,
    /// `STT_NOTYPE`: a label.
    Label,
    /// A function or data.
    Object,
}

impl NewSymbol {
    /// Creates a global function.
    pub(crate) fn function(start: u64, size: u64) -> Self {
        Self { start, size, binding: Binding::Global, kind: SymbolKind::Object }
    }
}

/// Position of a name: its offset in one of the [`NameTables`], and in the two highest bits which
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameAt(u32);

impl NameAt {
    /// Bits of an offset: a string table has at most [`limits::SECTION_BYTES`].
    const SHIFT: u32 = 30;

    /// `None` if the offset is beyond any string table.
    fn new(part: NamePart, offset: u32) -> Option<Self> {
        (offset >> Self::SHIFT == 0).then_some(Self((part as u32) << Self::SHIFT | offset))
    }

    fn part(self) -> NamePart {
        match self.0 >> Self::SHIFT {
            0 => NamePart::Symbols,
            1 => NamePart::Stubs,
            2 => NamePart::Mini,
            _ => NamePart::Functions,
        }
    }

    fn offset(self) -> usize {
        (self.0 & ((1 << Self::SHIFT) - 1)) as usize
    }
}

/// Which of a file's symbols a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamePart {
    /// Its symbol table.
    Symbols,
    /// Stubs that jump to functions of other files.
    Stubs,
    /// Its MiniDebugInfo.
    Mini,
    /// A list of functions: the table of Go's runtime, or the unwind tables.
    Functions,
}

#[derive(Clone, Copy, Debug)]
struct SymbolEntry {
    start: u64,
    end: u64,
    name: NameAt,
}

/// String tables with names that end with a NUL byte. Symbols have offsets into them instead of
/// copies of their names, which may overlap, so a symbol table is at most a few times larger than
/// its file.
#[derive(Clone, Debug, Default)]
struct NameTables {
    parts: [Arc<Vec<u8>>; 4],
}

impl NameTables {
    /// Returns a name without its NUL byte, cut at the limit.
    fn get(&self, at: NameAt) -> &[u8] {
        self.get_up_to(at, limits::NAME_BYTES)
    }

    /// Returns a name of at most `longest` bytes.
    fn get_up_to(&self, at: NameAt, longest: usize) -> &[u8] {
        let names = &self.parts[at.part() as usize];
        let rest = names.get(at.offset()..).unwrap_or_default();
        let rest = &rest[..rest.len().min(limits::NAME_BYTES).min(longest)];
        CStr::from_bytes_until_nul(rest).map_or(rest, CStr::to_bytes)
    }
}

/// A symbol, and its merits where several have the same address.
type Candidate = (SymbolEntry, Binding, SymbolKind);

/// Collects symbols for a [`SymbolTable`].
#[derive(Debug)]
pub(crate) struct SymbolTableBuilder {
    source: NameSource,
    /// Source of the names of [`NamePart::Functions`].
    functions_source: NameSource,
    entries: Vec<Candidate>,
    /// Labels that name code without another symbol.
    hidden: Vec<SymbolEntry>,
    /// Copied names, each with a NUL byte.
    copied: Vec<u8>,
    names: NameTables,
}

impl SymbolTableBuilder {
    /// Creates a builder that copies names.
    pub(crate) fn new(source: NameSource) -> Self {
        let entries = Vec::new();
        let hidden = Vec::new();
        let functions_source = NameSource::Pclntab;
        let names = NameTables::default();
        Self { source, functions_source, entries, hidden, copied: Vec::new(), names }
    }

    /// Creates a builder for symbols with names in this string table.
    pub(crate) fn with_names(source: NameSource, names: Arc<Vec<u8>>) -> Self {
        let names = NameTables { parts: [names, Arc::default(), Arc::default(), Arc::default()] };
        Self { names, ..Self::new(source) }
    }

    /// Sets the string table of a part.
    pub(crate) fn set_names(&mut self, part: NamePart, names: Arc<Vec<u8>>) {
        self.names.parts[part as usize] = names;
    }

    /// Reserves room for symbols and the bytes of their names.
    pub(crate) fn reserve(&mut self, symbols: usize, bytes: usize) {
        self.entries.reserve(symbols.min(limits::SYMBOLS));
        self.copied.reserve(bytes);
    }

    /// Adds a symbol with a copy of its name. Not for a builder made by
    /// [`SymbolTableBuilder::with_names`]. Returns `false` if there are too many symbols.
    pub(crate) fn add(&mut self, symbol: NewSymbol, name: &[u8]) -> bool {
        let Ok(offset) = u32::try_from(self.copied.len()) else { return false };
        self.copied.extend_from_slice(&name[..name.len().min(limits::NAME_BYTES)]);
        self.copied.push(0);
        self.add_at(symbol, NamePart::Symbols, offset)
    }

    /// Adds a symbol with its name at an offset of a part's string table. Returns `false` if there
    /// are too many symbols, or the offset is too large.
    pub(crate) fn add_at(&mut self, symbol: NewSymbol, part: NamePart, offset: u32) -> bool {
        let Some(name) = NameAt::new(part, offset) else { return false };
        if self.entries.len() + self.hidden.len() >= limits::SYMBOLS {
            return false;
        }
        let NewSymbol { start, size, binding, kind } = symbol;
        let entry = SymbolEntry { start, end: start.saturating_add(size), name };
        match kind {
            SymbolKind::HiddenLabel => self.hidden.push(entry),
            _ => self.entries.push((entry, binding, kind)),
        }
        true
    }

    /// Adds the symbols of another builder as a part of this one.
    pub(crate) fn take_over(&mut self, other: Self, part: NamePart) {
        let hidden =
            other.hidden.iter().map(|entry| (*entry, Binding::Local, SymbolKind::HiddenLabel));
        for (entry, binding, kind) in other.entries.iter().copied().chain(hidden) {
            let SymbolEntry { start, end, name } = entry;
            let Ok(offset) = u32::try_from(name.offset()) else { break };
            let symbol = NewSymbol { start, size: end - start, binding, kind };
            if !self.add_at(symbol, part, offset) {
                break;
            }
        }
        let [names, ..] = other.names.parts;
        self.set_names(part, names);
    }

    /// Adds functions without a symbol, which get names by their addresses in the file. `ranges` has
    /// the functions of the unwind tables, sorted, by their addresses; `to_offset` converts these to
    /// those of the symbols. Symbols without a size end where their function does.
    pub(crate) fn add_unnamed_functions(
        &mut self,
        ranges: &[Range<u64>],
        to_offset: impl Fn(u64) -> Option<u64>,
    ) {
        let mut names = Vec::new();
        let mut functions = Vec::new();
        for range in ranges {
            let Some(start) = to_offset(range.start) else { continue };
            let size = range.end.saturating_sub(range.start);
            functions.push(start..start.saturating_add(size));
            let Ok(name) = u32::try_from(names.len()) else { break };
            names.extend_from_slice(format!("fun_{:x}\0", range.start).as_bytes());
            let kind = SymbolKind::HiddenLabel;
            let new = NewSymbol { start, size, binding: Binding::Local, kind };
            if !self.add_at(new, NamePart::Functions, name) {
                break;
            }
        }
        functions.sort_unstable_by_key(|function| function.start);
        for (entry, ..) in &mut self.entries {
            if entry.end == entry.start {
                let behind = functions.partition_point(|function| function.start <= entry.start);
                let own = behind.checked_sub(1).and_then(|at| functions.get(at));
                let own = own.filter(|own| entry.start < own.end).map(|own| own.end);
                let next = functions.get(behind).map(|next| next.start);
                entry.end = own.or(next).unwrap_or(entry.end);
            }
        }
        self.functions_source = NameSource::UnwindTable;
        self.set_names(NamePart::Functions, Arc::new(names));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.hidden.is_empty()
    }

    /// Builds the table. A symbol without a size extends to the next one, the last one to the end
    /// of the next page. The best of several symbols at one address stays; `demangled` compares
    /// their demangled names. Hidden labels fill the gaps.
    pub(crate) fn build(mut self, demangled: bool) -> SymbolTable {
        if !self.copied.is_empty() {
            self.names.parts[NamePart::Symbols as usize] = Arc::new(self.copied);
        }
        self.entries.sort_by_key(|(entry, ..)| entry.start);
        for at in 1..self.entries.len() {
            let next = self.entries[at].0.start;
            let entry = &mut self.entries[at - 1].0;
            if entry.end == entry.start {
                entry.end = next;
            }
        }
        if let Some((last, ..)) =
            self.entries.last_mut().filter(|(last, ..)| last.end == last.start)
        {
            last.end = end_of_next_page(last.start);
        }
        let mut choice = Choice {
            names: &self.names,
            demangled_bytes_left: if demangled { limits::COMPARED_BYTES } else { 0 },
            best: None,
        };
        self.entries.dedup_by(|later, kept| {
            let is_same = later.0.start == kept.0.start;
            if is_same && choice.is_better(later, kept) {
                *kept = *later;
            }
            is_same
        });
        let mut entries: Vec<SymbolEntry> =
            self.entries.into_iter().map(|(entry, ..)| entry).collect();
        add_hidden_labels(&mut entries, self.hidden);
        SymbolTable {
            starts: entries.iter().map(|entry| entry.start).collect(),
            ends: entries.iter().map(|entry| entry.end).collect(),
            names_at: entries.iter().map(|entry| entry.name).collect(),
            names: self.names,
            source: self.source,
            functions_source: self.functions_source,
        }
    }
}

/// Chooses among symbols at one address.
struct Choice<'a> {
    names: &'a NameTables,
    /// Bytes of names that may still be demangled: many symbols of a damaged file may share a long
    /// name.
    demangled_bytes_left: usize,
    /// Merits of the last winner's name.
    best: Option<(NameAt, NameMerits)>,
}

/// Merits of a name: fewer leading underscores, then a longer name.
type NameMerits = (Reverse<usize>, usize);

impl Choice<'_> {
    /// Whether the later of two symbols at one address is better: with a size, not a label, not
    /// weak, global, then by name. These are the rules of perf (`choose_best_symbol` in
    /// `tools/perf/util/symbol.c`). Of the variants of a constructor or destructor, which have the
    /// same demangled name, the last one wins, as in LLVM's symbolizer.
    fn is_better(&mut self, later: &Candidate, kept: &Candidate) -> bool {
        let merits = |(entry, binding, kind): &Candidate| {
            let is_weak = *binding == Binding::Weak;
            let is_global = *binding == Binding::Global;
            (entry.end > entry.start, *kind, !is_weak, is_global)
        };
        let later_name = later.0.name;
        let kept_name = kept.0.name;
        match merits(later).cmp(&merits(kept)) {
            std::cmp::Ordering::Equal if later_name == kept_name => false,
            std::cmp::Ordering::Equal => {
                let kept = match self.best {
                    Some((name, merits)) if name == kept_name => merits,
                    _ => self.name_merits(kept_name),
                };
                let later = self.name_merits(later_name);
                let is_better = later > kept
                    || later == kept
                        && are_variants(self.names.get(later_name), self.names.get(kept_name));
                self.best = Some(if is_better { (later_name, later) } else { (kept_name, kept) });
                is_better
            }
            unequal => unequal.is_gt(),
        }
    }

    fn name_merits(&mut self, at: NameAt) -> NameMerits {
        let merits = |name: &[u8]| {
            (Reverse(name.iter().take_while(|byte| **byte == b'_').count()), name.len())
        };
        let longest = self.demangled_bytes_left.max(limits::SHORT_NAME_BYTES);
        let name = self.names.get_up_to(at, longest);
        match self.demangled_bytes_left.checked_sub(name.len()) {
            Some(left) => {
                self.demangled_bytes_left = left;
                merits(demangle(name).as_bytes())
            }
            None => merits(&name[..name.len().min(limits::SHORT_NAME_BYTES)]),
        }
    }
}

/// Whether two mangled names are variants of one constructor or destructor: `C1` and `C2`, `D1` and
/// `D2` (Itanium C++ ABI, section 5.1.4.3).
fn are_variants(one: &[u8], other: &[u8]) -> bool {
    let mut differ = (0..one.len().min(other.len())).filter(|at| one[*at] != other[*at]);
    let Some(at) = differ.next() else { return false };
    if differ.next().is_some() {
        return false;
    }
    let is_variant = |name: &[u8]| {
        at > 0 && matches!(name[at - 1], b'C' | b'D') && matches!(name[at], b'1' | b'2')
    };
    one.len() == other.len() && is_variant(one) && is_variant(other)
}

/// Adds hidden labels to sorted entries where no entry covers them. Each extends to the next entry
/// or label; of several at one address the last one in the file stays, as in LLVM's symbolizer.
fn add_hidden_labels(entries: &mut Vec<SymbolEntry>, mut hidden: Vec<SymbolEntry>) {
    hidden.sort_by_key(|label| label.start);
    let mut added = Vec::new();
    for (at, label) in hidden.iter().enumerate() {
        let behind = entries.partition_point(|entry| entry.start <= label.start);
        let near = &entries[behind.saturating_sub(SymbolTable::LOOK_BACK)..behind];
        let next_label = hidden.get(at + 1).map_or(u64::MAX, |next| next.start);
        let next = entries.get(behind).map_or(u64::MAX, |next| next.start).min(next_label);
        let is_covered = near.iter().any(|entry| label.start < entry.end);
        if !is_covered && label.start < next {
            added.push(SymbolEntry { end: label.end.min(next), ..*label });
        }
    }
    if !added.is_empty() {
        entries.extend(added);
        entries.sort_by_key(|entry| entry.start);
    }
}

fn end_of_next_page(address: u64) -> u64 {
    const PAGE: u64 = 4096;
    let end = address.checked_next_multiple_of(PAGE).and_then(|page| page.checked_add(PAGE));
    end.unwrap_or(u64::MAX)
}

/// A symbol found in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SymbolMatch {
    /// Number of the symbol, for the lifetime of the table.
    pub(crate) number: u32,
    pub(crate) start: u64,
    /// Address after the last byte.
    pub(crate) end: u64,
}

/// Symbols by address, as columns, so that a search touches only addresses.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    starts: Box<[u64]>,
    ends: Box<[u64]>,
    names_at: Box<[NameAt]>,
    names: NameTables,
    source: NameSource,
    functions_source: NameSource,
}

impl SymbolMatch {
    /// Returns the same symbol at addresses lower by `shift`, with wrap-around.
    pub(crate) fn moved_down(self, shift: u64) -> Self {
        let start = self.start.wrapping_sub(shift);
        let end = self.end.wrapping_sub(shift);
        Self { start, end, ..self }
    }
}

impl SymbolTable {
    /// Limit on the symbols before an address that are checked for one that contains it.
    pub(crate) const LOOK_BACK: usize = 4;

    /// Whether a symbol starts in a range.
    pub(crate) fn has_any(&self, start: u64, end: u64) -> bool {
        let first = self.starts.partition_point(|at| *at < start);
        self.starts.get(first).is_some_and(|at| *at < end)
    }

    /// Finds the symbol at an address.
    pub(crate) fn find(&self, address: u64) -> Option<SymbolMatch> {
        let behind = self.starts.partition_point(|start| *start <= address);
        let near = &self.ends[behind.saturating_sub(Self::LOOK_BACK)..behind];
        let found = near.iter().rposition(|end| address < *end)?;
        let at = behind - near.len() + found;
        let start = self.starts[at];
        let end = self.ends[at];
        Some(SymbolMatch { number: u32::try_from(at).ok()?, start, end })
    }

    /// Returns a symbol's name as it is in the file, and where it comes from. The name of a stub is
    /// that of its target.
    pub(crate) fn name(&self, symbol: u32) -> Option<(&[u8], NameSource)> {
        let at = *self.names_at.get(symbol as usize)?;
        let source = match at.part() {
            NamePart::Symbols => self.source,
            NamePart::Stubs => NameSource::Plt,
            NamePart::Mini => NameSource::MiniDebugInfo,
            NamePart::Functions => self.functions_source,
        };
        Some((self.names.get(at), source))
    }

    /// Returns the first address of a symbol, and the address after its last byte.
    pub(crate) fn range(&self, symbol: u32) -> Option<(u64, u64)> {
        let at = symbol as usize;
        Some((*self.starts.get(at)?, *self.ends.get(at)?))
    }

    /// Whether these are all symbols that the file can have.
    pub(crate) fn is_full(&self) -> bool {
        self.source == NameSource::Symtab
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let names: usize = self.names.parts.iter().map(|part| part.len()).sum();
        let columns = [size_of_val(&*self.starts), size_of_val(&*self.ends)];
        columns.iter().sum::<usize>() + size_of_val(&*self.names_at) + names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: (Binding, SymbolKind) = (Binding::Local, SymbolKind::Object);
    const GLOBAL: (Binding, SymbolKind) = (Binding::Global, SymbolKind::Object);
    const WEAK: (Binding, SymbolKind) = (Binding::Weak, SymbolKind::Object);
    const LABEL: (Binding, SymbolKind) = (Binding::Global, SymbolKind::Label);
    const HIDDEN: (Binding, SymbolKind) = (Binding::Local, SymbolKind::HiddenLabel);

    type TestSymbols<'a> = &'a [(u64, u64, &'a str, (Binding, SymbolKind))];

    fn names(symbols: TestSymbols<'_>, address: u64) -> Option<String> {
        let mut builder = SymbolTableBuilder::new(NameSource::Symtab);
        for (start, size, name, (binding, kind)) in symbols {
            let start = *start;
            let size = *size;
            let binding = *binding;
            let kind = *kind;
            assert!(builder.add(NewSymbol { start, size, binding, kind }, name.as_bytes()));
        }
        let table = builder.build(true);
        let (name, _) = table.name(table.find(address)?.number)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    #[test]
    fn takes_the_best_of_several_symbols() {
        let cases: [(TestSymbols<'_>, &str); 9] = [
            (&[(16, 8, "local", LOCAL), (16, 8, "global", GLOBAL)], "global"),
            (&[(16, 8, "write", WEAK), (16, 8, "__write", GLOBAL)], "__write"),
            (&[(16, 8, "__a", GLOBAL), (16, 8, "_b", GLOBAL)], "_b"),
            (&[(16, 8, "short", GLOBAL), (16, 8, "longer", GLOBAL)], "longer"),
            (&[(16, 8, "first", GLOBAL), (16, 8, "other", GLOBAL)], "first"),
            (&[(16, 8, "_ZN1AD1Ev", WEAK), (16, 8, "_ZN1AD2Ev", WEAK)], "_ZN1AD2Ev"),
            (&[(16, 8, "_ZN1AC2Ev", WEAK), (16, 8, "_ZN1AC1Ev", WEAK)], "_ZN1AC1Ev"),
            (&[(16, 8, "f", LOCAL), (16, 8, "label", LABEL)], "f"),
            (&[(16, 8, "ab", GLOBAL), (16, 8, "abcd", GLOBAL), (16, 8, "abc", GLOBAL)], "abcd"),
        ];
        for (symbols, best) in cases {
            assert_eq!(names(symbols, 20).as_deref(), Some(best));
        }
    }

    #[test]
    fn fills_in_missing_sizes() {
        let symbols = [(16, 0, "a", LOCAL), (32, 4, "b", LOCAL), (64, 0, "c", LOCAL)];
        assert_eq!(names(&symbols, 31).as_deref(), Some("a"));
        assert_eq!(names(&symbols, 35).as_deref(), Some("b"));
        assert_eq!(names(&symbols, 36), None);
        assert_eq!(names(&symbols, 4096 + 4095).as_deref(), Some("c"));
        assert_eq!((names(&symbols, 8192), names(&symbols, 15)), (None, None));
    }

    #[test]
    fn a_nested_symbol_does_not_hide_the_rest_of_the_outer_one() {
        let symbols = [(0, 100, "outer", LOCAL), (10, 4, "inner", LOCAL)];
        assert_eq!(names(&symbols, 11).as_deref(), Some("inner"));
        assert_eq!(names(&symbols, 50).as_deref(), Some("outer"));
    }

    #[test]
    fn hidden_labels_only_fill_gaps() {
        let symbols = [
            (16, 16, "sized", GLOBAL),
            (20, 100, "within", HIDDEN),
            (32, 100, "loop", HIDDEN),
            (40, 100, "twice", HIDDEN),
            (40, 100, "exit", HIDDEN),
            (64, 8, "next", LOCAL),
            (80, 4, "short", HIDDEN),
        ];
        for (address, name) in [(20, "sized"), (31, "sized"), (32, "loop"), (39, "loop")] {
            assert_eq!(names(&symbols, address).as_deref(), Some(name), "{address}");
        }
        for (address, name) in [(40, "exit"), (63, "exit"), (64, "next"), (83, "short")] {
            assert_eq!(names(&symbols, address).as_deref(), Some(name), "{address}");
        }
        assert_eq!((names(&symbols, 72), names(&symbols, 84)), (None, None));
    }

    #[test]
    fn stores_overlapping_names_once() {
        let names = Arc::new(vec![b'x'; 1 << 16]);
        let mut builder = SymbolTableBuilder::with_names(NameSource::Symtab, names);
        for at in 0..1 << 14 {
            assert!(builder.add_at(NewSymbol::function(at.into(), 1), NamePart::Symbols, at));
        }
        let table = builder.build(true);
        assert!(table.bytes() < 1 << 20, "{}", table.bytes());
        assert_eq!(table.name(5).map(|(name, _)| name.len()), Some(limits::NAME_BYTES));
    }

    #[test]
    fn functions_of_the_unwind_tables_fill_gaps_and_end_symbols_without_a_size() {
        let mut builder = SymbolTableBuilder::new(NameSource::Dynsym);
        let binding = Binding::Global;
        let symbol = |start, size| NewSymbol { start, size, binding, kind: SymbolKind::Object };
        builder.add(symbol(0x100, 0x20), b"sized");
        builder.add(symbol(0x300, 0), b"unsized");
        builder.add(symbol(0x380, 0), b"between");
        let ranges = [0x1100..0x1120, 0x1200..0x1240, 0x1300..0x1310, 0x1400..0x1420];
        builder.add_unnamed_functions(&ranges, |address| address.checked_sub(0x1000));
        let table = builder.build(false);
        let name = |address| {
            let (name, source) = table.name(table.find(address)?.number)?;
            Some((String::from_utf8_lossy(name).into_owned(), source))
        };
        let named = |name: &str| Some((name.to_owned(), NameSource::Dynsym));
        let unnamed = |name: &str| Some((name.to_owned(), NameSource::UnwindTable));
        assert_eq!([name(0x100), name(0x11f), name(0x120)], [named("sized"), named("sized"), None]);
        assert_eq!([name(0x200), name(0x23f)], [(); 2].map(|()| unnamed("fun_1200")));
        assert_eq!([name(0x240), name(0x30f), name(0x310)], [None, named("unsized"), None]);
        assert_eq!([name(0x3ff), name(0x400)], [named("between"), unnamed("fun_1400")]);
        assert_eq!(name(0x420), None);
    }
}

//! Symbols by address.

mod choice;

use std::ffi::CStr;
use std::sync::Arc;

use crate::limits;
use crate::name_source::NameSource;
use choice::Choice;

/// What speaks for a symbol where several have one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Binding {
    /// `STB_LOCAL` and whatever else there is.
    Local,
    /// `STB_WEAK`.
    Weak,
    /// `STB_GLOBAL`.
    Global,
}

/// A symbol before it is in a [`Table`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewSymbol {
    /// Its first address.
    pub(crate) start: u64,
    /// Bytes; with 0 it goes on up to the next symbol.
    pub(crate) size: u64,
    pub(crate) binding: Binding,
    pub(crate) kind: Kind,
}

/// What a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A label in code that other files don't see (`STV_HIDDEN`): hand-written assembly. It names
    /// what no other symbol reaches over, up to the next one.
    HiddenLabel,
    /// `STT_NOTYPE`: a label.
    Label,
    /// A function or data.
    Object,
}

impl NewSymbol {
    /// A global function.
    pub(crate) fn function(start: u64, size: u64) -> Self {
        Self { start, size, binding: Binding::Global, kind: Kind::Object }
    }
}

/// Where a name begins: its offset in one of the table's [`Names`], and in the two highest bits
/// which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameAt(u32);

impl NameAt {
    /// Above all offsets: a string table has at most [`limits::SECTION_BYTES`].
    const SHIFT: u32 = 30;

    /// `None` where the offset is beyond any string table.
    fn new(part: Part, offset: u32) -> Option<Self> {
        (offset >> Self::SHIFT == 0).then_some(Self((part as u32) << Self::SHIFT | offset))
    }

    fn part(self) -> Part {
        match self.0 >> Self::SHIFT {
            0 => Part::Symbols,
            1 => Part::Stubs,
            2 => Part::Mini,
            _ => Part::Go,
        }
    }

    fn offset(self) -> usize {
        (self.0 & ((1 << Self::SHIFT) - 1)) as usize
    }
}

/// Which symbols of a file a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Those of its table.
    Symbols,
    /// Stubs that jump to functions of other files.
    Stubs,
    /// Those of its MiniDebugInfo.
    Mini,
    /// Those that Go's runtime knows.
    Go,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    name: NameAt,
}

/// String tables: names that end with a NUL byte. Symbols keep offsets into them rather than copies
/// of their names, which may overlap: a table of symbols is never larger than a few times its file.
#[derive(Clone, Debug, Default)]
struct Names {
    parts: [Arc<Vec<u8>>; 4],
}

impl Names {
    /// A name without its NUL byte; what is longer than a reader's limit is cut.
    fn get(&self, at: NameAt) -> &[u8] {
        self.get_up_to(at, limits::NAME_BYTES)
    }

    /// The same, of at most so many bytes.
    fn get_up_to(&self, at: NameAt, longest: usize) -> &[u8] {
        let names = &self.parts[at.part() as usize];
        let rest = names.get(at.offset()..).unwrap_or_default();
        let rest = &rest[..rest.len().min(limits::NAME_BYTES).min(longest)];
        CStr::from_bytes_until_nul(rest).map_or(rest, CStr::to_bytes)
    }
}

/// An entry, and what speaks for it.
type Candidate = (Entry, Binding, Kind);

/// Symbols that are being collected.
#[derive(Debug)]
pub(crate) struct Builder {
    source: NameSource,
    entries: Vec<Candidate>,
    /// Labels that name what no entry reaches over.
    hidden: Vec<Entry>,
    /// Names that were copied, each with a NUL byte.
    copied: Vec<u8>,
    names: Names,
}

impl Builder {
    /// Collects symbols of a table whose names it copies.
    pub(crate) fn new(source: NameSource) -> Self {
        let entries = Vec::new();
        let hidden = Vec::new();
        Self { source, entries, hidden, copied: Vec::new(), names: Names::default() }
    }

    /// Collects symbols whose names are in this string table.
    pub(crate) fn with_names(source: NameSource, names: Arc<Vec<u8>>) -> Self {
        let names = Names { parts: [names, Arc::default(), Arc::default(), Arc::default()] };
        Self { names, ..Self::new(source) }
    }

    /// Sets the string table of a part's names.
    pub(crate) fn set_names(&mut self, part: Part, names: Arc<Vec<u8>>) {
        self.names.parts[part as usize] = names;
    }

    /// Makes room for so many symbols, and bytes of their names.
    pub(crate) fn reserve(&mut self, symbols: usize, bytes: usize) {
        self.entries.reserve(symbols.min(limits::SYMBOLS));
        self.copied.reserve(bytes);
    }

    /// Adds a symbol with a copy of its name: for tables that aren't [`Builder::with_names`].
    /// `false`: there are too many.
    pub(crate) fn add(&mut self, symbol: NewSymbol, name: &[u8]) -> bool {
        let Ok(offset) = u32::try_from(self.copied.len()) else { return false };
        self.copied.extend_from_slice(&name[..name.len().min(limits::NAME_BYTES)]);
        self.copied.push(0);
        self.add_at(symbol, Part::Symbols, offset)
    }

    /// Adds a symbol whose name begins at an offset in the string table of a part. `false`: there
    /// are too many.
    pub(crate) fn add_at(&mut self, symbol: NewSymbol, part: Part, offset: u32) -> bool {
        let Some(name) = NameAt::new(part, offset) else { return false };
        if self.entries.len() + self.hidden.len() >= limits::SYMBOLS {
            return false;
        }
        let NewSymbol { start, size, binding, kind } = symbol;
        let entry = Entry { start, end: start.saturating_add(size), name };
        match kind {
            Kind::HiddenLabel => self.hidden.push(entry),
            _ => self.entries.push((entry, binding, kind)),
        }
        true
    }

    /// Takes over the symbols of another table as a part of this one.
    pub(crate) fn take_over(&mut self, other: Self, part: Part) {
        let hidden = other.hidden.iter().map(|entry| (*entry, Binding::Local, Kind::HiddenLabel));
        for (entry, binding, kind) in other.entries.iter().copied().chain(hidden) {
            let Entry { start, end, name } = entry;
            let Ok(offset) = u32::try_from(name.offset()) else { break };
            let symbol = NewSymbol { start, size: end - start, binding, kind };
            if !self.add_at(symbol, part, offset) {
                break;
            }
        }
        let [names, ..] = other.names.parts;
        self.set_names(part, names);
    }

    /// Whether none has been added.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.hidden.is_empty()
    }

    /// The table: symbols without a size go up to the next one, or to the end of the next page; of
    /// several at one address the best stays, and hidden labels fill what is left. With `demangled` it is the names in source code that
    /// are compared.
    pub(crate) fn build(mut self, demangled: bool) -> Table {
        if !self.copied.is_empty() {
            self.names.parts[Part::Symbols as usize] = Arc::new(self.copied);
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
        let mut entries: Vec<Entry> = self.entries.into_iter().map(|(entry, ..)| entry).collect();
        fill(&mut entries, self.hidden);
        Table {
            starts: entries.iter().map(|entry| entry.start).collect(),
            ends: entries.iter().map(|entry| entry.end).collect(),
            names_at: entries.iter().map(|entry| entry.name).collect(),
            names: self.names,
            source: self.source,
        }
    }
}

/// Adds hidden labels to sorted entries where none reaches over them. Each goes up to the next
/// entry or label; of several at one address the last one in the file stays, as for LLVM's
/// symbolizer.
fn fill(entries: &mut Vec<Entry>, mut hidden: Vec<Entry>) {
    hidden.sort_by_key(|label| label.start);
    let mut added = Vec::new();
    for (at, label) in hidden.iter().enumerate() {
        let behind = entries.partition_point(|entry| entry.start <= label.start);
        let near = &entries[behind.saturating_sub(Table::LOOK_BACK)..behind];
        let next_label = hidden.get(at + 1).map_or(u64::MAX, |next| next.start);
        let next = entries.get(behind).map_or(u64::MAX, |next| next.start).min(next_label);
        let is_covered = near.iter().any(|entry| label.start < entry.end);
        if !is_covered && label.start < next {
            added.push(Entry { end: label.end.min(next), ..*label });
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

/// A symbol of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SymbolMatch {
    /// Stays the same for the life of the table.
    pub(crate) number: u32,
    pub(crate) start: u64,
    /// The first address behind it.
    pub(crate) end: u64,
}

/// Symbols by address, column by column: a search goes through the addresses alone.
#[derive(Debug)]
pub(crate) struct Table {
    starts: Box<[u64]>,
    ends: Box<[u64]>,
    names_at: Box<[NameAt]>,
    names: Names,
    source: NameSource,
}

impl Table {
    /// How many symbols lie before one that may still reach over an address.
    pub(crate) const LOOK_BACK: usize = 4;

    /// Whether a symbol begins in a range.
    pub(crate) fn has_any(&self, start: u64, end: u64) -> bool {
        let first = self.starts.partition_point(|at| *at < start);
        self.starts.get(first).is_some_and(|at| *at < end)
    }

    /// The symbol that an address lies in.
    pub(crate) fn find(&self, address: u64) -> Option<SymbolMatch> {
        let behind = self.starts.partition_point(|start| *start <= address);
        let near = &self.ends[behind.saturating_sub(Self::LOOK_BACK)..behind];
        let found = near.iter().rposition(|end| address < *end)?;
        let at = behind - near.len() + found;
        let start = self.starts[at];
        let end = self.ends[at];
        Some(SymbolMatch { number: u32::try_from(at).ok()?, start, end })
    }

    /// The name of a symbol as the file has it, and where it comes from; of a stub the name of the
    /// function that it jumps to.
    pub(crate) fn name(&self, symbol: u32) -> Option<(&[u8], NameSource)> {
        let at = *self.names_at.get(symbol as usize)?;
        let source = match at.part() {
            Part::Symbols => self.source,
            Part::Stubs => NameSource::Plt,
            Part::Mini => NameSource::MiniDebugInfo,
            Part::Go => NameSource::Pclntab,
        };
        Some((self.names.get(at), source))
    }

    /// The first address of a symbol, and the first one behind it.
    pub(crate) fn range(&self, symbol: u32) -> Option<(u64, u64)> {
        let at = symbol as usize;
        Some((*self.starts.get(at)?, *self.ends.get(at)?))
    }

    /// Whether these are all symbols that a file can have.
    pub(crate) fn is_full(&self) -> bool {
        self.source == NameSource::Symtab
    }

    /// How many symbols there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Memory.
    pub(crate) fn bytes(&self) -> usize {
        let names: usize = self.names.parts.iter().map(|part| part.len()).sum();
        let columns = [size_of_val(&*self.starts), size_of_val(&*self.ends)];
        columns.iter().sum::<usize>() + size_of_val(&*self.names_at) + names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: (Binding, Kind) = (Binding::Local, Kind::Object);
    const GLOBAL: (Binding, Kind) = (Binding::Global, Kind::Object);
    const WEAK: (Binding, Kind) = (Binding::Weak, Kind::Object);
    const LABEL: (Binding, Kind) = (Binding::Global, Kind::Label);
    const HIDDEN: (Binding, Kind) = (Binding::Local, Kind::HiddenLabel);

    type TestSymbols<'a> = &'a [(u64, u64, &'a str, (Binding, Kind))];

    fn names(symbols: TestSymbols<'_>, address: u64) -> Option<String> {
        let mut builder = Builder::new(NameSource::Symtab);
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
    fn the_best_of_several_names_is_taken() {
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
    fn sizes_are_filled_in_and_kept() {
        let symbols = [(16, 0, "a", LOCAL), (32, 4, "b", LOCAL), (64, 0, "c", LOCAL)];
        assert_eq!(names(&symbols, 31).as_deref(), Some("a"));
        assert_eq!(names(&symbols, 35).as_deref(), Some("b"));
        assert_eq!(names(&symbols, 36), None);
        assert_eq!(names(&symbols, 4096 + 4095).as_deref(), Some("c"));
        assert_eq!((names(&symbols, 8192), names(&symbols, 15)), (None, None));
    }

    #[test]
    fn what_lies_within_another_does_not_hide_its_rest() {
        let symbols = [(0, 100, "outer", LOCAL), (10, 4, "inner", LOCAL)];
        assert_eq!(names(&symbols, 11).as_deref(), Some("inner"));
        assert_eq!(names(&symbols, 50).as_deref(), Some("outer"));
    }

    #[test]
    fn hidden_labels_name_only_what_nothing_else_does() {
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
    fn names_that_overlap_are_kept_once() {
        let names = Arc::new(vec![b'x'; 1 << 16]);
        let mut builder = Builder::with_names(NameSource::Symtab, names);
        for at in 0..1 << 14 {
            assert!(builder.add_at(NewSymbol::function(at.into(), 1), Part::Symbols, at));
        }
        let table = builder.build(true);
        assert!(table.bytes() < 1 << 20, "{}", table.bytes());
        assert_eq!(table.name(5).map(|(name, _)| name.len()), Some(limits::NAME_BYTES));
    }
}

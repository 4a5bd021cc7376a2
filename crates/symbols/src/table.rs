//! Symbols by address.

use std::borrow::Cow;

use crate::demangle::demangle;
use crate::limits;

/// What speaks for a symbol where several have one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// `STB_GLOBAL`.
    pub is_global: bool,
    /// `STB_WEAK`.
    pub is_weak: bool,
    /// `STT_NOTYPE`: a label.
    pub is_label: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    name: u32,
    len: u16,
}

/// Symbols that are being collected.
#[derive(Debug, Default)]
pub struct Builder {
    entries: Vec<(Entry, Rank)>,
    names: Vec<u8>,
}

impl Builder {
    /// Adds a symbol of `size` bytes; with 0 it goes on up to the next. `false`: there are too
    /// many.
    pub fn add(&mut self, start: u64, size: u64, name: &[u8], rank: Rank) -> bool {
        let name = &name[..name.len().min(limits::NAME_BYTES)];
        let (Ok(at), Ok(len)) = (u32::try_from(self.names.len()), u16::try_from(name.len())) else {
            return false;
        };
        if self.entries.len() >= limits::SYMBOLS {
            return false;
        }
        self.names.extend_from_slice(name);
        self.entries.push((Entry { start, end: start.saturating_add(size), name: at, len }, rank));
        true
    }

    /// How many symbols have been added.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none has been added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The table: symbols without a size go up to the next one, or to the end of the next page; of
    /// several at one address the best stays. With `demangled` it is the names in source code that
    /// are compared.
    #[must_use]
    pub fn build(mut self, demangled: bool) -> Table {
        self.entries.sort_by_key(|(entry, _)| entry.start);
        for at in 1..self.entries.len() {
            let next = self.entries[at].0.start;
            let entry = &mut self.entries[at - 1].0;
            if entry.end == entry.start {
                entry.end = next;
            }
        }
        if let Some((last, _)) = self.entries.last_mut().filter(|(last, _)| last.end == last.start)
        {
            last.end = last
                .start
                .checked_next_multiple_of(4096)
                .and_then(|page| page.checked_add(4096))
                .unwrap_or(u64::MAX);
        }
        let names = self.names;
        let name = |entry: &Entry| &names[entry.name as usize..][..entry.len.into()];
        self.entries.dedup_by(|later, kept| {
            if later.0.start != kept.0.start {
                return false;
            }
            let shown = |name| {
                if demangled { Cow::from(demangle(name).into_bytes()) } else { Cow::from(name) }
            };
            let is_better =
                is_better((later, &shown(name(&later.0))), (kept, &shown(name(&kept.0))));
            if is_better {
                *kept = *later;
            }
            true
        });
        Table { entries: self.entries.into_iter().map(|(entry, _)| entry).collect(), names }
    }
}

/// Whether of two symbols with one address the later is the better one: with a size, no label, not
/// weak, global, fewer leading underscores, the longer name. (`choose_best_symbol` in
/// `tools/perf/util/symbol.c` has these rules.)
fn is_better(later: (&(Entry, Rank), &[u8]), kept: (&(Entry, Rank), &[u8])) -> bool {
    let merits = |((entry, rank), name): (&(Entry, Rank), &[u8])| {
        let underscores = name.iter().take_while(|byte| **byte == b'_').count();
        (
            entry.end > entry.start,
            !rank.is_label,
            !rank.is_weak,
            rank.is_global,
            std::cmp::Reverse(underscores),
            name.len(),
        )
    };
    merits(later) > merits(kept)
}

/// Symbols by address. A symbol's number stays the same for the life of the table.
#[derive(Debug, Default)]
pub struct Table {
    entries: Vec<Entry>,
    names: Vec<u8>,
}

impl Table {
    /// How many symbols lie before one that may still reach over an address.
    const LOOK_BACK: usize = 4;

    /// The symbol that an address lies in: number, first address, and first address behind it.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<(u32, u64, u64)> {
        let behind = self.entries.partition_point(|entry| entry.start <= address);
        let near = &self.entries[behind.saturating_sub(Self::LOOK_BACK)..behind];
        let found = near.iter().rposition(|entry| address < entry.end)?;
        let at = behind - near.len() + found;
        Some((u32::try_from(at).ok()?, self.entries[at].start, self.entries[at].end))
    }

    /// The name of a symbol as the file has it.
    #[must_use]
    pub fn name(&self, symbol: u32) -> Option<&[u8]> {
        let entry = self.entries.get(symbol as usize)?;
        self.names.get(entry.name as usize..)?.get(..entry.len.into())
    }

    /// How many symbols there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Rank = Rank { is_global: false, is_weak: false, is_label: false };
    const GLOBAL: Rank = Rank { is_global: true, ..LOCAL };
    const WEAK: Rank = Rank { is_weak: true, ..LOCAL };

    type Given<'a> = &'a [(u64, u64, &'a str, Rank)];

    fn names(symbols: Given<'_>, address: u64) -> Option<String> {
        let mut builder = Builder::default();
        for (start, size, name, rank) in symbols {
            assert!(builder.add(*start, *size, name.as_bytes(), *rank));
        }
        let table = builder.build(true);
        let (symbol, ..) = table.find(address)?;
        table.name(symbol).map(|name| String::from_utf8_lossy(name).into_owned())
    }

    #[test]
    fn the_best_of_several_names_is_taken() {
        let cases: [(Given<'_>, &str); 6] = [
            (&[(16, 8, "local", LOCAL), (16, 8, "global", GLOBAL)], "global"),
            (&[(16, 8, "write", WEAK), (16, 8, "__write", GLOBAL)], "__write"),
            (&[(16, 8, "__a", GLOBAL), (16, 8, "_b", GLOBAL)], "_b"),
            (&[(16, 8, "short", GLOBAL), (16, 8, "longer", GLOBAL)], "longer"),
            (&[(16, 8, "first", GLOBAL), (16, 8, "other", GLOBAL)], "first"),
            (&[(16, 8, "f", LOCAL), (16, 8, "label", Rank { is_label: true, ..GLOBAL })], "f"),
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
}

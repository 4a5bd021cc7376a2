//! A file's symbols as they are kept: first addresses, ends, where names begin, names.

use std::collections::HashMap;

use super::blocks::{Blocks, LARGEST, Texts};
use crate::name_source::NameSource;
use crate::table::{SymbolMatch, Table};

/// The numbers of the tables.
const STARTS: usize = 0;
const ENDS: usize = 1;
const NAMES_AT: usize = 2;
const NAMES: usize = 3;

/// A table that is read in part: see [`Table`], which it answers like.
#[derive(Debug)]
pub(crate) struct KeptTable(Blocks);

impl KeptTable {
    pub(super) fn new(blocks: Blocks) -> Self {
        Self(blocks)
    }

    /// The symbol that an address lies in.
    pub(crate) fn find(&self, address: u64) -> Option<SymbolMatch> {
        let behind = self.0.not_above(STARTS, address)?;
        let first = behind.saturating_sub(Table::LOOK_BACK);
        let at = (first..behind)
            .rev()
            .find(|at| self.0.u64(ENDS, *at).is_some_and(|end| address < end))?;
        let start = self.0.u64(STARTS, at)?;
        let end = self.0.u64(ENDS, at)?;
        let number = u32::try_from(at).ok()?;
        // One whose name is damaged is none.
        self.name(number)?;
        Some(SymbolMatch { number, start, end })
    }

    /// The name of a symbol as the file has it, and where it comes from.
    pub(crate) fn name(&self, symbol: u32) -> Option<(&[u8], NameSource)> {
        let at = self.0.u32(NAMES_AT, symbol as usize)?;
        let (name, tag) = self.0.text(NAMES, at)?;
        let source = match tag {
            0 => NameSource::Symtab,
            1 => NameSource::Plt,
            _ => NameSource::MiniDebugInfo,
        };
        Some((name, source))
    }

    /// Whether a part of it was not as it was written: it has no symbols there.
    pub(crate) fn is_damaged(&self) -> bool {
        self.0.is_damaged()
    }

    /// The most memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// The tables' bytes; `None` where they would be too large.
pub(super) fn tables(table: &Table) -> Option<[Vec<u8>; 4]> {
    let mut starts = Vec::new();
    let mut ends = Vec::new();
    let mut names_at = Vec::new();
    let mut names = Texts::default();
    let mut known: HashMap<&[u8], u32, foldhash::fast::RandomState> = HashMap::default();
    for number in 0..u32::try_from(table.len()).ok()? {
        let (start, end) = table.range(number)?;
        let (name, source) = table.name(number)?;
        let tag = match source {
            NameSource::Symtab => 0,
            NameSource::Plt => 1,
            _ => 2,
        };
        let at = match known.get(name).filter(|_| tag == 0) {
            Some(at) => *at,
            None => names.add(name, tag)?,
        };
        if tag == 0 {
            known.insert(name, at);
        }
        starts.extend(start.to_ne_bytes());
        ends.extend(end.to_ne_bytes());
        names_at.extend(at.to_ne_bytes());
        if (names.0.len() + 3 * starts.len()) as u64 > LARGEST {
            return None;
        }
    }
    Some([starts, ends, names_at, names.0])
}

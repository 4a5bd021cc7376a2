//! The symbols of a file in the cache, as four tables: start addresses, end addresses, offsets of
//! names, names.

use std::collections::HashMap;

use super::blocks::{Blocks, MAX_FILE_BYTES, TextTable};
use crate::name_source::NameSource;
use crate::table::{SymbolMatch, SymbolTable};

/// The numbers of the tables.
const STARTS: usize = 0;
const ENDS: usize = 1;
const NAMES_AT: usize = 2;
const NAMES: usize = 3;

/// A symbol table that is read in part. Unless it is damaged, it gives the same results as the
/// [`SymbolTable`] that it was made from.
#[derive(Debug)]
pub(crate) struct KeptTable(Blocks);

impl KeptTable {
    pub(super) fn new(blocks: Blocks) -> Self {
        Self(blocks)
    }

    /// Finds the symbol at an address.
    pub(crate) fn find(&self, address: u64) -> Option<SymbolMatch> {
        let end = self.0.count_up_to(STARTS, address)?;
        let first = end.saturating_sub(SymbolTable::LOOK_BACK);
        let at =
            (first..end).rev().find(|at| self.0.u64(ENDS, *at).is_some_and(|end| address < end))?;
        let start = self.0.u64(STARTS, at)?;
        let end = self.0.u64(ENDS, at)?;
        let number = u32::try_from(at).ok()?;
        // A symbol with a damaged name counts as missing.
        self.name(number)?;
        Some(SymbolMatch { number, start, end })
    }

    /// Returns a symbol's name as it is in the file, and where it comes from.
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

    /// Whether a part read so far was damaged; it has no symbols there.
    pub(crate) fn is_damaged(&self) -> bool {
        self.0.is_damaged()
    }

    /// Bytes of memory if all of it is read.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// Returns the bytes of the tables; `None` if they would be too large, or a name is too long.
pub(super) fn tables(table: &SymbolTable) -> Option<[Vec<u8>; 4]> {
    let mut starts = Vec::new();
    let mut ends = Vec::new();
    let mut names_at = Vec::new();
    let mut names = TextTable::default();
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
        if (names.0.len() + 3 * starts.len()) as u64 > MAX_FILE_BYTES {
            return None;
        }
    }
    Some([starts, ends, names_at, names.0])
}

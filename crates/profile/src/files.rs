//! Files with code: their names, and for readers that look up addresses themselves, where they were
//! mapped and which names their functions have.

use std::collections::HashMap;

use crate::ids::{DsoId, Id, StringId, SymbolId};
use crate::sets::Set;
use crate::tables::{Dso, MappedFile, MappedRange};

/// Maximum number of mapped parts of a file. Compiled code may have any number.
const MAX_RANGES: usize = 1 << 8;

/// Files, each kept once, with their mappings and the names of functions that differ from the
/// displayed ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileTable {
    dsos: Set<Dso>,
    /// By index of the file. There may be a hundred thousand.
    mapped: Vec<Option<MappedFile>>,
    linkage_names: HashMap<SymbolId, StringId>,
}

impl FileTable {
    pub(crate) fn add(&mut self, dso: Dso) -> DsoId {
        self.dsos.insert(dso)
    }

    pub(crate) fn dso(&self, id: DsoId) -> Option<&Dso> {
        self.dsos.get(id)
    }

    pub(crate) fn add_mapping(&mut self, dso: DsoId, range: MappedRange, build_id: &[u8]) {
        let at = dso.index();
        if at >= self.mapped.len() {
            self.mapped.resize_with(at + 1, || None);
        }
        let is_new = self.mapped[at].is_none();
        let file = self.mapped[at].get_or_insert_default();
        if is_new {
            file.build_id = build_id.to_vec();
        } else if file.build_id != build_id {
            file.build_id.clear();
        }
        let size = range.end.saturating_sub(range.start);
        let covers = |known: &MappedRange| {
            let last = range.offset.saturating_add(size.saturating_sub(1));
            known.to_mapped(range.offset).is_some() && known.to_mapped(last).is_some()
        };
        if !file.ranges.iter().any(covers) && file.ranges.len() < MAX_RANGES {
            // Most files have one range.
            file.ranges.reserve_exact(usize::from(is_new));
            file.ranges.push(range);
        }
    }

    pub(crate) fn mapped_file(&self, dso: DsoId) -> Option<&MappedFile> {
        self.mapped.get(dso.index())?.as_ref()
    }

    pub(crate) fn set_linkage_name(&mut self, symbol: SymbolId, name: StringId) {
        self.linkage_names.insert(symbol, name);
    }

    pub(crate) fn linkage_name(&self, symbol: SymbolId) -> Option<StringId> {
        self.linkage_names.get(&symbol).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_file_keeps_its_first_mapping() {
        let mut table = FileTable::default();
        let dso = DsoId::from_index(0);
        let first = MappedRange { start: 0x5000, end: 0x7000, offset: 0x1000 };
        let again = MappedRange { start: 0x9000, end: 0xb000, offset: 0x1000 };
        let further = MappedRange { start: 0x8000, end: 0x9000, offset: 0x4000 };
        for range in [first, again, further] {
            table.add_mapping(dso, range, b"id");
        }
        let file = table.mapped_file(dso).unwrap();
        assert_eq!((&file.ranges[..], &file.build_id[..]), (&[first, further][..], &b"id"[..]));
        let mapped = [0xfff, 0x1010, 0x3000].map(|address| first.to_mapped(address));
        assert_eq!(mapped, [None, Some(0x5010), None]);
        table.add_mapping(dso, first, b"other");
        assert!(table.mapped_file(dso).unwrap().build_id.is_empty());
    }
}

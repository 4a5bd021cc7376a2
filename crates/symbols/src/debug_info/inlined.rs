//! Counts the places at which the compiler inlined each function. No probe sees these calls.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use gimli::{
    Abbreviation, AttributeValue, DebugInfoOffset, Dwarf, EntriesRaw, Reader, Section, Unit,
    UnitOffset, constants,
};

use super::file::{DebugFile, Slice};

/// Bytes of debug info up to which inlined calls are counted. Reading this many takes about a
/// second.
const MAX_BYTES: usize = 1 << 26;
/// Limit on the entries between a declaration and the entry that refers to it.
const MAX_REFERENCES: usize = 4;

/// The entry of a function.
#[derive(Clone, Debug, Default)]
struct FunctionEntry {
    /// Its name in the symbol table, or else in the source.
    name: Option<String>,
    /// The entry with its declaration.
    refers_to: Option<usize>,
}

/// Entries of functions by offset, and numbers of inlined calls by the offset of the function.
#[derive(Debug, Default)]
struct InlinedCounter {
    functions: HashMap<usize, FunctionEntry>,
    calls: HashMap<usize, usize>,
}

/// Counts the places at which each function is inlined, by its symbol. Empty without debug info in
/// the file, or with more than [`MAX_BYTES`].
pub(crate) fn count_inlined(file: &File, path: &Path) -> BTreeMap<String, usize> {
    let mut counter = InlinedCounter::default();
    if let Ok(file) = DebugFile::open(file, path) {
        let dwarf = file.dwarf();
        let mut units = dwarf.units();
        if dwarf.debug_info.reader().len() <= MAX_BYTES {
            while let Ok(Some(header)) = units.next() {
                let Ok(unit) = dwarf.unit(header) else { continue };
                // What precedes a damaged entry counts.
                let _ = counter.read_unit(&dwarf, &unit);
            }
        }
    }
    counter.into_names()
}

impl InlinedCounter {
    fn read_unit<'d>(
        &mut self,
        dwarf: &Dwarf<Slice<'d>>,
        unit: &Unit<Slice<'d>>,
    ) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            let is_call = match abbreviation.tag() {
                constants::DW_TAG_subprogram => false,
                constants::DW_TAG_inlined_subroutine => true,
                _ => {
                    entries.skip_attributes(abbreviation.attributes())?;
                    continue;
                }
            };
            let entry = read_function(dwarf, unit, &mut entries, abbreviation)?;
            match (is_call, entry.refers_to) {
                (true, Some(function)) => *self.calls.entry(function).or_default() += 1,
                (true, None) => {}
                (false, _) => {
                    self.functions.insert(in_section(unit, offset), entry);
                }
            }
        }
        Ok(())
    }

    fn into_names(self) -> BTreeMap<String, usize> {
        let mut named = BTreeMap::new();
        for (mut at, calls) in self.calls {
            for _ in 0..MAX_REFERENCES {
                let Some(function) = self.functions.get(&at) else { break };
                if let Some(name) = &function.name {
                    *named.entry(name.clone()).or_default() += calls;
                    break;
                }
                let Some(next) = function.refers_to else { break };
                at = next;
            }
        }
        named
    }
}

/// Returns the offset of a unit's entry in the section.
fn in_section(unit: &Unit<Slice<'_>>, offset: UnitOffset) -> usize {
    offset.to_unit_section_offset(&unit.header).0
}

fn read_function<'d>(
    dwarf: &Dwarf<Slice<'d>>,
    unit: &Unit<Slice<'d>>,
    entries: &mut EntriesRaw<'_, Slice<'d>>,
    abbreviation: &Abbreviation,
) -> gimli::Result<FunctionEntry> {
    let mut found = FunctionEntry::default();
    let mut has_symbol = false;
    for specification in abbreviation.attributes() {
        let attribute = entries.read_attribute(*specification)?;
        let kind = attribute.name();
        let is_symbol =
            matches!(kind, constants::DW_AT_linkage_name | constants::DW_AT_MIPS_linkage_name);
        match kind {
            _ if is_symbol || kind == constants::DW_AT_name && !has_symbol => {
                has_symbol |= is_symbol;
                let text = dwarf.attr_string(unit, attribute.value()).ok();
                found.name = text.map(|text| String::from_utf8_lossy(text.slice()).into_owned());
            }
            constants::DW_AT_abstract_origin | constants::DW_AT_specification => {
                found.refers_to = match attribute.value() {
                    AttributeValue::UnitRef(offset) => Some(in_section(unit, offset)),
                    AttributeValue::DebugInfoRef(DebugInfoOffset(at)) => Some(at),
                    _ => None,
                };
            }
            _ => {}
        }
    }
    Ok(found)
}

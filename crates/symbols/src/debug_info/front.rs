//! The front of a unit: the attributes of its first entry, and its abbreviation table.
//!
//! Abbreviation tables of a valid file don't overlap; each unit uses one from its start. In a
//! damaged file, the tables of units may start anywhere within a large one. Therefore a table ends
//! where the next one starts, tables of several units are kept up to a limit, and the bytes of all
//! reads are limited.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, DebugAddrBase, DebugLineOffset, DebugLocListsBase,
    DebugRngListsBase, DebugStrOffsetsBase, Dwarf, EndianSlice, Range, RangeListsOffset, Reader,
    Section, Unit, UnitHeader, UnitType, constants,
};

use super::file::Slice;
use crate::limits;

/// Limits on the bytes of kept tables, and of tables read.
const KEPT_BYTES: usize = 1 << 22;
const READ_BYTES: usize = 1 << 29;

/// Limit on the attributes of a unit's first entry. Compilers write about twenty.
const MOST_ATTRIBUTES: usize = 1 << 8;

/// The abbreviation tables of a file.
#[derive(Debug)]
pub(super) struct AbbreviationTables {
    /// Offset of each table, in order, and its number of units.
    starts: Vec<(usize, u32)>,
    /// Shared tables by offset; `None` for a damaged table.
    kept: Mutex<HashMap<usize, Option<Arc<Abbreviations>>>>,
    kept_bytes: AtomicUsize,
    /// Bytes that may still be read.
    left: AtomicUsize,
}

impl AbbreviationTables {
    /// Finds the tables of all units.
    pub(super) fn for_units(dwarf: &Dwarf<Slice<'_>>) -> Self {
        let mut all = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            all.push(header.debug_abbrev_offset().0);
        }
        all.sort_unstable();
        let mut starts: Vec<(usize, u32)> = Vec::new();
        for start in all {
            match starts.last_mut() {
                Some((last, users)) if *last == start => *users = users.saturating_add(1),
                _ => starts.push((start, 1)),
            }
        }
        Self {
            starts,
            kept: Mutex::default(),
            kept_bytes: AtomicUsize::new(0),
            left: AtomicUsize::new(READ_BYTES),
        }
    }

    /// Reads the table of a unit; `None` if it is damaged, or if the limit on reads was reached.
    pub(super) fn get(
        &self,
        dwarf: &Dwarf<Slice<'_>>,
        header: &UnitHeader<Slice<'_>>,
    ) -> Option<Arc<Abbreviations>> {
        let offset = header.debug_abbrev_offset();
        let at = self.starts.binary_search_by_key(&offset.0, |(start, _)| *start).ok()?;
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_shared = self.starts[at].1 > 1;
        if is_shared && let Some(table) = kept().get(&offset.0) {
            return table.clone();
        }
        let section = dwarf.debug_abbrev.reader();
        let next = self.starts.get(at + 1).map_or(section.len(), |(start, _)| *start);
        let end = next.min(section.len()).min(offset.0.checked_add(limits::ABBREVIATION_BYTES)?);
        let bytes = end.checked_sub(offset.0)?;
        let take = |left: usize| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        let part =
            DebugAbbrev::from(EndianSlice::new(section.slice().get(..end)?, section.endian()));
        let table = part.abbreviations(offset).ok().map(Arc::new);
        if is_shared && self.kept_bytes.fetch_add(bytes, Ordering::Relaxed) < KEPT_BYTES {
            kept().insert(offset.0, table.clone());
        }
        table
    }
}

/// A unit, and the ranges and lines that its first entry refers to.
#[derive(Debug)]
pub(super) struct Front<'d> {
    pub(super) unit: Unit<Slice<'d>>,
    /// Offset of its line number program.
    pub(super) lines: Option<DebugLineOffset>,
    /// The range from its low to its high address. The list in `ranges` takes precedence.
    pub(super) range: Option<Range>,
    pub(super) ranges: Option<RangeListsOffset>,
}

/// Attributes of the first entry. All but `lines` are decoded once the unit's bases are known.
#[derive(Default)]
struct Values<'d> {
    name: Option<AttributeValue<Slice<'d>>>,
    comp_dir: Option<AttributeValue<Slice<'d>>>,
    low: Option<AttributeValue<Slice<'d>>>,
    high: Option<AttributeValue<Slice<'d>>>,
    ranges: Option<AttributeValue<Slice<'d>>>,
    lines: Option<DebugLineOffset>,
}

impl<'d> Front<'d> {
    /// Reads the front of a unit, like [`Unit::new`] without the line number program, which many
    /// units of a damaged file may share.
    pub(super) fn read(
        dwarf: &Dwarf<Slice<'d>>,
        header: UnitHeader<Slice<'d>>,
        abbreviations: Arc<Abbreviations>,
    ) -> Option<Self> {
        let mut unit = empty(dwarf, header, abbreviations);
        let values = first_entry(&mut unit)?;
        unit.name = values.name.and_then(|value| text(dwarf, &unit, value));
        unit.comp_dir = values.comp_dir.and_then(|value| text(dwarf, &unit, value));
        let address = |unit: &_, value: Option<_>| dwarf.attr_address(unit, value?).ok().flatten();
        let low = address(&unit, values.low);
        unit.low_pc = low.unwrap_or(0);
        let end = match values.high {
            Some(AttributeValue::Udata(bytes)) => low.and_then(|low| low.checked_add(bytes)),
            value => address(&unit, value),
        };
        let ranges = values.ranges.and_then(|value| dwarf.attr_ranges_offset(&unit, value).ok());
        let range = low.zip(end).map(|(begin, end)| Range { begin, end });
        Some(Self { unit, lines: values.lines, range, ranges: ranges.flatten() })
    }

    /// Reads the header of the line number program, too.
    pub(super) fn with_lines(mut self, dwarf: &Dwarf<Slice<'d>>) -> Unit<Slice<'d>> {
        let size = self.unit.header.address_size();
        let folder = self.unit.comp_dir;
        let name = self.unit.name;
        self.unit.line_program =
            self.lines.and_then(|offset| dwarf.debug_line.program(offset, size, folder, name).ok());
        self.unit
    }
}

/// Returns a unit without attributes.
fn empty<'d>(
    dwarf: &Dwarf<Slice<'d>>,
    header: UnitHeader<Slice<'d>>,
    abbreviations: Arc<Abbreviations>,
) -> Unit<Slice<'d>> {
    let encoding = header.encoding();
    let kind = dwarf.file_type;
    Unit {
        abbreviations,
        name: None,
        comp_dir: None,
        low_pc: 0,
        str_offsets_base: DebugStrOffsetsBase::default_for_encoding_and_file(encoding, kind),
        addr_base: DebugAddrBase(0),
        loclists_base: DebugLocListsBase::default_for_encoding_and_file(encoding, kind),
        rnglists_base: DebugRngListsBase::default_for_encoding_and_file(encoding, kind),
        line_program: None,
        dwo_id: match header.type_() {
            UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id),
            _ => None,
        },
        header,
    }
}

/// Reads the first entry. Sets the unit's bases in shared sections and its id, and returns the
/// other values. `None` if the entry is damaged or has too many attributes.
fn first_entry<'d>(unit: &mut Unit<Slice<'d>>) -> Option<Values<'d>> {
    let mut found = Values::default();
    let mut bases = Vec::new();
    let mut entries = unit.header.entries_raw(&unit.abbreviations, None).ok()?;
    let abbreviation = entries.read_abbreviation().ok()??;
    if abbreviation.attributes().len() > MOST_ATTRIBUTES {
        return None;
    }
    for specification in abbreviation.attributes() {
        let attribute = entries.read_attribute(*specification).ok()?;
        let value = attribute.value();
        match attribute.name() {
            constants::DW_AT_name => found.name = Some(value),
            constants::DW_AT_comp_dir => found.comp_dir = Some(value),
            constants::DW_AT_low_pc => found.low = Some(value),
            constants::DW_AT_high_pc => found.high = Some(value),
            constants::DW_AT_ranges => found.ranges = Some(value),
            constants::DW_AT_stmt_list => {
                if let AttributeValue::DebugLineRef(offset) = value {
                    found.lines = Some(offset);
                }
            }
            _ => bases.push(value),
        }
    }
    for value in bases {
        match value {
            AttributeValue::DebugStrOffsetsBase(base) => unit.str_offsets_base = base,
            AttributeValue::DebugAddrBase(base) => unit.addr_base = base,
            AttributeValue::DebugRngListsBase(base) => unit.rnglists_base = base,
            AttributeValue::DwoId(id) if unit.dwo_id.is_none() => unit.dwo_id = Some(id),
            _ => {}
        }
    }
    Some(found)
}

/// Returns the text of an attribute. A text in a string section is cut at the limit on names: texts
/// of a damaged file may overlap.
pub(super) fn text<'d>(
    dwarf: &Dwarf<Slice<'d>>,
    unit: &Unit<Slice<'d>>,
    value: AttributeValue<Slice<'d>>,
) -> Option<Slice<'d>> {
    let of = |section: Slice<'d>, offset: usize| {
        let rest = section.slice().get(offset..)?;
        let rest = &rest[..rest.len().min(limits::NAME_BYTES)];
        let text = CStr::from_bytes_until_nul(rest).map_or(rest, CStr::to_bytes);
        Some(EndianSlice::new(text, section.endian()))
    };
    match value {
        AttributeValue::DebugStrRef(offset) => of(*dwarf.debug_str.reader(), offset.0),
        AttributeValue::DebugLineStrRef(offset) => of(*dwarf.debug_line_str.reader(), offset.0),
        AttributeValue::DebugStrRefSup(offset) => {
            of(*dwarf.sup.as_ref()?.debug_str.reader(), offset.0)
        }
        AttributeValue::DebugStrOffsetsIndex(index) => {
            let format = unit.header.format();
            let base = unit.str_offsets_base;
            let offset = dwarf.debug_str_offsets.get_str_offset(format, base, index).ok()?;
            of(*dwarf.debug_str.reader(), offset.0)
        }
        value => dwarf.attr_string(unit, value).ok(),
    }
}

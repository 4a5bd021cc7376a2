//! Names and first lines of functions: an entry's own, or those of its abstract origin or
//! declaration, which may be in another unit or file.

use std::collections::HashMap;
use std::rc::Rc;

use gimli::{AttributeValue, DebugInfoOffset, Dwarf, Unit, UnitOffset, constants};

use super::file::Slice;
use super::front::text;
use super::units::Units;
use crate::texts::{TextId, Texts};

/// Limit on the entries read for a name: the function's own, and those that are referred to in
/// turn. Compilers write at most three references.
const HOPS: usize = 16;

/// Limit on the units that are kept for names; at the limit, all are dropped.
const KEPT: usize = 128;

/// Limit on the bytes and attributes that a thread of a lookup reads for names: entries of a
/// damaged file may overlap.
const READ: usize = 1 << 30;

/// The file with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum DwarfFile {
    /// The file itself.
    Main,
    /// The file with shared debug info.
    Alternative,
    /// The split file of the unit with this number.
    Split(u32),
}

/// Debug info and its units.
#[derive(Clone)]
pub(super) struct Info<'d> {
    pub(super) dwarf: Rc<Dwarf<Slice<'d>>>,
    pub(super) units: &'d Units,
}

/// A unit with its debug info.
#[derive(Clone)]
pub(super) struct UnitOf<'d> {
    pub(super) place: DwarfFile,
    pub(super) dwarf: Rc<Dwarf<Slice<'d>>>,
    pub(super) unit: Rc<Unit<Slice<'d>>>,
}

/// Finds names, and caches them.
pub(super) struct NameResolver<'d> {
    main: Info<'d>,
    alternative: Option<Info<'d>>,
    units: HashMap<(DwarfFile, u32), Rc<Unit<Slice<'d>>>, foldhash::fast::RandomState>,
    names: HashMap<(DwarfFile, usize), FunctionName, foldhash::fast::RandomState>,
    /// Remaining bytes and attributes to read.
    left: usize,
}

/// A function's name, and the line of its declaration.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FunctionName {
    pub(super) name: Option<TextId>,
    /// Counted from 1; 0 if unknown.
    pub(super) first_line: u32,
}

/// Names and line of an entry, and its reference to another entry.
#[derive(Default)]
struct EntryName<'d> {
    linkage: Option<Slice<'d>>,
    name: Option<Slice<'d>>,
    line: u32,
    origin: Option<AttributeValue<Slice<'d>>>,
}

impl<'d> NameResolver<'d> {
    pub(super) fn new(main: Info<'d>, alternative: Option<Info<'d>>) -> Self {
        let units = HashMap::default();
        let names = HashMap::default();
        Self { main, alternative, units, names, left: READ }
    }

    /// Opens a unit of the file, on request with its line number program.
    pub(super) fn main_unit(&self, number: u32, with_lines: bool) -> Option<UnitOf<'d>> {
        let dwarf = Rc::clone(&self.main.dwarf);
        let unit = Rc::new(self.main.units.open(&dwarf, number, with_lines)?);
        Some(UnitOf { place: DwarfFile::Main, dwarf, unit })
    }

    /// Opens a unit of the file or of the shared file, for names.
    fn unit(&mut self, place: DwarfFile, number: u32) -> Option<UnitOf<'d>> {
        let info = self.info(place)?;
        let dwarf = Rc::clone(&info.dwarf);
        if let Some(unit) = self.units.get(&(place, number)) {
            return Some(UnitOf { place, dwarf, unit: Rc::clone(unit) });
        }
        let unit = Rc::new(info.units.open(&dwarf, number, false)?);
        if self.units.len() >= KEPT {
            self.units.clear();
        }
        self.units.insert((place, number), Rc::clone(&unit));
        Some(UnitOf { place, dwarf, unit })
    }

    fn info(&self, place: DwarfFile) -> Option<&Info<'d>> {
        match place {
            DwarfFile::Main => Some(&self.main),
            DwarfFile::Alternative => self.alternative.as_ref(),
            DwarfFile::Split(_) => None,
        }
    }

    /// Finds the name of a function: the first linkage name among its entry and the entries
    /// referred to, else the first name. Its line is the first one among these entries.
    pub(super) fn name(
        &mut self,
        of: &UnitOf<'d>,
        offset: UnitOffset,
        texts: &mut Texts,
    ) -> FunctionName {
        let Some(start) = offset.to_debug_info_offset(&of.unit.header) else {
            return FunctionName::default();
        };
        let key = (of.place, start.0);
        if let Some(name) = self.names.get(&key) {
            return *name;
        }
        let mut at = (of.clone(), offset);
        let mut short = None;
        let mut linkage = None;
        let mut first_line = 0;
        for _ in 0..HOPS {
            let Some(named) = self.named(&at.0, at.1) else { break };
            short = short.or(named.name);
            linkage = linkage.or(named.linkage);
            first_line = if first_line == 0 { named.line } else { first_line };
            if linkage.is_some() && first_line > 0 {
                break;
            }
            let Some(next) = named.origin.and_then(|origin| self.follow(&at.0, &origin)) else {
                break;
            };
            at = next;
        }
        let name = linkage.or(short).map(|name| texts.add(name.slice()));
        let function = FunctionName { name, first_line };
        self.names.insert(key, function);
        function
    }

    /// Returns the entry that an attribute refers to.
    fn follow(
        &mut self,
        of: &UnitOf<'d>,
        origin: &AttributeValue<Slice<'d>>,
    ) -> Option<(UnitOf<'d>, UnitOffset)> {
        let (place, offset): (DwarfFile, DebugInfoOffset) = match (*origin, of.place) {
            (AttributeValue::UnitRef(offset), _) => return Some((of.clone(), offset)),
            (AttributeValue::DebugInfoRefSup(offset), _) => (DwarfFile::Alternative, offset),
            (AttributeValue::DebugInfoRef(offset), place) => (place, offset),
            _ => return None,
        };
        if let Some(offset) = offset.to_unit_offset(&of.unit.header).filter(|_| place == of.place) {
            return Some((of.clone(), offset));
        }
        let number = self.info(place)?.units.at(offset)?;
        let found = self.unit(place, number)?;
        let offset = offset.to_unit_offset(&found.unit.header)?;
        Some((found, offset))
    }

    /// Reads an entry's names and reference; `None` if it is damaged, or if the limit was reached.
    fn named(&mut self, of: &UnitOf<'d>, offset: UnitOffset) -> Option<EntryName<'d>> {
        let mut entries = of.unit.entries_raw(Some(offset)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        self.left = self.left.checked_sub(abbreviation.attributes().len())?;
        let mut found = EntryName::default();
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification).ok()?;
            let text = || text(&of.dwarf, &of.unit, attribute.value());
            match attribute.name() {
                constants::DW_AT_linkage_name | constants::DW_AT_MIPS_linkage_name => {
                    found.linkage = text();
                }
                constants::DW_AT_name => found.name = text(),
                constants::DW_AT_decl_line => {
                    let line = attribute.udata_value().and_then(|line| u32::try_from(line).ok());
                    found.line = line.unwrap_or(0);
                }
                constants::DW_AT_abstract_origin | constants::DW_AT_specification => {
                    found.origin = Some(attribute.value());
                }
                _ => {}
            }
        }
        self.left = self.left.checked_sub(entries.next_offset().0.saturating_sub(offset.0))?;
        Some(found)
    }
}

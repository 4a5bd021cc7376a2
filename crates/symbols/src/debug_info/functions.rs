//! Addresses to functions: reads the entries of a unit once for all requested addresses, and keeps
//! the functions, inlined ones too, that contain one.

use gimli::{
    Abbreviation, AttributeValue, Dwarf, EntriesRaw, RangeListsOffset, Unit, UnitOffset, constants,
};

use super::file::Slice;
use super::lines::SourcePosition;

/// Least bytes of a unit between two progress reports.
const TOLD_BYTES: usize = 1 << 20;

/// A function that contains requested addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct DwarfFunction {
    /// Offset of its entry.
    pub(super) offset: UnitOffset,
    /// Index of the function that it was inlined into, if it was.
    pub(super) inlined_into: Option<u32>,
    /// Position of the inlined call in that function.
    pub(super) call: SourcePosition,
}

/// The functions of sorted addresses.
#[derive(Debug, Default)]
pub(super) struct UnitFunctions {
    /// A function comes before those that were inlined into it.
    pub(super) all: Vec<DwarfFunction>,
    /// Index of each address's innermost function.
    pub(super) innermost: Vec<Option<u32>>,
}

/// A subprogram or an inlined function whose children are being read.
#[derive(Clone, Copy, Debug)]
struct OpenScope {
    depth: isize,
    /// Index of the function that children are inlined into: this one, or for an inlined function
    /// without requested addresses, the one around it. `None` if the subprogram contains no
    /// requested address.
    function: Option<u32>,
}

/// Reads the entries of a unit.
struct Walk<'a, 'd> {
    dwarf: &'a Dwarf<Slice<'d>>,
    unit: &'a Unit<Slice<'d>>,
    addresses: &'a [u64],
    found: UnitFunctions,
    /// Remaining work on attributes, ranges and addresses. Functions of a damaged file may share
    /// range lists, or contain each other many times.
    left: usize,
}

/// Attributes of a function's entry.
#[derive(Debug, Default)]
struct Attributes {
    low: Option<u64>,
    high: Option<u64>,
    bytes: Option<u64>,
    ranges: Option<RangeListsOffset>,
    call_file: Option<u64>,
    call_line: u32,
    call_column: u32,
}

/// Finds the functions of sorted addresses, up to the first damaged entry or the limit on work. The
/// innermost function of an address is the last one in entry order that contains it, as in LLVM.
/// Calls `passed` from time to time with the number of bytes read since the last call.
pub(super) fn functions(
    dwarf: &Dwarf<Slice<'_>>,
    unit: &Unit<Slice<'_>>,
    addresses: &[u64],
    passed: &dyn Fn(usize),
) -> UnitFunctions {
    let bytes = unit.header.unit_length();
    let left = bytes.saturating_add(addresses.len()).saturating_mul(64).saturating_add(1 << 20);
    let found = UnitFunctions { all: Vec::new(), innermost: vec![None; addresses.len()] };
    let mut walk = Walk { dwarf, unit, addresses, found, left };
    // Functions found before a damaged entry are kept.
    let _ = walk.run(passed);
    walk.found
}

impl<'d> Walk<'_, 'd> {
    fn run(&mut self, passed: &dyn Fn(usize)) -> gimli::Result<()> {
        let mut entries = self.unit.entries_raw(None)?;
        let mut told = 0;
        let mut open: Vec<OpenScope> = Vec::new();
        while !entries.is_empty() && self.left > 0 {
            let offset = entries.next_offset();
            let depth = entries.next_depth();
            if offset.0 - told >= TOLD_BYTES {
                passed(offset.0 - told);
                told = offset.0;
            }
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            // Attributes may have no bytes, so the unit's size doesn't limit their number.
            self.left = self.left.saturating_sub(abbreviation.attributes().len());
            while open.last().is_some_and(|open| open.depth >= depth) {
                open.pop();
            }
            let is_subprogram = match abbreviation.tag() {
                constants::DW_TAG_subprogram => true,
                constants::DW_TAG_inlined_subroutine => false,
                _ => {
                    entries.skip_attributes(abbreviation.attributes())?;
                    continue;
                }
            };
            let parent = open.last().and_then(|open| open.function);
            if !is_subprogram && parent.is_none() {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let attributes = self.attributes(&mut entries, abbreviation)?;
            let call = SourcePosition {
                file: attributes.call_file,
                line: attributes.call_line,
                column: attributes.call_column,
            };
            let inlined_into = parent.filter(|_| !is_subprogram);
            let function = DwarfFunction { offset, inlined_into, call };
            let function = self.add(function, &attributes).or(inlined_into);
            if abbreviation.has_children() {
                open.push(OpenScope { depth, function });
            }
        }
        passed(self.unit.header.length_including_self().saturating_sub(told));
        Ok(())
    }

    fn attributes(
        &self,
        entries: &mut EntriesRaw<'_, Slice<'d>>,
        abbreviation: &Abbreviation,
    ) -> gimli::Result<Attributes> {
        let dwarf = self.dwarf;
        let unit = self.unit;
        let mut found = Attributes::default();
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            let number = || attribute.udata_value().and_then(|value| u32::try_from(value).ok());
            match attribute.name() {
                constants::DW_AT_low_pc => {
                    found.low = dwarf.attr_address(unit, attribute.value())?;
                }
                constants::DW_AT_high_pc => match attribute.value() {
                    AttributeValue::Udata(bytes) => found.bytes = Some(bytes),
                    value => found.high = dwarf.attr_address(unit, value)?,
                },
                constants::DW_AT_ranges => {
                    found.ranges = dwarf.attr_ranges_offset(unit, attribute.value())?;
                }
                constants::DW_AT_call_file => {
                    if let AttributeValue::FileIndex(file) = attribute.value() {
                        // Before DWARF 5, file 0 means none.
                        found.call_file =
                            Some(file).filter(|file| *file > 0 || unit.header.version() >= 5);
                    }
                }
                constants::DW_AT_call_line => found.call_line = number().unwrap_or(0),
                constants::DW_AT_call_column => found.call_column = number().unwrap_or(0),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Adds a function if it contains addresses, and returns its index.
    fn add(&mut self, function: DwarfFunction, attributes: &Attributes) -> Option<u32> {
        let number = u32::try_from(self.found.all.len()).ok()?;
        let mut has_any = false;
        if let Some(offset) = attributes.ranges {
            let mut ranges = self.dwarf.ranges(self.unit, offset).ok()?;
            while self.left > 0
                && let Ok(Some(raw)) = ranges.next_raw()
            {
                self.left -= 1;
                if let Ok(Some(range)) = ranges.convert_raw(raw) {
                    has_any |= self.cover(range.begin, range.end, number)?;
                }
            }
        } else if let Some(low) = attributes.low {
            let end = attributes.high.or_else(|| low.checked_add(attributes.bytes?))?;
            has_any = self.cover(low, end, number)?;
        }
        if !has_any {
            return None;
        }
        self.found.all.push(function);
        Some(number)
    }

    /// Sets a function as the innermost of all addresses in a range. Returns whether there are any;
    /// `None` if the limit on work was reached.
    fn cover(&mut self, begin: u64, end: u64, number: u32) -> Option<bool> {
        let from = self.addresses.partition_point(|address| *address < begin);
        let rest = self.addresses.get(from..).unwrap_or_default();
        let count = match rest.first() {
            Some(first) if *first < end => rest.partition_point(|address| *address < end),
            _ => 0,
        };
        self.left = self.left.saturating_sub(count + 1);
        if self.left == 0 {
            return None;
        }
        let slots = self.found.innermost.iter_mut().skip(from).take(count);
        slots.for_each(|slot| *slot = Some(number));
        Some(count > 0)
    }
}

//! Finds the unit of an address by the units' address ranges.

use std::ops::Range;

use gimli::{DebugInfoOffset, DebugLineOffset, Dwarf, Reader, Section, Unit, UnitHeader};

use super::file::Slice;
use super::front::{AbbreviationTables, Front};
use crate::limits;

/// The units of a file's debug info.
#[derive(Debug)]
pub(super) struct Units {
    tables: AbbreviationTables,
    /// Offset of each unit in `.debug_info`, in order.
    starts: Vec<usize>,
    /// Bytes of the line number program, by unit number.
    line_bytes: Vec<u32>,
    /// Ranges, sorted by first address.
    ranges: Vec<UnitRange>,
    /// Remaining range list entries: units of a damaged file may share lists.
    left: usize,
}

#[derive(Clone, Copy, Debug)]
struct UnitRange {
    begin: u64,
    end: u64,
    /// The highest end of this and all earlier ranges.
    highest: u64,
    unit: u32,
}

/// Consecutive addresses of a list that are in one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddressRun {
    pub(super) unit: u32,
    pub(super) addresses: Range<usize>,
}

/// Limit on the ranges before an address that are checked for one that contains it.
const LOOK_BACK: usize = 64;

impl Units {
    /// Reads the front of each unit. Type units, partial units and damaged ones have no ranges.
    pub(super) fn read(dwarf: &Dwarf<Slice<'_>>) -> Self {
        let mut units = Self {
            tables: AbbreviationTables::for_units(dwarf),
            starts: Vec::new(),
            line_bytes: Vec::new(),
            ranges: Vec::new(),
            left: most_ranges(dwarf),
        };
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Some(start) = header.debug_info_offset() else { continue };
            let number = u32::try_from(units.starts.len()).unwrap_or(u32::MAX);
            units.starts.push(start.0);
            units.line_bytes.push(0);
            if matches!(header.type_(), gimli::UnitType::Type { .. } | gimli::UnitType::Partial) {
                continue;
            }
            if let Some(front) = units.front(dwarf, header) {
                units.add_ranges(dwarf, &front, number);
                let lines = front.lines.map_or(0, |lines| program_bytes(dwarf, lines));
                units.line_bytes[number as usize] = lines;
            }
        }
        units.ranges.sort_by_key(|range| range.begin);
        let mut highest = 0;
        for range in &mut units.ranges {
            highest = highest.max(range.end);
            range.highest = highest;
        }
        units
    }

    fn front<'d>(
        &self,
        dwarf: &Dwarf<Slice<'d>>,
        header: UnitHeader<Slice<'d>>,
    ) -> Option<Front<'d>> {
        let table = self.tables.get(dwarf, &header)?;
        Front::read(dwarf, header, table)
    }

    /// Opens a unit by its number, on request with its line number program.
    pub(super) fn open<'d>(
        &self,
        dwarf: &Dwarf<Slice<'d>>,
        number: u32,
        with_lines: bool,
    ) -> Option<Unit<Slice<'d>>> {
        let header = dwarf.unit_header(self.start(number)?).ok()?;
        let front = self.front(dwarf, header)?;
        Some(if with_lines { front.with_lines(dwarf) } else { front.unit })
    }

    fn add_ranges(&mut self, dwarf: &Dwarf<Slice<'_>>, front: &Front<'_>, unit: u32) {
        let mut add = |begin, end| {
            // GNU's linkers give dropped functions address 0.
            if begin > 0 && begin < end {
                self.ranges.push(UnitRange { begin, end, highest: 0, unit });
            }
        };
        let Some(list) = front.ranges else {
            front.range.into_iter().for_each(|range| add(range.begin, range.end));
            return;
        };
        let Ok(mut ranges) = dwarf.ranges(&front.unit, list) else { return };
        while self.left > 0
            && let Ok(Some(raw)) = ranges.next_raw()
        {
            self.left -= 1;
            if let Ok(Some(range)) = ranges.convert_raw(raw) {
                add(range.begin, range.end);
            }
        }
    }

    /// Finds the unit at an offset of `.debug_info`.
    pub(super) fn at(&self, offset: DebugInfoOffset) -> Option<u32> {
        let behind = self.starts.partition_point(|start| *start <= offset.0);
        u32::try_from(behind.checked_sub(1)?).ok()
    }

    /// Bytes of a unit's line number program.
    pub(super) fn line_bytes(&self, unit: u32) -> usize {
        self.line_bytes.get(unit as usize).map_or(0, |bytes| *bytes as usize)
    }

    /// Returns the offset of a unit.
    fn start(&self, unit: u32) -> Option<DebugInfoOffset> {
        self.starts.get(unit as usize).map(|start| DebugInfoOffset(*start))
    }

    /// Bytes of a unit; 0 for the last one, whose end isn't known here.
    pub(super) fn bytes(&self, unit: u32) -> usize {
        let at = unit as usize;
        let start = self.starts.get(at).copied().unwrap_or(0);
        self.starts.get(at + 1).map_or(0, |next| next - start)
    }

    /// Finds the unit at an address, and the next address that may be in another unit. Of
    /// overlapping ranges, the one that begins last counts.
    fn range_of(&self, address: u64) -> Option<(u32, u64)> {
        let behind = self.ranges.partition_point(|range| range.begin <= address);
        let near = &self.ranges[behind.saturating_sub(LOOK_BACK)..behind];
        let mut before = near.iter().rev().take_while(|range| range.highest > address);
        let found = before.find(|range| address < range.end)?;
        let next = self.ranges.get(behind).map_or(u64::MAX, |next| next.begin);
        Some((found.unit, found.end.min(next)))
    }

    /// Splits sorted addresses into runs of one unit, ordered by unit number. Addresses outside of
    /// all units are left out.
    pub(super) fn runs(&self, addresses: &[u64]) -> Vec<AddressRun> {
        let mut runs: Vec<AddressRun> = Vec::new();
        let mut at = 0;
        while let Some(address) = addresses.get(at) {
            let first = at;
            at += 1;
            let Some((unit, end)) = self.range_of(*address) else { continue };
            at += addresses[at..].iter().take_while(|address| **address < end).count();
            match runs.last_mut() {
                Some(last) if last.unit == unit && last.addresses.end == first => {
                    last.addresses.end = at;
                }
                _ => runs.push(AddressRun { unit, addresses: first..at }),
            }
        }
        runs.sort_by_key(|run| (run.unit, run.addresses.start));
        runs
    }
}

/// Returns a limit on the range list entries of all units: as many as the sections have room for,
/// at most [`limits::UNIT_RANGES`].
fn most_ranges(dwarf: &Dwarf<Slice<'_>>) -> usize {
    let old = dwarf.ranges.debug_ranges().reader().len() / 8;
    let new = dwarf.ranges.debug_rnglists().reader().len() / 2;
    old.saturating_add(new).min(limits::UNIT_RANGES)
}

/// Returns the size of a line number program from its header; 0 if that is damaged.
fn program_bytes(dwarf: &Dwarf<Slice<'_>>, at: DebugLineOffset) -> u32 {
    let mut reader = *dwarf.debug_line.reader();
    let length = reader.skip(at.0).and_then(|()| reader.read_initial_length());
    let bytes = length.map_or(0, |(bytes, _)| bytes.min(reader.len()));
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_belong_to_the_innermost_unit() {
        let range = |begin, end, unit| UnitRange { begin, end, highest: 0, unit };
        let mut ranges = vec![range(10, 100, 0), range(20, 30, 1), range(100, 110, 2)];
        let mut highest = 0;
        for range in &mut ranges {
            highest = range.end.max(highest);
            range.highest = highest;
        }
        let units = Units {
            tables: AbbreviationTables::for_units(&Dwarf::default()),
            starts: vec![0, 50, 90],
            line_bytes: vec![0; 3],
            ranges,
            left: 0,
        };
        let found = [9, 10, 19, 20, 29, 30, 99, 100, 110]
            .map(|address| units.range_of(address).map(|(unit, _)| unit));
        let expected = [None, Some(0), Some(0), Some(1), Some(1), Some(0), Some(0), Some(2), None];
        assert_eq!(found, expected);
        let run = |unit, addresses| AddressRun { unit, addresses };
        assert_eq!(units.runs(&[5, 10, 11, 25, 40]), [run(0, 1..3), run(0, 4..5), run(1, 3..4)]);
        assert_eq!(units.at(DebugInfoOffset(60)), Some(1));
    }
}

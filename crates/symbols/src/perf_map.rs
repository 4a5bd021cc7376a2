//! Perf maps: the list of functions that a just-in-time compiler writes, with a line `START SIZE
//! name` each, in hexadecimal (`tools/perf/Documentation/jit-interface.txt`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use crate::limits;
use crate::table::SymbolMatch;
use crate::unresolved::Unresolved;

/// The symbols of a `/tmp/perf-PID.map`. A compiler reuses the memory of old code: where lines
/// overlap, the later one is valid.
#[derive(Debug, Default)]
pub struct PerfMap {
    text: Vec<u8>,
    lines: Vec<MapLine>,
    /// By address, without overlaps.
    ranges: Vec<Range>,
}

#[derive(Clone, Copy, Debug)]
struct MapLine {
    start: u64,
    end: u64,
    /// Offset of the name in the text.
    name_offset: u32,
    name_bytes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    line: u32,
}

impl PerfMap {
    /// Reads a perf map.
    pub(crate) fn read(file: File) -> Result<Self, Unresolved> {
        let mut text = Vec::new();
        let max_bytes = limits::PERF_MAP_BYTES;
        if file.metadata().is_ok_and(|meta| meta.len() > max_bytes) {
            return Err(Unresolved::OverLimit);
        }
        file.take(max_bytes + 1).read_to_end(&mut text).map_err(|_| Unresolved::NotReadable)?;
        if text.len() as u64 > max_bytes {
            Err(Unresolved::OverLimit)
        } else {
            Ok(Self::parse(text))
        }
    }

    /// Parses a perf map, and skips invalid lines.
    #[must_use]
    pub fn parse(text: Vec<u8>) -> Self {
        let mut lines = Vec::new();
        let mut ranges = BTreeMap::new();
        let mut offset = 0;
        for line in text.split(|byte| *byte == b'\n') {
            let at = offset;
            offset += line.len() + 1;
            let Some(ParsedLine { start, end, name_offset, name_bytes }) = parse_line(line) else {
                continue;
            };
            let number = u32::try_from(lines.len()).unwrap_or(u32::MAX);
            let Ok(name_offset) = u32::try_from(at + name_offset) else { break };
            let name_bytes = name_bytes.min(limits::NAME_BYTES);
            let Ok(name_bytes) = u32::try_from(name_bytes) else { break };
            if lines.len() >= limits::SYMBOLS {
                break;
            }
            lines.push(MapLine { start, end, name_offset, name_bytes });
            add(&mut ranges, start, end, number);
        }
        let range = |(start, (end, line))| Range { start, end, line };
        Self { text, lines, ranges: ranges.into_iter().map(range).collect() }
    }

    /// Finds the symbol at an address.
    pub(crate) fn find(&self, address: u64) -> Option<SymbolMatch> {
        let behind = self.ranges.partition_point(|range| range.start <= address);
        let range = self.ranges.get(behind.checked_sub(1)?).filter(|range| address < range.end)?;
        let MapLine { start, end, .. } = self.lines[range.line as usize];
        Some(SymbolMatch { number: range.line, start, end })
    }

    /// Returns the name of a symbol.
    pub(crate) fn name(&self, symbol: u32) -> Option<&[u8]> {
        let line = self.lines.get(symbol as usize)?;
        self.text.get(line.name_offset as usize..)?.get(..line.name_bytes as usize)
    }

    /// Returns the name of the symbol at an address. Untrusted.
    #[must_use]
    pub fn name_at(&self, address: u64) -> Option<&[u8]> {
        self.name(self.find(address)?.number)
    }

    /// Whether the map has no symbols.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.lines) + size_of_val(&*self.ranges)
    }
}

/// Adds a range, and cuts the ranges that it overlaps.
fn add(ranges: &mut BTreeMap<u64, (u64, u32)>, start: u64, end: u64, line: u32) {
    while let Some((&old_start, &(old_end, old_line))) =
        ranges.range(..end).next_back().filter(|(_, (old_end, _))| *old_end > start)
    {
        ranges.remove(&old_start);
        if old_end > end {
            ranges.insert(end, (old_end, old_line));
        }
        if old_start < start {
            ranges.insert(old_start, (start, old_line));
        }
    }
    ranges.insert(start, (end, line));
}

/// A parsed line; the offset of the name is from the start of the line.
struct ParsedLine {
    start: u64,
    end: u64,
    name_offset: usize,
    name_bytes: usize,
}

fn parse_line(line: &[u8]) -> Option<ParsedLine> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let digits = std::str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok()
    };
    let start = number()?;
    let size = number()?;
    let name = words.next()?;
    let end = start.checked_add(size).filter(|end| *end > start)?;
    let name_offset = line.len() - name.len();
    Some(ParsedLine { start, end, name_offset, name_bytes: name.trim_ascii_end().len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(map: &PerfMap, address: u64) -> Option<&str> {
        std::str::from_utf8(map.name(map.find(address)?.number)?).ok()
    }

    #[test]
    fn parses_lines_and_skips_invalid_ones() {
        let map = PerfMap::parse(b"1000 20 first function\nbad\n0x2000 10 second\r\n30 0 x".into());
        assert_eq!(name(&map, 0x2004), Some("second"));
        assert_eq!(name(&map, 0x1004), Some("first function"));
        assert_eq!((name(&map, 0x1020), name(&map, 0x30), map.lines.len()), (None, None, 2));
    }

    #[test]
    fn a_later_line_replaces_what_it_overlaps() {
        let text = "1000 100 around\n1040 10 inside\n1080 100 behind\n1080 8 now\n0fff 2 edge\n";
        let map = PerfMap::parse(text.into());
        let names = [0xfff, 0x1000, 0x1001, 0x1040, 0x1050, 0x107f, 0x1080, 0x1088, 0x117f, 0x1180]
            .map(|address| name(&map, address).unwrap_or("none"));
        let expected = [
            "edge", "edge", "around", "inside", "around", "around", "now", "behind", "behind",
            "none",
        ];
        assert_eq!(names, expected);
        let rest = map.find(0x1090).expect("the rest of an older line");
        assert_eq!((rest.start, rest.end), (0x1080, 0x1180), "its own bounds");
        let whole = PerfMap::parse(format!("{text}1000 1000 all\n").into());
        assert_eq!((whole.ranges.len(), name(&whole, 0x1040)), (2, Some("all")));
    }
}

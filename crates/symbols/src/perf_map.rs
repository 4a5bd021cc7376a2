//! What just-in-time compilers say about their code: `START SIZE name` in hexadecimal, a line each
//! (`tools/perf/Documentation/jit-interface.txt`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use crate::limits;
use crate::table::SymbolMatch;
use crate::unresolved::Unresolved;

/// The symbols of a `/tmp/perf-PID.map`. A compiler reuses memory of code that it doesn't need any
/// more: of two lines that overlap the later holds, and of the earlier one what lies outside.
#[derive(Debug, Default)]
pub struct PerfMap {
    text: Vec<u8>,
    lines: Vec<Line>,
    /// By address, without overlaps.
    ranges: Vec<Range>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    start: u64,
    end: u64,
    /// Offset and size of the name in the text.
    name: (u32, u32),
}

#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    line: u32,
}

impl PerfMap {
    /// Reads a file.
    pub(crate) fn read(file: File) -> Result<Self, Unresolved> {
        let mut text = Vec::new();
        let most = limits::PERF_MAP_BYTES;
        if file.metadata().is_ok_and(|meta| meta.len() > most) {
            return Err(Unresolved::OverLimit);
        }
        file.take(most + 1).read_to_end(&mut text).map_err(|_| Unresolved::NotReadable)?;
        if text.len() as u64 > most { Err(Unresolved::OverLimit) } else { Ok(Self::parse(text)) }
    }

    /// Takes a text apart. Lines that are no symbols are left out.
    #[must_use]
    pub fn parse(text: Vec<u8>) -> Self {
        let mut lines = Vec::new();
        let mut ranges = BTreeMap::new();
        let mut offset = 0;
        for line in text.split(|byte| *byte == b'\n') {
            let at = offset;
            offset += line.len() + 1;
            let Some((start, end, name)) = parse_line(line) else { continue };
            let number = u32::try_from(lines.len()).unwrap_or(u32::MAX);
            let name = (u32::try_from(at + name.0), u32::try_from(name.1.min(limits::NAME_BYTES)));
            let (Ok(name_at), Ok(name_size)) = name else { break };
            if lines.len() >= limits::SYMBOLS {
                break;
            }
            lines.push(Line { start, end, name: (name_at, name_size) });
            add(&mut ranges, start, end, number);
        }
        let range = |(start, (end, line))| Range { start, end, line };
        Self { text, lines, ranges: ranges.into_iter().map(range).collect() }
    }

    /// The symbol that an address lies in.
    pub(crate) fn find(&self, address: u64) -> Option<SymbolMatch> {
        let behind = self.ranges.partition_point(|range| range.start <= address);
        let range = self.ranges.get(behind.checked_sub(1)?).filter(|range| address < range.end)?;
        let Line { start, end, .. } = self.lines[range.line as usize];
        Some(SymbolMatch { number: range.line, start, end })
    }

    /// The name of a symbol.
    pub(crate) fn name(&self, symbol: u32) -> Option<&[u8]> {
        let (at, size) = self.lines.get(symbol as usize)?.name;
        self.text.get(at as usize..)?.get(..size as usize)
    }

    /// The name of the symbol that an address lies in. Untrusted.
    #[must_use]
    pub fn name_at(&self, address: u64) -> Option<&[u8]> {
        self.name(self.find(address)?.number)
    }

    /// Whether there are no symbols.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Memory.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.lines) + size_of_val(&*self.ranges)
    }
}

/// Adds a range, and cuts those that it overlaps.
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

/// First address, first address behind it, and where its name lies in the line: offset and size.
fn parse_line(line: &[u8]) -> Option<(u64, u64, (usize, usize))> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let digits = std::str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok()
    };
    let start = number()?;
    let size = number()?;
    let name = words.next()?;
    let end = start.checked_add(size).filter(|end| *end > start)?;
    Some((start, end, (line.len() - name.len(), name.trim_ascii_end().len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(map: &PerfMap, address: u64) -> Option<&str> {
        std::str::from_utf8(map.name(map.find(address)?.number)?).ok()
    }

    #[test]
    fn lines_become_symbols() {
        let map = PerfMap::parse(b"1000 20 first function\nbad\n0x2000 10 second\r\n30 0 x".into());
        assert_eq!(name(&map, 0x2004), Some("second"));
        assert_eq!(name(&map, 0x1004), Some("first function"));
        assert_eq!((name(&map, 0x1020), name(&map, 0x30), map.lines.len()), (None, None, 2));
    }

    #[test]
    fn the_later_line_holds_where_lines_overlap() {
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

//! Perf maps: the list of functions that a just-in-time compiler writes, with a line `START SIZE
//! name` each, in hexadecimal (`tools/perf/Documentation/jit-interface.txt`).

use std::collections::BinaryHeap;
use std::fs::File;
use std::io::Read;

use crate::limits;
use crate::table::SymbolMatch;
use crate::unresolved::Unresolved;

/// The symbols of a `/tmp/perf-PID.map`. A compiler reuses the memory of old code: where lines
/// overlap, the later one is valid.
///
/// A map has up to 40 million lines, so it is kept as text with 12 bytes for each line.
#[derive(Debug, Default)]
pub struct PerfMap {
    text: Vec<u8>,
    /// Sorted by address. Each reaches to the end of its line's function or to the next range.
    ranges: Vec<MapRange>,
    /// Whether lines were left out: the first ones, which the others may replace.
    is_cut: bool,
}

/// The start of a range, and the offset of its line in the text. Both halves of the address are
/// apart, as a `u64` would take 16 bytes with the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MapRange {
    start_high: u32,
    start_low: u32,
    line: u32,
}

impl MapRange {
    fn new(start: u64, line: u32) -> Self {
        let [high, low] = [start >> 32, start & u64::from(u32::MAX)];
        let half = |half: u64| u32::try_from(half).unwrap_or(u32::MAX);
        Self { start_high: half(high), start_low: half(low), line }
    }

    fn start(&self) -> u64 {
        u64::from(self.start_high) << 32 | u64::from(self.start_low)
    }
}

impl PerfMap {
    pub(crate) fn read(file: File) -> Result<Self, Unresolved> {
        let max_bytes = limits::PERF_MAP_BYTES;
        let bytes = file.metadata().map_or(0, |meta| meta.len());
        if bytes > max_bytes {
            return Err(Unresolved::OverLimit);
        }
        let mut text = Vec::with_capacity(usize::try_from(bytes).map_or(0, |bytes| bytes + 1));
        file.take(max_bytes + 1).read_to_end(&mut text).map_err(|_| Unresolved::NotReadable)?;
        if text.len() as u64 > max_bytes {
            Err(Unresolved::OverLimit)
        } else {
            Ok(Self::parse(text))
        }
    }

    /// Parses a perf map, and skips invalid lines. Of too many lines it takes the last ones.
    #[must_use]
    pub fn parse(text: Vec<u8>) -> Self {
        Self::parse_up_to(text, limits::PERF_MAP_LINES)
    }

    fn parse_up_to(text: Vec<u8>, most: usize) -> Self {
        let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
        let mut ranges = Vec::with_capacity(lines.min(most));
        let mut end = text.len();
        let mut is_cut = false;
        for line in text.rsplit(|byte| *byte == b'\n') {
            let at = end - line.len();
            end = at.saturating_sub(1);
            let Ok(at) = u32::try_from(at) else { continue };
            let Some(parsed) = parse_line(line) else { continue };
            if ranges.len() == most {
                is_cut = true;
                break;
            }
            ranges.push(MapRange::new(parsed.start, at));
        }
        ranges.sort_unstable();
        let mut map = Self { text, ranges, is_cut };
        if map.has_overlaps() {
            map.resolve_overlaps(most);
        }
        map
    }

    /// Returns the line at an offset of the text.
    fn line(&self, offset: u32) -> Option<ParsedLine<'_>> {
        let rest = self.text.get(offset as usize..)?;
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        parse_line(&rest[..end])
    }

    /// Returns the end of a line's function.
    fn end(&self, offset: u32) -> u64 {
        self.line(offset).map_or(0, |line| line.end)
    }

    fn has_overlaps(&self) -> bool {
        self.ranges.windows(2).any(|pair| self.end(pair[0].line) > pair[1].start())
    }

    /// Cuts the ranges that a later line's range overlaps. Of more than `most` pieces it leaves out
    /// the last ones.
    fn resolve_overlaps(&mut self, most: usize) {
        let mut cutter = RangeCutter { map: self, active: BinaryHeap::new(), ranges: Vec::new() };
        for range in &self.ranges {
            if cutter.ranges.len() >= most {
                break;
            }
            cutter.begin(*range);
        }
        cutter.end_before(u64::MAX);
        let RangeCutter { mut ranges, .. } = cutter;
        self.is_cut |= ranges.len() >= most;
        ranges.truncate(most);
        ranges.shrink_to_fit();
        self.ranges = ranges;
    }

    /// Finds the symbol at an address. A function with an empty name counts as none.
    pub(crate) fn find(&self, address: u64) -> Option<SymbolMatch> {
        let behind = self.ranges.partition_point(|range| range.start() <= address);
        let number = self.ranges.get(behind.checked_sub(1)?)?.line;
        let ParsedLine { start, end, name } = self.line(number)?;
        (address < end && !name.is_empty()).then_some(SymbolMatch { number, start, end })
    }

    pub(crate) fn name(&self, symbol: u32) -> Option<&[u8]> {
        self.line(symbol).map(|line| line.name)
    }

    /// Returns the name of the symbol at an address. Untrusted.
    #[must_use]
    pub fn name_at(&self, address: u64) -> Option<&[u8]> {
        self.name(self.find(address)?.number)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether lines were left out, so that an address without a symbol may have one there.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.ranges)
    }
}

/// Ranges in the order of their starts, cut where a later line's range begins.
struct RangeCutter<'a> {
    map: &'a PerfMap,
    /// Lines whose functions contain the current address, and others that have ended. The last line
    /// of the text comes first.
    active: BinaryHeap<u32>,
    ranges: Vec<MapRange>,
}

impl RangeCutter<'_> {
    /// Begins the range of a line, which starts at or after those before it.
    fn begin(&mut self, range: MapRange) {
        self.end_before(range.start());
        let is_valid = self.active.peek().is_none_or(|line| *line < range.line);
        self.active.push(range.line);
        if is_valid {
            self.push(range);
        }
    }

    /// Ends the ranges that end up to an address, and continues those below them.
    fn end_before(&mut self, address: u64) {
        while let Some(end) = self.active.peek().map(|line| self.map.end(*line)) {
            if end > address {
                return;
            }
            while self.active.peek().is_some_and(|line| self.map.end(*line) <= end) {
                self.active.pop();
            }
            if let Some(line) = self.active.peek().copied() {
                self.push(MapRange::new(end, line));
            }
        }
    }

    fn push(&mut self, range: MapRange) {
        match self.ranges.last_mut() {
            Some(last) if last.start() == range.start() => *last = range,
            _ => self.ranges.push(range),
        }
    }
}

/// A parsed line. The name is cut at the limit.
struct ParsedLine<'a> {
    start: u64,
    end: u64,
    name: &'a [u8],
}

fn parse_line(line: &[u8]) -> Option<ParsedLine<'_>> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let digits = std::str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok()
    };
    let start = number()?;
    let size = number()?;
    let name = words.next()?.trim_ascii_end();
    let end = start.checked_add(size).filter(|end| *end > start)?;
    Some(ParsedLine { start, end, name: &name[..name.len().min(limits::NAME_BYTES)] })
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
        assert_eq!((name(&map, 0x1020), name(&map, 0x30), map.ranges.len()), (None, None, 2));
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

    /// Compares with the plainest way: the last line of the text that contains the address.
    #[test]
    fn overlapping_lines_name_what_the_last_of_them_names() {
        let mut number = 1_u64;
        let mut random = |below: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (number >> 33) % below
        };
        for _ in 0..200 {
            let lines: Vec<_> = (0..20).map(|_| (random(60), 1 + random(30))).collect();
            let line =
                |(at, (start, size)): (usize, &(u64, u64))| format!("{start:x} {size:x} f{at}\n");
            let text: String = lines.iter().enumerate().map(line).collect();
            let map = PerfMap::parse(text.clone().into());
            for address in 0..100 {
                let has = |(start, size): &(u64, u64)| (*start..start + size).contains(&address);
                let last = lines.iter().rposition(has).map(|at| format!("f{at}"));
                assert_eq!(name(&map, address), last.as_deref(), "{address:x}\n{text}");
            }
        }
    }

    #[test]
    fn a_function_with_an_empty_name_has_none_and_replaces_others() {
        let map = PerfMap::parse("1000 100 old\n1000 10 \n1010 10  \n".into());
        let names = [0x1000, 0x1010, 0x1020].map(|address| name(&map, address));
        assert_eq!(names, [None, None, Some("old")]);
    }

    #[test]
    fn the_last_of_too_many_lines_are_kept_in_a_small_multiple_of_the_text() {
        let text: String = (0..100).map(|at| format!("{:x} 1 f{at}\n", at * 2)).collect();
        let bytes = text.len();
        let map = PerfMap::parse_up_to(text.clone().into(), 60);
        assert_eq!((name(&map, 39 * 2), name(&map, 40 * 2)), (None, Some("f40")));
        assert!(map.is_cut() && map.bytes() <= bytes + 60 * 12, "{} bytes", map.bytes());
        let whole = PerfMap::parse_up_to(text.into(), 100);
        assert!(!whole.is_cut() && name(&whole, 0) == Some("f0"));
        // Each line cuts the one around it in two.
        let nested: String =
            (0..50).map(|at| format!("{at:x} {:x} f{at}\n", 200 - 2 * at)).collect();
        let map = PerfMap::parse_up_to(nested.into(), 60);
        assert!(map.is_cut() && map.ranges.len() == 60);
        assert_eq!(name(&map, 49), Some("f49"));
    }
}

//! Lines of the source: the record DEBUG_INFO.
//!
//! ```text
//! PREFIX | address u64 | entries u64 | (address u64, line u32, column u32, file's name, NUL)...
//! ```
//! A name of the single byte 0xff repeats the name of the previous entry. V8 differs in two ways:
//! its addresses are 64 too large, the size of the ELF header that `perf inject` puts before a
//! function; and version 11 (Node 20) writes wrong bytes of the right number for a file's name. The
//! file is then taken from the function's name: `JS:*name /path/file.js:12:34`.

use std::ops::Range;

use super::source::Endian;
use crate::limits;

/// Bytes of the record before its entries, and of an entry before its file name.
const FRONT: usize = 32;
const ENTRY: usize = 16;

/// Offset that V8 adds to each address.
const V8_SHIFT: u64 = 0x40;

/// Source line of compiled code. Untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitLine {
    /// The file, as named by the compiler.
    pub file: Vec<u8>,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1; 0 if unknown.
    pub column: u32,
}

/// Reads the lines of one function.
pub(super) struct LineReader<'a> {
    pub(super) endian: Endian,
    /// The function's addresses when it was compiled.
    pub(super) of: Range<u64>,
    /// The function's name if V8 compiled it.
    pub(super) v8_name: Option<&'a [u8]>,
}

struct LineEntry<'a> {
    address: u64,
    line: u32,
    column: u32,
    file: &'a [u8],
}

impl LineReader<'_> {
    /// Finds the line of an address: that of the nearest entry at or before it. `None` if no entry
    /// is there, if an entry is outside of the function, or if the record is damaged.
    pub(super) fn find(&self, record: &[u8], address: u64) -> Option<JitLine> {
        let most = (record.len() / (ENTRY + 1)) as u64;
        let number = usize::try_from(self.endian.u64(record, 24)).ok()?;
        if number as u64 > most {
            return None;
        }
        let entries = record.get(FRONT..)?;
        let found = match self.walk(entries, number, address) {
            Some(found) => found,
            None => self.walk_even(entries, number, address)?,
        };
        let LineEntry { line, column, file, .. } = found?;
        let file = file[..file.len().min(limits::NAME_BYTES)].to_vec();
        Some(JitLine { file, line, column })
    }

    /// Reads entries whose names end with a NUL byte. Returns `None` if they have another format or
    /// one is outside of the function, `Some(None)` if none is at or before the address.
    fn walk<'e>(&self, entries: &'e [u8], number: usize, wanted: u64) -> Option<EntryMatch<'e>> {
        let mut rest = entries;
        let mut file = &b""[..];
        let mut best = None;
        for _ in 0..number {
            let name = rest.get(ENTRY..)?;
            let name = &name[..name.iter().position(|byte| *byte == 0)?];
            if name != [0xff] {
                file = name;
            }
            self.consider(&mut best, rest, file, wanted)?;
            rest = &rest[ENTRY + name.len() + 1..];
        }
        Some(best)
    }

    /// Reads entries of V8 11: all of one size, with wrong bytes for the name. The function's name
    /// has the file.
    fn walk_even<'e>(
        &'e self,
        entries: &'e [u8],
        number: usize,
        wanted: u64,
    ) -> Option<EntryMatch<'e>> {
        let file = file_of(self.v8_name?)?;
        let size = ENTRY + file.len() + 1;
        // Records are padded to a multiple of eight bytes.
        let filled = entries.len().checked_sub(size.checked_mul(number)?)?;
        if filled >= 8 {
            return None;
        }
        let mut best = None;
        for entry in entries.chunks_exact(size).take(number) {
            self.consider(&mut best, entry, file, wanted)?;
        }
        Some(best)
    }

    /// Takes an entry that is at or before the address, if it is the nearest so far. `None` if it
    /// is outside of the function.
    fn consider<'e>(
        &self,
        best: &mut EntryMatch<'e>,
        entry: &[u8],
        file: &'e [u8],
        wanted: u64,
    ) -> Option<()> {
        let shift = if self.v8_name.is_some() { V8_SHIFT } else { 0 };
        let address = self.endian.u64(entry, 0).checked_sub(shift)?;
        // An entry at the end is valid: it covers no address of this function.
        if !(self.of.start..=self.of.end).contains(&address) {
            return None;
        }
        let is_nearer = best.as_ref().is_none_or(|best| address >= best.address);
        if address <= wanted && is_nearer {
            let line = self.endian.u32(entry, 8);
            let column = self.endian.u32(entry, 12);
            *best = Some(LineEntry { address, line, column, file });
        }
        Some(())
    }
}

type EntryMatch<'a> = Option<LineEntry<'a>>;

/// `JS:*name /path/file.js:12:34` -> `/path/file.js`.
fn file_of(name: &[u8]) -> Option<&[u8]> {
    let from = name.iter().position(|byte| *byte == b' ')? + 1;
    let mut parts = name.get(from..)?.rsplitn(3, |byte| *byte == b':');
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    (is_number(parts.next()?) && is_number(parts.next()?)).then_some(())?;
    parts.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_file_in_a_v8_function_name() {
        assert_eq!(file_of(b"JS:*hot /tmp/a b.js:1:13"), Some(&b"/tmp/a b.js"[..]));
        assert_eq!(file_of(b"JS:~ node:internal/x:10:2"), Some(&b"node:internal/x"[..]));
        assert_eq!((file_of(b"Builtin:Abort"), file_of(b"JS:x y:1")), (None, None));
    }
}

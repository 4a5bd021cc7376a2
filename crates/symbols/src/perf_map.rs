//! What just-in-time compilers say about their code: `START SIZE name` in hexadecimal, a line each
//! (`tools/perf/Documentation/jit-interface.txt`).

use crate::table::{Builder, Rank, Table};

/// The symbols of a `/tmp/perf-PID.map`. Lines that are none are left out; of two at one address
/// the later stands.
pub(crate) fn parse(text: &[u8]) -> Table {
    let mut symbols = Builder::default();
    let lines: Vec<_> = text.split(|byte| *byte == b'\n').filter_map(line).collect();
    // The compiler overwrites code that it doesn't need any more: the latest entry is the one that
    // holds.
    for (start, size, name) in lines.iter().rev() {
        if !symbols.add(
            *start,
            *size,
            name,
            Rank { is_global: true, is_weak: false, is_label: false },
        ) {
            break;
        }
    }
    symbols.build(false)
}

fn line(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let digits = std::str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    Some((start, size, words.next()?.trim_ascii_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_symbols() {
        let table = parse(b"1000 20 first function\nbad\n0x2000 10 second\r\n1000 20 x\n");
        let name = |address| table.find(address).and_then(|(symbol, ..)| table.name(symbol));
        assert_eq!(name(0x2004), Some(&b"second"[..]));
        assert!(name(0x1004).is_some());
        assert_eq!(name(0x1020), None);
    }
}

//! Targets for files of just-in-time compilers: jitdumps and perf maps.

use std::hint::black_box;

use tare_symbols::{JitDump, PerfMap};

/// Limit of the functions to look up.
const ASKED: usize = 64;

pub(crate) fn jitdump(input: &[u8]) {
    let Ok(dump) = JitDump::read(input) else { return };
    black_box((dump.pid(), dump.has_cpu_time(), dump.is_cut()));
    for change in dump.changes().iter().take(ASKED) {
        let Some(code) = change.code else { continue };
        let last = code.saturating_add(change.end - change.start - 1);
        black_box((dump.name_at(code), dump.line(code), dump.line(last)));
    }
}

pub(crate) fn perf_map(input: &[u8]) {
    let map = PerfMap::parse(input.to_vec());
    for address in [0, 0x1000, 0x1010, 0x2000, u64::MAX] {
        black_box(map.name_at(address));
    }
}

/// A dump in each byte order: two functions, the first of which has lines and moves.
pub(crate) fn jitdumps() -> Vec<Vec<u8>> {
    [u32::to_le_bytes as fn(u32) -> [u8; 4], u32::to_be_bytes].map(one_jitdump).to_vec()
}

fn one_jitdump(word: fn(u32) -> [u8; 4]) -> Vec<u8> {
    // A 64-bit number as two words in the dump's byte order.
    let is_big = word(1) == 1_u32.to_be_bytes();
    let long = |low: u32| if is_big { [0, low] } else { [low, 0] };
    let words = |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|n| word(*n)).collect() };
    let record = |kind: u32, time_ns: u32, body: Vec<u8>| {
        let size = u32::try_from(body.len() + 16).unwrap_or(0);
        [words(&[kind, size]), words(&long(time_ns)), body].concat()
    };
    let load = |time_ns: u32, at: u32, index: u32, name: &[u8]| {
        let numbers = [at, at, 16, index].map(long).concat();
        record(
            0,
            time_ns,
            [words(&[7, 7]), words(&numbers), name.to_vec(), vec![0x90; 17]].concat(),
        )
    };
    let entry = |at: u32, line: u32, file: &[u8]| {
        [words(&long(at)), words(&[line, 1]), file.to_vec(), vec![0]].concat()
    };
    let lines = [entry(0x1000, 3, b"a.js"), entry(0x1008, 4, b"\xff")].concat();
    let moved = [0x3000, 0x1000, 0x3000, 16, 1].map(long).concat();
    [
        words(&[0x4a69_5444, 1, 40, 62, 0, 7]),
        words(&[long(5), long(0)].concat()),
        record(2, 0, [words(&[long(0x1000), long(2)].concat()), lines].concat()),
        record(4, 0, vec![0; 24]),
        load(10, 0x1000, 1, b"first"),
        load(20, 0x2000, 2, b"JS:*second /a.js:1:2"),
        record(1, 30, [words(&[7, 7]), words(&moved)].concat()),
        record(3, 40, Vec::new()),
    ]
    .concat()
}

pub(crate) fn perf_maps() -> Vec<Vec<u8>> {
    let text = "1000 20 first\n1010 10 second one\n0x2000 10 third\nffffffffffffff00 ff last\n";
    vec![text.into()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A rejected seed would test only its first bytes.
    #[test]
    fn seeds_are_whole() {
        for seed in jitdumps() {
            let dump = JitDump::read(&seed[..]).unwrap();
            assert!(!dump.is_cut());
            assert_eq!((dump.changes().len(), dump.line(9).unwrap().line), (4, 4));
        }
        let map = PerfMap::parse(perf_maps().concat());
        assert_eq!(map.name_at(0x1010), Some(&b"second one"[..]));
    }
}

//! The function tables of Go's runtime (`.gopclntab`), as Go 1.20 writes them.

use crate::elf::{self, TestSection};
use crate::{HostileFile, bounded};

/// Offsets of the table's parts.
const NAMES: usize = 72;
const UNITS: usize = NAMES + 16;
const FILES: usize = UNITS + 8;
const STEPS: usize = FILES + 8;

/// Address and bytes of the function.
const TEXT: u64 = 0x10_0000;
const BYTES: u8 = 64;

/// The table of a function `outer` in `a.go`, whose second half is inlined from `inner`. `steps`
/// are appended to the usual steps; if there are any, they are the function's lines.
fn table(steps: &[u8]) -> Vec<u8> {
    // Each step is a zigzag-encoded difference, starting at -1, and the number of code bytes it
    // covers.
    let [line, file, call] = [1, 4, 7];
    let usual =
        [&[0, 22, BYTES, 0, 2, BYTES, 0, 0, BYTES / 2, 2, BYTES / 2, 0][..], steps].concat();
    let line = if steps.is_empty() { line } else { 12 };
    let functions = STEPS + usual.len().next_multiple_of(4);
    let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    let parts = [NAMES, UNITS, FILES, STEPS, functions].map(|at| at as u64);
    table.extend(elf::words(&[&[1, 1, 0][..], &parts].concat()));
    table.extend(b"\0outer\0inner\0\0\0\0");
    table.extend([0; 8]);
    table.extend(b"a.go\0\0\0\0");
    table.extend(&usual);
    table.resize(functions, 0);
    let numbers =
        |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
    table.extend(numbers(&[0, 12, BYTES.into()]));
    table.extend(numbers(&[0, 1, 0, 0, 0, file, line, 3, 0, 1]));
    table.extend([0, 0, 0, 4]);
    table.extend(numbers(&[0, 0, call, 0, 0, 0, 0]));
    table
}

/// The program: the table, `runtime.moduledata`, and the inlined call.
fn program(steps: &[u8]) -> Vec<TestSection> {
    let mut sections = vec![
        TestSection::data(".gopclntab", table(steps)),
        TestSection { flags: 3, ..TestSection::data(".data", vec![0; 41 * 8]) },
        TestSection::data(
            ".rodata",
            [0_u32, 7, 4, 1].iter().flat_map(|n| n.to_le_bytes()).collect(),
        ),
    ];
    let mut module = [0; 41];
    module[0] = elf::offset_of(&sections, 1);
    module[1] = module[0] + NAMES as u64;
    module[22] = TEXT;
    module[40] = elf::offset_of(&sections, 3);
    sections[1].bytes = elf::words(&module);
    sections
}

fn frames(sections: &[TestSection], addresses: impl Iterator<Item = u64>) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    HostileFile::elf(folder.path(), &elf::file(sections)).frames(addresses)
}

#[test]
fn a_table_in_order_is_read() {
    let found = frames(&program(&[]), [TEXT, TEXT + 32, TEXT + 64].into_iter());
    let outer = "outer a.go:10".to_owned();
    let inner = "inner a.go:10".to_owned();
    assert_eq!(found[..2], [vec![outer.clone()], vec![inner, outer]]);
    assert_eq!(found[2], ["NoSymbol"]);
}

#[test]
fn any_byte_of_the_table_is_damaged() {
    bounded("go::any_byte_of_the_table_is_damaged", 64, || {
        let whole = program(&[]);
        for section in 0..3 {
            for at in 0..whole[section].bytes.len() {
                for byte in [0, 0xff] {
                    let mut sections = whole.clone();
                    sections[section].bytes[at] = byte;
                    let found = frames(&sections, [TEXT, TEXT + 32, TEXT + 63].into_iter());
                    assert!(found.iter().all(|frames| frames.len() <= 256));
                }
            }
        }
    });
}

/// A table of lines with millions of steps that cover no code, looked up 4,096 times.
#[test]
fn a_table_of_lines_does_not_end() {
    bounded("go::a_table_of_lines_does_not_end", 256, || {
        let sections = program(&[2, 0].repeat(1 << 23));
        let found = frames(&sections, (0..4096).map(|at| TEXT + at % u64::from(BYTES)));
        assert_eq!(found.len(), 4096);
    });
}

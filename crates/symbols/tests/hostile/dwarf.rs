//! Debug info (DWARF 4 and 5) whose parts refer to each other, to themselves, or all to one that is
//! large.

use crate::elf::{self, STRTAB, SYMTAB, TestSection};
use crate::{HostileFile, bounded};

/// `DW_TAG_*`, `DW_AT_*` and `DW_FORM_*` (DWARF 5, section 7.5).
const COMPILE_UNIT: u32 = 0x11;
const INLINED_SUBROUTINE: u32 = 0x1d;
const SUBPROGRAM: u32 = 0x2e;
const IMPORTED_UNIT: u32 = 0x3d;
const NAME: u32 = 0x03;
const STMT_LIST: u32 = 0x10;
const LOW_PC: u32 = 0x11;
const HIGH_PC: u32 = 0x12;
const IMPORT: u32 = 0x18;
const ABSTRACT_ORIGIN: u32 = 0x31;
const SPECIFICATION: u32 = 0x47;
const RANGES: u32 = 0x55;
const DWO_NAME: u32 = 0x76;
const ADDR: u32 = 0x01;
const DATA4: u32 = 0x06;
const DATA8: u32 = 0x07;
const STRING: u32 = 0x08;
const REF_ADDR: u32 = 0x10;
const REF4: u32 = 0x13;
const STRP: u32 = 0x0e;
const INDIRECT: u32 = 0x16;
const SEC_OFFSET: u32 = 0x17;
const FLAG_PRESENT: u32 = 0x19;

fn uleb(mut number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = (number & 0x7f) as u8;
        number >>= 7;
        bytes.push(if number > 0 { byte | 0x80 } else { byte });
        if number == 0 {
            return bytes;
        }
    }
}

/// An entry of a table of abbreviations.
fn abbreviation(code: u32, tag: u32, has_children: bool, attributes: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = [uleb(code), uleb(tag), vec![u8::from(has_children)]].concat();
    for (name, form) in attributes {
        bytes.extend([uleb(*name), uleb(*form)].concat());
    }
    bytes.extend([0, 0]);
    bytes
}

/// The abbreviations that most tests use: 1 is a unit with lines and addresses, 2 a function, 3 one
/// with an origin, 4 one with a declaration elsewhere, 5 one whose ranges are in a list, 6 an
/// inlined function with others in it, 7 a function whose name is in `.debug_str`, 8 an import.
fn table() -> Vec<u8> {
    let range = [(LOW_PC, ADDR), (HIGH_PC, DATA8)];
    [
        abbreviation(1, COMPILE_UNIT, true, &[(STMT_LIST, SEC_OFFSET), range[0], range[1]]),
        abbreviation(2, SUBPROGRAM, true, &[(NAME, STRING), range[0], range[1]]),
        abbreviation(3, SUBPROGRAM, false, &[(ABSTRACT_ORIGIN, REF_ADDR), range[0], range[1]]),
        abbreviation(4, SUBPROGRAM, false, &[(SPECIFICATION, REF4)]),
        abbreviation(5, SUBPROGRAM, false, &[(NAME, STRING), (RANGES, SEC_OFFSET)]),
        abbreviation(6, INLINED_SUBROUTINE, true, &[(ABSTRACT_ORIGIN, REF4), range[0], range[1]]),
        abbreviation(7, SUBPROGRAM, false, &[(NAME, STRP), range[0], range[1]]),
        abbreviation(8, IMPORTED_UNIT, false, &[(IMPORT, REF_ADDR)]),
        vec![0],
    ]
    .concat()
}

/// A unit of DWARF 4 with these entries.
fn unit(table_at: u32, entries: &[u8]) -> Vec<u8> {
    let length = u32::try_from(7 + entries.len()).unwrap();
    let front = [&length.to_le_bytes()[..], &[4, 0], &table_at.to_le_bytes(), &[8]].concat();
    [&front, entries].concat()
}

/// Bytes of a unit's header.
const HEADER: u32 = 11;

fn range(low: u64, bytes: u64) -> Vec<u8> {
    elf::words(&[low, bytes])
}

/// A unit's first entry, which covers the first MiB of addresses.
fn first(lines: u32) -> Vec<u8> {
    [&[1][..], &lines.to_le_bytes(), &range(1, 1 << 20)].concat()
}

fn long(at: u32) -> [u8; 4] {
    at.to_le_bytes()
}

/// Looks up this many addresses, 16 bytes apart, in a file with this debug info. One symbol covers
/// them all.
fn frames(debug: &[(&'static str, Vec<u8>)], addresses: u64) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let mut sections: Vec<TestSection> =
        debug.iter().map(|(name, bytes)| TestSection::data(name, bytes.clone())).collect();
    let names = u32::try_from(sections.len() + 2).unwrap();
    let table = elf::symbol(1, 0, 1 << 24);
    sections.push(TestSection { link: names, ..TestSection::new(".symtab", SYMTAB, table) });
    sections.push(TestSection::new(".strtab", STRTAB, b"\0known\0".to_vec()));
    let asked = HostileFile::elf(folder.path(), &elf::file(&sections));
    asked.frames((1..=addresses).map(|at| at * 16))
}

fn info(entries: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![(".debug_abbrev", table()), (".debug_info", unit(0, entries))]
}

/// Inlined functions, origins, specifications and imports refer to themselves or to each other.
#[test]
fn entries_refer_in_circles() {
    bounded("dwarf::entries_refer_in_circles", 64, || {
        let mut entries = first(0);
        entries.extend([&[8][..], &long(0), &[8], &long(HEADER)].concat());
        let inlined = HEADER + u32::try_from(entries.len()).unwrap() + 3 + 16;
        for at in 0..1000_u64 {
            let here = HEADER + u32::try_from(entries.len()).unwrap();
            entries.extend([&[2][..], b"f\0", &range(at * 16, 16)].concat());
            // An inlined function whose origin is itself, two specifications that refer to each
            // other, and a function whose origin is the first inlined one.
            entries.extend([&[6][..], &long(here + 19), &range(at * 16, 16)].concat());
            entries.extend([&[4][..], &long(here + 45), &[4], &long(here + 40)].concat());
            entries.extend([&[3][..], &long(inlined), &range(at * 16, 8), &[0, 0]].concat());
        }
        let found = frames(&info(&entries), 999);
        assert!(found.iter().all(|frames| frames.last().is_some_and(|name| name == "known")));
    });
}

/// A form says that the next byte has the form, and so on for a million bytes.
#[test]
fn forms_are_indirect_a_million_times() {
    bounded("dwarf::forms_are_indirect_a_million_times", 64, || {
        let table =
            [abbreviation(1, COMPILE_UNIT, false, &[(NAME, INDIRECT), (LOW_PC, ADDR)]), vec![0]];
        let chain = uleb(INDIRECT).repeat(1 << 20);
        let entries = [&[1][..], &chain, &uleb(STRING), &[0]].concat();
        let units = unit(0, &entries).repeat(2);
        let found = frames(&[(".debug_abbrev", table.concat()), (".debug_info", units)], 10);
        assert!(found.iter().all(|frames| frames == &["known"]));
    });
}

/// Functions in functions, 250,000 deep, and each address in a thousand inlined ones.
#[test]
fn entries_are_nested_a_million_times() {
    bounded("dwarf::entries_are_nested_a_million_times", 256, || {
        let nested = |count: usize, one: &[u8]| [&first(0)[..], &one.repeat(count)].concat();
        let function = [&[2][..], b"f\0", &range(16, 16)].concat();
        let deep = frames(&info(&nested(1_000_000 / 4, &function)), 100);
        assert!(deep.iter().flatten().all(|name| name == "known"), "{:?}", &deep[..2]);
        let outer = [&[2][..], b"f\0", &range(1, 1 << 20)].concat();
        let inlined = [&[6][..], &long(HEADER), &range(1, 1 << 20)].concat().repeat(1000);
        let entries = [&outer[..], &inlined].concat();
        let found = frames(&info(&[&first(0)[..], &entries].concat()), 10_000);
        let most = found.iter().map(Vec::len).max().unwrap();
        assert!((2..=256).contains(&most), "{most}");
    });
}

/// A program of 262,144 rows without an end, and one that goes over all addresses again and again.
#[test]
fn line_programs_do_not_end() {
    bounded("dwarf::line_programs_do_not_end", 128, || {
        // DW_LNS_copy appends a row, DW_LNS_fixed_advance_pc advances by 0x103 bytes.
        let endless = [1, 9, 3, 1].repeat(1 << 18);
        let set = |address: u64| [&[0, 9, 2][..], &address.to_le_bytes(), &[1]].concat();
        let to_and_fro = [set(1), set(1 << 20)].concat().repeat(1 << 16);
        for program in [endless, to_and_fro] {
            let lengths = [1, 1, 1, 0xfb, 14, 13];
            let opcodes = [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
            let files = b"\0hostile.c\0\0\0\0\0";
            let front = [&lengths[..], &opcodes, files].concat();
            let header = u32::try_from(front.len()).unwrap();
            let length = u32::try_from(6 + front.len() + program.len()).unwrap();
            let lines = [&long(length)[..], &[4, 0], &long(header), &front, &program].concat();
            let mut sections = info(&[first(0), vec![0]].concat());
            sections.push((".debug_line", lines));
            let found = frames(&sections, 20_000);
            assert!(found[0][0].starts_with("known"), "{:?}", found[0]);
        }
    });
}

/// 19,999 units with one line number program, whose header lists 200,000 files.
#[test]
fn units_share_a_long_line_program() {
    bounded("dwarf::units_share_a_long_line_program", 160, || {
        let files: Vec<u8> = (0..200_000).flat_map(|_| b"f\0\0\0\0".to_vec()).collect();
        let front =
            [&[1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0][..], &files, &[0]];
        let front = front.concat();
        let header = u32::try_from(front.len()).unwrap();
        let length = u32::try_from(6 + front.len()).unwrap();
        let lines = [&long(length)[..], &[4, 0], &long(header), &front].concat();
        let one = |at: u64| unit(0, &[&[1][..], &long(0), &range(at * 16, 16), &[0]].concat());
        let units = (1..20_000).flat_map(one).collect();
        let sections = [(".debug_abbrev", table()), (".debug_info", units), (".debug_line", lines)];
        let found = frames(&sections, 19_999);
        assert!(found.iter().all(|frames| frames == &["known"]));
    });
}

/// A range list of 100,000 entries: ranges that cover all addresses that are looked up, base
/// addresses, or empty ranges. 20,000 functions share it; in a second file, 5,000 units.
#[test]
fn ranges_cover_everything() {
    bounded("dwarf::ranges_cover_everything", 256, || {
        let all = elf::words(&[1, 1 << 20]).repeat(100_000);
        let bases = elf::words(&[u64::MAX, 1]).repeat(100_000);
        let empty = elf::words(&[5, 5]).repeat(100_000);
        for list in [all, bases, empty] {
            let function = [&[5][..], b"f\0", &long(0)].concat();
            let entries = [&first(0)[..], &function.repeat(20_000), &[0]].concat();
            let mut sections = info(&entries);
            sections.push((".debug_ranges", [&list[..], &[0; 16]].concat()));
            let found = frames(&sections, 2000);
            assert!(found.iter().all(|frames| frames == &["known"]));
            let table = abbreviation(1, COMPILE_UNIT, false, &[(RANGES, SEC_OFFSET)]);
            sections[0].1 = [table, vec![0]].concat();
            sections[1].1 = unit(0, &[&[1][..], &long(0)].concat()).repeat(5000);
            frames(&sections, 2000);
        }
    });
}

/// 50,000 units with one table of 2 MB, or with tables that each begin within it; entries with
/// 100,000 attributes that take no bytes, a million times in a unit or as the first of 100,000
/// units.
#[test]
fn abbreviations_are_enormous() {
    bounded("dwarf::abbreviations_are_enormous", 256, || {
        let one = |code: u32| abbreviation(code, COMPILE_UNIT, false, &[(LOW_PC, ADDR)]);
        let table: Vec<u8> = (1..200_000).flat_map(one).collect();
        let entries = [&[1][..], &[16, 0, 0, 0, 0, 0, 0, 0]].concat();
        for step in [0, 7] {
            let units = (0..50_000).flat_map(|at| unit(at * step, &entries)).collect();
            frames(&[(".debug_abbrev", table.clone()), (".debug_info", units)], 100);
        }
        let attributes = vec![(0x3f, FLAG_PRESENT); 100_000];
        let root = abbreviation(1, COMPILE_UNIT, true, &[(LOW_PC, ADDR), (HIGH_PC, DATA8)]);
        let many = abbreviation(2, SUBPROGRAM, false, &attributes);
        let entries = [&[1][..], &range(1, 1 << 20), &[2; 1_000_000]].concat();
        let table = [root, many, vec![0]].concat();
        frames(&[(".debug_abbrev", table), (".debug_info", unit(0, &entries))], 100);
        let first = abbreviation(1, COMPILE_UNIT, false, &attributes);
        let units = unit(0, &[1]).repeat(100_000);
        frames(&[(".debug_abbrev", [first, vec![0]].concat()), (".debug_info", units)], 100);
    });
}

/// 50,000 functions whose names are suffixes of one name of 2 MiB.
#[test]
fn names_share_their_bytes() {
    bounded("dwarf::names_share_their_bytes", 128, || {
        let mut entries = first(0);
        for at in 0..50_000_u32 {
            entries.extend([&[7][..], &long(at), &range(u64::from(at) * 16, 16)].concat());
        }
        let mut sections = info(&[&entries[..], &[0]].concat());
        sections.push((".debug_str", vec![b'x'; 1 << 21]));
        let found = frames(&sections, 49_999);
        assert_eq!(found.len(), 49_999);
    });
}

/// Units refer to the file itself as the file with their split debug info.
#[test]
fn what_was_split_off_is_the_file_itself() {
    bounded("dwarf::what_was_split_off_is_the_file_itself", 64, || {
        // DW_UT_skeleton (4) and DW_UT_split_compile (5) with one id.
        let unit = |kind: u8, entries: &[u8]| {
            let length = u32::try_from(16 + entries.len()).unwrap();
            [&long(length)[..], &[5, 0, kind, 8], &long(0), &[9; 8], entries].concat()
        };
        let attributes = [(DWO_NAME, STRING), (LOW_PC, ADDR), (HIGH_PC, DATA4)];
        let table = [abbreviation(1, 0x4a, false, &attributes), vec![0]].concat();
        let entry = [&[1][..], b"hostile\0", &[1, 0, 0, 0, 0, 0, 0, 0], &long(1 << 20)].concat();
        let skeleton = unit(4, &entry);
        let split = unit(5, &entry);
        let sections = [
            (".debug_abbrev", table.clone()),
            (".debug_info", skeleton.repeat(1000)),
            (".debug_abbrev.dwo", table),
            (".debug_info.dwo", split),
        ];
        let found = frames(&sections, 100);
        assert!(found.iter().all(|frames| frames == &["known"]));
    });
}

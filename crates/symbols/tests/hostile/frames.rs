//! Damaged and endless unwind tables.

use std::path::Path;

use tare_symbols::{
    AddressSpace, Dso, DsoKind, DsoTable, Mapping, Registers, Stack, SymbolOptions, UnwindCache,
    UnwindOutcome, Unwinder,
};

use crate::bounded;
use crate::elf::{self, TestSection};

const STACK: u64 = 0x7fff_0000;

/// Unwinds four stacks of 64 addresses in the file, and returns the outcome of the last one.
pub(crate) fn unwind(folder: &Path, file: &[u8], ip: u64) -> UnwindOutcome {
    let path = folder.join("hostile");
    std::fs::write(&path, file).unwrap();
    let mut dsos = DsoTable::default();
    let name = path.into_os_string().into_encoded_bytes();
    let dso = dsos.intern(Dso { kind: DsoKind::Elf, name, build_id: None }).unwrap();
    let mut space = AddressSpace::default();
    space.add(Mapping { start: 0, end: 1 << 24, pgoff: 0, dso, is_code: true });
    let unwinder = Unwinder::new(SymbolOptions::default());
    let mut cache = UnwindCache::default();
    let mut end = UnwindOutcome::Whole;
    for turn in 0..4 {
        let words: Vec<u64> = (0..64).map(|at| 1 + ip + (turn << 14) + at * 16).collect();
        let mut general = [STACK; 16];
        general[6] = 0;
        let registers = Registers::X86_64 { ip: ip + turn, general };
        let stack = Stack { registers: &registers, copy: &elf::words(&words), frame_pointers: &[] };
        let mut addresses = Vec::new();
        (end, _) = unwinder.unwind(&mut cache, &dsos, &space, &stack, &mut addresses);
        assert!(addresses.len() <= 1 << 12);
    }
    end
}

/// An entry: its length, then the rest.
fn entry(rest: &[u8]) -> Vec<u8> {
    [&u32::try_from(rest.len()).unwrap().to_le_bytes()[..], rest].concat()
}

/// The front of functions (a CIE): the return address is at CFA - 8, and CFA = rsp + 8.
fn front(augmentation: &[u8], more: &[u8]) -> Vec<u8> {
    let rules = [0x0c, 7, 8, 0x90, 1];
    entry(&[&[0; 4][..], &[1], augmentation, &[0, 1, 0x78, 16], &rules, more].concat())
}

/// A function (an FDE) at these addresses, whose CIE lies `back` bytes before its pointer.
fn function(back: u32, low: u64, bytes: u64, rules: &[u8]) -> Vec<u8> {
    entry(&[&back.to_le_bytes()[..], &elf::words(&[low, bytes]), rules].concat())
}

fn unwound(eh_frame: Vec<u8>, header: Option<Vec<u8>>) -> UnwindOutcome {
    let folder = tempfile::tempdir().unwrap();
    let mut sections = vec![TestSection::data(".eh_frame", eh_frame)];
    sections.extend(header.map(|bytes| TestSection::data(".eh_frame_hdr", bytes)));
    unwind(folder.path(), &elf::file(&sections), 0x10)
}

/// One function of all addresses, with these rules.
fn with_rules(more_in_front: &[u8], rules: &[u8]) -> UnwindOutcome {
    let front = front(b"", more_in_front);
    let back = u32::try_from(front.len() + 4).unwrap();
    unwound([front, function(back, 1, 1 << 24, rules)].concat(), None)
}

#[test]
fn fronts_of_functions_are_functions_and_themselves() {
    bounded("frames::fronts_of_functions_are_functions_and_themselves", 64, || {
        assert_eq!(with_rules(&[], &[]), UnwindOutcome::CopyEnded, "what is in order");
        // Pointers to the entry itself, into entries, and beyond the section.
        for back in [4, 0, u32::MAX, u32::MAX - 20, 1 << 31, 8, 5] {
            let circle = function(back, 1, 1 << 24, &[0; 16]).repeat(10_000);
            let _ = unwound(circle, None);
        }
    });
}

/// 50,000 functions whose fronts begin in one text of a megabyte, or before the section.
#[test]
fn fronts_of_functions_overlap() {
    bounded("frames::fronts_of_functions_overlap", 128, || {
        let mut bytes = front(&vec![b'z'; 1 << 20], &[]);
        let text = bytes.len() - (1 << 20);
        for at in 0..50_000 {
            let back = u32::try_from(bytes.len() + 4 - text.min(bytes.len()) + at % 1000).unwrap();
            bytes.extend(function(back, 1 + at as u64 * 16, 16, &[]));
        }
        let _ = unwound(bytes, None);
    });
}

/// A million rows, rows that go backwards, rows that are only pushed or only popped, rules for many
/// registers, and an expression that is longer than its section.
#[test]
fn rules_do_not_end() {
    bounded("frames::rules_do_not_end", 128, || {
        let set = |address: u64| [&[1][..], &address.to_le_bytes()].concat();
        let endless: [Vec<u8>; 6] = [
            [0x40, 0x0e, 8].repeat(1 << 20),
            [set(1 << 23), set(1)].concat().repeat(1 << 17),
            vec![0x0a; 1 << 21],
            vec![0x0b; 1 << 21],
            (0..=255).flat_map(|register| [0x05, register, 1, 1]).collect::<Vec<u8>>().repeat(4096),
            [&[0x0f, 0xff, 0xff, 0x3f][..], &[0x2f, 0xfd, 0xff].repeat(1 << 16)].concat(),
        ];
        for rules in endless {
            // Once within the limit of one function, and once all of them.
            for rules in [&rules[..rules.len().min(60_000)], &rules] {
                assert_ne!(with_rules(&[], rules), UnwindOutcome::Whole);
                assert_ne!(with_rules(rules, &[]), UnwindOutcome::Whole);
            }
        }
    });
}

/// Expressions that jump back forever, or read what doesn't exist.
#[test]
fn expressions_do_not_end() {
    bounded("frames::expressions_do_not_end", 64, || {
        let cfa = |expression: &[u8]| {
            let length = u8::try_from(expression.len()).unwrap();
            with_rules(&[], &[&[0x0f, length][..], expression].concat())
        };
        // DW_OP_skip to itself; DW_OP_dup in a loop; DW_OP_pick; DW_OP_deref of 0; DW_OP_deref in a
        // loop.
        for expression in [
            &[0x2f, 0xfd, 0xff][..],
            &[0x31, 0x12, 0x2f, 0xfc, 0xff],
            &[0x15, 0xff],
            &[0x30, 0x06],
            &[0x77, 0x00, 0x06, 0x2f, 0xfc, 0xff],
        ] {
            assert_eq!(cfa(expression), UnwindOutcome::Damaged, "{expression:x?}");
        }
    });
}

/// Sorted lists that claim up to four billion entries, and have none, or all equal ones.
#[test]
fn the_sorted_list_lies() {
    bounded("frames::the_sorted_list_lies", 64, || {
        let front = front(b"", &[]);
        let back = u32::try_from(front.len() + 4).unwrap();
        let eh_frame = [front, function(back, 1, 1 << 24, &[])].concat();
        for count in [0, 1, 4, 1 << 20, u32::MAX] {
            for list in [vec![], vec![0; 64], vec![0xff; 64]] {
                // Pointers of four bytes: relative to here, a number, relative to the list.
                let header = [&[1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0][..], &count.to_le_bytes(), &list];
                let _ = unwound(eh_frame.clone(), Some(header.concat()));
            }
        }
    });
}

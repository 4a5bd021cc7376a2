//! Compressed sections that claim to be huge, or are huge.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::elf::{self, COMPRESSED, STRTAB, SYMTAB, TestSection};
use crate::{HostileFile, bounded};

/// Sections of debug info and of call frames.
const NAMES: [&str; 7] = [
    ".debug_info",
    ".debug_abbrev",
    ".debug_line",
    ".debug_str",
    ".debug_ranges",
    ".debug_frame",
    ".eh_frame",
];

const ZLIB: u64 = 1;
const ZSTD: u64 = 2;

/// `struct Elf64_Chdr` before packed bytes.
fn packed(kind: u64, claimed: u64, bytes: &[u8]) -> Vec<u8> {
    [&elf::words(&[kind, claimed, 1])[..], bytes].concat()
}

fn zlib_zeros(bytes: usize) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(&vec![0; bytes], 1)
}

fn zstd_zeros(bytes: usize) -> Vec<u8> {
    zstd::bulk::compress(&vec![0; bytes], 1).unwrap()
}

/// 256 frames of 64 MiB each: decompressors continue with the next frame.
fn zstd_without_end() -> Vec<u8> {
    zstd_zeros(1 << 26).repeat(256)
}

fn read(content: &[u8], flags: u64) {
    let folder = tempfile::tempdir().unwrap();
    let section = |name| TestSection { flags, ..TestSection::data(name, content.to_vec()) };
    let mut sections: Vec<_> = NAMES.into_iter().map(section).collect();
    let names = u32::try_from(sections.len()).unwrap() + 2;
    let table =
        TestSection { link: names, ..TestSection::new(".symtab", SYMTAB, elf::symbol(1, 0, 4096)) };
    sections.push(table);
    sections.push(TestSection::new(".strtab", STRTAB, b"\0known\0".to_vec()));
    let asked = HostileFile::elf(folder.path(), &elf::file(&sections));
    // Only the symbol table can be used.
    assert_eq!(asked.frames([0x10, 0x20].into_iter()), [["known"], ["known"]]);
    crate::frames::unwind(folder.path(), &elf::file(&sections), 0x10);
}

#[test]
fn compressed_sections_claim_terabytes() {
    bounded("packed::compressed_sections_claim_terabytes", 64, || {
        for claimed in [1 << 31, 1 << 42, u64::MAX] {
            read(&packed(ZLIB, claimed, &zlib_zeros(1 << 10)), COMPRESSED);
            read(&packed(ZSTD, claimed, &zstd_zeros(1 << 10)), COMPRESSED);
            read(&packed(7, claimed, &zstd_zeros(1 << 10)), COMPRESSED);
        }
    });
}

#[test]
fn compressed_sections_are_gigabytes() {
    bounded("packed::compressed_sections_are_gigabytes", 256, || {
        let zlib = zlib_zeros(1 << 26);
        for claimed in [1 << 20, 1 << 24, 1 << 26] {
            read(&packed(ZLIB, claimed, &zlib), COMPRESSED);
            read(&packed(ZSTD, claimed, &zstd_without_end()), COMPRESSED);
        }
    });
}

/// MiniDebugInfo of 512 MiB in 80 KB, and of 1 MiB with a dictionary of 512 MiB.
#[test]
fn mini_debug_info_is_a_bomb() {
    bounded("packed::mini_debug_info_is_a_bomb", 128, || {
        let mut bombs = Vec::new();
        for options in ["-0", "--lzma2=dict=512MiB"] {
            let mut xz = Command::new("xz");
            let xz = xz.args(["-c", "-T1", options]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let Ok(mut xz) = xz.spawn() else { return println!("skipped: xz isn't installed") };
            let mut input = xz.stdin.take().unwrap();
            let writer = std::thread::spawn(move || {
                let zeros = vec![0; 1 << 20];
                for _ in 0..if options == "-0" { 512 } else { 1 } {
                    input.write_all(&zeros).unwrap();
                }
            });
            bombs.push(xz.wait_with_output().unwrap().stdout);
            writer.join().unwrap();
        }
        for bomb in bombs {
            let folder = tempfile::tempdir().unwrap();
            let file = elf::file(&[TestSection::data(".gnu_debugdata", bomb)]);
            assert!(HostileFile::elf(folder.path(), &file).name(0x10).is_err());
        }
    });
}

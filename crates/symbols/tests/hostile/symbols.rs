//! Symbol tables and section headers.

use crate::elf::{self, DYNSYM, RELA, STRTAB, SYMTAB, TestSection};
use crate::{HostileFile, bounded};

/// This many functions of 16 bytes whose names are suffixes of one long name.
fn shared(symbols: u32, kind: u32) -> Vec<TestSection> {
    let table = (0..symbols).flat_map(|at| elf::symbol(1 + at % 4096, 16 * u64::from(at), 16));
    let names = [vec![0], vec![b'x'; 4096 + (16 << 10)], vec![0]].concat();
    vec![
        TestSection { link: 2, ..TestSection::new(".symtab", kind, table.collect()) },
        TestSection::new(".strtab", STRTAB, names),
    ]
}

/// 250,000 names of 16 KiB: 4 GB out of 6 MB.
#[test]
fn symbols_share_one_long_name() {
    bounded("symbols::symbols_share_one_long_name", 6 + 6 + 64, || {
        let folder = tempfile::tempdir().unwrap();
        let asked = HostileFile::elf(folder.path(), &elf::file(&shared(250_000, SYMTAB)));
        assert_eq!(asked.name(0x100).unwrap().len(), 16 << 10);
        let all: usize = (0..250_000).map(|at| asked.name(at * 16).unwrap().len()).sum();
        assert!(all > 250_000, "each has one");
    });
}

/// All symbols at one address: the best name is chosen among 4 GB.
#[test]
fn symbols_share_one_address_and_one_long_name() {
    bounded("symbols::symbols_share_one_address_and_one_long_name", 6 + 6 + 64, || {
        let folder = tempfile::tempdir().unwrap();
        let mut sections = shared(1, SYMTAB);
        let table = (0..250_000).flat_map(|at| elf::symbol(1 + at % 4096, 0x1000, 16));
        sections[0].bytes = table.collect();
        let asked = HostileFile::elf(folder.path(), &elf::file(&sections));
        assert!(asked.name(0x1000).unwrap().starts_with('x'));
    });
}

#[test]
fn headers_of_sections_lie() {
    bounded("symbols::headers_of_sections_lie", 64, || {
        let folder = tempfile::tempdir().unwrap();
        let whole = |change: fn(&mut TestSection)| {
            let mut sections = shared(100, DYNSYM);
            let relocations = (0..100).flat_map(|at| elf::words(&[0, 7 | at << 32, 0]));
            sections.push(TestSection {
                link: 1,
                ..TestSection::new(".rela.plt", RELA, relocations.collect())
            });
            for name in [".plt", ".plt.sec", ".gnu_debugdata", ".gnu_debuglink", ".eh_frame"] {
                let section = TestSection::data(name, vec![0x90; 64]);
                sections.push(TestSection { entry_bytes: 16, ..section });
            }
            sections.iter_mut().for_each(change);
            let asked = HostileFile::elf(folder.path(), &elf::file(&sections));
            asked.frames((0..4096).map(|at| at * 8));
            asked.name(0x100)
        };
        assert!(whole(|_| ()).is_ok());
        let changes: [fn(&mut TestSection); 9] = [
            |section| section.entry_bytes = u64::MAX,
            |section| section.entry_bytes = 1 << 62,
            |section| section.entry_bytes = 1,
            |section| section.claimed_size = Some(u64::MAX),
            |section| section.claimed_size = Some(1 << 40),
            |section| section.claimed_size = Some(1 << 29),
            |section| section.claimed_offset = Some(u64::MAX - 8),
            |section| section.claimed_offset = Some(0),
            |section| section.link = u32::MAX,
        ];
        for change in changes {
            // Both a name and a reason will do.
            let _ = whole(change);
        }
        for link in 1..10 {
            let mut sections = shared(100, SYMTAB);
            sections[0].link = link;
            let _ = HostileFile::elf(folder.path(), &elf::file(&sections)).name(0x100);
        }
    });
}

/// Any two bytes of the header of the file, from its type on, or of the segment's header are
/// damaged.
#[test]
fn the_header_of_the_file_lies() {
    bounded("symbols::the_header_of_the_file_lies", 64, || {
        let folder = tempfile::tempdir().unwrap();
        let whole = elf::file(&shared(100, SYMTAB));
        for at in 16..64 + 56 {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at..(at + 2).min(120)].fill(value);
                let asked = HostileFile::elf(folder.path(), &changed);
                let _ = asked.name(0x100);
                asked.frames([0x100].into_iter());
            }
        }
    });
}

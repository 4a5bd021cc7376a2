//! Paths that have no regular file, files with huge holes, and files that link to each other.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use tare_symbols::{BuildId, Dso, DsoKind, DsoTable, SymbolOptions, Symbolizer, Unresolved};

use crate::elf::{self, STRTAB, SYMTAB, TestSection};
use crate::{HostileFile, bounded};

const ID: [u8; 20] = [0xab; 20];

/// Creates a FIFO, a link to a device, a folder or a socket at a path.
fn not_a_file(kind: &str, path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    match kind {
        "fifo" => rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap(),
        "/dev/zero" | "/dev/full" => symlink(kind, path).unwrap(),
        "folder" => std::fs::create_dir(path).unwrap(),
        _ => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
    }
}

/// A stripped file with a build id, a debug link and a link to a shared file of dwz.
fn stripped() -> Vec<u8> {
    let note = [&[4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0], &b"GNU\0"[..], &ID].concat();
    let names = TestSection::new(".dynstr", STRTAB, b"\0own\0".to_vec());
    elf::file(&[
        TestSection { link: 2, ..TestSection::new(".dynsym", elf::DYNSYM, elf::symbol(1, 0, 64)) },
        names,
        TestSection::new(".note.gnu.build-id", 7, note),
        TestSection::data(".gnu_debuglink", b"linked.debug\0\0\0\0\x01\x02\x03\x04".to_vec()),
        TestSection::data(".gnu_debugaltlink", [&b"shared.dwz\0"[..], &ID].concat()),
        TestSection::data(".debug_info", vec![0; 64]),
    ])
}

#[test]
fn what_is_no_file_stands_where_files_are_looked_for() {
    bounded("files::what_is_no_file_stands_where_files_are_looked_for", 64, || {
        for kind in ["fifo", "/dev/zero", "/dev/full", "folder", "socket"] {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            let hex = "ab".repeat(19);
            for name in ["linked.debug", ".debug/linked.debug", "shared.dwz", "map", "kallsyms"] {
                not_a_file(kind, &at(name));
            }
            not_a_file(kind, &at(&format!("debug/.build-id/ab/{hex}.debug")));
            not_a_file(kind, &at(&format!("cache/.build-id/ab/{hex}/debug")));
            not_a_file(kind, &at(&format!("cache/.build-id/ab/{hex}/kallsyms")));
            not_a_file(kind, &at("gone"));
            let options = SymbolOptions {
                debug_dirs: vec![at("debug")],
                build_id_cache: Some(at("cache")),
                kallsyms: Some(at("kallsyms")),
                reader_uid: folder.path().metadata().unwrap().uid(),
                ..SymbolOptions::default()
            };
            std::fs::write(at("own"), stripped()).unwrap();
            let own = HostileFile::new(DsoKind::Elf, &at("own"), options.clone());
            assert_eq!(own.frames([8].into_iter()), [["own"]], "{kind}");
            for (dso, name) in [
                (DsoKind::Elf, "gone"),
                (DsoKind::PerfMap { pid: 1 }, "map"),
                (DsoKind::JitDump { pid: 1 }, "map"),
                (DsoKind::Kernel, "[kernel.kallsyms]"),
            ] {
                let name = if dso == DsoKind::Kernel { name.into() } else { at(name) };
                let asked = HostileFile::new(dso, &name, options.clone());
                let why = asked.name(8).expect_err(kind);
                assert!(why != Unresolved::NoSymbol, "{kind} {name:?}: {why:?}");
            }
        }
    });
}

/// Files with a valid beginning, and then a hole up to one terabyte.
#[test]
fn files_are_holes() {
    bounded("files::files_are_holes", 128, || {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let hole = |name: &str, front: &[u8], bytes: u64| {
            std::fs::write(at(name), front).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(at(name)).unwrap();
            file.set_len(bytes)
        };
        if let Err(error) = hole("linked.debug", &elf::file(&[]), 1 << 40) {
            return println!("skipped: no files of a terabyte here: {error}");
        }
        hole("own", &stripped(), 1 << 40).unwrap();
        hole("map", b"1000 10 first\n", 1 << 40).unwrap();
        let reader_uid = folder.path().metadata().unwrap().uid();
        let options = || SymbolOptions { reader_uid, ..SymbolOptions::default() };
        // The linked file has no build id, and is too large for a checksum.
        assert_eq!(HostileFile::new(DsoKind::Elf, &at("own"), options()).name(8).unwrap(), "own");
        let map = HostileFile::new(DsoKind::PerfMap { pid: 1 }, &at("map"), options());
        assert_eq!(map.name(0x1004), Err(Unresolved::OverLimit));
        let dump = HostileFile::new(DsoKind::JitDump { pid: 1 }, &at("map"), options());
        assert!(dump.name(0x1004).is_err());
    });
}

/// A file whose debug link and dwz link lead to copies of it.
#[test]
fn files_link_to_themselves() {
    bounded("files::files_link_to_themselves", 64, || {
        let folder = tempfile::tempdir().unwrap();
        for name in ["own", "linked.debug", "shared.dwz"] {
            std::fs::write(folder.path().join(name), stripped()).unwrap();
        }
        let path = folder.path().join("own");
        let own = HostileFile::new(DsoKind::Elf, &path, SymbolOptions::default());
        assert_eq!(own.frames([8].into_iter()), [["own"]]);
        // Also if the recording has the build id.
        let mut dsos = DsoTable::default();
        let name = path.into_os_string().into_encoded_bytes();
        let dso = Dso { kind: DsoKind::Elf, name, build_id: BuildId::new(&ID) };
        let dso = dsos.intern(dso).unwrap();
        let symbolizer = Symbolizer::new(SymbolOptions {
            debug_dirs: vec![folder.path().to_owned()],
            ..SymbolOptions::default()
        });
        assert!(symbolizer.find(&dsos, dso, 8).is_ok());
    });
}

/// An ELF file all of whose symbols are in a table that is a hole.
#[test]
fn a_table_is_a_hole() {
    bounded("files::a_table_is_a_hole", 64, || {
        let folder = tempfile::tempdir().unwrap();
        let table = TestSection {
            claimed_offset: Some(1 << 20),
            claimed_size: Some(1 << 39),
            link: 1,
            ..TestSection::new(".symtab", SYMTAB, Vec::new())
        };
        let path = folder.path().join("own");
        std::fs::write(&path, elf::file(&[table])).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        if file.set_len(1 << 40).is_err() {
            return println!("skipped: no files of a terabyte here");
        }
        let asked = HostileFile::new(DsoKind::Elf, &path, SymbolOptions::default());
        assert!(asked.name(8).is_err());
    });
}

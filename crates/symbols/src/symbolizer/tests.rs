use super::*;
use crate::dso::Dso;

/// The files mapped by this process, a perf map, a file that doesn't exist, and a BPF program.
fn dsos(folder: &std::path::Path) -> (DsoTable, Vec<DsoId>) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths: Vec<&str> =
        maps.lines().filter_map(|line| Some(&line[line.find('/')?..])).collect();
    paths.dedup();
    let mut dsos = DsoTable::default();
    let mut intern =
        |kind, name: &str| dsos.intern(Dso { kind, name: name.into(), build_id: None }).unwrap();
    let mut ids: Vec<_> = paths.iter().map(|path| intern(DsoKind::Elf, path)).collect();
    let map = folder.join("perf-1.map");
    let lines: String = (0..4096).map(|at| format!("{:x} 10 f{at}\n", at * 16)).collect();
    std::fs::write(&map, lines).unwrap();
    ids.push(intern(DsoKind::PerfMap { pid: 1 }, map.to_str().unwrap()));
    ids.push(intern(DsoKind::Elf, "/nowhere"));
    ids.push(intern(DsoKind::Ksymbol { bytes: 1 << 12 }, "bpf_prog"));
    (dsos, ids)
}

fn symbolizer(folder: &std::path::Path) -> Symbolizer {
    use std::os::unix::fs::MetadataExt;
    let reader_uid = folder.metadata().unwrap().uid();
    Symbolizer::new(SymbolOptions { reader_uid, ..SymbolOptions::default() })
}

/// Looks up 1,024 addresses in each DSO, and the names of their symbols.
fn look_up(
    symbolizer: &Symbolizer,
    dsos: &DsoTable,
    ids: &[DsoId],
) -> Vec<Result<(Symbol, String), Unresolved>> {
    let addresses = ids.iter().flat_map(|id| (0..1 << 10).map(|at| (*id, at * 0x73)));
    let found = addresses.map(|(id, address)| {
        let symbol = symbolizer.find(dsos, id, address)?;
        Ok((symbol, symbolizer.name(symbol).to_owned()))
    });
    found.collect()
}

#[test]
fn several_threads_get_the_answers_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let (dsos, ids) = dsos(folder.path());
    let expected = look_up(&symbolizer(folder.path()), &dsos, &ids);
    assert!(expected.iter().filter(|found| found.is_ok()).count() > 100);
    assert!(expected.contains(&Err(Unresolved::NoFile)));
    let shared = symbolizer(folder.path());
    let start = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let shared = &shared;
            let dsos = &dsos;
            let start = &start;
            let mut ids = ids.clone();
            let expected = &expected;
            scope.spawn(move || {
                // Each begins with another file.
                let first = thread % ids.len();
                ids.rotate_left(first);
                start.wait();
                let mut found = look_up(shared, dsos, &ids);
                found.rotate_right(first << 10);
                assert!(found == *expected, "thread {thread}");
            });
        }
    });
}

#[test]
fn a_name_never_moves() {
    let folder = tempfile::tempdir().unwrap();
    let (dsos, ids) = dsos(folder.path());
    let symbolizer = symbolizer(folder.path());
    let map = ids[ids.len() - 3];
    let symbol = symbolizer.find(&dsos, map, 0x18).unwrap();
    let name = symbolizer.name(symbol);
    look_up(&symbolizer, &dsos, &ids);
    assert_eq!((name, name.as_ptr()), ("f1", symbolizer.name(symbol).as_ptr()));
}

/// A file with 20,000 symbols whose names are suffixes of one of 1 MiB: cut to 16 KiB, they have
/// more than 300 MiB.
#[test]
fn symbols_that_share_a_long_name_need_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared_name");
    let bytes = shared_name(20_000, 1 << 20);
    std::fs::write(&path, &bytes).unwrap();
    let mut dsos = DsoTable::default();
    let name = path.into_os_string().into_encoded_bytes();
    let id = dsos.intern(Dso { kind: DsoKind::Elf, name, build_id: None }).unwrap();
    let symbolizer = Symbolizer::new(SymbolOptions::default());
    let symbol = symbolizer.find(&dsos, id, 0x1000).unwrap();
    assert_eq!(symbolizer.name(symbol).len(), limits::NAME_BYTES);
    let used = symbolizer.bytes();
    assert!(used < 2 * bytes.len(), "{used} bytes for a file of {}", bytes.len());
    let find = |at: u64| symbolizer.find(&dsos, id, at * 16).unwrap();
    let shown: usize = (0..20_000).map(|at| symbolizer.name(find(at)).len()).sum();
    assert!(shown < 20 * bytes.len(), "{shown} bytes of names for a file of {}", bytes.len());
}

/// Changes each byte, and cuts the file at each: reading must end, in little memory.
#[test]
fn reads_damaged_files_in_bounded_memory() {
    use crate::elf::{FrameTables, Image};
    use crate::table::SymbolTable;
    let whole = shared_name(8, 64);
    let read = |bytes: &[u8]| {
        let symbols = Image::read(bytes, None);
        let symbols = symbols.map(|image| image.into_symbols(None).build(true));
        let frames = FrameTables::read(bytes, 1 << 10);
        assert!(symbols.as_ref().map_or(0, SymbolTable::bytes) < 1 << 16);
        assert!(frames.as_ref().map_or(0, FrameTables::bytes) <= 1 << 10);
        symbols.is_ok() && frames.is_ok()
    };
    for at in 0..whole.len() {
        read(&whole[..at]);
        for value in [0, 1, 2, 0x7f, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            read(&changed);
        }
    }
    assert!(read(&whole));
    for text in [&whole[..], b"0 0 \n-1 5 x\nffffffffffffffff ffffffffffffffff y\n \n\n1 1"] {
        assert!(PerfMap::parse(text.to_vec()).bytes() < 1 << 16);
        assert!(crate::kallsyms::Kallsyms::parse(text).is_hidden());
    }
}

/// An ELF file with functions of 16 bytes each, whose names are suffixes of one long name.
fn shared_name(symbols: usize, name_bytes: usize) -> Vec<u8> {
    const HEADER: usize = 64;
    const SEGMENT: usize = 56;
    const SECTION: usize = 64;
    const SYMBOL: usize = 24;
    let put = |bytes: &mut Vec<u8>, at: usize, value: u64, size: usize| {
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    };
    let sections = HEADER + SEGMENT;
    let table = sections + 3 * SECTION;
    let names = table + symbols * SYMBOL;
    let mut bytes = vec![0; names];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let fields: [(usize, u64, usize); 8] = [
        (16, 3, 2),
        (18, 62, 2),
        (20, 1, 4),
        (32, HEADER as u64, 8),
        (40, sections as u64, 8),
        (54, SEGMENT as u64, 2),
        (56, 1, 2),
        (58, SECTION as u64, 2),
    ];
    fields.into_iter().for_each(|(at, value, size)| put(&mut bytes, at, value, size));
    put(&mut bytes, 60, 3, 2);
    // The segment: PT_LOAD, of 1 GiB in memory.
    put(&mut bytes, HEADER, 1, 4);
    put(&mut bytes, HEADER + 40, 1 << 30, 8);
    for (section, kind, at, size, link) in
        [(1, 2, table, symbols * SYMBOL, 2), (2, 3, names, name_bytes, 0)]
    {
        let section = sections + section * SECTION;
        put(&mut bytes, section + 4, kind, 4);
        put(&mut bytes, section + 24, at as u64, 8);
        put(&mut bytes, section + 32, size as u64, 8);
        put(&mut bytes, section + 40, link, 4);
    }
    for symbol in 0..symbols {
        let at = table + symbol * SYMBOL;
        put(&mut bytes, at, symbol as u64 + 1, 4);
        bytes[at + 4] = 0x12; // STB_GLOBAL, STT_FUNC
        put(&mut bytes, at + 6, 1, 2);
        put(&mut bytes, at + 8, symbol as u64 * 16, 8);
        put(&mut bytes, at + 16, 16, 8);
    }
    bytes.resize(names + name_bytes, b'x');
    bytes
}

/// Looks up symbols and debug info of a copy of this test program, then removes the copy.
#[test]
fn kept_results_need_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let exe = std::env::current_exe().unwrap();
    let bytes = object::read::ReadCache::new(File::open(&exe).unwrap());
    let Some(build_id) = crate::elf::build_id(&bytes).unwrap() else {
        return println!("skipped: the linker gives no build ids");
    };
    let own = folder.path().join("own");
    let kept = folder.path().join("kept");
    std::fs::copy(&exe, &own).unwrap();
    std::fs::create_dir(&kept).unwrap();
    let name = own.clone().into_os_string().into_encoded_bytes();
    let mut dsos = DsoTable::default();
    let id = dsos.intern(Dso { kind: DsoKind::Elf, name, build_id: Some(build_id) }).unwrap();
    let uid = std::os::unix::fs::MetadataExt::uid(&folder.path().metadata().unwrap());
    let cache = crate::SymbolCache { folder: kept.clone(), max_bytes: 1 << 30, uid };
    let with = |cache| Symbolizer::new(SymbolOptions { cache, ..SymbolOptions::default() });
    // Addresses spread evenly over the code.
    let file = object::File::parse(&bytes).unwrap();
    let text = object::Object::section_by_name(&file, ".text").unwrap();
    let (start, size) = object::ObjectSection::file_range(&text).unwrap();
    let address = |at: u64| start + at * (size / 2000);
    let addresses: Vec<_> =
        (0..2000).map(|at| DsoAddress { dso: id, address: address(at) }).collect();
    let threads = NonZeroUsize::MIN;
    let ask = |symbolizer: &Symbolizer, addresses: &[DsoAddress]| -> Vec<String> {
        let frames = symbolizer.frames(&dsos, addresses, threads);
        let text =
            |at| frames.get(at).map(|frame| format!("{frame:?}")).collect::<Vec<_>>().join(" < ");
        (0..frames.len()).map(text).collect()
    };
    let expected = ask(&with(None), &addresses);
    assert!(expected.iter().filter(|text| text.contains(".rs")).count() > 100);
    // In two steps that overlap.
    ask(&with(Some(cache.clone())), &addresses[..1200]);
    let both = with(Some(cache.clone()));
    assert_eq!(ask(&both, &addresses[800..]), expected[800..]);
    drop(both);
    std::fs::remove_file(&own).unwrap();
    assert_eq!(ask(&with(Some(cache.clone())), &addresses), expected);
    assert_ne!(ask(&with(None), &addresses), expected);
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 2, "symbols and lines");
}

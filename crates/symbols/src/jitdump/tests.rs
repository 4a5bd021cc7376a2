use super::*;

/// Writes a jitdump in either byte order.
struct JitDumpWriter {
    bytes: Vec<u8>,
    is_big: bool,
}

impl JitDumpWriter {
    fn new(is_big: bool, reserved: u32) -> Self {
        let mut dump = Self { bytes: Vec::new(), is_big };
        [MAGIC, 1, 40, 62, reserved, 77].iter().for_each(|number| dump.u32(*number));
        [5, 0].iter().for_each(|number| dump.u64(*number));
        dump
    }

    fn u32(&mut self, number: u32) {
        let bytes = if self.is_big { number.to_be_bytes() } else { number.to_le_bytes() };
        self.bytes.extend(bytes);
    }

    fn u64(&mut self, number: u64) {
        let bytes = if self.is_big { number.to_be_bytes() } else { number.to_le_bytes() };
        self.bytes.extend(bytes);
    }

    fn record(&mut self, kind: u32, time_ns: u64, body: impl FnOnce(&mut Self)) {
        let at = self.bytes.len();
        [kind, 0].iter().for_each(|number| self.u32(*number));
        self.u64(time_ns);
        body(self);
        let size = u32::try_from(self.bytes.len() - at).unwrap();
        let size = if self.is_big { size.to_be_bytes() } else { size.to_le_bytes() };
        self.bytes[at + 4..at + 8].copy_from_slice(&size);
    }

    fn load(&mut self, time_ns: u64, at: u64, code: &[u8], index: u64, name: &str) {
        self.record(0, time_ns, |dump| {
            [77, 78].iter().for_each(|id| dump.u32(*id));
            [at, at, code.len() as u64, index].iter().for_each(|number| dump.u64(*number));
            dump.bytes.extend(name.bytes().chain([0]));
            dump.bytes.extend(code);
        });
    }

    fn moved(&mut self, time_ns: u64, from: u64, to: u64, bytes: u64, index: u64) {
        self.record(1, time_ns, |dump| {
            [77, 78].iter().for_each(|id| dump.u32(*id));
            [to, from, to, bytes, index].iter().for_each(|number| dump.u64(*number));
        });
    }

    fn lines(&mut self, at: u64, lines: &[(u64, u32, u32, &[u8])]) {
        self.record(2, 0, |dump| {
            [at, lines.len() as u64].iter().for_each(|number| dump.u64(*number));
            for (address, line, column, file) in lines {
                dump.u64(*address);
                [*line, *column].iter().for_each(|number| dump.u32(*number));
                dump.bytes.extend(file.iter().chain(&[0]));
            }
        });
    }
}

fn line(file: &str, line: u32, column: u32) -> Option<JitLine> {
    Some(JitLine { file: file.into(), line, column })
}

/// Returns a dump of three functions: the first has lines and moves, the third replaces the second.
/// Other records are between them.
fn whole(is_big: bool) -> Vec<u8> {
    let mut dump = JitDumpWriter::new(is_big, 0);
    dump.lines(
        0x1000,
        &[(0x1000, 3, 0, b"a.js"), (0x1008, 4, 7, b"\xff"), (0x100c, 1, 1, b"b.js")],
    );
    dump.record(4, 9, |dump| [0, 0, 0].iter().for_each(|number| dump.u64(*number)));
    dump.load(10, 0x1000, &[0x90; 16], 1, "first");
    dump.load(20, 0x2000, &[0x91; 32], 2, "second");
    dump.record(99, 25, |_| ());
    dump.moved(30, 0x1000, 0x3000, 16, 1);
    dump.load(40, 0x2000, &[0x92; 8], 3, "replaced");
    dump.record(3, 50, |_| ());
    dump.bytes
}

#[test]
fn functions_and_lines_are_read_in_both_byte_orders() {
    for is_big in [false, true] {
        let bytes = whole(is_big);
        let dump = JitDump::read(&bytes[..]).unwrap();
        assert_eq!((dump.pid(), dump.has_cpu_time(), dump.is_cut()), (77, false, false));
        let names = [0, 15, 16, 47, 48, 55, 56].map(|at| dump.name_at(at).unwrap_or(b"-"));
        let expected: [&[u8]; 7] =
            [b"first", b"first", b"second", b"second", b"replaced", b"replaced", b"-"];
        assert_eq!(names, expected);
        let lines = [0, 7, 8, 15, 16].map(|at| dump.line(at));
        let third = line("a.js", 3, 0);
        let fourth = line("a.js", 4, 7);
        assert_eq!(lines, [third.clone(), third, fourth, line("b.js", 1, 1), None]);
        let changes: Vec<_> = dump
            .changes()
            .iter()
            .map(|change| (change.time_ns, change.start, change.end, change.code))
            .collect();
        let expected = [
            (10, 0x1000, 0x1010, Some(0)),
            (20, 0x2000, 0x2020, Some(16)),
            (30, 0x1000, 0x1010, None),
            (30, 0x3000, 0x3010, Some(0)),
            (40, 0x2000, 0x2008, Some(48)),
        ];
        assert_eq!(changes, expected);
    }
}

#[test]
fn a_function_with_an_empty_name_has_none() {
    let mut dump = JitDumpWriter::new(false, 0);
    dump.load(10, 0x1000, &[0x90; 16], 1, "");
    dump.load(20, 0x2000, &[0x91; 16], 2, "named");
    let dump = JitDump::read(&dump.bytes[..]).unwrap();
    let names = [0, 15, 16].map(|at| dump.name_at(at));
    assert_eq!(names, [None, None, Some(&b"named"[..])]);
}

/// V8 counts the ELF header of `perf inject`, and Node 20 writes other bytes than the file's name.
#[test]
fn corrects_lines_of_v8() {
    for file in [&b"/a.js"[..], b"\x01\0\x02\0\0"] {
        let mut dump = JitDumpWriter::new(false, V8);
        dump.lines(0x1000, &[(0x1040, 1, 13, file), (0x104c, 1, 75, file), (0x1044, 2, 3, file)]);
        dump.load(10, 0x1000, &[0x90; 32], 1, "JS:*hot /a.js:1:13");
        let dump = JitDump::read(&dump.bytes[..]).unwrap();
        assert_eq!(
            [0, 5, 12, 31].map(|at| dump.line(at)),
            [line("/a.js", 1, 13), line("/a.js", 2, 3), line("/a.js", 1, 75), line("/a.js", 1, 75)]
        );
    }
}

#[test]
fn ignores_lines_outside_of_their_function() {
    let mut dump = JitDumpWriter::new(false, 0);
    dump.lines(0x1000, &[(0x1000, 1, 0, b"a"), (0x9000, 2, 0, b"a")]);
    dump.load(10, 0x1000, &[0x90; 32], 1, "f");
    assert_eq!(JitDump::read(&dump.bytes[..]).unwrap().line(0), None);
}

#[test]
fn refuses_other_files_and_reads_cut_ones_up_to_the_cut() {
    for bytes in
        [&b""[..], b"JiT", &[0; 100], b"\x7fELF and more that is no jitdump at all, surely"]
    {
        assert!(matches!(JitDump::read(bytes), Err(JitDumpError::BadMagic)));
    }
    let bytes = whole(false);
    for end in 40..bytes.len() {
        let dump = JitDump::read(&bytes[..end]).unwrap();
        assert!(dump.changes().len() <= 5 && dump.name_at(0).is_none_or(|name| name == b"first"));
    }
    assert!(JitDump::read(&bytes[..bytes.len() - 1]).unwrap().is_cut());
}

/// Records of no bytes, of fewer than their header, and beyond the file; code of no bytes, and of
/// more than the limit.
#[test]
fn hostile_sizes_need_neither_memory_nor_time() {
    for (at, value) in [(44, 0_u32), (44, 15), (44, u32::MAX), (44, 1 << 30)] {
        let mut bytes = whole(false);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let dump = JitDump::read(&bytes[..]).unwrap();
        assert!(dump.is_cut() && dump.is_empty());
    }
    for bytes in [0, u64::MAX, limits::JIT_CODE_BYTES + 1] {
        let mut dump = JitDumpWriter::new(false, 0);
        dump.load(1, u64::MAX - 3, &[], 1, "f");
        let at = 40 + 40;
        dump.bytes[at..at + 8].copy_from_slice(&bytes.to_le_bytes());
        assert!(JitDump::read(&dump.bytes[..]).unwrap().is_empty());
    }
}

//! Synthetic recordings that are the same on every machine.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{Description, EventDescription};
use tare_format::record::encode::Encoder;
use tare_format::record::{Comm, FileId, Layout, Mmap, RecordHeader, SampleId, kind};

/// IP, TID, TIME, CALLCHAIN.
const SAMPLE_TYPE: u64 = 0x27;
const CODE: u64 = 0x10_0000;
const PID: u64 = 10;

/// A stream of samples of one process. Functions have numbers; a perf map gives them names.
pub(crate) struct SampleStream {
    stream: Vec<u8>,
    encoder: Encoder,
    names: String,
}

/// Bytes of address space for the functions that the perf map names. Files are mapped behind it.
const COMPILED: u64 = 1 << 24;

/// Bytes of each mapped file, and between the starts of two.
const FILE: u64 = 0x8000;
const FILE_STEP: u64 = 0x10000;

fn attr() -> Attr {
    Attr {
        kind: 1,
        sampling: Sampling::Period(1_000_000),
        sample_type: SAMPLE_TYPE,
        flags: Flags::SAMPLE_ID_ALL | Flags::COMM,
        ..Attr::default()
    }
}

impl SampleStream {
    /// A process with these threads.
    pub(crate) fn new(tids: &[i32]) -> Self {
        let event = EventDescription { attr: attr(), ids: vec![1], name: "cpu-clock".into() };
        let description = Description { events: vec![event], ..Description::default() };
        let mut stream = description.stream_beginning().unwrap();
        let id = SampleId { time_ns: Some(1), ..SampleId::default() };
        let encoder = Encoder::new(&Layout::from(&attr()), &id);
        for tid in tids {
            let comm = Comm { pid: 10, tid: *tid, comm: b"made", is_exec: false };
            encoder.comm(&mut stream, &comm).unwrap();
        }
        let mut made = Self { stream, encoder, names: String::new() };
        made.map(CODE, COMPILED, b"//anon");
        made
    }

    fn map(&mut self, start: u64, len: u64, path: &[u8]) {
        let file = FileId::Inode { major: 0, minor: 0, inode: 0, generation: 0 };
        let map = Mmap {
            pid: 10,
            tid: 10,
            start,
            len,
            pgoff: 0,
            file,
            prot: 5,
            flags: 2,
            path,
            is_data: false,
        };
        self.encoder.mmap(&mut self.stream, &map).unwrap();
    }

    /// Maps the file with a number.
    pub(crate) fn map_file(&mut self, number: u64, path: &str) {
        self.map(CODE + COMPILED + number * FILE_STEP, FILE, path.as_bytes());
    }

    /// Returns the number of the function at a place in the file with a number. `place` is taken
    /// modulo the file's size.
    pub(crate) fn function_in_file(file: u64, place: u64) -> u64 {
        (COMPILED + file * FILE_STEP + place % FILE) / 16
    }

    fn record(&mut self, kind: u32, misc: u16, words: &[u64]) {
        let size = u16::try_from(RecordHeader::SIZE + words.len() * 8).unwrap();
        self.stream.extend(RecordHeader { kind, misc, size }.encode());
        self.stream.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }

    /// Adds a sample with these functions, innermost first.
    pub(crate) fn sample(&mut self, tid: u64, time_ns: u64, functions: &[u64]) {
        let address = |number: &u64| CODE + number * 16 + 8;
        let user = u64::MAX - 511; // PERF_CONTEXT_USER
        let mut words = vec![address(&functions[0]), PID | tid << 32, time_ns];
        words.extend([functions.len() as u64 + 1, user]);
        words.extend(functions.iter().map(address));
        self.record(kind::PERF_RECORD_SAMPLE, 2, &words);
    }

    /// Adds a LOST record.
    pub(crate) fn lost(&mut self, records: u64, time_ns: u64) {
        self.record(kind::PERF_RECORD_LOST, 0, &[1, records, PID | PID << 32, time_ns]);
    }

    /// Names a function in the perf map.
    pub(crate) fn name(&mut self, function: u64, name: &str) {
        writeln!(self.names, "{:x} 10 {name}", CODE + function * 16).unwrap();
    }

    /// Writes the stream, and the perf map where `--symfs` with this folder finds it.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> PathBuf {
        let maps = folder.join("tmp");
        std::fs::create_dir_all(&maps).unwrap();
        std::fs::write(maps.join(format!("perf-{PID}.map")), &self.names).unwrap();
        let file = folder.join(name);
        std::fs::write(&file, &self.stream).unwrap();
        file
    }
}

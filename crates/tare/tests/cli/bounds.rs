//! Reading a hostile recording takes at most its size plus 64 MiB more memory than reading a
//! recording with one sample.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{Description, EventDescription};
use tare_format::record::encode::Encoder;
use tare_format::record::{FileId, Mmap, RecordHeader, Task, kind};
use tempfile::TempDir;

use crate::made::SampleStream;
use crate::support::workload;

/// `PERF_SAMPLE_IP` and `PERF_SAMPLE_TID`. Without times, records are processed in file order and
/// none waits in the sort window.
const SAMPLE_TYPE: u64 = 1 | 1 << 1;

/// Memory that reading may use beyond the input's size and the memory for one sample, in bytes.
const ALLOWED: u64 = 64 << 20;

fn attr() -> Attr {
    Attr {
        kind: 1,
        sampling: Sampling::Period(1_000_000),
        sample_type: SAMPLE_TYPE,
        flags: Flags::empty(),
        ..Attr::default()
    }
}

/// A hostile recording, built record by record.
struct Hostile {
    stream: Vec<u8>,
    encoder: Encoder,
}

impl Hostile {
    fn new() -> Self {
        let event = EventDescription { attr: attr(), ids: vec![1], name: "cpu-clock".into() };
        let description = Description { events: vec![event], ..Description::default() };
        Self { stream: description.stream_beginning().unwrap(), encoder: Encoder::default() }
    }

    fn map(&mut self, pid: i32, start: u64, len: u64, path: &str) {
        let path = path.as_bytes();
        let file = FileId::None;
        let map = Mmap {
            pid,
            tid: pid,
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

    fn fork(&mut self, parent: i32, child: i32) {
        let task = Task { pid: child, ppid: parent, tid: child, ptid: parent, time_ns: 1 };
        self.encoder.fork(&mut self.stream, &task, false).unwrap();
    }

    fn sample(&mut self, pid: u32, address: u64) {
        let body = 2 * size_of::<u64>();
        let header = RecordHeader::new(kind::PERF_RECORD_SAMPLE, 2, body).unwrap();
        self.stream.extend(header.encode());
        self.stream.extend(address.to_ne_bytes());
        self.stream.extend([pid, pid].map(u32::to_ne_bytes).as_flattened());
    }

    fn write(&self, folder: &TempDir, name: &str) -> PathBuf {
        let file = folder.path().join(name);
        std::fs::write(&file, &self.stream).unwrap();
        file
    }
}

/// Runs tare and returns its peak memory in bytes and its output.
fn peak(words: &[&str], file: &Path, folder: &TempDir) -> (u64, String) {
    let file = file.to_str().unwrap();
    peak_of(&[words, &["-i", file]].concat(), folder)
}

/// Like [`peak`]; `words` name the files.
fn peak_of(words: &[&str], folder: &TempDir) -> (u64, String) {
    let told = folder.path().join("peak");
    let mut command = Command::new(workload("peak"));
    command.arg(&told).args(["timeout", "-s", "KILL", "120", env!("CARGO_BIN_EXE_tare")]);
    command.args(words).stdin(Stdio::null());
    command.env_remove("HOME").env_remove("DEBUGINFOD_URLS");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    // Status 1 means that there is nothing to show.
    let is_orderly = output.status.code().is_some_and(|code| code < 2);
    assert!(is_orderly && !text.contains("panicked"), "{words:?}: {} {text:.2000}", output.status);
    let kib: u64 = std::fs::read_to_string(&told).unwrap().trim().parse().unwrap();
    (kib << 10, text)
}

/// Asserts that a command uses at most [`ALLOWED`] beyond its input's size and the memory for a
/// recording with one sample. Returns its output.
fn bounded(words: &[&str], files: &[&Path], folder: &TempDir) -> String {
    let mut empty = Hostile::new();
    empty.sample(1, 1);
    let empty = empty.write(folder, "empty");
    let (base, _) = peak(words, &empty, folder);
    let (peak, text) = peak(words, files[0], folder);
    let input: u64 = files.iter().map(|file| std::fs::metadata(file).unwrap().len()).sum();
    let mib = |bytes: u64| bytes >> 20;
    let more = peak.saturating_sub(base);
    println!("{words:?}: {} MiB of {}, {} MiB beside it", mib(peak), mib(input), mib(more));
    assert!(more <= input + ALLOWED, "{words:?}: {} MiB for {} MiB", mib(more), mib(input));
    text
}

/// 63,998 children of a process with 60,000 mappings, each with a further mapping. A copied list
/// per child would add up to 3.8 billion mappings.
#[test]
fn copies_of_a_large_address_space() {
    const MAPPINGS: u64 = 60_000;
    let folder = TempDir::new().unwrap();
    let mut hostile = Hostile::new();
    for at in 0..MAPPINGS {
        hostile.map(1, at * 0x2000, 0x1000, "/a");
    }
    for child in 2..64_000 {
        hostile.fork(1, child);
        hostile.map(child, 0x1000, 0x1000, "/b");
        hostile.sample(2, 0x2010);
    }
    let file = hostile.write(&folder, "forks");
    for words in [&["report", "--stdio"][..], &["script"], &["report", "--json"]] {
        let text = bounded(words, &[&file], &folder);
        if words == ["report", "--stdio"] {
            assert!(text.contains("mappings of address spaces were dropped"), "{text:.2000}");
        }
    }
}

/// 40,000 call chains of 24 functions that have little in common. The sum of their nodes is nearly a
/// million. Each command takes at most four times the recording's size plus 64 MiB.
#[test]
fn call_chains_that_all_differ() {
    const CHAINS: u64 = 40_000;
    const FUNCTIONS: u64 = 2000;
    let folder = TempDir::new().unwrap();
    let mut made = SampleStream::new(&[10]);
    (0..FUNCTIONS).for_each(|number| made.name(number, &format!("function_{number}")));
    let mut random = 1_u64;
    for at in 0..CHAINS {
        let chain = [(); 24].map(|()| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % FUNCTIONS
        });
        made.sample(10, 1_000_000_000 + at * 1_000_000, &chain);
    }
    let file = made.write(folder.path(), "chains");
    let allowed = ALLOWED + 4 * std::fs::metadata(&file).unwrap().len();
    let root = folder.path().to_str().unwrap();
    let output = folder.path().join("output");
    let output = output.to_str().unwrap();
    let formats = ["folded", "pprof", "firefox", "speedscope", "chrome", "parquet", "jsonl"];
    // A store is a folder of its own.
    let store = folder.path().join("store");
    let store = store.to_str().unwrap();
    let to = |format| if format == "parquet" { store } else { output };
    let exports = formats.map(|format| ["export", "--format", format, "-o", to(format)]);
    let flames =
        [["flame", "--format", "html", "-o", output], ["flame", "--format", "svg", "-o", output]];
    let commands = exports.iter().chain(&flames).map(|words| &words[..]);
    for words in commands.chain([&["report", "--stdio"][..], &["report", "--json"], &["script"]]) {
        let (bytes, _) = peak(&[words, &["--symfs", root]].concat(), &file, &folder);
        println!("{words:?}: {} MiB of {}", bytes >> 20, allowed >> 20);
        assert!(bytes <= allowed, "{words:?}: {} MiB of {}", bytes >> 20, allowed >> 20);
    }
}

/// 20,000 mapped files that aren't here, and 20,000 call chains of 12 addresses in them that all
/// differ. Each of these commands takes at most four times its recordings' size plus 64 MiB.
#[test]
fn files_that_all_differ() {
    const FILES: u64 = 20_000;
    let folder = TempDir::new().unwrap();
    let mut made = SampleStream::new(&[10]);
    for number in 0..FILES {
        made.map_file(number, &format!("/nonexistent/x/lib{number:06}.so"));
    }
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random >> 33
    };
    for at in 0..FILES {
        let chain = [(); 12].map(|()| SampleStream::function_in_file(next() % FILES, next()));
        made.sample(10, 1_000_000_000 + at * 1_000_000, &chain);
    }
    let file = made.write(folder.path(), "files");
    let size = std::fs::metadata(&file).unwrap().len();
    let file = file.to_str().unwrap();
    let output = folder.path().join("output");
    let output = output.to_str().unwrap();
    let formats = ["folded", "pprof", "firefox", "speedscope", "chrome", "parquet", "jsonl"];
    // A store is a folder of its own.
    let store = folder.path().join("store");
    let store = store.to_str().unwrap();
    let to = |format| if format == "parquet" { store } else { output };
    let exports = formats.map(|format| ["export", "--format", format, "-o", to(format), file]);
    let commands = [
        &["report", "--stdio", file][..],
        &["report", "--stdio", "--no-children", "-g", "none", file],
        &["report", "--json", file],
        &["script", "-i", file],
        &["annotate", "--stdio", "-i", file],
        &["archive", "-o", output, file],
        &["diff", file, file],
        &["buildid-list", "-i", file],
        &["flame", "--format", "html", "-o", output, file],
        &["flame", "--format", "svg", "-o", output, file],
    ];
    let mut over = Vec::new();
    for words in commands.into_iter().chain(exports.iter().map(|words| &words[..])) {
        let recordings = words.iter().filter(|word| **word == file).count() as u64;
        let allowed = ALLOWED + 4 * size * recordings;
        let (bytes, _) = peak_of(words, &folder);
        let line = format!("{words:?}: {} MiB of {}", bytes >> 20, allowed >> 20);
        println!("{line}");
        over.extend((bytes > allowed).then_some(line));
    }
    assert!(over.is_empty(), "{over:#?}");
}

/// 4,000 events that share one table of a million ids.
#[test]
fn ids_that_events_share() {
    const EVENTS: u64 = 4000;
    const ENTRY: u64 = 144 + 16;
    let folder = TempDir::new().unwrap();
    let ids = 104 + EVENTS * ENTRY;
    let size = 8 << 20;
    let mut bytes = b"PERFILE2".to_vec();
    let words =
        |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
    bytes.extend(words(&[104, ENTRY, 104, EVENTS * ENTRY, ids + size, 0, 0, 0, 0, 0, 0, 0]));
    for number in 0..EVENTS {
        let attr = Attr { config: number % 9, ..attr() }.to_bytes();
        assert!(attr.len() <= 144);
        bytes.extend(attr);
        bytes.resize(104 + usize::try_from(number * ENTRY + 144).unwrap(), 0);
        bytes.extend(words(&[ids, size]));
    }
    bytes.extend(
        (0..size / 8).flat_map(|id: u64| id.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_ne_bytes()),
    );
    let file = folder.path().join("ids");
    std::fs::write(&file, bytes).unwrap();
    for words in [&["report", "--stdio"][..], &["script"], &["evlist"]] {
        bounded(words, &[&file], &folder);
    }
}

/// 100,000 sampled functions whose names are suffixes of one name of 1 MiB. Together they are
/// 100 GB long.
#[test]
fn names_that_overlap() {
    const SYMBOLS: u32 = 100_000;
    let folder = TempDir::new().unwrap();
    let mut hostile = Hostile::new();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let binary = root.join("hostile");
    std::fs::write(&binary, library(SYMBOLS)).unwrap();
    hostile.map(1, 0, u64::from(SYMBOLS) * 16, "/hostile");
    for number in 0..SYMBOLS {
        hostile.sample(1, u64::from(number) * 16 + 8);
    }
    let file = hostile.write(&folder, "names");
    let root = root.to_str().unwrap();
    for words in [&["script", "-F", "ip,sym"][..], &["report", "--json", "--sort", "sym"]] {
        for more in [&[][..], &["--no-demangle"]] {
            let words = [words, more, &["--no-cache", "--symfs", root]].concat();
            let text = bounded(&words, &[&file, &binary], &folder);
            assert!(text.contains("xxxxxxxxxxxxxxxx"), "{words:?}: {text:.2000}");
        }
    }
}

/// An ELF library with `symbols` functions of 16 bytes whose names overlap.
fn library(symbols: u32) -> Vec<u8> {
    const HEADER: u64 = 64;
    const NAME: usize = 1 << 20;
    let half = |value: u16| value.to_le_bytes().to_vec();
    let word = |value: u32| value.to_le_bytes().to_vec();
    let long = |value: u64| value.to_le_bytes().to_vec();
    let table = HEADER + 56;
    let count = u64::from(symbols) + 1;
    let names = table + count * 24;
    let sections = names + NAME as u64 + 2;
    let machine = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // ET_DYN, one segment, the null section and three others.
    file.extend([half(3), half(machine), word(1), long(0), long(HEADER), long(sections)].concat());
    file.extend([word(0), half(64), half(56), half(1), half(64), half(4), half(0)].concat());
    // PT_LOAD of all code, read and executed.
    let code = u64::from(symbols) * 16;
    file.extend([word(1), word(5), long(0), long(0), long(0), long(code), long(code)].concat());
    file.extend(long(0x1000));
    file.extend([0; 24]);
    for number in 0..symbols {
        // A global function in the first section.
        file.extend([word(number % (1 << 20) + 1), vec![0x12, 0], half(1)].concat());
        file.extend([long(u64::from(number) * 16), long(16)].concat());
    }
    file.push(0);
    file.extend(vec![b'x'; NAME]);
    file.push(0);
    let section = |kind: u32, flags: u64, place: [u64; 2], link: u32, info: u32, each: u64| {
        let front = [word(0), word(kind), long(flags), long(0), long(place[0]), long(place[1])];
        [front.concat(), word(link), word(info), long(8), long(each)].concat()
    };
    file.extend(section(0, 0, [0, 0], 0, 0, 0));
    // SHT_NOBITS for the code, SHT_SYMTAB, SHT_STRTAB.
    file.extend(section(8, 6, [0, code], 0, 0, 0));
    file.extend(section(2, 0, [table, count * 24], 3, 1, 24));
    file.extend(section(3, 0, [names, NAME as u64 + 2], 0, 0, 0));
    file
}

//! Synthetic recordings with data that not every CPU can sample: branch stacks, memory
//! accesses. perf reads the same files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{Description, EventDescription, Feature, HEADER_SIZE};
use tare_format::record::encode::Encoder;
use tare_format::record::{Comm, FileId, Layout, Mmap, RecordHeader, SampleId, kind};

use crate::support::{stderr, tare};

/// IP, TID, TIME, CPU, PERIOD and IDENTIFIER.
const USUAL: u64 = 1 | 2 | 4 | 1 << 7 | 1 << 8 | 1 << 16;
pub(crate) const ADDR: u64 = 1 << 3;
pub(crate) const CALLCHAIN: u64 = 1 << 5;
pub(crate) const BRANCHES: u64 = 1 << 11;
const WEIGHT: u64 = 1 << 14;
pub(crate) const DATA_SRC: u64 = 1 << 15;
pub(crate) const PHYS_ADDR: u64 = 1 << 19;
const DATA_PAGE_SIZE: u64 = 1 << 22;
pub(crate) const WEIGHT_STRUCT: u64 = 1 << 24;

/// Addresses of the program's functions and data, on x86-64.
pub(crate) const CODE: u64 = 0x40_1000;
pub(crate) const DATA: u64 = 0x40_2000;
pub(crate) const OUTER: u64 = CODE;
pub(crate) const INNER: u64 = CODE + 0x10;
pub(crate) const NAMELESS: u64 = CODE + 0x40;

const PROGRAM: &str = ".text
.globl _start, inner
.type _start,@function
_start: push %rbp
mov %rsp,%rbp
call inner
pop %rbp
ret
.size _start,.-_start
.balign 16
.type inner,@function
inner: xor %eax,%eax
test %edi,%edi
je 1f
nop
nop
1: ret
.size inner,.-inner
.balign 64
nop
ret
.balign 4096
.data
.balign 4096
.globl counts, names
.type counts,@object
counts: .fill 100,1,1
.size counts,100
.balign 128
.type names,@object
names: .fill 64,1,2
.size names,64
.balign 4096
";

/// An event whose samples have additional fields.
pub(crate) struct DrawnEvent {
    pub(crate) name: &'static str,
    /// `PERF_TYPE_*` and config.
    pub(crate) kind: (u32, u64),
    /// `PERF_SAMPLE_*`.
    pub(crate) more: u64,
}

/// A sample; fields that its event doesn't record are left out.
#[derive(Clone, Default)]
pub(crate) struct DrawnSample {
    pub(crate) event: usize,
    pub(crate) ip: u64,
    pub(crate) addr: u64,
    pub(crate) period: u64,
    pub(crate) chain: Vec<u64>,
    /// Source, target and flags of each branch.
    pub(crate) branches: Vec<(u64, u64, u64)>,
    pub(crate) weight: u64,
    pub(crate) data_src: u64,
    pub(crate) phys_addr: u64,
}

/// A folder with a program, its source, and a synthetic recording of it.
pub(crate) struct SyntheticProgram {
    pub(crate) folder: tempfile::TempDir,
}

impl SyntheticProgram {
    /// Without perf or on another architecture, prints the reason and returns `None`.
    pub(crate) fn new(events: &[DrawnEvent], samples: &[DrawnSample]) -> Option<Self> {
        if !cfg!(target_arch = "x86_64") || Command::new("perf").arg("version").output().is_err() {
            println!("skipped: perf isn't installed, or this is no x86-64");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("drawn.s");
        let program = folder.path().join("drawn");
        std::fs::write(&source, PROGRAM).unwrap();
        let flags = ["-g", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id", "-o"];
        let built = Command::new("cc").args(flags).arg(&program).arg(&source).status();
        assert!(built.unwrap().success());
        let drawn = Self { folder };
        drawn.write(events, samples, &program);
        Some(drawn)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("perf.data")
    }

    fn write(&self, events: &[DrawnEvent], samples: &[DrawnSample], program: &Path) {
        let attr = |event: &DrawnEvent| Attr {
            kind: event.kind.0,
            config: event.kind.1,
            sampling: Sampling::Period(1000),
            sample_type: USUAL | event.more,
            // PERF_SAMPLE_BRANCH_ANY of user space and kernel, if the event has branches.
            branch_sample_type: if event.more & BRANCHES == 0 { 0 } else { 1 | 2 | 1 << 3 },
            flags: Flags::SAMPLE_ID_ALL | Flags::COMM | Flags::TASK | Flags::MMAP2,
            ..Attr::default()
        };
        let id = SampleId { time_ns: Some(1), id: Some(1), ..SampleId::default() };
        let encoder = Encoder::new(&Layout::from(&attr(&events[0])), &id);
        let mut data = Vec::new();
        let comm = Comm { pid: 7, tid: 7, comm: b"drawn", is_exec: true };
        encoder.comm(&mut data, &comm).unwrap();
        for (start, prot) in [(CODE, 5), (DATA, 3)] {
            let mmap = Mmap {
                pid: 7,
                tid: 7,
                start,
                len: 0x1000,
                pgoff: start & 0xffff,
                file: FileId::None,
                prot,
                flags: 2,
                path: program.as_os_str().as_encoded_bytes(),
                is_data: false,
            };
            encoder.mmap(&mut data, &mmap).unwrap();
        }
        for (at, sample) in (0..).zip(samples) {
            data.extend(sample.encode(at, USUAL | events[sample.event].more));
        }
        let described = (1..).zip(events).map(|(id, event)| EventDescription {
            attr: attr(event),
            ids: vec![id],
            name: event.name.to_owned(),
        });
        let time = |at: usize| 1_000_000_000 + at as u64 * 1_000_000;
        let first_ns = time(0);
        let last_ns = time(samples.len() - 1);
        let arch = Feature::Arch("x86_64".to_owned());
        let mut features = vec![arch, Feature::SampleTime { first_ns, last_ns }];
        features.extend((events[0].more & BRANCHES != 0).then_some(Feature::BranchStack));
        let description =
            Description { events: described.collect(), features, ..Description::default() };
        let start = HEADER_SIZE as u64;
        let ending = description.ending(&(start..start + data.len() as u64)).unwrap();
        std::fs::write(self.file(), [&ending.header[..], &data, &ending.tail].concat()).unwrap();
    }

    /// perf's output lines.
    pub(crate) fn perf(&self, words: &[&str]) -> Vec<String> {
        let mut perf = Command::new("perf");
        perf.args(words).args(["-i", "perf.data"]).current_dir(self.folder.path());
        lines(&perf.env("LC_ALL", "C").env("HOME", self.folder.path()).output().unwrap())
    }

    /// tare's output lines.
    pub(crate) fn tare(&self, words: &[&str]) -> Vec<String> {
        let mut tare = tare();
        tare.args(words).args(["-i", "perf.data"]).current_dir(self.folder.path());
        lines(&tare.output().unwrap())
    }
}

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

impl DrawnSample {
    fn encode(&self, at: u64, sample_type: u64) -> Vec<u8> {
        let id = self.event as u64 + 1;
        let mut words = vec![id, self.ip, 7 | 7 << 32, 1_000_000_000 + at * 1_000_000];
        let mut add = |bit: u64, more: &[u64]| {
            if sample_type & bit != 0 {
                words.extend(more);
            }
        };
        add(ADDR, &[self.addr]);
        add(1 << 7, &[at % 2]);
        add(1 << 8, &[self.period.max(1)]);
        let chain = [&[u64::MAX - 511], &self.chain[..]].concat();
        add(CALLCHAIN, &[&[chain.len() as u64], &chain[..]].concat());
        let branches = self.branches.iter().flat_map(|(from, to, flags)| [*from, *to, *flags]);
        let branches: Vec<u64> = branches.collect();
        add(BRANCHES, &[&[self.branches.len() as u64], &branches[..]].concat());
        add(WEIGHT | WEIGHT_STRUCT, &[self.weight]);
        add(DATA_SRC, &[self.data_src]);
        add(PHYS_ADDR, &[self.phys_addr]);
        add(DATA_PAGE_SIZE, &[4096]);
        let misc = if self.ip >> 63 == 1 { 1 } else { 2 };
        let header = RecordHeader::new(kind::PERF_RECORD_SAMPLE, misc, 8 * words.len()).unwrap();
        let mut record = header.encode().to_vec();
        words.iter().for_each(|word| record.extend(word.to_ne_bytes()));
        record
    }
}

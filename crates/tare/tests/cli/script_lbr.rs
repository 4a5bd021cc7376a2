//! Recordings of `perf record --call-graph lbr`, where the user part of a call chain is the CPU's
//! call stack.

use std::path::Path;
use std::process::Command;

use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{Description, EventDescription};
use tare_format::record::encode::Encoder;
use tare_format::record::{Comm, FileId, Layout, Mmap, RecordHeader, SampleId, kind};

use crate::recorded::perf_script;
use crate::support::{document, stderr, tare};

/// `PERF_SAMPLE_*`: IP, TID, TIME, CALLCHAIN, BRANCH_STACK.
const SAMPLE_TYPE: u64 = 1 | 2 | 4 | 1 << 5 | 1 << 11;

/// `PERF_SAMPLE_BRANCH_*`: USER, CALL_STACK, NO_FLAGS, NO_CYCLES, as perf asks for.
const CALLS: u64 = 1 | 1 << 11 | 1 << 14 | 1 << 15;

const KERNEL_MARK: u64 = 0xffff_ffff_ffff_ff80;
const USER_MARK: u64 = 0xffff_ffff_ffff_fe00;
const IN_KERNEL: u64 = 0xffff_ffff_8100_0010;

/// A sample: its address, the recorded chain, and source and target of each call, innermost first.
struct BranchSample<'a> {
    ip: u64,
    misc: u16,
    chain: &'a [u64],
    calls: &'a [(u64, u64)],
}

const SAMPLES: [BranchSample<'_>; 4] = [
    // The frame-pointer chain only contributes the start of the user part.
    BranchSample {
        ip: 0x40_0150,
        misc: 2,
        chain: &[USER_MARK, 0x40_0150, 0x40_0999],
        calls: &[(0x40_0210, 0x40_0140), (0x40_0320, 0x40_0200), (0x40_0430, 0x40_0300)],
    },
    BranchSample {
        ip: IN_KERNEL,
        misc: 1,
        chain: &[KERNEL_MARK, IN_KERNEL, IN_KERNEL + 8, USER_MARK, 0x40_0150],
        calls: &[(0x40_0210, 0x40_0140)],
    },
    // Without calls the recorded chain is used.
    BranchSample { ip: 0x40_0150, misc: 2, chain: &[USER_MARK, 0x40_0150, 0x40_0220], calls: &[] },
    // A kernel thread.
    BranchSample { ip: IN_KERNEL, misc: 1, chain: &[KERNEL_MARK, IN_KERNEL], calls: &[] },
];

/// The expected addresses of each stack, in files without their load address.
const EXPECTED: [&[u64]; 4] = [
    &[0x140, 0x210, 0x320, 0x430],
    &[IN_KERNEL, IN_KERNEL + 8, 0x140, 0x210],
    &[0x150, 0x220],
    &[IN_KERNEL],
];

fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let size = u16::try_from(RecordHeader::SIZE + body.len()).unwrap();
    [&RecordHeader { kind, misc, size }.encode()[..], &body].concat()
}

/// A recording with these branches in its samples.
fn recording(branch_sample_type: u64) -> Vec<u8> {
    let attr = Attr {
        sampling: Sampling::Period(1),
        sample_type: SAMPLE_TYPE,
        branch_sample_type,
        flags: Flags::SAMPLE_ID_ALL | Flags::COMM | Flags::TASK | Flags::MMAP2,
        ..Attr::default()
    };
    let layout = Layout::from(&attr);
    let event = EventDescription { attr, ids: vec![1], name: "cycles".into() };
    let description = Description { events: vec![event], ..Description::default() };
    let mut stream = description.stream_beginning().unwrap();
    let id = SampleId { time_ns: Some(1), ..SampleId::default() };
    let encoder = Encoder::new(&layout, &id);
    let comm = Comm { pid: 7, tid: 7, comm: b"called", is_exec: true };
    encoder.comm(&mut stream, &comm).unwrap();
    let mmap = Mmap {
        pid: 7,
        tid: 7,
        start: 0x40_0000,
        len: 0x1000,
        pgoff: 0,
        file: FileId::None,
        prot: 5,
        flags: 2,
        path: b"/nowhere/called",
        is_data: false,
    };
    encoder.mmap(&mut stream, &mmap).unwrap();
    for (at, BranchSample { ip, misc, chain, calls }) in SAMPLES.iter().enumerate() {
        let mut words = vec![*ip, 7 | 7 << 32, 10 + at as u64, chain.len() as u64];
        words.extend(*chain);
        words.push(calls.len() as u64);
        words.extend(calls.iter().flat_map(|(from, to)| [*from, *to, 0]));
        stream.extend(record(kind::PERF_RECORD_SAMPLE, *misc, &words));
    }
    stream
}

/// The addresses of each printed stack.
fn chains(text: &str) -> Vec<Vec<u64>> {
    let stacks = text.split("\n\n").filter(|stack| !stack.trim().is_empty());
    let address = |line: &str| u64::from_str_radix(line.split_whitespace().next()?, 16).ok();
    stacks.map(|stack| stack.lines().filter_map(address).collect()).collect()
}

fn printed(file: &Path) -> Vec<Vec<u64>> {
    let output = tare().args(["script", "-F", "ip", "-i"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    chains(&String::from_utf8_lossy(&output.stdout))
}

#[test]
fn chains_of_the_branch_stack_are_those_of_perf() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lbr.data");
    std::fs::write(&file, recording(CALLS)).unwrap();
    assert_eq!(printed(&file), EXPECTED);
    let report = |words: &[&str]| {
        let output = tare().arg("report").args(words).arg("-i").arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output
    };
    let all = document(&report(&["--json", "--children", "--sort", "dso"]));
    let entries = all["events"][0]["entries"].as_array().unwrap();
    let called = entries.iter().find(|entry| entry["dso"].as_str() == Some("called"));
    let called = called.unwrap_or_else(|| panic!("{all}"));
    // The kernel sample with calls of the program counts as a callee of the program.
    let samples = |of: &str| called[of]["samples"].as_u64();
    assert_eq!((samples("own"), samples("total")), (Some(2), Some(3)), "{called}");
    // Without the flag that branches are a call stack, the frame-pointer chains are used.
    std::fs::write(&file, recording(1)).unwrap();
    assert_eq!(printed(&file)[0], [0x150, 0x999]);
    std::fs::write(&file, recording(CALLS)).unwrap();
    if Command::new("perf").arg("version").output().is_ok()
        && let Some(lines) = perf_script(&["-F", "ip"], &file)
    {
        let mut theirs = chains(&lines.join("\n"));
        // perf reads past an empty branch list.
        theirs[2] = EXPECTED[2].to_vec();
        assert_eq!(theirs, EXPECTED, "perf's own");
    }
}

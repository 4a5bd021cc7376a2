//! Writes a synthetic recording with a given number of samples and of distinct call chains, drawn
//! from a seed.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use tare_format::abi::bindings::{
    PERF_CONTEXT_USER, PERF_COUNT_SW_CPU_CLOCK, PERF_RECORD_MISC_USER, PERF_RECORD_SAMPLE,
    PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_CPU, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
};
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{Description, EventDescription};
use tare_format::record::encode::Encoder;
use tare_format::record::{Comm, FileId, Layout, Mmap, SampleId, kind};

/// Number of functions in the synthetic library.
const FUNCTIONS: u32 = 1 << 12;
const FUNCTION_BYTES: u64 = 64;

/// Address at which the library's code is mapped.
const START: u64 = 0x7f00_0000_0000;

/// Functions that each function calls. Nine frames distinguish 4^9 chains.
const CALLED: u32 = 4;
const LEVELS: u32 = 9;

const THREADS: u32 = 8;
const CPUS: u32 = 4;
const PERIOD_NS: u64 = 1_000_000;

/// Samples between two FINISHED_ROUND records.
const ROUND: u64 = 10_000;

/// The shape of the recording.
pub(in crate::benchmark) struct SyntheticRecording {
    pub(in crate::benchmark) samples: u64,
    pub(in crate::benchmark) chains: u32,
    pub(in crate::benchmark) seed: u64,
}

/// A library with code at a known file offset.
struct Library {
    path: PathBuf,
    offset: u64,
}

impl Library {
    /// Assembles a library of functions of equal size.
    fn build(folder: &Path) -> anyhow::Result<Self> {
        let source = folder.join("functions.s");
        let path = folder.join("libfunctions.so");
        let mut text = String::from(".text\n.balign 4096\nfirst:\n");
        for number in 0..FUNCTIONS {
            writeln!(
                text,
                ".globl f{number}\n.type f{number}, %function\nf{number}: .fill {FUNCTION_BYTES}, 1, 0x90\n.size f{number}, {FUNCTION_BYTES}"
            )?;
        }
        std::fs::write(&source, text)?;
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-nostdlib", "-Wl,--build-id=none", "-o"]).arg(&path).arg(&source);
        ensure!(
            cc.status().context("cc is needed")?.success(),
            "{} can't be built",
            path.display()
        );
        let bytes = std::fs::read(&path)?;
        // The functions are the only 4096 successive bytes of 0x90 (nop).
        let first = bytes.windows(4096).position(|run| run.iter().all(|byte| *byte == 0x90));
        let offset = first.context("the library has no functions")? as u64;
        Ok(Self { path: path.canonicalize()?, offset })
    }
}

impl SyntheticRecording {
    /// Writes the recording, and its library beside it. Returns the recording's size in bytes.
    pub(in crate::benchmark) fn write(&self, path: &Path) -> anyhow::Result<u64> {
        let library = Library::build(path.parent().context("a file lies in a folder")?)?;
        let sample_type = PERF_SAMPLE_IP
            | PERF_SAMPLE_TID
            | PERF_SAMPLE_TIME
            | PERF_SAMPLE_CPU
            | PERF_SAMPLE_PERIOD
            | PERF_SAMPLE_CALLCHAIN;
        let attr = Attr {
            kind: PERF_TYPE_SOFTWARE,
            config: PERF_COUNT_SW_CPU_CLOCK.into(),
            sampling: Sampling::Period(PERIOD_NS),
            sample_type: sample_type.into(),
            flags: Flags::SAMPLE_ID_ALL | Flags::MMAP | Flags::COMM,
            ..Attr::default()
        };
        let layout = Layout::from(&attr);
        let event = EventDescription { attr, ids: vec![1], name: "cpu-clock".to_owned() };
        let description = Description { events: vec![event], ..Description::default() };
        let beginning = description.beginning(|_| 1, 1)?;
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        out.write_all(&beginning.bytes)?;
        out.write_all(&begun(&layout, &library)?)?;
        self.write_samples(&mut out, library.offset)?;
        let end = out.seek(SeekFrom::End(0))?;
        let file = out.into_inner()?;
        let ending = description.ending(&(beginning.data_start..end))?;
        file.write_all_at(&ending.tail, end)?;
        file.write_all_at(&ending.header, 0)?;
        Ok(file.metadata()?.len())
    }

    fn write_samples(&self, out: &mut impl Write, offset: u64) -> anyhow::Result<()> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut record = Vec::new();
        for number in 0..self.samples {
            // Write each chain once, then draw chains so that a few are frequent, as in a real
            // program.
            let chain = match u32::try_from(number) {
                Ok(first) if first < self.chains => first,
                _ => {
                    let most = random.u32(0..self.chains);
                    random.u32(0..=most)
                }
            };
            let frames = self.frames(chain, offset);
            let words = [
                frames[0],
                (1000 + number % u64::from(THREADS)) << 32 | 1000,
                1_000_000_000 + number * PERIOD_NS / 4,
                number % u64::from(CPUS),
                PERIOD_NS,
                frames.len() as u64 + 1,
                PERF_CONTEXT_USER,
            ];
            let size = 8 + 8 * (words.len() + frames.len());
            record.clear();
            record.extend(PERF_RECORD_SAMPLE.to_ne_bytes());
            record.extend(u16::try_from(PERF_RECORD_MISC_USER)?.to_ne_bytes());
            record.extend(u16::try_from(size)?.to_ne_bytes());
            words.iter().chain(&frames).for_each(|word| record.extend(word.to_ne_bytes()));
            out.write_all(&record)?;
            if number % ROUND == ROUND - 1 {
                let misc = 0_u16;
                let size = 8_u16;
                out.write_all(&kind::FINISHED_ROUND.to_ne_bytes())?;
                out.write_all(&[misc.to_ne_bytes(), size.to_ne_bytes()].concat())?;
            }
        }
        Ok(())
    }

    /// The addresses of a chain, innermost first. Each number below 4^9 gives a different chain.
    fn frames(&self, chain: u32, offset: u64) -> Vec<u64> {
        let mut rest = chain;
        let mut function = 0_u32;
        let mut frames = vec![address(0, offset, 8)];
        for _ in 0..LEVELS {
            let digit = rest % CALLED;
            let parent = function;
            rest /= CALLED;
            // A function calls four neighbouring functions; the chain's number selects one.
            function = (parent.wrapping_mul(0x9e37_79b1).rotate_left(9) % (FUNCTIONS / CALLED))
                * CALLED
                + digit;
            frames.push(address(function, offset, 8));
        }
        frames.reverse();
        frames
    }
}

fn address(function: u32, offset: u64, within: u64) -> u64 {
    START + offset % 4096 + u64::from(function) * FUNCTION_BYTES + within
}

/// The records that precede the samples: the threads' names, and the library's mapping.
fn begun(layout: &Layout, library: &Library) -> anyhow::Result<Vec<u8>> {
    let encoder = Encoder::new(layout, &SampleId::default());
    let mut records = Vec::new();
    for thread in 0..i32::try_from(THREADS)? {
        let comm = Comm { pid: 1000, tid: 1000 + thread, comm: b"made", is_exec: false };
        encoder.comm(&mut records, &comm)?;
    }
    let path = library.path.to_string_lossy().into_owned();
    let mapped = Mmap {
        pid: 1000,
        tid: 1000,
        start: START,
        len: u64::from(FUNCTIONS) * FUNCTION_BYTES + 4096,
        pgoff: library.offset - library.offset % 4096,
        file: FileId::None,
        prot: 5,
        flags: 2,
        path: path.as_bytes(),
        is_data: false,
    };
    encoder.mmap(&mut records, &mapped)?;
    Ok(records)
}

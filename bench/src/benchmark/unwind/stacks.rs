//! The copied stacks of a recording, unwound in this process on one thread: by tare's library, and by
//! framehop as samply uses it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, ExplicitModuleSectionInfo, Module, Unwinder as _};
use object::{Object, ObjectSection, ObjectSegment};
use tare_format::file::Reader;
use tare_format::record::{Mmap, Record, Sample, kind};
use tare_symbols::{
    AddressSpace, Dso, DsoKind, DsoTable, Mapping, Registers, Stack, SymbolOptions, UnwindCache,
    UnwindOutcome, Unwinder,
};

/// `PROT_EXEC` of `mmap(2)`.
const PROT_EXEC: u32 = 4;

/// What a process had mapped.
#[derive(Default)]
pub(super) struct Process {
    dsos: DsoTable,
    space: AddressSpace,
    code: Vec<(Mapping, String)>,
}

/// Registers, and a copy of the stack.
pub(super) type Copied = (Registers, Vec<u8>);

/// What unwinding some stacks found.
#[derive(Clone, Debug, Default)]
pub(super) struct Unwinding {
    pub(super) ns: u128,
    /// The addresses of all stacks, one after the other, and where each ends.
    addresses: Vec<u64>,
    ends: Vec<usize>,
    /// How each of them ended, and why.
    pub(super) reasons: Vec<(End, &'static str)>,
}

/// How far a stack was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Whole,
    Truncated,
    Failed,
}

impl Process {
    /// The process with a name that a recording has, and its number.
    pub(super) fn read(path: &Path, name: &[u8]) -> anyhow::Result<(i32, Self)> {
        let mut named: HashMap<i32, Self> = HashMap::new();
        let mut reader = Reader::open(File::open(path)?)?;
        while let Some(entry) = reader.next_record()? {
            match entry.record.decode() {
                Ok(Record::Comm(comm)) if comm.is_exec && comm.comm == name => {
                    named.insert(comm.pid, Self::default());
                }
                Ok(Record::Mmap(mmap)) => {
                    if let Some(process) = named.get_mut(&mmap.pid) {
                        process.map(&mmap);
                    }
                }
                _ => {}
            }
        }
        named.into_iter().next().context("the compiler was not recorded")
    }

    fn map(&mut self, mmap: &Mmap<'_>) {
        let name = String::from_utf8_lossy(mmap.path).into_owned();
        let kind = match mmap.path {
            b"[vdso]" => DsoKind::Vdso,
            path if path.starts_with(b"/") && !path.starts_with(b"//") => DsoKind::Elf,
            _ => DsoKind::Anonymous,
        };
        let dso = Dso { kind, name: mmap.path.to_vec(), build_id: None };
        let Some(dso) = self.dsos.intern(dso) else { return };
        let mapping =
            Mapping { start: mmap.start, end: mmap.start + mmap.len, pgoff: mmap.pgoff, dso };
        self.space.add(mapping);
        if kind == DsoKind::Elf && mmap.prot & PROT_EXEC != 0 {
            self.code.push((mapping, name));
        }
    }
}

/// Hands over the stacks of a process in batches, at most `most` in all. A batch is small enough to
/// stay in the CPU's caches, as what a report unwinds does.
pub(super) fn batches(
    path: &Path,
    pid: i32,
    most: usize,
    mut take: impl FnMut(&[Copied]),
) -> anyhow::Result<usize> {
    const BATCH: usize = 100;
    let mut batch = Vec::new();
    let mut taken = 0;
    let mut reader = Reader::open(File::open(path)?)?;
    while taken < most
        && let Some(entry) = reader.next_record()?
    {
        let raw = entry.record;
        if raw.kind != kind::PERF_RECORD_SAMPLE {
            continue;
        }
        let Some(layout) = entry.description.lookup().layout_of(&raw) else { continue };
        let Ok(sample) = Sample::decode(&raw, layout) else { continue };
        if sample.head.pid == Some(pid) {
            batch.extend(copied(&sample));
        }
        if batch.len() == BATCH {
            take(&batch);
            taken += batch.len();
            batch.clear();
        }
    }
    Ok(taken)
}

impl Unwinding {
    fn add(&mut self, end: End, why: &'static str) {
        self.ends.push(self.addresses.len());
        self.reasons.push((end, why));
    }

    /// Of how many stacks it has the same addresses as another.
    pub(super) fn equal(&self, other: &Self) -> usize {
        let stack = |of: &Self, at: usize| {
            let begin = at.checked_sub(1).map_or(0, |before| of.ends[before]);
            of.addresses[begin..of.ends[at]].to_vec()
        };
        let count = self.ends.len().min(other.ends.len());
        (0..count).filter(|at| stack(self, *at) == stack(other, *at)).count()
    }

    pub(super) fn frames(&self) -> usize {
        self.addresses.len()
    }

    /// Nanoseconds a frame.
    pub(super) fn frame_ns(&self) -> f64 {
        self.ns as f64 / self.frames() as f64
    }
}

/// How many stacks ended in which way, and why.
#[derive(Debug, Default)]
pub(super) struct Ends(BTreeMap<(End, &'static str), usize>);

impl Ends {
    pub(super) fn add(&mut self, unwinding: &Unwinding) {
        for reason in &unwinding.reasons {
            *self.0.entry(*reason).or_default() += 1;
        }
    }

    /// Of all stacks the share that ended so.
    pub(super) fn share(&self, wanted: End) -> f64 {
        let all: usize = self.0.values().sum();
        let ended = self.0.iter().filter(|((end, _), _)| *end == wanted);
        ended.map(|(_, stacks)| stacks).sum::<usize>() as f64 / all as f64
    }

    /// `1200 the copy ended, 3 no binary`: of those that aren't whole.
    pub(super) fn reasons(&self) -> String {
        let others = self.0.iter().filter(|((end, _), _)| *end != End::Whole);
        others.map(|((_, why), stacks)| format!("{stacks} {why}")).collect::<Vec<_>>().join(", ")
    }
}

/// Tare's library.
pub(super) struct Tare<'p> {
    process: &'p Process,
    unwinder: Unwinder,
    cache: UnwindCache,
}

impl<'p> Tare<'p> {
    pub(super) fn new(process: &'p Process) -> Self {
        let unwinder = Unwinder::new(SymbolOptions::default());
        let cache = UnwindCache::default();
        Self { process, unwinder, cache }
    }

    /// Unwinds copies of so many bytes.
    pub(super) fn unwind(&mut self, stacks: &[Copied], bytes: usize) -> Unwinding {
        let mut all = Unwinding::default();
        let begin = Instant::now();
        for (registers, copy) in stacks {
            let copy = &copy[..copy.len().min(bytes)];
            let stack = Stack { registers, copy, frame_pointers: &[] };
            let dsos = &self.process.dsos;
            let space = &self.process.space;
            let (end, _) =
                self.unwinder.unwind(&mut self.cache, dsos, space, &stack, &mut all.addresses);
            let how = match end {
                UnwindOutcome::Whole => End::Whole,
                end if end.is_truncated() => End::Truncated,
                _ => End::Failed,
            };
            all.add(how, end.reason());
        }
        Unwinding { ns: begin.elapsed().as_nanos(), ..all }
    }
}

/// Framehop: a module for each file with code, one cache, frames until the end or an error.
pub(super) struct Framehop {
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
}

impl Framehop {
    pub(super) fn new(process: &Process) -> Self {
        let mut unwinder = UnwinderX86_64::new();
        process
            .code
            .iter()
            .filter_map(|(mapping, path)| module(mapping, path))
            .for_each(|module| unwinder.add_module(module));
        Self { unwinder, cache: CacheX86_64::new() }
    }

    /// Unwinds copies of so many bytes.
    pub(super) fn unwind(&mut self, stacks: &[Copied], bytes: usize) -> Unwinding {
        let mut all = Unwinding::default();
        let begin = Instant::now();
        for (registers, copy) in stacks {
            let Registers::X86_64 { ip, general } = registers else { continue };
            let start = general[7];
            let copy = &copy[..copy.len().min(bytes)];
            let mut read = |address: u64| {
                let at = usize::try_from(address.checked_sub(start).ok_or(())?).map_err(|_| ())?;
                let bytes = copy.get(at..).and_then(<[u8]>::first_chunk).ok_or(())?;
                Ok(u64::from_le_bytes(*bytes))
            };
            let registers = UnwindRegsX86_64::new(*ip, start, general[6]);
            let mut frames = self.unwinder.iter_frames(*ip, registers, &mut self.cache, &mut read);
            let (end, why) = loop {
                match frames.next() {
                    Ok(Some(frame)) => all.addresses.push(frame.address_for_lookup()),
                    Ok(None) => break (End::Whole, "whole"),
                    Err(Error::CouldNotReadStack(_)) => break (End::Truncated, "the copy ended"),
                    Err(Error::ReturnAddressIsNull) => break (End::Failed, "no return address"),
                    Err(_) => break (End::Failed, "went backwards"),
                }
            };
            all.add(end, why);
        }
        Unwinding { ns: begin.elapsed().as_nanos(), ..all }
    }
}

/// A sample's registers and stack, of x86-64.
fn copied(sample: &Sample<'_>) -> Option<Copied> {
    let recorded = sample.regs_user?;
    let stack = sample.stack_user?;
    let get = |number| recorded.get(number);
    // AX, DX, CX, BX, SI, DI, BP, SP, R8 to R15
    let general = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]
        .map(|number| get(number).unwrap_or(0));
    Some((Registers::X86_64 { ip: get(8)?, general }, stack.bytes.to_vec()))
}

/// A file where it was mapped.
fn module(mapping: &Mapping, path: &str) -> Option<Module<Vec<u8>>> {
    let bytes = std::fs::read(path).ok()?;
    let file = object::File::parse(bytes.as_slice()).ok()?;
    let range = |name: &str| {
        let section = file.section_by_name(name)?;
        Some(section.address()..section.address() + section.size())
    };
    let data = |name: &str| file.section_by_name(name)?.data().ok().map(<[u8]>::to_vec);
    let segment = file.segments().find(|segment| {
        let (start, size) = segment.file_range();
        mapping.pgoff.wrapping_sub(start) < size
    })?;
    let address = mapping.pgoff - segment.file_range().0 + segment.address();
    let sections = ExplicitModuleSectionInfo {
        text_svma: range(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..ExplicitModuleSectionInfo::default()
    };
    let base = mapping.start.checked_sub(address)?;
    Some(Module::new(path.to_owned(), mapping.start..mapping.end, base, sections))
}

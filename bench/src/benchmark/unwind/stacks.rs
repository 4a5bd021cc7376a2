//! The copied stacks of a recording, unwound in this process on one thread: by tare's library, and
//! by framehop as samply uses it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, ExplicitModuleSectionInfo, Module, Unwinder as _};
use object::elf::PF_X;
use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};
use tare_symbols::{
    AddressSpaces, Mapping, Registers, Stack, SymbolOptions, UnwindCache, UnwindOutcome, Unwinder,
};

use super::recordings::{Change, CopiedStack, RecordedStacks};

/// The result of unwinding the stacks of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Unwinding {
    /// Nanoseconds from an unwinder that has read nothing to the last address.
    pub(super) ns: u128,
    /// The addresses of all stacks, one after the other.
    pub(super) addresses: Vec<u64>,
    /// For each stack, the number of addresses up to its end.
    ends: Vec<usize>,
    /// For each stack, how it ended and why.
    reasons: Vec<(End, &'static str)>,
}

/// How far a stack was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Whole,
    Truncated,
    Failed,
}

impl Unwinding {
    fn end_stack(&mut self, end: End, why: &'static str) {
        self.ends.push(self.addresses.len());
        self.reasons.push((end, why));
    }

    pub(super) fn stack(&self, at: usize) -> &[u64] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.addresses[begin..self.ends[at]]
    }

    /// Counts the stacks that both unwound to the same addresses, stack by stack.
    pub(super) fn count_equal(&self, other: &Self) -> usize {
        (0..self.ends.len()).filter(|at| self.stack(*at) == other.stack(*at)).count()
    }

    /// Counts the stacks that both call whole, with different addresses.
    pub(super) fn count_contradictions(&self, other: &Self) -> usize {
        let is_whole = |of: &Self, at: usize| of.reasons[at].0 == End::Whole;
        (0..self.ends.len())
            .filter(|at| is_whole(self, *at) && is_whole(other, *at))
            .filter(|at| self.stack(*at) != other.stack(*at))
            .count()
    }

    /// The share of stacks that ended so.
    pub(super) fn share(&self, wanted: End) -> f64 {
        let ended = self.reasons.iter().filter(|(end, _)| *end == wanted).count();
        ended as f64 / self.reasons.len() as f64
    }

    /// `1200 the copy ended, 3 no binary`: reasons of incomplete stacks, with their number.
    pub(super) fn list_reasons(&self) -> String {
        let mut counts: BTreeMap<(End, &str), usize> = BTreeMap::new();
        for reason in self.reasons.iter().filter(|(end, _)| *end != End::Whole) {
            *counts.entry(*reason).or_default() += 1;
        }
        let list = counts.iter().map(|((_, why), stacks)| format!("{stacks} {why}"));
        list.collect::<Vec<_>>().join(", ")
    }
}

/// Unwinds with tare's library. For each stack `visit` gets the address spaces, the pid and the
/// stack's addresses.
pub(super) fn unwind_with_tare(
    recorded: &RecordedStacks,
    mut visit: impl FnMut(&AddressSpaces, i32, &[u64]),
) -> Unwinding {
    let mut all = Unwinding::default();
    let begin = Instant::now();
    let unwinder = Unwinder::new(SymbolOptions::default());
    let mut cache = UnwindCache::default();
    let mut spaces = AddressSpaces::default();
    for change in &recorded.changes {
        match change {
            Change::Execve { pid } => spaces.remove(*pid),
            Change::Fork { parent, child } => spaces.fork(*parent, *child),
            Change::Map { pid, mapping, .. } => spaces.add(*pid, *mapping),
            Change::Stack(stack) => {
                let CopiedStack { pid, registers, copy } = &**stack;
                let Some(space) = spaces.space(*pid) else {
                    all.end_stack(End::Failed, "no process");
                    continue;
                };
                let stack = Stack { registers, copy, frame_pointers: &[] };
                let first = all.addresses.len();
                let dsos = &recorded.dsos;
                let (outcome, _) =
                    unwinder.unwind(&mut cache, dsos, space, &stack, &mut all.addresses);
                visit(&spaces, *pid, &all.addresses[first..]);
                let end = match outcome {
                    UnwindOutcome::Whole => End::Whole,
                    outcome if outcome.is_truncated() => End::Truncated,
                    _ => End::Failed,
                };
                all.end_stack(end, outcome.reason());
            }
        }
    }
    Unwinding { ns: begin.elapsed().as_nanos(), ..all }
}

/// Unwinds with framehop: an unwinder for each process, one cache, and each file read once.
pub(super) fn unwind_with_framehop(recorded: &RecordedStacks) -> Unwinding {
    let mut all = Unwinding::default();
    let begin = Instant::now();
    let mut files = ModuleFiles::default();
    let mut processes: HashMap<i32, UnwinderX86_64<Arc<[u8]>>> = HashMap::new();
    let mut cache = CacheX86_64::new();
    for change in &recorded.changes {
        match change {
            Change::Execve { pid } => drop(processes.remove(pid)),
            Change::Fork { parent, child } => {
                if let Some(unwinder) = processes.get(parent).cloned() {
                    processes.insert(*child, unwinder);
                }
            }
            Change::Map { pid, mapping, code } => {
                let unwinder = processes.entry(*pid).or_default();
                if let Some(module) = code.as_ref().and_then(|path| files.module(mapping, path)) {
                    unwinder.add_module(module);
                }
            }
            Change::Stack(stack) => match processes.get(&stack.pid) {
                Some(unwinder) => unwind_stack(unwinder, &mut cache, stack, &mut all),
                None => all.end_stack(End::Failed, "no process"),
            },
        }
    }
    Unwinding { ns: begin.elapsed().as_nanos(), ..all }
}

fn unwind_stack(
    unwinder: &UnwinderX86_64<Arc<[u8]>>,
    cache: &mut CacheX86_64,
    stack: &CopiedStack,
    all: &mut Unwinding,
) {
    let Registers::X86_64 { ip, general } = &stack.registers else {
        return all.end_stack(End::Failed, "another processor");
    };
    let start = general[7];
    let mut read = |address: u64| {
        let at = usize::try_from(address.checked_sub(start).ok_or(())?).map_err(|_| ())?;
        let bytes = stack.copy.get(at..).and_then(<[u8]>::first_chunk).ok_or(())?;
        Ok(u64::from_le_bytes(*bytes))
    };
    let registers = UnwindRegsX86_64::new(*ip, start, general[6]);
    let mut frames = unwinder.iter_frames(*ip, registers, cache, &mut read);
    let (end, why) = loop {
        match frames.next() {
            Ok(Some(frame)) => all.addresses.push(frame.address_for_lookup()),
            Ok(None) => break (End::Whole, "whole"),
            Err(Error::CouldNotReadStack(_)) => break (End::Truncated, "the copy ended"),
            Err(Error::ReturnAddressIsNull) => break (End::Failed, "no return address"),
            Err(_) => break (End::Failed, "went backwards"),
        }
    };
    all.end_stack(end, why);
}

/// Unwind tables of files, for framehop's modules.
#[derive(Default)]
struct ModuleFiles(HashMap<PathBuf, Option<ModuleFile>>);

struct ModuleFile {
    sections: ExplicitModuleSectionInfo<Arc<[u8]>>,
    /// Segments with code.
    segments: Vec<FileSegment>,
}

struct FileSegment {
    offset: u64,
    bytes: u64,
    address: u64,
}

impl ModuleFiles {
    /// Returns the module of a mapping; `None` if the file can't be read, or the mapping holds no
    /// code of it.
    fn module(&mut self, mapping: &Mapping, path: &Path) -> Option<Module<Arc<[u8]>>> {
        let file = self.0.entry(path.to_owned()).or_insert_with(|| ModuleFile::read(path));
        let file = file.as_ref()?;
        // Mappings are rounded to whole pages, so one may begin before its segment.
        let end = mapping.pgoff + (mapping.end - mapping.start);
        let is_mapped = |segment: &&FileSegment| {
            segment.offset < end && mapping.pgoff < segment.offset + segment.bytes
        };
        let segment = file.segments.iter().find(is_mapped)?;
        let start = mapping.pgoff.wrapping_sub(segment.offset).wrapping_add(segment.address);
        let base = mapping.start.checked_sub(start)?;
        let name = path.display().to_string();
        Some(Module::new(name, mapping.start..mapping.end, base, file.sections.clone()))
    }
}

impl ModuleFile {
    fn read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let is_code = |segment: &object::Segment<'_, '_, _>| match segment.flags() {
            SegmentFlags::Elf { p_flags, .. } => p_flags.contains(PF_X),
            _ => false,
        };
        let segments = file.segments().filter(is_code).map(|segment| {
            let (offset, bytes) = segment.file_range();
            FileSegment { offset, bytes, address: segment.address() }
        });
        Some(Self { segments: segments.collect(), sections: sections(&file) })
    }
}

fn sections<'d, R: ReadRef<'d>>(
    file: &object::File<'d, R>,
) -> ExplicitModuleSectionInfo<Arc<[u8]>> {
    let range = |name: &str| -> Option<Range<u64>> {
        let section = file.section_by_name(name)?;
        Some(section.address()..section.address() + section.size())
    };
    let data = |name: &str| file.section_by_name(name)?.data().ok().map(Arc::from);
    ExplicitModuleSectionInfo {
        text_svma: range(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..ExplicitModuleSectionInfo::default()
    }
}

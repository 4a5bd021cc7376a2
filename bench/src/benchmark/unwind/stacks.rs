//! The copied stacks of a recording, unwound in this process on one thread: by tare's library, and by
//! framehop as samply uses it.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};
use object::{Object, ObjectSection, ObjectSegment};
use tare_format::file::Reader;
use tare_format::record::{Mmap, Record, Sample, kind};
use tare_symbols::{
    AddressSpace, Dso, DsoKind, DsoTable, Mapping, Registers, Stack, SymbolOptions, UnwindCache,
    Unwinder, Unwound,
};

/// `PROT_EXEC` of `mmap(2)`.
const PROT_EXEC: u32 = 4;

/// One process's stacks, and what it had mapped.
#[derive(Default)]
pub(super) struct Stacks {
    dsos: DsoTable,
    space: AddressSpace,
    code: Vec<(Mapping, String)>,
    stacks: Vec<(Registers, Vec<u8>)>,
}

/// What unwinding all of them took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unwinding {
    pub(super) frames: u64,
    pub(super) whole: u64,
    pub(super) ns: u128,
}

impl Stacks {
    /// The samples of the process that has most, those of user mode.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let mut by_pid: HashMap<i32, Self> = HashMap::new();
        let mut reader = Reader::open(File::open(path)?)?;
        while let Some(entry) = reader.next_record()? {
            let raw = entry.record;
            if raw.kind == kind::PERF_RECORD_SAMPLE {
                let Some(layout) = entry.description.lookup().layout_of(&raw) else { continue };
                let Ok(sample) = Sample::decode(&raw, layout) else { continue };
                let process = by_pid.entry(sample.head.pid.unwrap_or(-1)).or_default();
                process.stacks.extend(copied(&sample));
            } else if let Ok(Record::Mmap(mmap)) = raw.decode() {
                by_pid.entry(mmap.pid).or_default().map(&mmap);
            }
        }
        Ok(by_pid.into_values().max_by_key(|process| process.stacks.len()).unwrap_or_default())
    }

    pub(super) fn len(&self) -> usize {
        self.stacks.len()
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

    /// By tare's library.
    pub(super) fn by_tare(&self) -> Unwinding {
        let (unwinder, mut cache) =
            (Unwinder::new(SymbolOptions::default()), UnwindCache::default());
        let (mut all, mut addresses) = (Unwinding::default(), Vec::new());
        let begin = Instant::now();
        for (registers, copy) in &self.stacks {
            addresses.clear();
            let stack = Stack { registers, copy, frame_pointers: &[] };
            let place = (&self.dsos, &self.space);
            let (end, _) = unwinder.unwind(&mut cache, place, &stack, &mut addresses);
            all.frames += addresses.len() as u64;
            all.whole += u64::from(end == Unwound::Whole);
        }
        Unwinding { ns: begin.elapsed().as_nanos(), ..all }
    }

    /// By framehop: a module for each file with code, one cache, frames until the end or an error.
    pub(super) fn by_framehop(&self) -> Unwinding {
        let mut cache = CacheX86_64::<_>::new();
        let mut all = Unwinding::default();
        let begin = Instant::now();
        let mut unwinder = UnwinderX86_64::new();
        self.code.iter().filter_map(module).for_each(|module| unwinder.add_module(module));
        for (registers, copy) in &self.stacks {
            let Registers::X86_64 { ip, general } = registers else { continue };
            let start = general[7];
            let mut read = |address: u64| {
                let at = usize::try_from(address.checked_sub(start).ok_or(())?).map_err(|_| ())?;
                let bytes = copy.get(at..).and_then(<[u8]>::first_chunk).ok_or(())?;
                Ok(u64::from_le_bytes(*bytes))
            };
            let registers = UnwindRegsX86_64::new(*ip, start, general[6]);
            let mut frames = unwinder.iter_frames(*ip, registers, &mut cache, &mut read);
            loop {
                match frames.next() {
                    Ok(Some(_)) => all.frames += 1,
                    Ok(None) => break all.whole += 1,
                    Err(_) => break,
                }
            }
        }
        Unwinding { ns: begin.elapsed().as_nanos(), ..all }
    }
}

/// A sample's registers and stack, of x86-64.
fn copied(sample: &Sample<'_>) -> Option<(Registers, Vec<u8>)> {
    let (recorded, stack) = (sample.regs_user?, sample.stack_user?);
    let get = |number| recorded.get(number);
    // AX, DX, CX, BX, SI, DI, BP, SP, R8 to R15
    let general = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]
        .map(|number| get(number).unwrap_or(0));
    Some((Registers::X86_64 { ip: get(8)?, general }, stack.bytes.to_vec()))
}

/// A file where it was mapped.
fn module((mapping, path): &(Mapping, String)) -> Option<Module<Vec<u8>>> {
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
    Some(Module::new(path.clone(), mapping.start..mapping.end, base, sections))
}

//! The recorded machine as it was at a moment: threads, address spaces, and the symbols in them.

mod code;
mod forget;

use std::collections::HashMap;
use std::num::NonZeroUsize;

use tare_format::abi::bindings::{
    PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER, PERF_RECORD_MISC_CPUMODE_MASK,
    PERF_RECORD_MISC_FORK_EXEC, PERF_RECORD_MISC_GUEST_KERNEL,
};
use tare_format::file::Description;
use tare_format::record::{
    BuildId as RecordedBuildId, FileId as RecordedFile, Ksymbol, Mmap, RawRecord, Record, Sample,
    kind,
};
use tare_symbols::{
    AddressSpace, AddressSpaces, Dso, DsoAddress, DsoId, DsoKind, DsoTable, Frames, JitDump,
    Mapped, Mapping, NameSource, Symbol, SymbolOptions, Symbolizer, Unresolved, UnwindCache,
    Unwinder,
};

use crate::build_ids::{BuildIds, recorded_kernel};
use crate::callchain::{self, CodeAddress};
use crate::cpumode::CpuMode;
use crate::jit::JitCode;
use crate::mapping_names::{has_no_file, is_jitdump, module_name};
use crate::replayed::Replayed;
use crate::threads::{Thread, Threads};

/// Paths of cgroups that are kept, and the bytes of one: a machine has some hundreds.
const CGROUPS: usize = 1 << 16;
const CGROUP_PATH_BYTES: usize = 1 << 12;

/// `PROT_EXEC` of `mmap(2)`.
const PROT_EXEC: u32 = 4;

/// The kernel's name in a recording.
const KERNEL: &[u8] = b"[kernel.kallsyms]";

/// The recorded machine as it was at a moment: threads, address spaces, and the symbols in them.
#[derive(Debug)]
pub struct Machine {
    pub(crate) threads: Threads,
    pub(crate) build_ids: BuildIds,
    spaces: AddressSpaces,
    pub(crate) jit: JitCode,
    dsos: DsoTable,
    /// How many there were when those were forgotten that nothing was mapped of.
    kept_dsos: usize,
    symbolizer: Symbolizer,
    unwinder: Unwinder,
    unwind_cache: UnwindCache,
    /// Paths by the ids that samples carry.
    cgroups: HashMap<u64, Box<[u8]>>,
    kernel: Option<Mapping>,
    /// The user part of the call chain of the sample whose turn it is, where it was not recorded
    /// with the sample: its copied stack was unwound, or it came later.
    pub(crate) user_chain: Option<Vec<u64>>,
    /// Who ended the wait that the sample is.
    pub(crate) waker_chain: Vec<CodeAddress>,
}

impl Machine {
    pub(crate) fn new(options: SymbolOptions) -> Self {
        Self {
            threads: Threads::default(),
            build_ids: BuildIds::default(),
            spaces: AddressSpaces::default(),
            jit: JitCode::default(),
            dsos: DsoTable::default(),
            kept_dsos: 0,
            unwinder: Unwinder::new(options.clone()),
            unwind_cache: UnwindCache::default(),
            symbolizer: Symbolizer::new(options),
            cgroups: HashMap::new(),
            kernel: None,
            user_chain: None,
            waker_chain: Vec::new(),
        }
    }

    /// Learns what records of the recorder's own added to a recording's description.
    pub(crate) fn learn_notes(&mut self, description: &Description) {
        self.threads.learn(description);
        self.jit.learn(description, self.symbolizer.recorded_processes());
    }

    /// Learns which kernel was recorded, and the build ids that a recording lists.
    pub(crate) fn learn(&mut self, description: &Description) {
        let listed = recorded_kernel(description, &mut self.build_ids);
        let kernel = self.symbolizer.recorded_kernel();
        kernel.release = listed.release.or(kernel.release.take());
        kernel.arch = listed.arch.or(kernel.arch.take());
        kernel.build_id = listed.build_id.or(kernel.build_id);
    }

    fn learn_build_id(&mut self, listed: &RecordedBuildId<'_>) {
        if let Some(kernel) = self.build_ids.add(listed) {
            self.symbolizer.recorded_kernel().build_id = Some(kernel);
        }
    }

    /// Takes in a record that is no sample.
    pub(super) fn take_in(
        &mut self,
        description: &Description,
        raw: &RawRecord<'_>,
        record: &Record<'_>,
    ) {
        if raw.kind >= kind::USER_TYPE_START {
            self.learn_notes(description);
            if raw.kind == kind::HEADER_FEATURE {
                self.learn(description);
            }
        }
        self.apply(raw, record);
    }

    /// Takes in what a record changes.
    fn apply(&mut self, raw: &RawRecord<'_>, record: &Record<'_>) {
        match record {
            // With a new program come new maps, which replace those in their way. The others stay:
            // a thread that is about to leave execve(2) still has return addresses of the program
            // before.
            Record::Comm(comm) => {
                self.threads.set_comm(comm);
                if comm.is_exec {
                    self.jit.exec(comm.pid);
                }
            }
            Record::Fork(task) => {
                self.threads.fork(task);
                // Of what ran before the recording, the recorder describes each process's maps
                // itself.
                if u32::from(raw.misc) & PERF_RECORD_MISC_FORK_EXEC == 0 {
                    self.spaces.fork(task.ppid, task.pid);
                    self.jit.fork(task.ppid, task.pid);
                }
            }
            Record::Exit(task) => {
                if let Some((pid, _)) = self.threads.exit(task).filter(|(pid, tid)| pid == tid) {
                    self.spaces.remove(pid);
                    self.jit.remove(pid);
                }
            }
            Record::Mmap(mmap) if CpuMode::of_misc(raw.misc) == CpuMode::Kernel => {
                self.map_kernel(mmap);
            }
            Record::Mmap(mmap)
                if u32::from(raw.misc) & PERF_RECORD_MISC_CPUMODE_MASK
                    != PERF_RECORD_MISC_GUEST_KERNEL =>
            {
                self.map_user(mmap);
            }
            Record::Ksymbol(ksymbol) => self.map_ksymbol(ksymbol),
            Record::Cgroup(cgroup)
                if self.cgroups.len() < CGROUPS && cgroup.path.len() <= CGROUP_PATH_BYTES =>
            {
                self.cgroups.insert(cgroup.id, cgroup.path.into());
            }
            Record::BuildId(listed) => self.learn_build_id(listed),
            _ => {}
        }
    }

    fn intern(&mut self, kind: DsoKind, name: &[u8], file: &RecordedFile<'_>) -> Option<DsoId> {
        let build_id = self.build_ids.of(name, file);
        let inode = match file {
            RecordedFile::Inode { inode, .. } if kind == DsoKind::Elf => Some(*inode),
            _ => None,
        };
        self.dsos.intern_file(Dso { kind, name: name.to_vec(), build_id }, inode)
    }

    fn map_kernel(&mut self, mmap: &Mmap<'_>) {
        let symbol = mmap.path.strip_prefix(KERNEL);
        let dso = match symbol {
            Some(_) => {
                let build_id = self.build_ids.of(KERNEL, &mmap.file);
                let kernel = self.symbolizer.recorded_kernel();
                kernel.build_id = build_id.or(kernel.build_id);
                Dso { kind: DsoKind::Kernel, name: KERNEL.to_vec(), build_id: kernel.build_id }
            }
            // Build ids are listed by the path that was recorded.
            None => Dso {
                kind: DsoKind::Module,
                name: module_name(mmap.path),
                build_id: self.build_ids.of(mmap.path, &mmap.file),
            },
        };
        let Some(dso) = self.dsos.intern(dso) else { return };
        if let Some(symbol) = symbol.filter(|_| mmap.pgoff != 0) {
            self.symbolizer.recorded_kernel().reference = Some((symbol.to_vec(), mmap.pgoff));
        }
        // The symbols of the kernel and its modules are known by their addresses.
        let (start, end) = (mmap.start, mmap.start.saturating_add(mmap.len));
        let mut map = Mapping { start, end, pgoff: start, dso };
        self.kernel = symbol.map(|_| map).or(self.kernel);
        if symbol.is_none() {
            self.dsos.note_mapped(dso, Mapped { pid: mmap.pid, start, end });
            // One that was unloaded and came back elsewhere is known where it lay first.
            map.pgoff = self.dsos.first_mapped(dso).map_or(start, |first| first.start);
            if mmap.path.starts_with(b"/") {
                self.dsos.note_path(dso, mmap.path);
            }
        }
        self.spaces.add_kernel(map);
    }

    fn map_user(&mut self, mmap: &Mmap<'_>) {
        let (start, end) = (mmap.start, mmap.start.saturating_add(mmap.len));
        let is_code =
            !mmap.is_data && (mmap.prot & PROT_EXEC != 0 || mmap.file == RecordedFile::None);
        let (kind, name, pgoff) = match mmap.path {
            path if is_code && is_jitdump(path) => return self.map_jitdump(mmap),
            b"[vdso]" => (DsoKind::Vdso, mmap.path.to_vec(), 0),
            path if has_no_file(path) && is_code => (
                DsoKind::PerfMap { pid: mmap.pid },
                format!("/tmp/perf-{}.map", mmap.pid).into_bytes(),
                start,
            ),
            path if has_no_file(path) => (DsoKind::Anonymous, path.to_vec(), start),
            path if path.starts_with(b"/") => (DsoKind::Elf, path.to_vec(), mmap.pgoff),
            path => (DsoKind::Anonymous, path.to_vec(), mmap.pgoff),
        };
        if kind == DsoKind::Elf {
            self.jit.see_file(mmap.pid, &name);
        }
        if let Some(dso) = self.intern(kind, &name, &mmap.file) {
            if kind == DsoKind::Elf {
                self.dsos.note_mapped(dso, Mapped { pid: mmap.pid, start, end });
            }
            self.spaces.add(mmap.pid, Mapping { start, end, pgoff, dso });
        }
    }

    /// A process maps its jitdump as code, which is how profilers learn of it.
    fn map_jitdump(&mut self, mmap: &Mmap<'_>) {
        let pid = mmap.pid;
        let name = mmap.path.to_vec();
        let dso = Dso { kind: DsoKind::JitDump { pid }, name, build_id: None };
        let Some(dso) = self.dsos.intern(dso) else { return };
        let dump = match self.symbolizer.jitdump(&self.dsos, dso) {
            Ok(dump) => dump,
            Err(why) => return self.jit.note_unread(pid, why, mmap.path),
        };
        if self.jit.map(pid, dso, dump.changes(), !dump.has_cpu_time()) {
            self.spaces.renew(pid);
        }
    }

    /// The time is this by now, in nanoseconds of the recording's clock.
    pub(crate) fn advance(&mut self, time_ns: u64) {
        let Self { jit, spaces, symbolizer, dsos, .. } = self;
        let changes = |dso| symbolizer.jitdump(dsos, dso).map_or(&[][..], JitDump::changes);
        jit.advance(time_ns, changes, |pid| spaces.renew(pid));
    }

    /// Whether it is a module of the kernel: the end of its mapping may be that of its code and data
    /// together, which lie apart, with other code behind the first.
    fn is_module(&self, dso: DsoId) -> bool {
        self.dsos.get(dso).is_some_and(|dso| dso.kind == DsoKind::Module)
    }

    fn map_ksymbol(&mut self, ksymbol: &Ksymbol<'_>) {
        let start = ksymbol.addr;
        let end = ksymbol.addr.saturating_add(ksymbol.len.into());
        let kind = DsoKind::Ksymbol { bytes: ksymbol.len.into() };
        if u32::from(ksymbol.flags) & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER != 0 {
            self.spaces.remove_kernel(start, end);
        } else if self.spaces.find_kernel(start).is_none_or(|map| self.is_module(map.dso))
            && let Some(dso) = self.intern(kind, ksymbol.name, &RecordedFile::None)
        {
            self.spaces.add_kernel(Mapping { start, end, pgoff: 0, dso });
        }
    }

    /// A thread as it is now.
    #[must_use]
    pub fn thread(&self, tid: i32) -> Option<&Thread> {
        self.threads.get(tid)
    }

    /// The name of a thread, where it is known. Untrusted.
    #[must_use]
    pub fn comm(&self, tid: i32) -> Option<&[u8]> {
        self.threads.get(tid)?.comm()
    }

    /// The path of a cgroup by the id that samples carry. Untrusted.
    #[must_use]
    pub fn cgroup(&self, id: u64) -> Option<&[u8]> {
        self.cgroups.get(&id).map(AsRef::as_ref)
    }

    /// What is known of a DSO.
    #[must_use]
    pub fn dso(&self, dso: DsoId) -> Option<&Dso> {
        self.dsos.get(dso)
    }

    /// The version of the mappings that addresses of this mode are looked up in: as long as it is the
    /// same, each address lies where it lay. `None` where nothing is ever mapped.
    #[must_use]
    pub fn mappings_version(&self, mode: CpuMode, pid: i32) -> Option<u64> {
        match mode.in_process(pid) {
            (CpuMode::Kernel, _) => Some(self.spaces.kernel_version()),
            (CpuMode::User, pid) => Some(self.spaces.user_version(pid)),
            _ => None,
        }
    }

    /// Bytes of the mapping that an address lies in; `None` where nothing was mapped.
    #[must_use]
    pub fn mapping_bytes(&self, mode: CpuMode, pid: i32, address: u64) -> Option<u64> {
        self.mapping(mode, pid, address).map(|map| map.end.saturating_sub(map.start))
    }

    fn mapping(&self, mode: CpuMode, pid: i32, address: u64) -> Option<&Mapping> {
        match mode.in_process(pid) {
            (CpuMode::Kernel, _) => self.spaces.find_kernel(address),
            (CpuMode::User, pid) => self.spaces.find_user(pid, address),
            _ => None,
        }
    }

    /// The DSO that an address lies in; `None` where nothing was mapped.
    pub fn dso_address(&self, mode: CpuMode, pid: i32, address: u64) -> Option<DsoAddress> {
        let map = self.mapping(mode, pid, address);
        // A later mapping of a file lies where there was compiled code.
        let has_file = |map: &&Mapping| {
            let kind = self.dsos.get(map.dso).map(|dso| dso.kind);
            !matches!(kind, Some(DsoKind::PerfMap { .. } | DsoKind::Anonymous))
        };
        if mode == CpuMode::User
            && map.filter(has_file).is_none()
            && let Some(at) = self.jit.find(pid, address)
        {
            return Some(at);
        }
        if let Some(map) = map {
            return Some(DsoAddress { dso: map.dso, address: map.to_dso(address) });
        }
        // A recording has the kernel's text. What runs while it starts lies behind, and call chains
        // of the idle thread begin there.
        let kernel = self
            .kernel
            .filter(|_| mode == CpuMode::Kernel)
            .filter(|kernel| address >= kernel.start)?;
        let at = DsoAddress { dso: kernel.dso, address: kernel.to_dso(address) };
        self.symbol(at).is_ok().then_some(at)
    }

    /// The call chain of a sample, the innermost address first: at most `most` addresses that were
    /// recorded, and as many of a copied stack. Empty where there is none.
    pub fn callchain(
        &mut self,
        sample: &Replayed<'_, Sample<'_>>,
        most: usize,
        chain: &mut Vec<CodeAddress>,
    ) {
        let layouts = sample.description.lookup().layouts();
        let layout = sample.event.and_then(|event| layouts.get(event));
        callchain::read(sample.fields, layout, most, self.user_chain.is_none(), chain);
        let user = self.user_chain.iter().flatten().take(most);
        chain.extend(user.map(|ip| CodeAddress { mode: CpuMode::User, address: *ip }));
        chain.extend_from_slice(&self.waker_chain);
    }

    /// Whether a function keeps a frame pointer; `None` where nothing is known of it.
    pub(crate) fn keeps_frame_pointer(&mut self, at: DsoAddress) -> Option<bool> {
        let Self { unwinder, unwind_cache, dsos, .. } = self;
        unwinder.keeps_frame_pointer(unwind_cache, dsos, at.dso, at.address)
    }

    /// The address space of a process.
    pub(crate) fn user_space(&self, pid: i32) -> Option<&AddressSpace> {
        self.spaces.of(pid)
    }

    pub(crate) fn dsos(&self) -> &DsoTable {
        &self.dsos
    }

    /// The symbol that an address in a DSO lies in.
    ///
    /// # Errors
    /// There is none: why.
    pub fn symbol(&self, at: DsoAddress) -> Result<Symbol, Unresolved> {
        self.symbolizer.find(&self.dsos, at.dso, at.address).map_err(|why| {
            match self.dsos.get(at.dso).map(|dso| dso.kind) {
                Some(DsoKind::PerfMap { pid }) if why == Unresolved::NoFile => {
                    self.jit.why_unnamed(pid)
                }
                _ => why,
            }
        })
    }

    /// Whether a DSO's file, or its debug file, has all of its symbols: what has no name then has none
    /// anywhere.
    #[must_use]
    pub fn has_all_symbols(&self, dso: DsoId) -> bool {
        self.symbolizer.has_all_symbols(dso)
    }

    /// The name of a symbol. Untrusted.
    pub fn symbol_name(&self, symbol: Symbol) -> &str {
        self.symbolizer.name(symbol)
    }

    /// Functions, inlined ones too, and lines of source: see [`Symbolizer::frames`].
    #[must_use]
    pub fn frames(&self, addresses: &[DsoAddress], threads: NonZeroUsize) -> Frames<'_> {
        self.symbolizer.frames(&self.dsos, addresses, threads)
    }

    /// Where a symbol's name comes from.
    #[must_use]
    pub fn name_source(&self, symbol: Symbol) -> Option<NameSource> {
        self.symbolizer.name_source(symbol)
    }

    /// A DSO's name as `perf` shows it. Untrusted.
    #[must_use]
    pub fn dso_name(&self, dso: DsoId) -> &[u8] {
        self.dsos.get(dso).map_or(b"[unknown]", |dso| &dso.name)
    }
}

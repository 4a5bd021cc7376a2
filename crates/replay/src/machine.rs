//! The recorded machine at a point in time: threads, address spaces, and the symbols in them.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;

use tare_format::abi::Attr;
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
    AddressSpace, AddressSpaces, BuildId, Dso, DsoAddress, DsoId, DsoKind, DsoMapping,
    DsoRenumbering, DsoTable, FileIdentity, FunctionCode, JitDump, Mapping, NameSource,
    ResolvedFrames, Symbol, SymbolOptions, Symbolizer, Unresolved, UnwindCache, Unwinder,
};

use crate::build_ids::{BuildIds, recorded_kernel};
use crate::callchain::{self, ChainDepths, CodeAddress};
use crate::cpumode::CpuMode;
use crate::jit::{DumpTimes, JitCode};
use crate::mapping_names::{has_no_file, is_jitdump, module_name};
use crate::recorded_chains::RecordedChains;
use crate::recorded_time::RecordedTime;
use crate::replayed::Replayed;
use crate::threads::{Thread, Threads};

/// Whether a record is of a task outside of the recorder's pid namespace. The kernel numbers all
/// such tasks 0: taken for one task, each would lend its name and mappings to the others.
pub(crate) fn is_of_unknown_task(raw: &RawRecord<'_>, record: &Record<'_>) -> bool {
    match record {
        Record::Comm(comm) => comm.tid == 0 && !comm.comm.starts_with(b"swapper"),
        Record::Fork(task) | Record::Exit(task) => task.tid == 0,
        Record::Mmap(mmap) => mmap.pid == 0 && CpuMode::from_misc(raw.misc) == CpuMode::User,
        _ => false,
    }
}

/// Limits of cgroup paths, in number and in bytes each. A machine has some hundreds.
const CGROUPS: usize = 1 << 16;
const CGROUP_PATH_BYTES: usize = 1 << 12;

/// Number of new DSOs, besides as many as were kept the last time, after which those that nothing
/// maps are dropped.
const NEW_DSOS: usize = 256;

/// Bytes of unused symbols after which a machine drops DSOs. One large program's symbols take as
/// much.
const UNUSED_BYTES: usize = 16 << 20;

/// `PROT_EXEC` of `mmap(2)`.
const PROT_EXEC: u32 = 4;

/// The recorded name of memory without a file.
const ANONYMOUS: &[u8] = b"//anon";

/// The kernel's name in a recording.
const KERNEL: &[u8] = b"[kernel.kallsyms]";

/// The recorded machine at a point in time: threads, address spaces, and the symbols in them.
#[derive(Debug)]
pub struct Machine {
    pub(crate) threads: Threads,
    spaces: AddressSpaces,
    pub(crate) jit: JitCode,
    dsos: RecordedDsos,
    symbolizer: Symbolizer,
    frame_pointers: FramePointerLookup,
    /// Paths by the ids that samples carry.
    cgroups: HashMap<u64, Box<[u8]>>,
    pub(crate) chain_parts: ChainParts,
    pub(crate) time: RecordedTime,
    pub(crate) recorded_chains: RecordedChains,
}

/// The DSOs of the mappings so far, without those that were dropped, and the listed build ids.
#[derive(Debug, Default)]
struct RecordedDsos {
    table: DsoTable,
    build_ids: BuildIds,
    /// Number of DSOs that were kept when unmapped ones were dropped last.
    kept: usize,
    /// The kernel's mapping.
    kernel: Option<Mapping>,
}

impl RecordedDsos {
    /// Whether unmapped DSOs should be dropped, because many are new.
    fn has_many_new(&self) -> bool {
        self.table.len() > self.kept * 2 + NEW_DSOS
    }

    fn has_compiled(&self) -> bool {
        self.table.iter().any(|dso| is_compiled(dso.kind))
    }

    /// Drops unused DSOs. Returns the new ids of the others.
    fn retain(&mut self, is_used: impl Fn(DsoId) -> bool) -> DsoRenumbering {
        let new_ids = self.table.retain(is_used);
        self.kept = self.table.len();
        new_ids
    }
}

/// Unwinding tables, which show whether a function keeps a frame pointer.
#[derive(Debug)]
struct FramePointerLookup {
    unwinder: Unwinder,
    /// The unwinder's tables that were read so far.
    cache: UnwindCache,
}

impl FramePointerLookup {
    fn new(options: SymbolOptions) -> Self {
        Self { unwinder: Unwinder::new(options), cache: UnwindCache::default() }
    }

    /// Whether following frame pointers finds a function's caller; `None` if that is unknown.
    fn keeps_frame_pointer(&mut self, dsos: &DsoTable, at: DsoAddress) -> Option<bool> {
        self.unwinder.keeps_frame_pointer(&mut self.cache, dsos, at)
    }
}

/// Where an address of a call chain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameLocation {
    /// In code, or at the CPU's own address. `None` if nothing is mapped there.
    Code(Option<DsoAddress>),
    /// A return address in memory that isn't code: the call chain is wrong from there on.
    OutsideCode,
}

/// Parts of the current sample's call chain that its recorded chain lacks.
#[derive(Debug, Default)]
pub(crate) struct ChainParts {
    /// The user part: unwound from a copied stack, or from a later record.
    pub(crate) user: Option<UserPart>,
    /// The chain of the task that ended the wait, for a sample of off-CPU time.
    pub(crate) waker: Vec<CodeAddress>,
    pub(crate) depths: ChainDepths,
    /// Whether the chain lacks its outermost callers: the kernel's limit of frames cut it, or the
    /// copied stack ended.
    pub(crate) is_truncated: bool,
}

/// The user part of a call chain, innermost address first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserPart {
    pub(crate) addresses: Vec<u64>,
    /// Whether the callers' addresses are return addresses; an unwound stack has those of the
    /// calls.
    pub(crate) has_return_addresses: bool,
    /// Whether a copied stack ended before its outermost caller.
    pub(crate) is_truncated: bool,
}

impl UserPart {
    pub(crate) fn unwound(addresses: Vec<u64>) -> Self {
        Self { addresses, has_return_addresses: false, is_truncated: false }
    }

    /// Creates the user part from the addresses of a record of its own.
    pub(crate) fn recorded(addresses: Vec<u64>) -> Self {
        Self { addresses, has_return_addresses: true, is_truncated: false }
    }

    fn iter(&self) -> impl Iterator<Item = CodeAddress> {
        self.addresses.iter().enumerate().map(|(depth, address)| CodeAddress {
            mode: CpuMode::User,
            address: *address,
            is_return: self.has_return_addresses && depth > 0,
        })
    }
}

impl ChainParts {
    /// Finds out whether the call chain of a sample of an event with this attribute is truncated.
    pub(crate) fn note_depth(&mut self, attr: &Attr, sample: &Sample<'_>) {
        let user = self.user.as_ref();
        self.is_truncated = user.is_some_and(|user| user.is_truncated);
        let by_frame_pointers = sample.stack_user.is_none() && sample.branches.is_none();
        if let Some(chain) = sample.callchain.filter(|_| by_frame_pointers) {
            let recorded = user.filter(|user| user.has_return_addresses);
            let user_frames = recorded.map(|user| user.addresses.len());
            self.is_truncated |= self.depths.count(attr, &chain, user_frames);
        }
    }

    /// Appends the parts to the recorded part of a call chain: at most `most` addresses of the user
    /// part, then the waker's chain.
    fn append_to(&self, most: usize, chain: &mut Vec<CodeAddress>) {
        chain.extend(self.user.iter().flat_map(UserPart::iter).take(most));
        chain.extend_from_slice(&self.waker);
    }
}

impl Machine {
    pub(crate) fn new(options: SymbolOptions) -> Self {
        Self {
            threads: Threads::default(),
            spaces: AddressSpaces::default(),
            jit: JitCode::default(),
            dsos: RecordedDsos::default(),
            frame_pointers: FramePointerLookup::new(options.clone()),
            symbolizer: Symbolizer::new(options),
            cgroups: HashMap::new(),
            chain_parts: ChainParts::default(),
            time: RecordedTime::default(),
            recorded_chains: RecordedChains::default(),
        }
    }

    /// Reads the recorder's new notes in a recording's description.
    pub(crate) fn learn_notes(&mut self, description: &Description) {
        self.threads.learn(description);
        self.recorded_chains.learn(description);
        self.jit.learn(description, self.symbolizer.recorded_processes());
    }

    /// Reads the clock, the first sample's time, the recorded kernel and the listed build ids from
    /// a recording's description.
    pub(crate) fn learn(&mut self, description: &Description) {
        self.time.learn(description);
        let listed = recorded_kernel(description, &mut self.dsos.build_ids);
        let kernel = self.symbolizer.recorded_kernel();
        kernel.release = listed.release.or(kernel.release.take());
        kernel.arch = listed.arch.or(kernel.arch.take());
        kernel.build_id = listed.build_id.or(kernel.build_id);
    }

    fn learn_build_id(&mut self, listed: &RecordedBuildId<'_>) {
        if let Some(kernel) = self.dsos.build_ids.add(listed) {
            self.symbolizer.recorded_kernel().build_id = Some(kernel);
        }
    }

    /// Applies a record other than a sample.
    pub(super) fn apply_record(
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

    fn apply(&mut self, raw: &RawRecord<'_>, record: &Record<'_>) {
        self.threads.running.apply(record);
        match record {
            record if is_of_unknown_task(raw, record) => {}
            // The new program's mappings replace those that they overlap. The others stay, because
            // a thread that is still in execve(2) has return addresses of the old program.
            Record::Comm(comm) => {
                self.threads.set_comm(comm);
                if comm.is_exec {
                    self.jit.forget_program(comm.pid);
                }
            }
            Record::Fork(task) => {
                self.threads.fork(task);
                // For processes older than the recording, the recorder describes all mappings.
                if u32::from(raw.misc) & PERF_RECORD_MISC_FORK_EXEC == 0 {
                    self.note_start(task.ppid, task.pid);
                    self.spaces.fork(task.ppid, task.pid);
                    self.jit.copy_code(task.ppid, task.pid);
                }
            }
            Record::Exit(task) => {
                if let Some((pid, _)) = self.threads.exit(task).filter(|(pid, tid)| pid == tid) {
                    self.spaces.remove(pid);
                    self.jit.forget_code(pid);
                }
            }
            Record::Mmap(mmap) if CpuMode::from_misc(raw.misc) == CpuMode::Kernel => {
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

    /// Notes when a process began that its parent forks now.
    fn note_start(&mut self, parent: i32, pid: i32) {
        if let Some(started_ns) = self.time.exact_wall_ns().filter(|_| parent != pid) {
            self.symbolizer.recorded_processes().note_start(pid, started_ns);
        }
    }

    fn intern(&mut self, kind: DsoKind, name: &[u8], file: &RecordedFile<'_>) -> Option<DsoId> {
        let build_id = self.dsos.build_ids.get(name, file);
        let identity = match *file {
            RecordedFile::Inode { major, minor, inode, generation } if kind == DsoKind::Elf => {
                Some(FileIdentity { device: (major, minor), inode, generation })
            }
            _ => None,
        };
        self.dsos.table.intern_file(Dso { kind, name: name.to_vec(), build_id }, identity)
    }

    fn map_kernel(&mut self, mmap: &Mmap<'_>) {
        let symbol = mmap.path.strip_prefix(KERNEL);
        let dso = match symbol {
            Some(_) => {
                let build_id = self.dsos.build_ids.get(KERNEL, &mmap.file);
                let kernel = self.symbolizer.recorded_kernel();
                kernel.build_id = build_id.or(kernel.build_id);
                Dso { kind: DsoKind::Kernel, name: KERNEL.to_vec(), build_id: kernel.build_id }
            }
            // The recording lists build ids by recorded path.
            None => Dso {
                kind: DsoKind::Module,
                name: module_name(mmap.path),
                build_id: self.dsos.build_ids.get(mmap.path, &mmap.file),
            },
        };
        let Some(dso) = self.dsos.table.intern(dso) else { return };
        if let Some(symbol) = symbol.filter(|_| mmap.pgoff != 0) {
            self.symbolizer.recorded_kernel().reference = Some((symbol.to_vec(), mmap.pgoff));
        }
        // Symbols of the kernel and its modules have absolute addresses.
        let start = mmap.start;
        let end = start.saturating_add(mmap.len);
        let mut map = Mapping { start, end, pgoff: start, dso, is_code: true };
        self.dsos.kernel = symbol.map(|_| map).or(self.dsos.kernel);
        if symbol.is_none() {
            let mapped = DsoMapping { pid: mmap.pid, start, end, mapped_ns: None };
            self.dsos.table.note_mapping(dso, mapped);
            // A module that was unloaded and loaded elsewhere keeps its first addresses.
            map.pgoff = self.dsos.table.first_mapped(dso).map_or(start, |first| first.start);
            if mmap.path.starts_with(b"/") {
                self.dsos.table.note_path(dso, mmap.path);
            }
        }
        self.spaces.add_kernel(map);
    }

    fn map_user(&mut self, mmap: &Mmap<'_>) {
        let start = mmap.start;
        let end = start.saturating_add(mmap.len);
        let is_code =
            !mmap.is_data && (mmap.prot & PROT_EXEC != 0 || mmap.file == RecordedFile::None);
        let (kind, name, pgoff) = match mmap.path {
            path if is_code && is_jitdump(path) => return self.map_jitdump(mmap),
            // This program's own vDSO is the 64-bit one.
            b"[vdso]" if end > u64::from(u32::MAX) => (DsoKind::Vdso, mmap.path.to_vec(), 0),
            b"[vdso]" => (DsoKind::Anonymous, mmap.path.to_vec(), 0),
            path if has_no_file(path) && is_code => {
                (DsoKind::PerfMap { pid: mmap.pid }, perf_map_path(mmap.pid), start)
            }
            path if has_no_file(path) => (DsoKind::Anonymous, path.to_vec(), start),
            path if path.starts_with(b"/") => (DsoKind::Elf, path.to_vec(), mmap.pgoff),
            path => (DsoKind::Anonymous, path.to_vec(), mmap.pgoff),
        };
        if kind == DsoKind::Elf {
            self.jit.detect_runtime(mmap.pid, &name);
        }
        if let Some(dso) = self.intern(kind, &name, &mmap.file) {
            if kind == DsoKind::Elf && is_code && self.is_compiled_code(mmap.pid, dso) {
                let memory = Mmap { path: ANONYMOUS, file: RecordedFile::None, ..*mmap };
                return self.map_user(&memory);
            }
            if kind == DsoKind::Elf {
                let mapped_ns = self.time.wall_ns();
                let mapped = DsoMapping { pid: mmap.pid, start, end, mapped_ns };
                self.dsos.table.note_mapping(dso, mapped);
            }
            let mapping = Mapping { start, end, pgoff, dso, is_code };
            self.spaces.add_with_text(mmap.pid, mapping, &self.dsos.table);
        }
    }

    /// Whether the code in a file's mapping was compiled at run time: the process has a perf map,
    /// and the file isn't an ELF file. .NET compiles into a memory file, and maps its libraries,
    /// which aren't ELF files. The kernel records build ids of ELF files only.
    fn is_compiled_code(&mut self, pid: i32, dso: DsoId) -> bool {
        let Self { jit, symbolizer, dsos, .. } = self;
        let has_build_id = dsos.table.get(dso).is_some_and(|dso| dso.build_id.is_some());
        let has_perf_map = || {
            let kind = DsoKind::PerfMap { pid };
            let map = Dso { kind, name: perf_map_path(pid), build_id: None };
            symbolizer.jit_file(&map).is_ok()
        };
        !has_build_id
            && jit.has_perf_map(pid, has_perf_map)
            && !symbolizer.has_elf_file(&dsos.table, dso)
    }

    /// Reads a jitdump. A process maps its jitdump as code to tell profilers of it.
    fn map_jitdump(&mut self, mmap: &Mmap<'_>) {
        let pid = mmap.pid;
        let name = mmap.path.to_vec();
        let dso = Dso { kind: DsoKind::JitDump { pid }, name, build_id: None };
        let Some(dso) = self.dsos.table.intern(dso) else { return };
        let dump = match self.symbolizer.jitdump(&self.dsos.table, dso) {
            Ok(dump) => dump,
            Err(reason) => return self.jit.note_unread(pid, reason, mmap.path),
        };
        let times = DumpTimes {
            created_ns: (!dump.has_cpu_time()).then(|| dump.created_ns()),
            mapped_ns: Some(self.time.now_ns).filter(|now_ns| *now_ns != 0),
        };
        if self.jit.add_dump(pid, dso, dump.changes(), times) {
            self.spaces.renew(pid);
        }
    }

    /// Applies the changes of compiled code up to a time, in nanoseconds of the recording's clock.
    pub(crate) fn advance(&mut self, time_ns: u64) {
        self.time.now_ns = time_ns;
        let Self { jit, spaces, symbolizer, dsos, .. } = self;
        let changes = |dso| symbolizer.jitdump(&dsos.table, dso).map_or(&[][..], JitDump::changes);
        jit.advance(time_ns, changes, |pid| spaces.renew(pid));
    }

    /// Whether a DSO is a kernel module. Its recorded mapping may span its code and its data, with
    /// other code between them.
    fn is_module(&self, dso: DsoId) -> bool {
        self.dsos.table.get(dso).is_some_and(|dso| dso.kind == DsoKind::Module)
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
            self.spaces.add_kernel(Mapping { start, end, pgoff: 0, dso, is_code: true });
        }
    }

    /// Returns how many recorded threads run now, at least 1, if switches were recorded.
    pub(crate) fn running_threads(&self) -> u64 {
        self.threads.running.count()
    }

    /// Returns the current state of a thread.
    #[must_use]
    pub fn thread(&self, tid: i32) -> Option<&Thread> {
        self.threads.get(tid)
    }

    /// Returns the name of a thread, if it is known. Untrusted.
    #[must_use]
    pub fn comm(&self, tid: i32) -> Option<&[u8]> {
        self.threads.get(tid)?.comm()
    }

    /// Returns the path of a cgroup by the id that samples carry. Untrusted.
    #[must_use]
    pub fn cgroup(&self, id: u64) -> Option<&[u8]> {
        self.cgroups.get(&id).map(AsRef::as_ref)
    }

    /// Returns a DSO by its id, or `None` for an unknown id.
    #[must_use]
    pub fn dso(&self, dso: DsoId) -> Option<&Dso> {
        self.dsos.table.get(dso)
    }

    /// Returns the version of the mappings of the kernel or of a process, by mode: while it stays
    /// the same, each address belongs to the same DSO. `None` for modes without mappings.
    #[must_use]
    pub fn mappings_version(&self, mode: CpuMode, pid: i32) -> Option<u64> {
        match mode.in_process(pid) {
            (CpuMode::Kernel, _) => Some(self.spaces.kernel_version()),
            (CpuMode::User, pid) => Some(self.spaces.user_version(pid)),
            _ => None,
        }
    }

    /// Returns the size in bytes of the mapping that contains an address.
    #[must_use]
    pub fn mapping_bytes(&self, mode: CpuMode, pid: i32, address: u64) -> Option<u64> {
        self.mapping(mode, pid, address).map(|map| map.end.saturating_sub(map.start))
    }

    pub(crate) fn mapping(&self, mode: CpuMode, pid: i32, address: u64) -> Option<&Mapping> {
        match mode.in_process(pid) {
            (CpuMode::Kernel, _) => self.spaces.find_kernel(address),
            (CpuMode::User, pid) => self.spaces.find_user(pid, address),
            _ => None,
        }
    }

    /// Returns the DSO of an address, and the address in it.
    pub fn dso_address(&self, mode: CpuMode, pid: i32, address: u64) -> Option<DsoAddress> {
        self.mapped_address(self.mapping(mode, pid, address), mode, pid, address)
    }

    /// Returns where an address of a call chain is.
    pub fn locate_frame(&self, pid: i32, at: CodeAddress) -> FrameLocation {
        let CodeAddress { mode, address, is_return } = at;
        let map = self.mapping(mode, pid, address);
        if is_return && self.is_outside_code(map, mode, pid, address) {
            return FrameLocation::OutsideCode;
        }
        FrameLocation::Code(self.mapped_address(map, mode, pid, address))
    }

    /// Like [`Self::dso_address`], for a known mapping of the address.
    fn mapped_address(
        &self,
        map: Option<&Mapping>,
        mode: CpuMode,
        pid: i32,
        address: u64,
    ) -> Option<DsoAddress> {
        // A file mapped over compiled code replaces it.
        let has_file = |map: &&Mapping| {
            let kind = self.dsos.table.get(map.dso).map(|dso| dso.kind);
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
        // A recording maps the kernel's text only. Call chains of the idle thread begin in the code
        // that starts the kernel, which lies behind the text.
        let kernel = self
            .dsos
            .kernel
            .filter(|_| mode == CpuMode::Kernel)
            .filter(|kernel| address >= kernel.start)?;
        let at = DsoAddress { dso: kernel.dso, address: kernel.to_dso(address) };
        self.symbol(at).is_ok().then_some(at)
    }

    /// Whether an address in this mapping isn't one of code. In a process without recorded
    /// mappings, any address may be code.
    fn is_outside_code(
        &self,
        map: Option<&Mapping>,
        mode: CpuMode,
        pid: i32,
        address: u64,
    ) -> bool {
        let (CpuMode::User, pid) = mode.in_process(pid) else { return false };
        let has_mappings =
            || self.spaces.space(pid).is_some_and(|space| space.mappings().next().is_some());
        match map {
            Some(map) => !map.is_code,
            None => has_mappings() && self.jit.find(pid, address).is_none(),
        }
    }

    /// Returns an address that is the same on every boot and in every process: the offset in the
    /// file, or in the kernel's or a module's memory. Code of perf maps keeps its address.
    #[must_use]
    pub fn portable_address(&self, at: DsoAddress) -> u64 {
        let base = match self.dso(at.dso).map(|dso| dso.kind) {
            Some(DsoKind::Kernel) => self.dsos.kernel.map(|kernel| kernel.start),
            Some(DsoKind::Module) => self.spaces.find_kernel(at.address).map(|map| map.start),
            _ => None,
        };
        at.address.wrapping_sub(base.unwrap_or(0))
    }

    /// Returns the build id of a DSO: see [`Symbolizer::build_id`].
    #[must_use]
    pub fn build_id(&self, dso: DsoId) -> Option<BuildId> {
        self.symbolizer.build_id(&self.dsos.table, dso)
    }

    /// Returns the program that a process runs: its first mapping of a file as code, because
    /// libraries lie above the program.
    #[must_use]
    pub fn program(&self, pid: i32) -> Option<DsoId> {
        let is_file = |dso: &DsoId| self.dso(*dso).is_some_and(|dso| dso.kind == DsoKind::Elf);
        let mappings = self.spaces.space(pid)?.mappings();
        mappings.filter(|map| map.is_code).map(|map| map.dso).find(is_file)
    }

    /// Whether the current sample's call chain lacks its outermost callers: the kernel's limit of
    /// frames cut it, or the copied stack ended.
    #[must_use]
    pub fn is_chain_truncated(&self) -> bool {
        self.chain_parts.is_truncated
    }

    /// Returns the address whose function and line a frame has: for a return address, the last byte
    /// of the call. Signal handlers return to code that didn't call them, and interrupts to any
    /// instruction; if that is a function's first one, the byte before it belongs to no call.
    #[must_use]
    pub fn call_site(&self, at: DsoAddress, is_return: bool) -> DsoAddress {
        if !is_return {
            return at;
        }
        let call = DsoAddress { address: at.address.wrapping_sub(1), ..at };
        let starts = |symbol: &Symbol| symbol.start == at.address;
        match self.symbol(at).ok().filter(starts) {
            Some(symbol) if self.is_interrupted_start(symbol, call) => at,
            _ => call,
        }
    }

    /// Whether a return to a function's first instruction comes from a signal handler or an
    /// interrupt. `before` is the last byte before the function.
    fn is_interrupted_start(&self, function: Symbol, before: DsoAddress) -> bool {
        let is_kernel = self.dso(function.dso).is_some_and(|dso| dso.kind.is_kernel());
        if !is_kernel {
            return self.symbolizer.returns_from_signal(&self.dsos.table, function);
        }
        // The kernel's functions follow padding, which may have a symbol of its own.
        let padding = self.symbol(before);
        padding.is_ok_and(|padding| self.symbol_name(padding).starts_with("__pfx_"))
            || padding.is_err()
    }

    /// Replaces `chain` with a sample's call chain, innermost address first: at most `most`
    /// recorded addresses, at most `most` of a user part from a copied stack or a later record, and
    /// the waker's chain in a sample of off-CPU time.
    pub fn callchain(
        &mut self,
        sample: &Replayed<'_, Sample<'_>>,
        most: usize,
        chain: &mut Vec<CodeAddress>,
    ) {
        let layouts = sample.description.lookup().layouts();
        let layout = sample.event.and_then(|event| layouts.get(event));
        callchain::read(sample.fields, layout, most, self.chain_parts.user.is_none(), chain);
        self.chain_parts.append_to(most, chain);
    }

    /// Whether a function keeps a frame pointer; `None` if that is unknown.
    pub(crate) fn keeps_frame_pointer(&mut self, at: DsoAddress) -> Option<bool> {
        self.frame_pointers.keeps_frame_pointer(&self.dsos.table, at)
    }

    pub(crate) fn user_space(&self, pid: i32) -> Option<&AddressSpace> {
        self.spaces.space(pid)
    }

    pub(crate) fn dsos(&self) -> &DsoTable {
        &self.dsos.table
    }

    /// Returns the symbol of an address in a DSO.
    ///
    /// # Errors
    /// Fails with the reason if the address has no symbol.
    pub fn symbol(&self, at: DsoAddress) -> Result<Symbol, Unresolved> {
        self.symbolizer.find(&self.dsos.table, at.dso, at.address).map_err(|reason| {
            match self.dsos.table.get(at.dso).map(|dso| dso.kind) {
                Some(DsoKind::PerfMap { pid }) if reason == Unresolved::NoFile => {
                    self.jit.why_unnamed(pid)
                }
                _ => reason,
            }
        })
    }

    /// Whether a DSO's file, or its debug file, has all of its symbols. An address without a symbol
    /// then has no name anywhere.
    #[must_use]
    pub fn has_all_symbols(&self, dso: DsoId) -> bool {
        self.symbolizer.has_all_symbols(dso)
    }

    /// Returns the name of a symbol. Untrusted.
    pub fn symbol_name(&self, symbol: Symbol) -> &str {
        self.symbolizer.name(symbol)
    }

    /// Returns the name of a symbol in its file, if it isn't the displayed one. Untrusted.
    pub fn linkage_name(&self, symbol: Symbol) -> Option<&str> {
        self.symbolizer.linkage_name(symbol)
    }

    /// Returns functions, inlined functions and source lines of addresses: see
    /// [`Symbolizer::frames`].
    #[must_use]
    pub fn frames(&self, addresses: &[DsoAddress], threads: NonZeroUsize) -> ResolvedFrames<'_> {
        self.symbolizer.frames(&self.dsos.table, addresses, threads)
    }

    /// Whether addresses of a DSO may have source lines.
    #[must_use]
    pub fn may_have_lines(&self, dso: DsoId) -> bool {
        self.symbolizer.may_have_lines(&self.dsos.table, dso)
    }

    /// Whether addresses of a DSO may have inlined functions.
    #[must_use]
    pub fn may_have_inlined(&self, dso: DsoId) -> bool {
        self.symbolizer.may_have_inlined(&self.dsos.table, dso)
    }

    /// Returns the source of a symbol's name.
    #[must_use]
    pub fn name_source(&self, symbol: Symbol) -> Option<NameSource> {
        self.symbolizer.name_source(symbol)
    }

    /// Returns a DSO's name as `perf script` prints it: the whole path, or a name such as
    /// `[kernel.kallsyms]`. Untrusted.
    #[must_use]
    pub fn dso_name(&self, dso: DsoId) -> &[u8] {
        self.dsos.table.get(dso).map_or(b"[unknown]", |dso| &dso.name)
    }

    /// Returns the instructions of a symbol in the recorded build.
    ///
    /// # Errors
    /// Fails with the reason if that build isn't found.
    pub fn code(&self, symbol: Symbol) -> Result<FunctionCode, Unresolved> {
        self.symbolizer.code(&self.dsos.table, symbol)
    }

    /// Returns `length` bytes of instructions from an address in a DSO, in the recorded build.
    ///
    /// # Errors
    /// Fails with the reason if that build isn't found.
    pub fn code_at(&self, at: DsoAddress, length: usize) -> Result<FunctionCode, Unresolved> {
        self.symbolizer.code_at(&self.dsos.table, at, length)
    }

    /// Returns an address as the symbol's file states it.
    #[must_use]
    pub fn offset_of(&self, symbol: Symbol, address: u64) -> Option<u64> {
        self.symbolizer.offset_of(&self.dsos.table, symbol, address)
    }

    /// Whether a kernel address is in a function of the locks or of the scheduler: see
    /// [`tare_symbols::Symbolizer::is_lock_function`].
    #[must_use]
    pub fn is_lock_function(&self, address: u64) -> bool {
        self.symbolizer.is_lock_function(address)
    }

    /// Returns the number of mappings that exceeded the limits.
    pub(crate) fn left_out_mappings(&self) -> u64 {
        self.spaces.left_out()
    }

    /// Reads a recorder's note, if it is about compiled code.
    pub(crate) fn learn_note(&mut self, note: &[u8]) {
        self.jit.learn_note(note, self.symbolizer.recorded_processes());
    }

    /// Forgets threads and processes that ended before a time, in nanoseconds of the recording's
    /// clock.
    pub(crate) fn forget_ended_before(&mut self, time_ns: u64) {
        let Self { threads, spaces, jit, symbolizer, .. } = self;
        threads.forget_ended_before(time_ns, |pid, tid| {
            if pid == tid {
                spaces.remove(pid);
                // As at an execve, no compiled code remains.
                jit.forget_program(pid);
                symbolizer.forget_process(pid);
            }
        });
    }

    /// Drops DSOs that nothing maps and that aren't in `used_elsewhere`, if many DSOs are new or
    /// any is that of a just-in-time compiler, if the unused symbols take much memory, or if
    /// `is_forced`. Files of just-in-time compilers are read again when needed next. Returns the
    /// new ids, or `None` if all DSOs keep theirs.
    pub(crate) fn forget_dsos(
        &mut self,
        used_elsewhere: impl Iterator<Item = DsoId>,
        is_forced: bool,
    ) -> Option<DsoRenumbering> {
        // Compiled code may have grown, which only matters if symbols were read.
        let may_have_grown = self.symbolizer.bytes() > 0 && self.dsos.has_compiled();
        let is_due = is_forced || may_have_grown || self.dsos.has_many_new();
        if !is_due && self.symbolizer.bytes() < UNUSED_BYTES {
            return None;
        }
        let kernel = self.dsos.kernel.map(|kernel| kernel.dso);
        let mut used: HashSet<DsoId> = used_elsewhere.chain(kernel).collect();
        self.spaces.each_dso(|dso| _ = used.insert(dso));
        self.jit.for_each_dso(|dso| _ = used.insert(dso));
        if !is_due && self.symbolizer.table_bytes(|dso| !used.contains(&dso)) < UNUSED_BYTES {
            return None;
        }
        let new_ids = self.dsos.retain(|dso| used.contains(&dso));
        self.spaces.renumber(&new_ids);
        self.jit.renumber(&new_ids);
        self.symbolizer.renumber(&new_ids);
        if let Some(kernel) = &mut self.dsos.kernel {
            kernel.dso = new_ids.get(kernel.dso).unwrap_or(kernel.dso);
        }
        Some(new_ids)
    }

    /// Whether a DSO's code is that of a just-in-time compiler: a perf map or a jitdump describes
    /// it.
    pub(crate) fn is_compiled(&self, dso: DsoId) -> bool {
        self.dsos.table.get(dso).is_some_and(|dso| is_compiled(dso.kind))
    }
}

fn perf_map_path(pid: i32) -> Vec<u8> {
    format!("/tmp/perf-{pid}.map").into_bytes()
}

fn is_compiled(kind: DsoKind) -> bool {
    matches!(kind, DsoKind::PerfMap { .. } | DsoKind::JitDump { .. })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Maps the first page of a file into a process, as code.
    pub(crate) fn map(machine: &mut Machine, pid: i32, start: u64, path: &str) {
        machine.map_user(&Mmap {
            pid,
            tid: pid,
            start,
            len: 0x1000,
            pgoff: 0,
            file: RecordedFile::None,
            prot: 5,
            flags: 2,
            path: path.as_bytes(),
            is_data: false,
        });
    }

    /// Makes a machine with a mapped page per process, start address and file.
    pub(crate) fn machine_with(mappings: &[(i32, u64, &str)]) -> Machine {
        let mut machine = Machine::new(SymbolOptions::default());
        mappings.iter().for_each(|(pid, start, path)| map(&mut machine, *pid, *start, path));
        machine
    }

    fn dso(kind: DsoKind, number: usize) -> Dso {
        Dso { kind, name: format!("/lib/{number}").into_bytes(), build_id: None }
    }

    #[test]
    fn many_dsos_are_new_after_twice_the_kept_ones_and_256() {
        let mut dsos = RecordedDsos::default();
        let add = |dsos: &mut RecordedDsos, from: usize, to: usize| {
            (from..to).for_each(|number| _ = dsos.table.intern(dso(DsoKind::Elf, number)));
        };
        add(&mut dsos, 0, NEW_DSOS);
        assert!(!dsos.has_many_new());
        add(&mut dsos, NEW_DSOS, NEW_DSOS + 1);
        assert!(dsos.has_many_new());
        let first = dsos.table.intern(dso(DsoKind::Elf, 0)).unwrap();
        let new_ids = dsos.retain(|dso| dso == first);
        assert_eq!((dsos.table.len(), new_ids.get(first).is_some()), (1, true));
        add(&mut dsos, 1, NEW_DSOS + 2);
        assert!(!dsos.has_many_new(), "one kept DSO allows two more");
        add(&mut dsos, NEW_DSOS + 2, NEW_DSOS + 3);
        assert!(dsos.has_many_new());
    }

    /// New numbers clear the caches of the unwinder, which reads no symbols.
    #[test]
    fn compiled_code_gets_no_new_number_if_no_symbols_were_read() {
        let mut machine = machine_with(&[(1, 0x1000, "//anon")]);
        assert!(machine.dsos.has_compiled());
        assert!(machine.forget_dsos(std::iter::empty(), false).is_none());
        assert!(machine.forget_dsos(std::iter::empty(), true).is_some());
    }

    #[test]
    fn functions_without_unwinding_tables_have_unknown_frame_pointers() {
        let mut machine = machine_with(&[(1, 0x1000, "/nonexistent/program")]);
        let at = machine.dso_address(CpuMode::User, 1, 0x1000).unwrap();
        assert_eq!(machine.keeps_frame_pointer(at), None);
        assert_eq!(machine.keeps_frame_pointer(at), None, "the cache gives the same answer");
    }

    #[test]
    fn the_user_part_is_limited_and_precedes_the_wakers_chain() {
        let at = CodeAddress::exact;
        let waker = vec![at(CpuMode::UserOf(7), 4), at(CpuMode::UserOf(7), 5)];
        let user = Some(UserPart::unwound(vec![1, 2, 3]));
        let parts = ChainParts { user, waker: waker.clone(), ..ChainParts::default() };
        let mut chain = vec![at(CpuMode::Kernel, 9)];
        parts.append_to(2, &mut chain);
        let user = [at(CpuMode::Kernel, 9), at(CpuMode::User, 1), at(CpuMode::User, 2)];
        assert_eq!(chain, [&user[..], &waker].concat());
        chain.clear();
        ChainParts::default().append_to(2, &mut chain);
        assert!(chain.is_empty());
    }
}

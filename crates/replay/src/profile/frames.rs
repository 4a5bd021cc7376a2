//! Looks up addresses as frames of a profile.

use std::collections::HashMap;

use tare_profile::{
    Dso, DsoId, FrameId, MappedRange, NewIds, Profile, ProfileFrame, ReplacedRows, Space, StackId,
    StringId, Symbol, SymbolId,
};
use tare_symbols::{BuildId, DsoRenumbering, Mapping, NameSource, Unresolved};

use super::frame_pointers::{FramePointerUses, JudgedChain};
use crate::callchain::CodeAddress;
use crate::cpumode::CpuMode;
use crate::machine::{FrameLocation, Machine};

use super::lines::LineLookup;
use super::unnamed::MissingFiles;

/// The frames of addresses. Of programs with fewer than [`CACHED`] sampled addresses, each is looked
/// up once, as long as ids stay the same.
#[derive(Debug, Default)]
pub(super) struct FrameTable {
    recent: RecentFrames,
    frames: HashMap<(Space, tare_symbols::DsoId, u64), FrameId, foldhash::fast::RandomState>,
    dsos: HashMap<tare_symbols::DsoId, DsoId>,
    last_chain: AddedChain,
    /// Which functions of user code keep a frame pointer; `None` if call chains aren't judged.
    frame_pointer_uses: Option<FramePointerUses>,
    symbols: HashMap<tare_symbols::Symbol, SymbolId, foldhash::fast::RandomState>,
    /// The profile's strings for reasons why an address has no name.
    reasons: HashMap<Unresolved, StringId, foldhash::fast::RandomState>,
    /// Missing files and the like that would name the addresses without a name.
    pub(super) missing: MissingFiles,
    /// Addresses whose lines are looked up at the end.
    lines: Option<LineLookup>,
    /// See [`ProfileOptions::keeps_addresses`](super::ProfileOptions::keeps_addresses).
    keeps_addresses: bool,
}

/// A file as the profile knows it, and as the recording does.
#[derive(Clone, Copy, Debug)]
struct SampledFile {
    dso: DsoId,
    recorded: tare_symbols::DsoId,
}

/// Maximum number of cached addresses: a hash table of 65,536 slots has room for as many. A
/// recording may have millions that occur once each.
const CACHED: usize = 57_344;

/// Number of cached addresses above which none stays cached when the profile's ids change.
const RENUMBERED: usize = 1 << 12;

/// The call chain that was added last.
#[derive(Debug, Default)]
struct AddedChain {
    frames: Vec<FrameId>,
    /// Whether it ended at a return address outside of code.
    is_cut: bool,
}

/// A cache of frames by address, mode and version of the mappings. It fits into a CPU's cache, and
/// its number of slots is a power of two.
#[derive(Debug)]
struct RecentFrames {
    slots: Box<[Option<RecentFrame>]>,
}

#[derive(Clone, Copy, Debug)]
struct RecentFrame {
    address: u64,
    version: u64,
    /// Needed because both the kernel and processes start with version 0.
    mode: CpuMode,
    /// `None` for a return address outside of code.
    frame: Option<FrameId>,
}

impl Default for RecentFrames {
    fn default() -> Self {
        Self::with_slots(1 << 15)
    }
}

impl RecentFrames {
    fn with_slots(slots: usize) -> Self {
        Self { slots: vec![None; slots].into() }
    }

    /// Returns the slot of an address in a version of the mappings. Addresses differ mostly in
    /// their lower bits.
    fn slot(&mut self, address: u64, version: u64) -> Option<&mut Option<RecentFrame>> {
        let mixed = (address ^ version.rotate_right(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = usize::try_from(mixed >> 48).ok()? & self.slots.len().wrapping_sub(1);
        self.slots.get_mut(slot)
    }
}

impl FrameTable {
    /// Makes an empty table. With `lines`, debug info is read at the end. With `judges_chains`, it
    /// notes which functions keep a frame pointer.
    pub(super) fn new(lines: Option<LineLookup>, judges_chains: bool) -> Self {
        let frame_pointer_uses = judges_chains.then(FramePointerUses::default);
        Self { lines, frame_pointer_uses, ..Self::default() }
    }

    /// Keeps the addresses of a function apart, and notes mappings and names in files.
    pub(super) fn with_addresses(self, keeps_addresses: bool) -> Self {
        Self { keeps_addresses, ..self }
    }

    /// Shrinks the cache, for few samples per second: the CPU would evict most of a large one.
    pub(super) fn with_small_cache(self) -> Self {
        Self { recent: RecentFrames::with_slots(1 << 10), ..self }
    }

    pub(super) fn frame_pointer_uses(&self) -> Option<&FramePointerUses> {
        self.frame_pointer_uses.as_ref()
    }

    pub(super) fn find_frame(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        pid: i32,
        at: CodeAddress,
    ) -> FrameId {
        let at = CodeAddress { is_return: false, ..at };
        let version = machine.mappings_version(at.mode, pid);
        match self.find_frame_of_version(profile, machine, pid, version, at) {
            Some(frame) => frame,
            None => self.add_unmapped(profile, at),
        }
    }

    /// Like [`Self::find_frame`], for a known version of the mappings. `None` for a return address
    /// outside of code.
    fn find_frame_of_version(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        pid: i32,
        version: Option<u64>,
        at: CodeAddress,
    ) -> Option<FrameId> {
        let Some(version) = version else { return self.look_up(profile, machine, pid, at) };
        let mode = at.mode;
        // The last byte of a call is no instruction's first, so this is one address at most.
        let address = at.address.wrapping_sub(u64::from(at.is_return));
        if let Some(Some(recent)) = self.recent.slot(address, version)
            && (recent.address, recent.version, recent.mode) == (address, version, mode)
        {
            return recent.frame;
        }
        let frame = self.look_up(profile, machine, pid, at);
        if let Some(slot) = self.recent.slot(address, version) {
            *slot = Some(RecentFrame { address, version, mode, frame });
        }
        frame
    }

    fn look_up(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        pid: i32,
        code: CodeAddress,
    ) -> Option<FrameId> {
        let CodeAddress { mode, is_return, .. } = code;
        let space = space(mode);
        let recorded = match machine.locate_frame(pid, code) {
            FrameLocation::OutsideCode => return None,
            FrameLocation::Code(None) => return Some(self.add_unmapped(profile, code)),
            FrameLocation::Code(Some(recorded)) => recorded,
        };
        let key = (space, recorded.dso, recorded.address.wrapping_sub(u64::from(is_return)));
        if let Some(frame) = self.frames.get(&key) {
            return Some(*frame);
        }
        let at = machine.call_site(recorded, is_return);
        let dso = self.add_dso(profile, machine, at.dso);
        let (function, address) = match machine.symbol(at) {
            Ok(symbol) => {
                let function = self.add_symbol(profile, machine, dso, symbol);
                if machine.name_source(symbol) == Some(NameSource::UnwindTable) {
                    let reason = self.add_reason(profile, Unresolved::Stripped);
                    self.missing.note(machine, at, Unresolved::Stripped, dso, reason);
                    self.missing.note_function(function, dso, reason);
                }
                (Ok(function), symbol.start)
            }
            Err(why) => {
                let reason = self.add_reason(profile, why);
                self.missing.note(machine, at, why, dso, reason);
                (Err(reason), at.address)
            }
        };
        let address = if self.keeps_addresses { at.address } else { address };
        if self.keeps_addresses {
            note_file(profile, machine, pid, code, SampledFile { dso, recorded: recorded.dso });
        }
        // Addresses of one function stay separate until their lines are known.
        let lines = self.lines.as_mut().filter(|lines| lines.has_dso(machine, at.dso));
        let frame_address = if lines.is_some() { at.address } else { address };
        let known = profile.frame_count();
        let frame = profile.add_frame(plain_frame(space, Some(dso), function, frame_address));
        if let Some(lines) = lines.filter(|_| profile.frame_count() > known) {
            lines.request(frame, at.dso, address);
        }
        if self.frames.len() >= CACHED {
            self.frames.clear();
        }
        self.frames.insert(key, frame);
        if mode == CpuMode::User
            && let Some(uses) = self.frame_pointer_uses.as_mut()
            && !uses.contains_key(&frame)
        {
            uses.extend(machine.keeps_frame_pointer(at).map(|keeps| (frame, keeps)));
        }
        Some(frame)
    }

    fn add_unmapped(&mut self, profile: &mut Profile, at: CodeAddress) -> FrameId {
        let why = self.add_reason(profile, Unresolved::NoMapping);
        profile.add_frame(plain_frame(space(at.mode), None, Err(why), at.address))
    }

    /// Whether lines are looked up at the end.
    pub(super) fn needs_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// Applies the new ids of a profile's tables. Addresses without a name, those that the tables
    /// lack, and all if there are more than [`RENUMBERED`], are looked up again when they next
    /// occur.
    pub(super) fn renumber(&mut self, now: &NewIds, profile: &Profile) {
        self.recent.slots.fill(None);
        let frames = std::mem::take(&mut self.frames);
        if frames.len() <= RENUMBERED {
            let has_name = |function| !self.missing.has_function(function);
            let is_named =
                |id| profile.frame(id).is_some_and(|frame| frame.function.is_ok_and(has_name));
            let renumbered = frames.into_iter().filter_map(|(at, id)| {
                let id = now.frame(id).filter(|id| is_named(*id))?;
                Some((at, id))
            });
            self.frames = renumbered.collect();
        }
        self.dsos.clear();
        self.reasons.clear();
        self.missing = MissingFiles::default();
        let symbols = std::mem::take(&mut self.symbols).into_iter();
        self.symbols = symbols.filter_map(|(symbol, id)| Some((symbol, now.symbol(id)?))).collect();
    }

    /// Applies the new ids of DSOs. Compiled code is looked up again.
    pub(super) fn renumber_dsos(
        &mut self,
        now: &DsoRenumbering,
        is_compiled: impl Fn(tare_symbols::DsoId) -> bool,
    ) {
        let symbols = std::mem::take(&mut self.symbols).into_iter();
        let renumbered = |(symbol, id): (tare_symbols::Symbol, SymbolId)| {
            let dso = now.get(symbol.dso).filter(|dso| !is_compiled(*dso))?;
            Some((tare_symbols::Symbol { dso, ..symbol }, id))
        };
        self.symbols = symbols.filter_map(renumbered).collect();
        let frames = std::mem::take(&mut self.frames).into_iter();
        let renumbered = |((space, dso, address), id)| {
            let dso = now.get(dso).filter(|dso| !is_compiled(*dso))?;
            Some(((space, dso, address), id))
        };
        self.frames = frames.filter_map(renumbered).collect();
    }

    /// Returns the DSOs of sampled functions.
    pub(super) fn recorded_dsos(&self) -> impl Iterator<Item = tare_symbols::DsoId> {
        self.symbols.keys().map(|symbol| symbol.dso)
    }

    /// Adds lines and inlined functions of all addresses to the profile. Returns the new row of
    /// each row, or `None` if no lines are needed.
    pub(super) fn locate(
        &mut self,
        profile: &mut Profile,
        machine: &Machine,
    ) -> Option<ReplacedRows> {
        Some(self.lines.take()?.locate(profile, machine))
    }

    fn add_dso(
        &mut self,
        profile: &mut Profile,
        machine: &Machine,
        dso: tare_symbols::DsoId,
    ) -> DsoId {
        *self.dsos.entry(dso).or_insert_with(|| {
            let path = machine.dso_name(dso);
            let dso = Dso {
                path: profile.add_string(path),
                short: profile.add_string(&short_name(path)),
            };
            profile.add_dso(dso)
        })
    }

    fn add_reason(&mut self, profile: &mut Profile, why: Unresolved) -> StringId {
        let add = || profile.add_string(why.to_string().as_bytes());
        *self.reasons.entry(why).or_insert_with(add)
    }

    fn add_symbol(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        dso: DsoId,
        symbol: tare_symbols::Symbol,
    ) -> SymbolId {
        let keeps_names = self.keeps_addresses;
        *self.symbols.entry(symbol).or_insert_with(|| {
            let name = profile.add_string(machine.symbol_name(symbol).as_bytes());
            let id = profile.add_symbol(Symbol { dso, name, start: symbol.start });
            if let Some(name) = machine.linkage_name(symbol).filter(|_| keeps_names) {
                let name = profile.add_string(name.as_bytes());
                profile.set_linkage_name(id, name);
            }
            id
        })
    }

    pub(super) fn last_chain(&self) -> JudgedChain<'_> {
        JudgedChain { frames: &self.last_chain.frames, is_cut: self.last_chain.is_cut }
    }

    /// Returns the recorded machine's symbol of a function.
    pub(super) fn recorded_symbol(&self, function: SymbolId) -> Option<tare_symbols::Symbol> {
        self.symbols.iter().find(|(_, known)| **known == function).map(|(symbol, _)| *symbol)
    }

    /// Adds the stack of a call chain, innermost address first, up to the first return address that
    /// isn't in code. Returns `None` if the chain is empty.
    pub(super) fn add_stack(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        pid: i32,
        chain: &[CodeAddress],
    ) -> Option<StackId> {
        let mut frames = std::mem::take(&mut self.last_chain.frames);
        frames.clear();
        let [kernel, user] =
            [CpuMode::Kernel, CpuMode::User].map(|mode| machine.mappings_version(mode, pid));
        frames.extend(chain.iter().map_while(|at| {
            let version = match at.mode {
                CpuMode::Kernel => kernel,
                CpuMode::User => user,
                mode => machine.mappings_version(mode, pid),
            };
            self.find_frame_of_version(profile, machine, pid, version, *at)
        }));
        let is_cut = frames.len() < chain.len();
        let stack = profile.add_stack(&frames);
        self.last_chain = AddedChain { frames, is_cut };
        stack
    }

    /// Adds the last call chain again, with a frame that says that its outermost callers are
    /// missing.
    pub(super) fn add_truncated_stack(&self, profile: &mut Profile) -> Option<StackId> {
        let name = profile.add_string(TRUNCATED);
        let dso = profile.add_dso(Dso { path: name, short: name });
        let mark = profile.add_frame(plain_frame(Space::User, Some(dso), Err(name), 0));
        let mut frames = self.last_chain.frames.clone();
        frames.push(mark);
        profile.add_stack(&frames)
    }
}

/// The outermost frame of a truncated call chain, instead of the frames that it lacks.
const TRUNCATED: &[u8] = b"[truncated]";

/// Notes where the file at a sampled address was mapped.
fn note_file(
    profile: &mut Profile,
    machine: &Machine,
    pid: i32,
    code: CodeAddress,
    file: SampledFile,
) {
    let mapping = machine.mapping(code.mode, pid, code.address);
    if let Some(mapping) = mapping.filter(|mapping| mapping.dso == file.recorded) {
        let Mapping { start, end, pgoff: offset, .. } = *mapping;
        let build_id = machine.dso(file.recorded).and_then(|dso| dso.build_id);
        let build_id = build_id.as_ref().map_or(&[][..], BuildId::bytes);
        profile.add_mapping(file.dso, MappedRange { start, end, offset }, build_id);
    }
}

/// Makes a frame without inlined functions and lines.
fn plain_frame(
    space: Space,
    dso: Option<DsoId>,
    function: Result<SymbolId, StringId>,
    address: u64,
) -> ProfileFrame {
    ProfileFrame { space, dso, function, address, is_inlined: false, line: None }
}

pub(super) fn space(mode: CpuMode) -> Space {
    match mode {
        CpuMode::Kernel => Space::Kernel,
        CpuMode::User | CpuMode::UserOf(_) => Space::User,
        CpuMode::GuestKernel => Space::GuestKernel,
        CpuMode::GuestUser => Space::GuestUser,
        CpuMode::Hypervisor => Space::Hypervisor,
        CpuMode::Unknown => Space::Unknown,
    }
}

/// Returns the name of a file in tables: the last part of its path, or the process of compiled
/// code, as in perf.
pub(super) fn short_name(path: &[u8]) -> Vec<u8> {
    let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let compiled = path.strip_prefix(b"/tmp/perf-").and_then(|rest| rest.strip_suffix(b".map"));
    match compiled.filter(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit)) {
        Some(pid) => [b"[JIT] tid ", pid].concat(),
        None => base.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::{machine_with, map};

    fn user(address: u64) -> CodeAddress {
        CodeAddress::exact(CpuMode::User, address)
    }

    #[test]
    fn the_cache_separates_modes_processes_and_mappings() {
        let mut machine = machine_with(&[(1, 0x1000, "/nonexistent/a")]);
        let mut profile = Profile::default();
        let mut frames = FrameTable::new(None, false);
        let first = frames.find_frame(&mut profile, &mut machine, 1, user(0x1000));
        assert_eq!(frames.find_frame(&mut profile, &mut machine, 1, user(0x1000)), first);
        let kernel = CodeAddress::exact(CpuMode::Kernel, 0x1000);
        let unmapped = frames.find_frame(&mut profile, &mut machine, 1, kernel);
        assert_ne!(unmapped, first);
        let other = frames.find_frame(&mut profile, &mut machine, 2, user(0x1000));
        assert!(other != first && other != unmapped, "neither has a mapping: equal versions");
        map(&mut machine, 1, 0x1000, "/nonexistent/b");
        assert_ne!(frames.find_frame(&mut profile, &mut machine, 1, user(0x1000)), first);
    }

    #[test]
    fn a_return_address_belongs_to_the_call_before_it() {
        let mappings = [(1, 0x1000, "/nonexistent/a"), (1, 0x2000, "/nonexistent/b")];
        let mut machine = machine_with(&mappings);
        let mut profile = Profile::default();
        let mut frames = FrameTable::new(None, false);
        let at = |address| CodeAddress { is_return: true, ..user(address) };
        // The call is the last instruction in its mapping, so it isn't in the next function.
        let chain = [user(0x1000), at(0x1fff), at(0x1800)];
        assert!(frames.add_stack(&mut profile, &mut machine, 1, &chain).is_some());
        let addresses = |frames: &FrameTable, profile: &Profile| -> Vec<u64> {
            frames
                .last_chain()
                .frames
                .iter()
                .map(|id| profile.frame(*id).unwrap().address)
                .collect()
        };
        assert_eq!(addresses(&frames, &profile), [0, 0xffe, 0x7ff]);
        assert!(!frames.last_chain().is_cut);
    }

    #[test]
    fn a_chain_ends_at_a_return_address_outside_of_code() {
        let mut machine = machine_with(&[(1, 0x1000, "/nonexistent/a")]);
        let mut profile = Profile::default();
        let mut frames = FrameTable::new(None, false);
        let at = |address| CodeAddress { is_return: true, ..user(address) };
        let chain = [user(0x9000), at(0x1010), at(0x2f65_6c61_636f_6c2f), at(0x1020)];
        for _ in 0..2 {
            frames.add_stack(&mut profile, &mut machine, 1, &chain);
            assert_eq!(frames.last_chain().frames.len(), 2, "the CPU may be anywhere");
            assert!(frames.last_chain().is_cut);
        }
        frames.add_stack(&mut profile, &mut machine, 2, &chain);
        assert_eq!(frames.last_chain().frames.len(), 4, "nothing is known of the process");
    }

    #[test]
    fn short_names_are_the_last_part_or_the_process_of_compiled_code() {
        assert_eq!(short_name(b"/usr/lib/libc.so.6"), b"libc.so.6");
        assert_eq!(short_name(b"[kernel.kallsyms]"), b"[kernel.kallsyms]");
        assert_eq!(
            (short_name(b"/tmp/perf-12.map"), short_name(b"/tmp/perf-.map")),
            (b"[JIT] tid 12".to_vec(), b"perf-.map".to_vec())
        );
    }
}

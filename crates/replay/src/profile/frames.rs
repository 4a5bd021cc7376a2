//! Addresses as frames of a profile.

use std::collections::HashMap;

use tare_profile::{
    Dso, DsoId, Frame, FrameId, NewIds, Profile, ReplacedRows, Space, StackId, StringId, Symbol,
    SymbolId,
};
use tare_symbols::{RenumberedDsos, Unresolved};

use super::frame_pointers::FramePointerCache;
use crate::callchain::CodeAddress;
use crate::cpumode::CpuMode;
use crate::machine::Machine;

use super::lines::Lines;
use super::unnamed::Lacks;

/// What was found so far: an address in a DSO is looked up once.
#[derive(Debug, Default)]
pub(super) struct Frames {
    recent: Recent,
    frames: HashMap<(Space, tare_symbols::DsoId, u64), FrameId, foldhash::fast::RandomState>,
    dsos: HashMap<tare_symbols::DsoId, DsoId>,
    /// The frames of the call chain that is being added.
    chain: Vec<FrameId>,
    /// Of frames in user code; `None` where nobody asks, as where no call chains are taken.
    kept: Option<FramePointerCache>,
    symbols: HashMap<tare_symbols::Symbol, SymbolId, foldhash::fast::RandomState>,
    /// Why addresses have no name, as the profile has it.
    reasons: HashMap<Unresolved, StringId, foldhash::fast::RandomState>,
    /// What those without a name lack.
    pub(super) lacks: Lacks,
    /// What debug info is to be asked for.
    lines: Option<Lines>,
}

/// So many addresses at most are still known when others are forgotten.
const KEPT: usize = 1 << 12;

/// Frames by address and version of the mappings: as many as a CPU's cache holds, a power of two.
#[derive(Debug)]
struct Recent(Box<[Option<RecentFrame>]>);

#[derive(Clone, Copy, Debug)]
struct RecentFrame {
    address: u64,
    version: u64,
    /// Kernel and processes may both have version 0, of no mappings.
    mode: CpuMode,
    frame: FrameId,
}

impl Default for Recent {
    fn default() -> Self {
        Self::of(1 << 15)
    }
}

impl Recent {
    fn of(slots: usize) -> Self {
        Self(vec![None; slots].into())
    }

    /// Where an address would be: addresses differ in their lower bits most.
    fn slot(&mut self, address: u64, version: u64) -> Option<&mut Option<RecentFrame>> {
        let mixed = (address ^ version.rotate_right(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = usize::try_from(mixed >> 48).ok()? & self.0.len().wrapping_sub(1);
        self.0.get_mut(slot)
    }
}

impl Frames {
    /// None yet. With `lines`, debug info is asked in the end. `judges_chains`: notes which
    /// functions keep a frame pointer.
    pub(super) fn new(lines: Option<Lines>, judges_chains: bool) -> Self {
        Self { lines, kept: judges_chains.then(FramePointerCache::default), ..Self::default() }
    }

    /// The same, for samples that are forgotten again: of few samples a second, most of a large table
    /// would be in no cache.
    pub(super) fn forgetting(self) -> Self {
        Self { recent: Recent::of(1 << 10), ..self }
    }

    /// Which frames' functions keep a frame pointer, where that was asked for.
    pub(super) fn kept(&self) -> Option<&FramePointerCache> {
        self.kept.as_ref()
    }

    /// The frame of an address in a process.
    pub(super) fn frame(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        pid: i32,
        at: CodeAddress,
    ) -> FrameId {
        let version = machine.mappings_version(at.mode, pid);
        self.frame_of_version(profile, machine, pid, version, at)
    }

    /// The same, where the version of the mappings is known.
    fn frame_of_version(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        pid: i32,
        version: Option<u64>,
        at: CodeAddress,
    ) -> FrameId {
        let Some(version) = version else { return self.look_up(profile, machine, pid, at) };
        let CodeAddress { mode, address } = at;
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
        CodeAddress { mode, address }: CodeAddress,
    ) -> FrameId {
        let space = space(mode);
        let Some(at) = machine.dso_address(mode, pid, address) else {
            let why = self.reason(profile, Unresolved::NoMapping);
            return profile.add_frame(frame(space, None, Err(why), address));
        };
        let key = (space, at.dso, at.address);
        if let Some(frame) = self.frames.get(&key) {
            return *frame;
        }
        let dso = self.dso(profile, machine, at.dso);
        let (function, address) = match machine.symbol(at) {
            Ok(symbol) => (Ok(self.symbol(profile, machine, dso, symbol)), symbol.start),
            Err(why) => {
                let reason = self.reason(profile, why);
                self.lacks.note(machine, at, why, dso, reason);
                (Err(reason), at.address)
            }
        };
        // Frames of one function are told apart as long as their lines aren't known.
        let shown = if self.lines.is_some() { at.address } else { address };
        let frame = profile.add_frame(frame(space, Some(dso), function, shown));
        if let Some(lines) = &mut self.lines {
            lines.ask(frame, at, address);
        }
        self.frames.insert(key, frame);
        if mode == CpuMode::User
            && let Some(all) = self.kept.as_mut().filter(|all| !all.contains_key(&frame))
        {
            all.extend(machine.keeps_frame_pointer(at).map(|kept| (frame, kept)));
        }
        frame
    }

    /// Whether debug info is to be asked in the end.
    pub(super) fn asks_for_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// The tables of a profile, which is this one by now, have other ids. What has no name, and what
    /// the tables don't have any more, is looked up again when it is next met.
    pub(super) fn renumber(&mut self, now: &NewIds, profile: &Profile) {
        self.recent.0.fill(None);
        let frames = std::mem::take(&mut self.frames);
        if frames.len() <= KEPT {
            let is_named = |id| profile.frame(id).is_some_and(|frame| frame.function.is_ok());
            let renumbered = frames.into_iter().filter_map(|(at, id)| {
                let id = now.frame(id).filter(|id| is_named(*id))?;
                Some((at, id))
            });
            self.frames = renumbered.collect();
        }
        self.dsos.clear();
        self.reasons.clear();
        self.lacks = Lacks::default();
        let symbols = std::mem::take(&mut self.symbols).into_iter();
        self.symbols = symbols.filter_map(|(symbol, id)| Some((symbol, now.symbol(id)?))).collect();
    }

    /// DSOs have other numbers. What a just-in-time compiler made is found anew.
    pub(super) fn renumber_dsos(
        &mut self,
        now: &RenumberedDsos,
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

    /// The DSOs of functions that samples were in.
    pub(super) fn recorded_dsos(&self) -> impl Iterator<Item = tare_symbols::DsoId> {
        self.symbols.keys().map(|symbol| symbol.dso)
    }

    /// Asks debug info about all addresses that were met, and puts what it says into the profile.
    /// Returns which row of the profile each row is by now; `None` where nothing was to be asked.
    pub(super) fn locate(
        &mut self,
        profile: &mut Profile,
        machine: &Machine,
    ) -> Option<ReplacedRows> {
        Some(self.lines.take()?.locate(profile, machine))
    }

    fn dso(&mut self, profile: &mut Profile, machine: &Machine, dso: tare_symbols::DsoId) -> DsoId {
        *self.dsos.entry(dso).or_insert_with(|| {
            let path = machine.dso_name(dso);
            let dso = Dso {
                path: profile.add_string(path),
                short: profile.add_string(&short_name(path)),
            };
            profile.add_dso(dso)
        })
    }

    fn reason(&mut self, profile: &mut Profile, why: Unresolved) -> StringId {
        let add = || profile.add_string(why.to_string().as_bytes());
        *self.reasons.entry(why).or_insert_with(add)
    }

    fn symbol(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        dso: DsoId,
        symbol: tare_symbols::Symbol,
    ) -> SymbolId {
        *self.symbols.entry(symbol).or_insert_with(|| {
            let name = profile.add_string(machine.symbol_name(symbol).as_bytes());
            profile.add_symbol(Symbol { dso, name, start: symbol.start })
        })
    }

    /// The frames of the call chain that was added last.
    pub(super) fn last_chain(&self) -> &[FrameId] {
        &self.chain
    }

    /// The symbol of the recorded machine that a function of the profile is.
    pub(super) fn recorded_symbol(&self, function: SymbolId) -> Option<tare_symbols::Symbol> {
        self.symbols.iter().find(|(_, known)| **known == function).map(|(symbol, _)| *symbol)
    }

    /// The stack of a call chain, which has the innermost address first; `None` where there is no
    /// address.
    pub(super) fn stack(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        pid: i32,
        chain: &[CodeAddress],
    ) -> Option<StackId> {
        let mut frames = std::mem::take(&mut self.chain);
        frames.clear();
        let [kernel, user] =
            [CpuMode::Kernel, CpuMode::User].map(|mode| machine.mappings_version(mode, pid));
        frames.extend(chain.iter().map(|at| {
            let version = match at.mode {
                CpuMode::Kernel => kernel,
                CpuMode::User => user,
                mode => machine.mappings_version(mode, pid),
            };
            self.frame_of_version(profile, machine, pid, version, *at)
        }));
        let stack = profile.add_stack(&frames);
        self.chain = frames;
        stack
    }
}

fn frame(
    space: Space,
    dso: Option<DsoId>,
    function: Result<SymbolId, StringId>,
    address: u64,
) -> Frame {
    Frame { space, dso, function, address, is_inlined: false, line: None }
}

/// A CPU's mode in the profile's terms.
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

/// What tables show of a path: its last part; of what a just-in-time compiler made, the process, as
/// in perf.
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

    #[test]
    fn files_are_called_by_their_last_part() {
        assert_eq!(short_name(b"/usr/lib/libc.so.6"), b"libc.so.6");
        assert_eq!(short_name(b"[kernel.kallsyms]"), b"[kernel.kallsyms]");
        assert_eq!(
            (short_name(b"/tmp/perf-12.map"), short_name(b"/tmp/perf-.map")),
            (b"[JIT] tid 12".to_vec(), b"perf-.map".to_vec())
        );
    }
}

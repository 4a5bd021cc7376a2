//! Addresses as frames of a profile.

use std::collections::HashMap;

use tare_format::Words;
use tare_format::abi::bindings::{
    PERF_CONTEXT_GUEST, PERF_CONTEXT_GUEST_KERNEL, PERF_CONTEXT_GUEST_USER, PERF_CONTEXT_HV,
    PERF_CONTEXT_KERNEL, PERF_CONTEXT_MAX, PERF_CONTEXT_USER, PERF_RECORD_MISC_CPUMODE_MASK,
    PERF_RECORD_MISC_GUEST_KERNEL, PERF_RECORD_MISC_GUEST_USER, PERF_RECORD_MISC_HYPERVISOR,
    PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_USER,
};
use tare_profile::{Dso, DsoId, Frame, FrameId, Profile, Space, StackId, Symbol, SymbolId};
use tare_symbols::Unresolved;

use crate::{Machine, Mode};

/// What was found so far: an address in a DSO is looked up once.
#[derive(Default)]
pub(crate) struct Places {
    frames: HashMap<(Space, tare_symbols::DsoId, u64), FrameId, foldhash::fast::RandomState>,
    dsos: HashMap<tare_symbols::DsoId, DsoId>,
    symbols: HashMap<tare_symbols::Symbol, SymbolId, foldhash::fast::RandomState>,
    chain: Vec<FrameId>,
}

impl Places {
    /// The frame of an address in a process.
    pub(crate) fn frame(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        space: Space,
        pid: i32,
        address: u64,
    ) -> FrameId {
        let Some(place) = machine.place(mode(space), pid, address) else {
            let why = profile.add_string(Unresolved::NoMapping.to_string().as_bytes());
            return profile.add_frame(Frame { space, dso: None, function: Err(why), address });
        };
        let key = (space, place.dso, place.address);
        if let Some(frame) = self.frames.get(&key) {
            return *frame;
        }
        let dso = self.dso(profile, machine, place.dso);
        let (function, address) = match machine.symbol(place) {
            Ok(symbol) => (Ok(self.symbol(profile, machine, dso, symbol)), symbol.start),
            Err(why) => (Err(profile.add_string(why.to_string().as_bytes())), place.address),
        };
        let frame = profile.add_frame(Frame { space, dso: Some(dso), function, address });
        self.frames.insert(key, frame);
        frame
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

    /// The stack of a recorded call chain and of the unwound addresses behind it, both with the
    /// innermost address first; `None` where there is no address.
    pub(crate) fn stack(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        pid: i32,
        chain: (Words<'_>, &[u64]),
    ) -> Option<StackId> {
        let mut space = Space::User;
        let mut frames = std::mem::take(&mut self.chain);
        frames.clear();
        for address in chain.0.iter() {
            match context(address) {
                Some(context) => space = context,
                None => frames.push(self.frame(profile, machine, space, pid, address)),
            }
        }
        frames.extend(
            chain.1.iter().map(|address| self.frame(profile, machine, Space::User, pid, *address)),
        );
        let stack = profile.add_stack(&frames);
        self.chain = frames;
        stack
    }
}

/// Where a sample was, by its record's `misc`.
pub(crate) fn space(misc: u16) -> Space {
    match u32::from(misc) & PERF_RECORD_MISC_CPUMODE_MASK {
        PERF_RECORD_MISC_KERNEL => Space::Kernel,
        PERF_RECORD_MISC_USER => Space::User,
        PERF_RECORD_MISC_GUEST_KERNEL => Space::GuestKernel,
        PERF_RECORD_MISC_GUEST_USER => Space::GuestUser,
        PERF_RECORD_MISC_HYPERVISOR => Space::Hypervisor,
        _ => Space::Unknown,
    }
}

fn mode(space: Space) -> Mode {
    match space {
        Space::Kernel => Mode::Kernel,
        Space::User => Mode::User,
        _ => Mode::Other,
    }
}

/// Where the addresses of a call chain are that follow a marker; `None`: it is no marker.
fn context(address: u64) -> Option<Space> {
    if address < PERF_CONTEXT_MAX {
        return None;
    }
    Some(match address {
        PERF_CONTEXT_KERNEL => Space::Kernel,
        PERF_CONTEXT_USER => Space::User,
        PERF_CONTEXT_GUEST | PERF_CONTEXT_GUEST_KERNEL => Space::GuestKernel,
        PERF_CONTEXT_GUEST_USER => Space::GuestUser,
        PERF_CONTEXT_HV => Space::Hypervisor,
        _ => Space::Unknown,
    })
}

/// What tables show of a path: its last part; of what a just-in-time compiler made, the process, as
/// in perf.
fn short_name(path: &[u8]) -> Vec<u8> {
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

    #[test]
    fn markers_are_the_highest_addresses() {
        assert_eq!(context(0xffff_ffff_8100_0000), None);
        assert_eq!(
            (context(u64::MAX - 127), context(u64::MAX - 511)),
            (Some(Space::Kernel), Some(Space::User))
        );
    }
}

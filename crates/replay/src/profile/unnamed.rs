//! Finds the missing symbols (a file, a permission, an option) that would name the largest share of
//! samples without a function.

use std::collections::{BTreeMap, HashMap};

use tare_profile::{
    BinaryFile, DsoId, EventId, FrameId, MissingSymbols, NamingAdvice, Profile, StringId, SymbolId,
    Weight,
};
use tare_symbols::{DsoAddress, DsoKind, Unresolved};

use crate::machine::Machine;

/// Smallest share of an event's samples that is reported, in percent.
const LEAST_PERCENT: f64 = 5.0;

/// The missing symbols that would name addresses, by file and by the reason why they have no name.
#[derive(Debug, Default)]
pub(super) struct MissingFiles {
    by_reason: HashMap<(DsoId, StringId), MissingSymbols>,
    /// Functions that are named by their addresses, because they have no symbol.
    functions: HashMap<SymbolId, (DsoId, StringId)>,
}

impl MissingFiles {
    /// Notes the missing symbols for an address without a name.
    pub(super) fn note(
        &mut self,
        machine: &Machine,
        at: DsoAddress,
        why: Unresolved,
        dso: DsoId,
        reason: StringId,
    ) {
        if !self.by_reason.contains_key(&(dso, reason))
            && let Some(lack) = find_missing_symbols(machine, at, why)
        {
            self.by_reason.insert((dso, reason), lack);
        }
    }

    /// Notes a function that is named by its address. The missing symbols of its DSO were noted.
    pub(super) fn note_function(&mut self, function: SymbolId, dso: DsoId, reason: StringId) {
        self.functions.insert(function, (dso, reason));
    }

    /// Whether a function is named by its address.
    pub(super) fn has_function(&self, function: SymbolId) -> bool {
        self.functions.contains_key(&function)
    }

    /// Returns the missing symbols that would name the largest share of an event's samples, by
    /// period, if that share is at least [`LEAST_PERCENT`].
    pub(super) fn largest(
        &self,
        profile: &Profile,
        samples: impl Iterator<Item = (EventId, Option<FrameId>, Weight)>,
    ) -> Option<NamingAdvice> {
        if self.by_reason.is_empty() {
            return None;
        }
        let mut all: BTreeMap<EventId, u64> = BTreeMap::new();
        let mut shares: BTreeMap<(EventId, &MissingSymbols), u64> = BTreeMap::new();
        for (event, leaf, weight) in samples {
            *all.entry(event).or_default() += weight.period;
            let frame = leaf.and_then(|leaf| profile.frame(leaf));
            let key = frame.and_then(|frame| match frame.function {
                Ok(function) => self.functions.get(&function).copied(),
                Err(reason) => Some((frame.dso?, reason)),
            });
            if let Some(lack) = key.and_then(|key| self.by_reason.get(&key)) {
                *shares.entry((event, lack)).or_default() += weight.period;
            }
        }
        let percent = |event: &EventId, part: u64| {
            let all = all.get(event).copied().unwrap_or(0).max(1);
            100.0 * part as f64 / all as f64
        };
        let shares = shares.iter().map(|((event, lack), part)| (percent(event, *part), *lack));
        let largest = shares.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)));
        let (percent, lack) = largest.filter(|(percent, _)| *percent >= LEAST_PERCENT)?;
        Some(NamingAdvice { percent, lack: lack.clone(), remedy: None })
    }
}

/// Returns the missing symbols that would name an address in a DSO, by the reason why it has no
/// name.
fn find_missing_symbols(
    machine: &Machine,
    at: DsoAddress,
    why: Unresolved,
) -> Option<MissingSymbols> {
    let dso = machine.dso(at.dso)?;
    let build_id = dso.build_id.map(|id| id.to_string());
    let path = String::from_utf8_lossy(&dso.name).into_owned();
    let file = BinaryFile { path, build_id };
    // A memory file has code that was compiled at run time.
    let is_elf = dso.kind == DsoKind::Elf && !dso.name.starts_with(b"/memfd:");
    match why {
        Unresolved::Stripped if is_elf => Some(MissingSymbols::DebugFile(file)),
        Unresolved::NoSymbol if is_elf && !machine.has_all_symbols(at.dso) => {
            Some(MissingSymbols::DebugFile(file))
        }
        Unresolved::NoFile | Unresolved::OtherFile | Unresolved::ChangedFile
            if is_elf && file.build_id.is_none() =>
        {
            Some(MissingSymbols::UnidentifiedBinary(file))
        }
        Unresolved::NoFile | Unresolved::OtherBuild if is_elf => Some(MissingSymbols::Binary(file)),
        Unresolved::NoJitDumpFile => {
            let DsoKind::PerfMap { pid } = dso.kind else { return None };
            let path = String::from_utf8_lossy(machine.jit.unread_path(pid)?).into_owned();
            Some(MissingSymbols::Binary(BinaryFile { path, build_id: None }))
        }
        Unresolved::NotReadable => Some(MissingSymbols::Permission(file)),
        Unresolved::NoPerfMap(runtime) => Some(MissingSymbols::PerfMap(runtime.remedy())),
        Unresolved::Hidden => Some(MissingSymbols::KernelAddresses),
        Unresolved::OtherKernel
        | Unresolved::UnknownKernel
        | Unresolved::OtherBoot
        | Unresolved::OtherVmlinux
            if dso.kind == DsoKind::Kernel =>
        {
            Some(MissingSymbols::KernelSymbols(file.build_id))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::FrameTable;
    use super::*;
    use crate::callchain::CodeAddress;
    use crate::cpumode::CpuMode;
    use crate::machine::tests::machine_with;

    /// Returns the advice for samples of two missing files with these weights, and an unmapped
    /// sample of weight 100.
    fn advice(first: u64, second: u64) -> Option<NamingAdvice> {
        let mappings = [(1, 0x1000, "/nonexistent/a"), (1, 0x2000, "/nonexistent/b")];
        let mut machine = machine_with(&mappings);
        let mut profile = Profile::default();
        let mut frames = FrameTable::new(None, false);
        let mut frame = |address| {
            let at = CodeAddress::exact(CpuMode::User, address);
            frames.find_frame(&mut profile, &mut machine, 1, at)
        };
        let leaves = [frame(0x1000), frame(0x2000)];
        let name = profile.add_string(b"cycles");
        let event = profile.name_event(0, name);
        let unmapped = (event, None, Weight { period: 100, samples: 1 });
        let samples = leaves
            .into_iter()
            .zip([first, second])
            .map(|(leaf, period)| (event, Some(leaf), Weight { period, samples: 1 }));
        frames.missing.largest(&profile, samples.chain([unmapped]))
    }

    #[test]
    fn advises_the_file_with_the_largest_share_of_at_least_5_percent() {
        let advice_for = |first, second| {
            let advice = advice(first, second)?;
            match advice.lack {
                MissingSymbols::Binary(file) | MissingSymbols::Permission(file) => {
                    Some((file.path, advice.percent))
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(advice_for(60, 40), Some(("/nonexistent/a".to_owned(), 30.0)));
        assert_eq!(advice_for(0, 100), Some(("/nonexistent/b".to_owned(), 50.0)));
        assert_eq!(advice_for(5, 0), None, "less than 5%");
    }
}

//! Sums up the cycles of the code between branches, from samples' branch stacks.
//!
//! ```text
//! time     -- branch -->  ...........  -- branch, 7 cycles -->  ...
//!               to ------ block ------ from
//! ```
//! As in `perf report --total-cycles` (`tools/perf/util/block-info.c`), blocks that end at the same
//! branch count as the longest of them.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;

use tare_format::abi::bindings::PERF_SAMPLE_BRANCH_ANY;
use tare_format::record::{Branch, Branches, Sample};
use tare_profile::{Block, Blocks, EventId, Profile, SourceLine};
use tare_symbols::{DsoAddress, SourceLocation, Symbol};

use super::frames::short_name;
use crate::callchain::CodeAddress;
use crate::machine::Machine;
use crate::replayed::Replayed;

#[derive(Debug, Default)]
pub(super) struct BlockCycles {
    by_event: BTreeMap<EventId, EventCycles>,
    blocks: Vec<Blocks>,
}

#[derive(Debug, Default)]
struct EventCycles {
    cycles: u64,
    /// By function and the offset of the branch at the end, in bytes.
    ends: HashMap<(Symbol, u64), BlockSum, foldhash::fast::RandomState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct BlockSum {
    runs: u64,
    cycles: u64,
    /// The lowest start offset.
    start: Option<u64>,
}

impl BlockCycles {
    /// Adds the branches of a sample.
    pub(super) fn add(
        &mut self,
        machine: &Machine,
        sample: &Replayed<'_, Sample<'_>>,
        event: EventId,
    ) {
        let sums = self.by_event.entry(event).or_default();
        let pid = sample.fields.head.pid.unwrap_or(-1);
        let mut branches: Vec<Branch> =
            sample.fields.branches.iter().flat_map(Branches::iter).collect();
        // The stack has the latest branch first.
        branches.reverse();
        let has_all = has_all_branches(sample);
        let mut before: Option<u64> = None;
        for branch in branches {
            let begun = before.replace(branch.to).filter(|_| has_all);
            let cycles = u64::from(branch.cycles);
            sums.cycles = sums.cycles.saturating_add(cycles);
            if cycles == 0 {
                continue;
            }
            let Some(at) = find_dso_address(machine, pid, branch.from) else { continue };
            let Ok(symbol) = machine.symbol(at) else { continue };
            let end = at.address.saturating_sub(symbol.start);
            let start = begun
                .and_then(|begun| find_dso_address(machine, pid, begun))
                .filter(|begun| begun.dso == symbol.dso && begun.address < at.address)
                .and_then(|begun| begun.address.checked_sub(symbol.start));
            let sum = sums.ends.entry((symbol, end)).or_default();
            sum.runs += 1;
            sum.cycles = sum.cycles.saturating_add(cycles);
            sum.start = sum.start.into_iter().chain(start).min();
        }
    }

    /// Finishes the blocks, with the names of their functions and their lines.
    pub(super) fn finish(&mut self, profile: &mut Profile, machine: &Machine) {
        let blocks = |(event, EventCycles { cycles, ends })| {
            let ends: Vec<_> = ends.into_iter().collect();
            let place = |symbol: &Symbol, offset: u64| DsoAddress {
                dso: symbol.dso,
                address: symbol.start.saturating_add(offset),
            };
            let places: Vec<_> = ends
                .iter()
                .flat_map(|((symbol, end), sum)| {
                    [sum.start.unwrap_or(0), *end].map(|at| (symbol, at))
                })
                .map(|(symbol, at)| place(symbol, at))
                .collect();
            let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
            let frames = machine.frames(&places, threads);
            let mut line = |at: usize| {
                let location = frames.get(at).next()?.location.filter(|at| at.line > 0)?;
                let file = profile.add_string(location.file.as_bytes());
                let SourceLocation { line, column, .. } = location;
                Some(SourceLine { file, line, column, first_line: 0 })
            };
            let lines: Vec<_> =
                (0..ends.len()).map(|at| (line(2 * at), line(2 * at + 1))).collect();
            let block =
                |(((symbol, end), sum), (start_line, end_line)): (((Symbol, u64), BlockSum), _)| {
                    let name = machine.symbol_name(symbol);
                    let dso = machine.dso_name(symbol.dso);
                    Block {
                        function: profile.add_string(name.as_bytes()),
                        dso: profile.add_string(&short_name(dso)),
                        start: sum.start.unwrap_or(0),
                        end,
                        start_line,
                        end_line,
                        cycles: sum.cycles,
                        runs: sum.runs,
                    }
                };
            let mut blocks: Vec<_> = ends.into_iter().zip(lines).map(block).collect();
            blocks.sort_by(|left, right| sort_key(profile, left).cmp(&sort_key(profile, right)));
            Blocks { event, cycles, blocks }
        };
        self.blocks = std::mem::take(&mut self.by_event).into_iter().map(blocks).collect();
    }

    pub(super) fn into_blocks(self) -> Vec<Blocks> {
        self.blocks
    }
}

/// Returns a key that sorts by cycles in descending order, then as in perf by name in reverse, then
/// by address and file.
fn sort_key<'a>(profile: &'a Profile, block: &Block) -> impl Ord + use<'a> {
    use std::cmp::Reverse;
    let name = profile.string(block.function);
    (Reverse(block.cycles), Reverse(name), block.start, block.end, block.dso)
}

/// Returns the DSO address of a branch's source or target.
fn find_dso_address(machine: &Machine, pid: i32, address: u64) -> Option<DsoAddress> {
    let at = CodeAddress::from_branch(address);
    machine.dso_address(at.mode, pid, at.address)
}

/// Whether all kinds of branches were recorded, so that the code between two of them ran straight.
fn has_all_branches(sample: &Replayed<'_, Sample<'_>>) -> bool {
    let layouts = sample.description.lookup().layouts();
    let layout = sample.event.and_then(|event| layouts.get(event));
    let kinds = layout.map_or(0, |layout| layout.branch_sample_type);
    kinds & u64::from(PERF_SAMPLE_BRANCH_ANY) != 0
}

#[cfg(test)]
mod tests {
    use tare_format::Endian;
    use tare_format::file::Description;
    use tare_format::record::{Layout, RawRecord, kind};

    use super::*;
    use crate::machine::tests::machine_with;

    const BRANCH_STACK: u64 = 1 << 11;

    #[test]
    fn cycles_of_unnamed_code_count_towards_the_total_only() {
        // Two branches of 7 and 5 cycles: the flags hold the cycles from bit 4 on.
        let words = [2_u64, 0x1010, 0x1000, 7 << 4, 0x1020, 0x1018, 5 << 4];
        let body = words.map(u64::to_le_bytes).concat();
        let raw = RawRecord {
            kind: kind::PERF_RECORD_SAMPLE,
            misc: 2,
            body: &body,
            endian: Endian::Little,
        };
        let layout = Layout { sample_type: BRANCH_STACK, ..Layout::default() };
        let fields = Sample::decode(&raw, &layout).unwrap();
        let description = Description::from_events(Endian::Little, []);
        let sample = Replayed {
            time_ns: None,
            description: &description,
            event: None,
            raw,
            fields: &fields,
        };
        let machine = machine_with(&[(-1, 0x1000, "/nonexistent/program")]);
        let mut profile = Profile::default();
        let name = profile.add_string(b"cycles");
        let event = profile.name_event(0, name);
        let mut cycles = BlockCycles::default();
        cycles.add(&machine, &sample, event);
        cycles.add(&machine, &sample, event);
        cycles.finish(&mut profile, &machine);
        let blocks = cycles.into_blocks();
        assert_eq!((blocks.len(), blocks[0].event, blocks[0].cycles), (1, event, 24));
        assert!(blocks[0].blocks.is_empty());
    }
}

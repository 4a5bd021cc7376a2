//! Further fields of samples that sort keys use.

use std::collections::HashMap;

use tare_format::file::Description;
use tare_format::record::{Branch, DataSource, Namespaces, Sample};
use tare_profile::{BranchDetail, Detail, DetailsId, FrameId, FunctionKey, Profile, Value};

use super::frames::FrameTable;
use crate::callchain::CodeAddress;
use crate::cpumode::CpuMode;
use crate::machine::Machine;
use crate::replayed::Replayed;

/// Index of the cgroup namespace among a task's namespaces (`CGROUP_NS_INDEX`).
const CGROUP_NAMESPACE: usize = 6;

/// Bytes of a cache line, on x86 and on most Arm CPUs.
const CACHE_LINE: u64 = 64;

/// Reads the selected details from samples.
#[derive(Debug, Default)]
pub(super) struct Details {
    wanted: Vec<Detail>,
    /// Length of a time slice in nanoseconds.
    quantum_ns: u64,
    /// Whether times are printed with nine decimals instead of six.
    nanoseconds: bool,
    sockets: Option<Vec<u64>>,
    /// The highest number of threads that can run at once.
    cpus: Option<u64>,
    cgroup_namespaces: HashMap<i32, (u64, u64)>,
    values: Vec<Value>,
}

/// A sample, or with `branch` one of its branches.
#[derive(Clone, Copy)]
pub(super) struct DetailedSample<'a> {
    pub(super) sample: &'a Replayed<'a, Sample<'a>>,
    pub(super) branch: Option<&'a Branch>,
}

impl DetailedSample<'_> {
    /// Returns the size of the sample's mapping or function, in bytes.
    fn size(&self, machine: &Machine, detail: Detail) -> Option<u64> {
        let mode = CpuMode::from_misc(self.sample.raw.misc);
        let ip = self.sample.fields.head.ip?;
        if detail == Detail::DsoSize {
            return machine.mapping_bytes(mode, self.pid(), ip);
        }
        let symbol = machine.symbol(machine.dso_address(mode, self.pid(), ip)?).ok()?;
        Some(symbol.end.saturating_sub(symbol.start))
    }

    fn pid(&self) -> i32 {
        self.sample.fields.head.pid.unwrap_or(-1)
    }
}

impl Details {
    /// Makes a reader of `wanted` details. `quantum_ns` is the length of a slice of
    /// [`Detail::Time`].
    pub(super) fn new(wanted: Vec<Detail>, quantum_ns: u64, nanoseconds: bool) -> Self {
        Self { wanted, quantum_ns, nanoseconds, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Learns a task's cgroup namespace, if [`Detail::CgroupId`] is selected.
    pub(super) fn learn_namespaces(&mut self, namespaces: &Namespaces<'_>) {
        if !self.wanted.contains(&Detail::CgroupId) {
            return;
        }
        if let Some(link) = namespaces.links().nth(CGROUP_NAMESPACE) {
            self.cgroup_namespaces.insert(namespaces.tid, (link.dev, link.inode));
        }
    }

    /// Adds the details of a sample to a profile.
    pub(super) fn add(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        mut frames: Option<&mut FrameTable>,
        detailed: DetailedSample<'_>,
    ) -> Option<DetailsId> {
        if self.wanted.is_empty() {
            return None;
        }
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        for at in 0..self.wanted.len() {
            let detail = self.wanted[at];
            values.push(self.read_value(profile, machine, frames.as_deref_mut(), detail, detailed));
        }
        let details = profile.add_details(&values);
        self.values = values;
        Some(details)
    }

    fn read_value(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        frames: Option<&mut FrameTable>,
        detail: Detail,
        detailed: DetailedSample<'_>,
    ) -> Value {
        let sample = detailed.sample.fields;
        let number = |number: Option<u64>| number.map_or(Value::None, Value::Number);
        let text = |profile: &mut Profile, text: Option<String>| {
            text.map_or(Value::None, |text| Value::Text(profile.add_string(text.as_bytes())))
        };
        let source = sample.data_src.map(DataSource);
        match detail {
            Detail::Parent => Value::None,
            Detail::Cgroup => cgroup_value(profile, machine, sample.cgroup),
            Detail::CgroupId => {
                let known = sample.head.tid.and_then(|tid| self.cgroup_namespaces.get(&tid));
                let known = known.map(|(device, inode)| format!("{device}/{inode:#x}"));
                text(profile, known)
            }
            Detail::Time => {
                let time = detailed.sample.time_ns.map(|time_ns| self.format_slice(time_ns));
                text(profile, time)
            }
            Detail::LocalWeight | Detail::Weight => number(sample.weight),
            Detail::LocalInsLat | Detail::InsLat => number(sample.ins_lat.map(u64::from)),
            Detail::LocalPStageCyc | Detail::PStageCyc => number(sample.p_stage_cyc.map(u64::from)),
            Detail::DsoSize | Detail::SymbolSize => number(detailed.size(machine, detail)),
            Detail::CodeSymbol => {
                let mode = CpuMode::from_misc(detailed.sample.raw.misc);
                let place = sample.head.ip.map(|address| CodeAddress::exact(mode, address));
                place_value(profile, machine, frames, detailed.pid(), place, detail)
            }
            Detail::Socket => {
                number(self.find_socket(detailed.sample.description, sample.head.cpu))
            }
            Detail::Parallelism => {
                Value::Number(self.limit_running(detailed.sample.description, machine))
            }
            Detail::Address => number(sample.head.ip),
            Detail::CodePageSize => number(sample.code_page_size),
            Detail::DataPageSize => number(sample.data_page_size),
            Detail::Transaction => text(profile, sample.transaction.map(transaction_text)),
            Detail::PhysicalAddress => number(sample.phys_addr),
            Detail::Memory => text(profile, source.map(DataSource::level)),
            Detail::Snoop => text(profile, source.map(DataSource::snoop)),
            Detail::Tlb => text(profile, source.map(DataSource::tlb)),
            Detail::Locked => text(profile, source.map(|source| source.locked().to_owned())),
            Detail::Blocked => text(profile, source.map(DataSource::blocked)),
            Detail::DataSymbol | Detail::DataCacheline | Detail::DataDso => {
                let place = sample.head.addr.map(CodeAddress::from_branch);
                place_value(profile, machine, frames, detailed.pid(), place, detail)
            }
            Detail::Branch(of_branch) => {
                self.read_branch_value(profile, machine, frames, of_branch, detailed)
            }
        }
    }

    fn read_branch_value(
        &self,
        profile: &mut Profile,
        machine: &mut Machine,
        frames: Option<&mut FrameTable>,
        detail: BranchDetail,
        detailed: DetailedSample<'_>,
    ) -> Value {
        let Some(branch) = detailed.branch else { return Value::None };
        let flag = |profile: &mut Profile, is_set: bool, set: &str, other: &str| {
            Value::Text(profile.add_string(if is_set { set } else { other }.as_bytes()))
        };
        match detail {
            BranchDetail::Mispredict if !branch.mispredicted && !branch.predicted => Value::None,
            BranchDetail::Mispredict => flag(profile, branch.mispredicted, "Y", "N"),
            BranchDetail::InTransaction => flag(profile, branch.in_transaction, "T", "."),
            BranchDetail::Abort => flag(profile, branch.abort, "A", "."),
            BranchDetail::Cycles if branch.cycles == 0 => Value::None,
            BranchDetail::Cycles => Value::Number(branch.cycles.into()),
            BranchDetail::SymbolFrom | BranchDetail::AddressFrom | BranchDetail::DsoFrom => {
                let from = Some(CodeAddress::from_branch(branch.from));
                place_value(profile, machine, frames, detailed.pid(), from, Detail::Branch(detail))
            }
            BranchDetail::SymbolTo | BranchDetail::AddressTo | BranchDetail::DsoTo => {
                let to = Some(CodeAddress::from_branch(branch.to));
                place_value(profile, machine, frames, detailed.pid(), to, Detail::Branch(detail))
            }
        }
    }

    /// Returns the start of a time's slice, in seconds.
    fn format_slice(&self, time_ns: u64) -> String {
        let begin_ns = time_ns - time_ns.checked_rem(self.quantum_ns).unwrap_or(0);
        let seconds = begin_ns / 1_000_000_000;
        let rest_ns = begin_ns % 1_000_000_000;
        if self.nanoseconds {
            format!("{seconds}.{rest_ns:09}")
        } else {
            format!("{seconds}.{:06}", rest_ns / 1000)
        }
    }

    /// Returns how many threads run, at most the number of CPUs: records of switches may be lost.
    fn limit_running(&mut self, description: &Description, machine: &Machine) -> u64 {
        let cpus = || description.features().cpus().map_or(u64::MAX, |(present, _)| present.into());
        machine.running_threads().min((*self.cpus.get_or_insert_with(cpus)).max(1))
    }

    pub(super) fn find_socket(
        &mut self,
        description: &Description,
        cpu: Option<u32>,
    ) -> Option<u64> {
        let sockets = self.sockets.get_or_insert_with(|| {
            let topology = description.features().cpu_topology();
            let cpus = topology.map(|topology| topology.cpus).unwrap_or_default();
            cpus.into_iter().map(|place| u64::from(place.socket)).collect()
        });
        sockets.get(usize::try_from(cpu?).ok()?).copied()
    }
}

fn cgroup_value(profile: &mut Profile, machine: &Machine, id: Option<u64>) -> Value {
    let Some(id) = id.filter(|id| *id != 0) else { return Value::None };
    Value::Text(profile.add_string(machine.cgroup(id).unwrap_or(b"unknown")))
}

/// Returns the function or the file of an address, in the form of a detail.
fn place_value(
    profile: &mut Profile,
    machine: &mut Machine,
    frames: Option<&mut FrameTable>,
    pid: i32,
    place: Option<CodeAddress>,
    detail: Detail,
) -> Value {
    let Some(frames) = frames else { return Value::None };
    let Some(place) = place else { return Value::None };
    let frame = frames.find_frame(profile, machine, pid, place);
    if matches!(
        detail,
        Detail::Branch(BranchDetail::DsoFrom | BranchDetail::DsoTo) | Detail::DataDso
    ) {
        return tare_profile::short_name(profile, Some(frame)).map_or(Value::None, Value::Text);
    }
    let in_file = |address| machine.dso_address(place.mode, pid, address).map(|at| at.address);
    let text = match detail {
        Detail::Branch(BranchDetail::AddressFrom | BranchDetail::AddressTo) => {
            let address = in_file(place.address).unwrap_or(place.address);
            function_text(profile, frame, address, Some(OffsetStyle::Unless0))
        }
        // As in perf, data without a symbol is an address in the address space.
        Detail::DataSymbol | Detail::DataCacheline => {
            let line = place.address & !(CACHE_LINE - 1);
            let address = if detail == Detail::DataCacheline { line } else { place.address };
            let known = FunctionKey::at_frame(profile, Some(frame));
            let is_named = matches!(known, FunctionKey::Named(_));
            let shown = in_file(address).filter(|_| is_named).unwrap_or(address);
            function_text(profile, frame, shown, Some(OffsetStyle::Always))
        }
        _ => {
            let address = profile.frame(frame).map_or(place.address, |frame| frame.address);
            function_text(profile, frame, address, None)
        }
    };
    Value::Text(profile.add_string(&text))
}

/// When a symbol's name is followed by the distance from its start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OffsetStyle {
    Always,
    Unless0,
}

/// Returns `[k] name`, with an offset `[k] name+0x8`, or without a name `[k]` and the address.
/// `address` is that in the file if there is a name.
fn function_text(
    profile: &Profile,
    id: FrameId,
    address: u64,
    offset: Option<OffsetStyle>,
) -> Vec<u8> {
    let letter = profile.frame(id).map_or('?', |frame| frame.space.letter());
    let mut text = format!("[{letter}] ").into_bytes();
    let FunctionKey::Named(symbol) = FunctionKey::at_frame(profile, Some(id)) else {
        text.extend_from_slice(format!("{address:#018x}").as_bytes());
        return text;
    };
    let Some(symbol) = profile.symbol(symbol) else { return text };
    text.extend_from_slice(profile.string(symbol.name));
    let distance = address.abs_diff(symbol.start);
    if offset.is_some_and(|offset| offset == OffsetStyle::Always || distance > 0) {
        let sign = if address < symbol.start { '-' } else { '+' };
        text.extend_from_slice(format!("{sign}{distance:#x}").as_bytes());
    }
    text
}

/// Names the flags of a transaction with `perf report`'s names, and appends the abort code in
/// hexadecimal. Unlike perf, prints no `NEITHER`.
fn transaction_text(bits: u64) -> String {
    const NAMES: [(u64, &str); 8] = [
        (1, "EL "),
        (1 << 1, "TX "),
        (1 << 2, "SYNC "),
        (1 << 3, "ASYNC "),
        (1 << 4, "RETRY "),
        (1 << 5, "CON "),
        (1 << 6, "CAP-WRITE "),
        (1 << 7, "CAP-READ "),
    ];
    let names = NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name);
    let mut text: String = names.collect();
    let code = bits >> 32;
    if code != 0 {
        text.push_str(&format!(":{code:x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_slice_starts_at_a_multiple_of_its_length() {
        let slice = |quantum_ns, nanoseconds, time_ns| {
            Details::new(Vec::new(), quantum_ns, nanoseconds).format_slice(time_ns)
        };
        assert_eq!(slice(100_000_000, false, 1_299_999_999), "1.200000");
        assert_eq!(slice(0, true, 1_299_999_999), "1.299999999", "each time is its own slice");
    }

    #[test]
    fn transactions_are_named_like_in_perf() {
        assert_eq!(transaction_text(0), "");
        assert_eq!(transaction_text(1 << 1 | 1 << 4), "TX RETRY ");
        assert_eq!(transaction_text(1 | 0x2a << 32), "EL :2a");
    }
}

//! What columns and sort keys are called, as in `perf report`.

use tare_profile::{Detail, Key, Space};

use crate::Column;

/// Figures and keys by perf's names.
const COLUMNS: [(&str, Column); 57] = [
    ("overhead", Column::Overhead),
    ("overhead_children", Column::Children),
    ("overhead_sys", Column::OverheadOf(Space::Kernel)),
    ("overhead_us", Column::OverheadOf(Space::User)),
    ("overhead_guest_sys", Column::OverheadOf(Space::GuestKernel)),
    ("overhead_guest_us", Column::OverheadOf(Space::GuestUser)),
    ("sample", Column::Samples),
    ("period", Column::Period),
    ("comm", Column::Key(Key::Comm)),
    ("pid", Column::Key(Key::Tid)),
    ("tid", Column::Key(Key::Tid)),
    ("tgid", Column::Key(Key::Tgid)),
    ("dso", Column::Key(Key::Dso)),
    ("sym", Column::Key(Key::Symbol)),
    ("symbol", Column::Key(Key::Symbol)),
    ("srcline", Column::Key(Key::SrcLine)),
    ("srcfile", Column::Key(Key::SrcFile)),
    ("cpu", Column::Key(Key::Cpu)),
    ("event", Column::Key(Key::Event)),
    ("trace", Column::Key(Key::Trace)),
    ("parent", detail(Detail::Parent)),
    ("cgroup", detail(Detail::Cgroup)),
    ("cgroup_id", detail(Detail::CgroupId)),
    ("time", detail(Detail::Time)),
    ("local_weight", detail(Detail::LocalWeight)),
    ("weight", detail(Detail::Weight)),
    ("local_ins_lat", detail(Detail::LocalInsLat)),
    ("ins_lat", detail(Detail::InsLat)),
    ("local_p_stage_cyc", detail(Detail::LocalPStageCyc)),
    ("p_stage_cyc", detail(Detail::PStageCyc)),
    ("dso_size", detail(Detail::DsoSize)),
    ("symbol_size", detail(Detail::SymbolSize)),
    ("symbol_iaddr", detail(Detail::CodeSymbol)),
    ("dcacheline", detail(Detail::DataCacheline)),
    ("addr_from", detail(Detail::AddressFrom)),
    ("addr_to", detail(Detail::AddressTo)),
    ("socket", detail(Detail::Socket)),
    ("addr", detail(Detail::Address)),
    ("code_page_size", detail(Detail::CodePageSize)),
    ("data_page_size", detail(Detail::DataPageSize)),
    ("transaction", detail(Detail::Transaction)),
    ("phys_daddr", detail(Detail::PhysicalAddress)),
    ("symbol_daddr", detail(Detail::DataSymbol)),
    ("dso_daddr", detail(Detail::DataDso)),
    ("mem", detail(Detail::Memory)),
    ("snoop", detail(Detail::Snoop)),
    ("tlb", detail(Detail::Tlb)),
    ("locked", detail(Detail::Locked)),
    ("blocked", detail(Detail::Blocked)),
    ("symbol_from", detail(Detail::SymbolFrom)),
    ("symbol_to", detail(Detail::SymbolTo)),
    ("dso_from", detail(Detail::DsoFrom)),
    ("dso_to", detail(Detail::DsoTo)),
    ("mispredict", detail(Detail::Mispredict)),
    ("in_tx", detail(Detail::InTransaction)),
    ("abort", detail(Detail::Abort)),
    ("cycles", detail(Detail::Cycles)),
];

/// Other names of these, as `perf report --sort` takes them.
const SHORT: [(&str, Column); 5] = [
    ("sym_from", detail(Detail::SymbolFrom)),
    ("sym_to", detail(Detail::SymbolTo)),
    ("local_cycles", detail(Detail::Cycles)),
    // perf 6.12 on x86.
    ("local_retire_lat", detail(Detail::LocalPStageCyc)),
    ("retire_lat", detail(Detail::PStageCyc)),
];

const fn detail(detail: Detail) -> Column {
    Column::Key(Key::Detail(detail))
}

impl Column {
    /// The column of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let mut all = COLUMNS.iter().chain(&SHORT);
        all.find(|(known, _)| *known == name).map(|(_, column)| *column)
    }

    /// All names, but for those that only shorten others.
    pub fn names() -> impl Iterator<Item = &'static str> {
        COLUMNS.iter().map(|(name, _)| *name)
    }
}

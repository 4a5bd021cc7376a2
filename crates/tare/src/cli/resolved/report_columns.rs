//! Columns and sort keys of `tare report`, by perf's names.

use tare_format::abi::bindings::{
    PERF_SAMPLE_ADDR, PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_DATA_PAGE_SIZE, PERF_SAMPLE_DATA_SRC,
    PERF_SAMPLE_PHYS_ADDR,
};
use tare_profile::{BranchDetail, Detail, SortKey, Space};
use tare_render::Column;

use crate::cli::raw;
use crate::exit::Refusal;

/// Properties of a recording that decide what a report shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingTraits {
    /// Samples have call chains.
    pub has_callchains: bool,
    /// All events are tracepoints, and the recording describes the fields of some: as in perf, the
    /// default sort key is then the fields.
    pub only_tracepoints: bool,
    /// Context switches were recorded, and several threads ran at once: as in perf, the report then
    /// shows latencies, too.
    pub shows_latency: bool,
}

/// Columns and sort keys.
#[derive(Clone, Debug)]
pub struct Columns {
    /// The columns that `-F` names; empty: the default ones.
    fields: Vec<Column>,
    /// The sort keys; empty: the default ones.
    sort: Vec<Column>,
    /// More columns of figures.
    figures: Vec<Column>,
    /// Whether keys of memory accesses or branches are defaults, which need no data.
    has_data_defaults: bool,
    /// Whether latencies come before the overhead, and sort the rows.
    prefers_latency: bool,
}

/// A named key whose data no sample of the recording has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyWithoutData {
    /// The key.
    name: &'static str,
    /// The data, and the option of `tare record` that records them.
    missing: MissingData,
}

/// Data of samples, and the option of `tare record` that records them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MissingData {
    what: &'static str,
    option: &'static str,
}

impl std::fmt::Display for KeyWithoutData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MissingData { what, option } = self.missing;
        write!(
            f,
            "the samples have no {what}, so the key {} can't be shown (tare record {option} records them)",
            self.name
        )
    }
}

impl Columns {
    pub(super) fn resolve(raw: &raw::ReportArgs) -> Result<Self, Refusal> {
        let (mut fields, adds_fields) = columns(&raw.keys.columns.fields)?;
        let (mut sort, adds_keys) = columns(&raw.keys.columns.sort)?;
        let figures = [
            (raw.keys.show_cpu_utilization, Column::OverheadOf(Space::Kernel)),
            (raw.keys.show_cpu_utilization, Column::OverheadOf(Space::User)),
            (raw.rows.show_nr_samples, Column::Samples),
            (raw.rows.show_total_period, Column::Period),
        ];
        let mut figures: Vec<_> =
            figures.iter().filter(|(is_typed, _)| *is_typed).map(|(_, column)| *column).collect();
        let defaults = || default_keys(raw).map(Column::Key);
        // As in perf, named columns are sort keys too.
        let is_unnamed = sort.is_empty() && (fields.is_empty() || adds_fields);
        if adds_keys || is_unnamed && (raw.keys.mem_mode || raw.keys.branch_stack) {
            sort.splice(0..0, defaults());
        }
        if adds_fields {
            let (keys, more): (Vec<_>, Vec<_>) =
                fields.drain(..).partition(|column| matches!(column, Column::Key(_)));
            figures.extend(more);
            if sort.is_empty() && !keys.is_empty() {
                sort.extend(defaults());
            }
            sort.extend(keys);
        }
        let parent = Column::Key(SortKey::Detail(Detail::Parent));
        if (raw.calls.parent.is_some() || raw.filters.exclude_other) && !sort.contains(&parent) {
            if sort.is_empty() {
                sort.extend(defaults());
            }
            sort.push(parent);
        }
        let has_data_defaults = raw.keys.mem_mode || raw.keys.branch_stack;
        let prefers_latency = raw.keys.latency;
        Ok(Self { fields, sort, figures, has_data_defaults, prefers_latency })
    }

    /// Finds a named key of memory accesses or branches whose data no event samples, given all bits
    /// of the events' `sample_type`. perf refuses these keys, too; other keys show `N/A`.
    #[must_use]
    pub fn find_key_without_data(&self, sample_types: u64) -> Option<KeyWithoutData> {
        let without = |column: Column| match column {
            Column::Key(SortKey::Detail(detail)) => {
                let (bits, missing) = needed_data(detail)?;
                let name = column.info().names.first()?;
                (sample_types & bits == 0).then_some(KeyWithoutData { name, missing })
            }
            _ => None,
        };
        self.named().filter(|_| !self.has_data_defaults).find_map(without)
    }

    /// Returns the named sort keys, or the default ones.
    fn keys(&self, recorded: RecordingTraits) -> Vec<Column> {
        if !self.sort.is_empty() {
            self.sort.clone()
        } else if recorded.only_tracepoints {
            vec![Column::Key(SortKey::Trace)]
        } else {
            DEFAULT_KEYS.map(Column::Key).to_vec()
        }
    }

    /// Returns the sort keys and the columns of `-F`.
    fn named(&self) -> impl Iterator<Item = Column> {
        self.sort.iter().chain(&self.fields).copied()
    }

    /// Whether the sort keys or the columns of `-F` include this column.
    pub(super) fn has_named(&self, column: Column) -> bool {
        self.named().any(|named| named == column)
    }

    /// Returns the columns of `-F`, or the sort keys if there is no `-F`, and then the named sort
    /// keys. Overhead and figures are included only where `-F` or `-s` names them.
    pub(super) fn shown(&self, recorded: RecordingTraits) -> impl Iterator<Item = Column> {
        let shown = if self.fields.is_empty() { self.keys(recorded) } else { self.fields.clone() };
        shown.into_iter().chain(self.sort.clone())
    }

    /// Returns the columns of the table. `children`: functions that only call others have rows.
    pub(super) fn for_table(&self, recorded: RecordingTraits, children: bool) -> Vec<Column> {
        if !self.fields.is_empty() {
            return self.fields.clone();
        }
        let mut columns = self.overhead(recorded, children);
        let more = self.figures.iter().copied().chain(self.keys(recorded));
        let more: Vec<_> = more.filter(|column| !columns.contains(column)).collect();
        columns.extend(more);
        columns
    }

    /// Returns the columns that sort the rows, as in perf: with `-F` those of `-s`, or of `-F` if
    /// there is no `-s`; without `-F` the figures of `-s`, then the overhead.
    pub(super) fn row_order(&self, recorded: RecordingTraits, children: bool) -> Vec<Column> {
        match (self.fields.is_empty(), self.sort.is_empty()) {
            (false, false) => self.sort.clone(),
            (false, true) => self.fields.clone(),
            (true, _) => {
                let figures = self.sort.iter().filter(|column| !matches!(column, Column::Key(_)));
                figures.copied().chain(self.overhead(recorded, children)).collect()
            }
        }
    }

    /// Returns the columns of overhead and latency. As in perf, a latency among the sort keys
    /// replaces them, unless `--latency` is typed.
    fn overhead(&self, recorded: RecordingTraits, children: bool) -> Vec<Column> {
        let sorts_by = |columns: &[Column]| self.sort.iter().any(|key| columns.contains(key));
        let overhead =
            [(Column::Children, Column::LatencyChildren), (Column::Overhead, Column::Latency)];
        let overhead =
            overhead.iter().filter(|(column, _)| children || *column == Column::Overhead);
        if self.prefers_latency {
            return overhead.flat_map(|(overhead, latency)| [*latency, *overhead]).collect();
        }
        let is_latency_key = sorts_by(&[Column::Latency, Column::LatencyChildren]);
        if is_latency_key && !sorts_by(&[Column::Overhead, Column::Children]) {
            return Vec::new();
        }
        let shows_latency =
            recorded.shows_latency && !sorts_by(&[Column::Overhead, Column::Children]);
        overhead
            .flat_map(|(overhead, latency)| {
                std::iter::once(*overhead).chain(shows_latency.then_some(*latency))
            })
            .collect()
    }

    /// Whether a column needs a recording of context switches.
    pub(super) fn need_switches(&self) -> bool {
        let parallelism = Column::Key(SortKey::Detail(Detail::Parallelism));
        self.prefers_latency
            || self.named().any(|column| column.is_latency() || column == parallelism)
            || self.figures.iter().any(|column| column.is_latency())
    }

    /// Whether the function is the first column after the figures, because `-s` says so.
    pub(super) fn begin_with_symbol(&self) -> bool {
        self.fields.is_empty() && self.sort.first() == Some(&Column::Key(SortKey::Symbol))
    }

    /// Returns the keys of rows that are details of samples, each once.
    #[must_use]
    pub fn details(&self, recorded: RecordingTraits) -> Vec<Detail> {
        let mut details = Vec::new();
        for column in self.shown(recorded) {
            if let Column::Key(SortKey::Detail(detail)) = column
                && !details.contains(&detail)
            {
                details.push(detail);
            }
        }
        details
    }

    /// Whether a named key needs source lines.
    #[must_use]
    pub fn need_lines(&self) -> bool {
        self.named().any(is_of_lines)
    }

    /// Whether rows are keyed by tracepoint fields.
    #[must_use]
    pub fn show_trace(&self, recorded: RecordingTraits) -> bool {
        self.shown(recorded).any(|column| column == Column::Key(SortKey::Trace))
    }

    /// Whether `comm` is the only named sort key.
    #[must_use]
    pub fn is_by_command(&self) -> bool {
        self.sort == [Column::Key(SortKey::Comm)]
    }

    /// Whether a column has the share of the kernel or of user space.
    pub(super) fn split_overhead(&self) -> bool {
        let mut columns = self.named().chain(self.figures.iter().copied());
        columns.any(|column| matches!(column, Column::OverheadOf(_)))
    }

    /// Whether a column depends on the samples' code location.
    pub(super) fn need_places(&self, recorded: RecordingTraits) -> bool {
        let is_of_places = |column| match column {
            Column::Key(SortKey::Detail(detail)) => detail.is_of_places(),
            Column::Key(key) => key.is_of_frames(),
            Column::OverheadOf(_) => true,
            _ => false,
        };
        self.shown(recorded).chain(self.figures.iter().copied()).any(is_of_places)
    }
}

/// Returns the bits of `sample_type` of which a key of memory accesses or branches needs one.
fn needed_data(detail: Detail) -> Option<(u64, MissingData)> {
    let (bits, what, option) = match detail {
        Detail::DataSymbol | Detail::DataDso | Detail::DataCacheline => {
            (PERF_SAMPLE_ADDR, "data addresses", "-d")
        }
        Detail::Memory | Detail::Snoop | Detail::Tlb | Detail::Locked | Detail::Blocked => {
            (PERF_SAMPLE_DATA_SRC, "data sources", "-d")
        }
        Detail::PhysicalAddress => (PERF_SAMPLE_PHYS_ADDR, "physical addresses", "--phys-data"),
        Detail::DataPageSize => {
            (PERF_SAMPLE_DATA_PAGE_SIZE, "page sizes of data", "--data-page-size")
        }
        Detail::Branch(_) => (PERF_SAMPLE_BRANCH_STACK, "branches", "-b"),
        _ => return None,
    };
    Some((u64::from(bits), MissingData { what, option }))
}

/// Whether a column needs source lines.
pub(super) fn is_of_lines(column: Column) -> bool {
    matches!(column, Column::Key(key) if key.is_of_lines())
}

/// Sort keys of samples without `-s`, unless all events are tracepoints.
const DEFAULT_KEYS: [SortKey; 3] = [SortKey::Comm, SortKey::Dso, SortKey::Symbol];

/// Returns the default keys. Those of memory accesses and branches follow perf's.
fn default_keys(raw: &raw::ReportArgs) -> impl Iterator<Item = SortKey> + use<> {
    let detail_keys =
        |details: &[Detail]| details.iter().copied().map(SortKey::Detail).collect::<Vec<_>>();
    let keys = if raw.keys.mem_mode {
        let mut keys = detail_keys(&[Detail::LocalWeight, Detail::Memory]);
        keys.extend([SortKey::Symbol, SortKey::Dso]);
        keys.extend(detail_keys(&[
            Detail::DataSymbol,
            Detail::DataDso,
            Detail::Snoop,
            Detail::Tlb,
        ]));
        keys.extend(detail_keys(&[Detail::Locked, Detail::Blocked]));
        keys
    } else if raw.keys.branch_stack {
        let mut keys = vec![SortKey::Comm];
        let of_branches = [
            BranchDetail::DsoFrom,
            BranchDetail::SymbolFrom,
            BranchDetail::SymbolTo,
            BranchDetail::Cycles,
        ];
        keys.extend(detail_keys(&of_branches.map(Detail::Branch)));
        keys
    } else {
        DEFAULT_KEYS.to_vec()
    };
    keys.into_iter()
}

/// Looks up columns by name. Also returns whether they add to the default (`+` before the first).
fn columns(words: &[String]) -> Result<(Vec<Column>, bool), Refusal> {
    let adds = words.first().is_some_and(|word| word.starts_with('+'));
    let names = words.iter().map(|word| word.trim_start_matches('+'));
    let columns: Result<_, String> = names.map(Column::from_name).collect();
    Ok((columns.map_err(Refusal::usage)?, adds))
}

//! Options of `tare report`, by what they are for.

use regex_lite::Regex;
use tare_profile::Filter;
use tare_render::Layout;
use tare_replay::{EventSwitch, ProfileOptions};
use tare_trace::nanoseconds;

use crate::cli::raw;
use crate::cli::resolved::Extent;
use crate::exit::Refusal;

/// What is printed of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportPart {
    /// The table.
    Table,
    /// What the recording says of itself, then the table.
    HeaderAndTable(Extent),
    /// What the recording says of itself.
    Header(Extent),
    /// How many records of each kind there are.
    Stats,
    /// The tasks.
    Tasks {
        /// With what they had mapped.
        mmaps: bool,
    },
    /// Each record.
    Dump,
}

/// What perf looks for where no pattern is given.
const USUAL_PARENT: &str = "^sys_|^do_page_fault";

/// What is printed.
pub(super) fn part(raw: &raw::ReportArgs) -> ReportPart {
    let extent = if raw.show_info { Extent::Full } else { Extent::Usual };
    match (raw.header || raw.show_info, raw.header_only) {
        (_, true) => ReportPart::Header(extent),
        _ if raw.stats => ReportPart::Stats,
        _ if raw.tasks_list || raw.mmaps => ReportPart::Tasks { mmaps: raw.mmaps },
        _ if raw.dump_raw_trace => ReportPart::Dump,
        (true, _) => ReportPart::HeaderAndTable(extent),
        _ => ReportPart::Table,
    }
}

/// Which samples are shown.
pub(super) fn filter(raw: &raw::ReportArgs) -> Filter {
    let bytes = |names: &[String]| names.iter().map(|name| name.clone().into_bytes()).collect();
    Filter {
        comms: bytes(&raw.comms),
        dsos: bytes(&raw.dsos),
        symbols: bytes(&raw.symbols),
        symbol_part: raw.symbol_filter.clone().map(String::into_bytes),
        pids: raw.tasks.pid.clone(),
        tids: raw.tasks.tid.clone(),
        has_parent: raw.exclude_other,
    }
}

/// How text is laid out.
pub(super) fn layout(raw: &raw::ReportLayout) -> Layout {
    Layout {
        separator: raw.field_separator.clone(),
        widths: raw.column_widths.clone(),
        hierarchy: raw.hierarchy,
        groups: Vec::new(),
        verbose: raw.verbose > 0,
        full_source_paths: raw.full_source_path,
    }
}

/// Which functions are parents, where that is asked for.
pub(super) fn parent(raw: &raw::ReportArgs) -> Result<Option<Regex>, Refusal> {
    let is_key =
        raw.sort.iter().chain(&raw.fields).any(|word| word.trim_start_matches('+') == "parent");
    let usual = (raw.exclude_other || is_key).then_some(USUAL_PARENT);
    raw.parent.as_deref().or(usual).map(|typed| pattern("--parent", typed)).transpose()
}

/// Of which functions the callees are ignored.
pub(super) fn ignored_callees(raw: &raw::ReportArgs) -> Result<Option<Regex>, Refusal> {
    let typed = raw.ignore_callees.as_deref();
    typed.map(|typed| pattern("--ignore-callees", typed)).transpose()
}

fn pattern(option: &str, typed: &str) -> Result<Regex, Refusal> {
    Regex::new(typed).map_err(|error| Refusal::usage(format!("{option} {typed}: {error}")))
}

/// How samples are summed up, as far as options say.
pub(super) fn summed(raw: &raw::ReportArgs) -> Result<ProfileOptions, Refusal> {
    let quantum = &raw.time_quantum;
    let quantum_ns =
        nanoseconds(quantum).filter(|quantum_ns| *quantum_ns > 0).ok_or_else(|| {
            Refusal::usage(format!("--time-quantum {quantum}: a time looks like 10ms, 2s or 500us"))
        })?;
    Ok(ProfileOptions {
        time_quantum_ns: quantum_ns,
        nanoseconds: raw.layout.ns,
        branches: raw.branch_stack,
        blocks: raw.total_cycles && raw.branch_stack,
        raw_trace: raw.raw_trace,
        by_cost: raw.mem_mode,
        max_stack: raw.max_stack,
        socket: raw.socket_filter,
        switch: EventSwitch {
            on: raw.switch_on.clone().map(String::into_bytes),
            off: raw.switch_off.clone().map(String::into_bytes),
            shows: raw.show_on_off_events,
        },
        ..ProfileOptions::default()
    })
}

//! Parts of `tare report`'s options.

use regex_lite::Regex;
use tare_profile::Filter;
use tare_render::Layout;
use tare_replay::ProfileOptions;
use tare_trace::parse_nanoseconds;

use super::events::event_switch;
use crate::cli::raw;
use crate::cli::resolved::Extent;
use crate::exit::Refusal;

/// Printed part of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportPart {
    /// The table.
    Table,
    /// The recording's header, then the table.
    HeaderAndTable(Extent),
    /// The recording's header.
    Header(Extent),
    /// Number of records of each kind.
    Stats,
    /// The tasks.
    Tasks {
        /// With their mappings.
        mmaps: bool,
    },
    /// Each record.
    Dump,
}

/// perf's default pattern of parents.
const DEFAULT_PARENT: &str = "^sys_|^do_page_fault";

/// Resolves the printed part.
pub(super) fn part(raw: &raw::ReportArgs) -> ReportPart {
    let extent = if raw.output.show_info { Extent::Full } else { Extent::Usual };
    match (raw.output.header || raw.output.show_info, raw.output.header_only) {
        (_, true) => ReportPart::Header(extent),
        _ if raw.output.stats => ReportPart::Stats,
        _ if raw.output.tasks_list || raw.output.mmaps => {
            ReportPart::Tasks { mmaps: raw.output.mmaps }
        }
        _ if raw.output.dump_raw_trace => ReportPart::Dump,
        (true, _) => ReportPart::HeaderAndTable(extent),
        _ => ReportPart::Table,
    }
}

/// Resolves the filters.
pub(super) fn filter(raw: &raw::ReportArgs) -> Filter {
    let bytes = |names: &[String]| names.iter().map(|name| name.clone().into_bytes()).collect();
    Filter {
        comms: bytes(&raw.filters.comms),
        dsos: bytes(&raw.filters.dsos),
        symbols: bytes(&raw.filters.symbols),
        symbol_part: raw.filters.symbol_filter.clone().map(String::into_bytes),
        pids: raw.filters.tasks.pid.clone(),
        tids: raw.filters.tasks.tid.clone(),
        has_parent: raw.filters.exclude_other,
    }
}

/// Resolves the layout of text.
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

/// Resolves the pattern of parents, if an option or key needs it.
pub(super) fn parent(raw: &raw::ReportArgs) -> Result<Option<Regex>, Refusal> {
    let is_key = raw
        .keys
        .sort
        .iter()
        .chain(&raw.keys.fields)
        .any(|word| word.trim_start_matches('+') == "parent");
    let default = (raw.filters.exclude_other || is_key).then_some(DEFAULT_PARENT);
    raw.calls.parent.as_deref().or(default).map(|typed| pattern("--parent", typed)).transpose()
}

/// Resolves the pattern of functions whose callees are ignored.
pub(super) fn ignored_callees(raw: &raw::ReportArgs) -> Result<Option<Regex>, Refusal> {
    let typed = raw.calls.ignore_callees.as_deref();
    typed.map(|typed| pattern("--ignore-callees", typed)).transpose()
}

fn pattern(option: &str, typed: &str) -> Result<Regex, Refusal> {
    Regex::new(typed).map_err(|error| Refusal::usage(format!("{option} {typed}: {error}")))
}

/// Resolves the options of summing.
pub(super) fn summed(raw: &raw::ReportArgs) -> Result<ProfileOptions, Refusal> {
    let quantum = &raw.keys.time_quantum;
    let quantum_ns =
        parse_nanoseconds(quantum).filter(|quantum_ns| *quantum_ns > 0).ok_or_else(|| {
            Refusal::usage(format!(
                "--time-quantum {quantum}: give a time such as 10ms, 2s or 500us"
            ))
        })?;
    Ok(ProfileOptions {
        time_quantum_ns: quantum_ns,
        nanoseconds: raw.layout.ns,
        branches: raw.keys.branch_stack,
        blocks: raw.keys.total_cycles && raw.keys.branch_stack,
        raw_trace: raw.keys.raw_trace,
        by_cost: raw.keys.mem_mode,
        max_stack: raw.calls.max_stack,
        socket: raw.filters.socket_filter,
        switch: event_switch(&raw.filters.switch),
        ..ProfileOptions::default()
    })
}

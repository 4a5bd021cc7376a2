//! Parts of `tare report`'s options.

use regex_lite::Regex;
use tare_profile::Filter;
use tare_render::Layout;
use tare_replay::ProfileOptions;
use tare_symbols::SymbolOptions;
use tare_trace::parse_nanoseconds;

use super::events::event_switch;
use crate::cli::raw;
use crate::cli::resolved::{Extent, script, symbols};
use crate::exit::Refusal;

/// Printed part of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportPart {
    /// The table.
    Table,
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

/// What is printed, and in which form.
#[derive(Clone, Copy, Debug)]
pub struct ReportOutput {
    /// The recording's header, before the part below.
    pub header: Option<Extent>,
    /// The printed part of the recording.
    pub part: ReportPart,
    /// As JSON.
    pub json: bool,
    /// Text, pager or interactive.
    pub interface: Interface,
    /// Whether only rows are printed.
    pub quiet: bool,
    /// Whether each thread's counts are printed.
    pub threads: bool,
    /// Panics once the screen is shown, for a test.
    pub tui_panic: bool,
}

/// Rows and their shares.
#[derive(Clone, Copy, Debug)]
pub struct RowOptions {
    /// Whether functions that only call others have rows, if call chains were recorded.
    pub children: bool,
    /// Rows below this percentage are hidden.
    pub percent_limit: f64,
    /// Whether shares are relative to the samples that pass the filters.
    pub is_relative: bool,
    /// Whether samples without a symbol are hidden.
    pub hides_unresolved: bool,
    /// Index of the event that sorts the rows of groups, if groups are shown side by side.
    pub group: Option<usize>,
}

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Interactive if the terminal, the recording and the other options allow it, otherwise text.
    Fitting,
    /// As text.
    Text,
    /// As text through a pager.
    Pager,
    /// On the terminal.
    Terminal,
}

impl Interface {
    fn resolve(raw: &raw::ReportOutputArgs) -> Self {
        match (raw.interface.tui, raw.pager, raw.interface.stdio) {
            (true, ..) => Self::Terminal,
            (_, true, _) => Self::Pager,
            (.., true) => Self::Text,
            _ => Self::Fitting,
        }
    }
}

/// Resolves the form of the output.
pub(super) fn output(raw: &raw::ReportOutputArgs) -> ReportOutput {
    ReportOutput {
        header: header(&raw.file),
        part: part(raw),
        json: raw.json.json,
        interface: Interface::resolve(raw),
        quiet: raw.text.quiet,
        threads: raw.threads,
        tui_panic: raw.tui_panic,
    }
}

/// Resolves which rows are shown.
pub(super) fn rows(raw: &raw::ReportArgs) -> RowOptions {
    let children = raw.rows.children || !(raw.rows.no_children || raw.calls.no_call_graph);
    // As in perf: with a hierarchy, branches or memory accesses, callers have no rows of their own.
    let is_one_row = raw.layout.hierarchy || raw.keys.branch_stack || raw.keys.mem_mode;
    RowOptions {
        children: children && !is_one_row,
        percent_limit: raw.rows.percent_limit.unwrap_or(0.0),
        is_relative: raw.rows.base.percentage == raw::Percentage::Relative,
        hides_unresolved: raw.filters.hide_unresolved,
        group: raw.layout.group.then_some(raw.layout.group_sort_idx),
    }
}

/// perf's default pattern of parents.
const DEFAULT_PARENT: &str = "^sys_|^do_page_fault";

/// Resolves the printed part.
fn part(raw: &raw::ReportOutputArgs) -> ReportPart {
    match raw {
        _ if raw.file.header_only => ReportPart::Header(extent(&raw.file)),
        _ if raw.stats => ReportPart::Stats,
        _ if raw.tasks_list || raw.mmaps => ReportPart::Tasks { mmaps: raw.mmaps },
        _ if raw.file.dump_raw_trace => ReportPart::Dump,
        _ => ReportPart::Table,
    }
}

/// Resolves the extent of the header in front of another part; `None` without one.
fn header(raw: &raw::FilePartArgs) -> Option<Extent> {
    (raw.header || raw.show_info).then(|| extent(raw))
}

fn extent(raw: &raw::FilePartArgs) -> Extent {
    if raw.show_info { Extent::Full } else { Extent::Usual }
}

/// Resolves the filters.
pub(super) fn filter(raw: &raw::ReportArgs) -> Result<Filter, Refusal> {
    let bytes = |names: &[String]| names.iter().map(|name| name.clone().into_bytes()).collect();
    Ok(Filter {
        comms: bytes(&raw.filters.names.comms),
        dsos: bytes(&raw.filters.names.dsos),
        symbols: bytes(&raw.filters.names.symbols),
        symbol_part: raw.filters.symbol_filter.clone().map(String::into_bytes),
        pids: raw::TaskList::ids(&raw.filters.tasks.pid),
        tids: raw::TaskList::ids(&raw.filters.tasks.tid),
        has_parent: raw.filters.exclude_other,
        parallelism: parallelism(raw.filters.parallelism.as_deref())?,
    })
}

/// Parses `--parallelism`: `1,8-16` are the ranges 1 to 1 and 8 to 16. Empty without a list.
fn parallelism(typed: Option<&str>) -> Result<Vec<(u64, u64)>, Refusal> {
    let Some(typed) = typed else { return Ok(Vec::new()) };
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = (first.parse().ok()?, last.parse().ok()?);
        (range.0 >= 1 && range.0 <= range.1).then_some(range)
    };
    let ranges = typed.split(',').map(range).collect::<Option<_>>();
    ranges.ok_or_else(|| {
        Refusal::usage(format!(
            "--parallelism {typed}: give numbers of running threads from 1 on, such as 1,8-16"
        ))
    })
}

/// Resolves the layout of text.
pub(super) fn layout(raw: &raw::ReportArgs) -> Layout {
    Layout {
        separator: raw.output.text.field_separator.clone(),
        widths: raw.layout.table.column_widths.clone(),
        hierarchy: raw.layout.hierarchy,
        groups: Vec::new(),
        verbose: raw.layout.table.verbose > 0,
        full_source_paths: raw.layout.precision.full_source_path,
    }
}

/// Functions that patterns select.
#[derive(Clone, Debug)]
pub struct FunctionPatterns {
    /// Parents, for the key `parent` and for `--exclude-other`.
    pub parents: Option<Regex>,
    /// Functions whose callees are ignored.
    pub ignored_callees: Option<Regex>,
}

impl FunctionPatterns {
    /// Resolves `--ignore-callees` and `--parent`. If `--parent` wasn't typed but a key or
    /// `--exclude-other` needs it, it is [`DEFAULT_PARENT`].
    pub(super) fn resolve(raw: &raw::ReportArgs) -> Result<Self, Refusal> {
        let columns = &raw.keys.columns;
        let mut named = columns.sort.iter().chain(&columns.fields);
        let is_key = named.any(|word| word.trim_start_matches('+') == "parent");
        let default = (raw.filters.exclude_other || is_key).then_some(DEFAULT_PARENT);
        let parents = raw.calls.parent.as_deref().or(default);
        let ignored = raw.calls.ignore_callees.as_deref();
        Ok(Self {
            parents: parents.map(|typed| pattern("--parent", typed)).transpose()?,
            ignored_callees: ignored.map(|typed| pattern("--ignore-callees", typed)).transpose()?,
        })
    }

    /// Whether they need call chains.
    pub(super) fn need_chains(&self) -> bool {
        self.parents.is_some() || self.ignored_callees.is_some()
    }
}

fn pattern(option: &str, typed: &str) -> Result<Regex, Refusal> {
    Regex::new(typed).map_err(|error| Refusal::usage(format!("{option} {typed}: {error}")))
}

/// Resolves the options of summing.
pub(super) fn summed(raw: raw::ReportArgs) -> Result<ProfileOptions, Refusal> {
    let quantum = &raw.keys.time_quantum;
    let quantum_ns =
        parse_nanoseconds(quantum).filter(|quantum_ns| *quantum_ns > 0).ok_or_else(|| {
            Refusal::usage(format!(
                "--time-quantum {quantum}: give a time such as 10ms, 2s or 500us"
            ))
        })?;
    let columns = &raw.keys.columns;
    let mut named = columns.sort.iter().chain(&columns.fields);
    let folds_numbers = named.any(|word| word.trim_start_matches('+') == "comm_nodigit");
    Ok(ProfileOptions {
        time: script::times(raw.filters.tasks.range.time.as_deref())?,
        cpus: script::cpus(raw.filters.tasks.range.cpu.as_deref())?,
        inline: !raw.calls.inline.no_inline,
        include_self: raw.filters.own.include_self,
        exact: raw.keys.weight == raw::SampleWeight::Exact,
        symbols: SymbolOptions {
            lines_from_servers: raw.calls.inline.inline,
            ..symbols::resolve(raw.symbol_search)
        },
        time_quantum_ns: quantum_ns,
        nanoseconds: raw.layout.precision.ns,
        branches: raw.keys.branch_stack,
        blocks: raw.keys.total_cycles && raw.keys.branch_stack,
        raw_trace: raw.keys.raw_trace,
        folds_numbers,
        by_cost: raw.keys.mem_mode,
        max_stack: raw.calls.length.max_stack,
        socket: raw.filters.socket_filter,
        switch: event_switch(&raw.filters.switch),
        ..ProfileOptions::default()
    })
}

//! Options of `tare report`.

use std::path::PathBuf;

use regex_lite::Regex;
use tare_format::file::Description;
use tare_format::file::features::GroupDesc;
use tare_profile::{Detail, Filter, Order, SortKey};
use tare_render::{Amount, Column, EventGroup, Graph, Layout, Style, TableView};
use tare_replay::{CodeDetail, ProfileOptions, TimeRanges};
use tare_symbols::SymbolOptions;

use super::report_columns::Columns;
pub use super::report_graph::CallGraphs;
use super::report_graph::{CallGraph, call_graph};
use super::report_options as options;
pub use super::report_options::ReportPart;
use crate::cli::raw;
use crate::cli::resolved::{script, symbols};
use crate::exit::Refusal;

/// Options of `tare report`.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// The recording; `-` is standard input.
    pub input: PathBuf,
    /// What is printed.
    pub part: ReportPart,
    /// As JSON.
    pub json: bool,
    /// Text, pager or interactive.
    pub interface: Interface,
    /// Panics once the screen is shown, for a test.
    pub tui_panic: bool,
    /// Columns, if `-F` names them.
    pub fields: Option<Vec<Column>>,
    /// The sort keys.
    pub sort: Vec<Column>,
    /// More columns of figures.
    pub figures: Vec<Column>,
    /// Whether functions that only call others have rows, if call chains were recorded.
    pub children: bool,
    /// Call graphs.
    pub graph: CallGraphs,
    /// Branches of call graphs below this percentage are hidden.
    pub graph_limit: f64,
    /// Style of call graphs, and the figure at their branches.
    pub graph_style: (Style, Amount),
    /// Layout of text, without groups: the recording defines them.
    pub layout: Layout,
    /// Index of the event that sorts the rows of groups, if groups are shown side by side.
    pub group: Option<usize>,
    /// Whether shares are relative to the samples that pass the filters.
    pub is_relative: bool,
    /// Pattern of parents.
    pub parent: Option<Regex>,
    /// Pattern of functions whose callees are ignored.
    pub ignored_callees: Option<Regex>,
    /// Options of summing that don't depend on the recording.
    pub summed: ProfileOptions,
    /// Whether branches are shown if they were recorded: no option says otherwise.
    pub branches_if_recorded: bool,
    /// Rows below this percentage are hidden.
    pub percent_limit: f64,
    /// Filters of samples.
    pub filter: Filter,
    /// Ranges of time.
    pub time: TimeRanges,
    /// Whether samples without a symbol are hidden.
    pub hides_unresolved: bool,
    /// CPUs whose samples are used; empty: all.
    pub cpus: Vec<u32>,
    /// Whether only rows are printed.
    pub quiet: bool,
    /// Whether inlined functions are frames.
    pub inline: bool,
    /// Whether samples weigh the exact counts of their command's tasks.
    pub exact: bool,
    /// Keep the recorder's own samples.
    pub include_self: bool,
    /// Whether each thread's counts are printed.
    pub threads: bool,
    /// Sources of symbols.
    pub symbols: SymbolOptions,
}

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Interactive if stdout is a terminal, otherwise text.
    Fitting,
    /// As text.
    Text,
    /// As text through a pager.
    Pager,
    /// On the terminal.
    Terminal,
}

/// What a recording has that decides what is shown of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingTraits {
    /// Samples have call chains.
    pub has_callchains: bool,
    /// All events are tracepoints: their fields are what tells samples apart, as in perf.
    pub only_tracepoints: bool,
}

impl ReportOptions {
    /// # Errors
    /// Fails with a usage message if an option makes no sense.
    pub fn resolve(raw: raw::ReportArgs) -> Result<Self, Refusal> {
        let typed = raw.calls.call_graph.as_deref().map_or(Ok(CallGraph::default()), call_graph)?;
        let CallGraph { wanted: mut graph, limit: graph_limit, style, amount } = typed;
        if raw.calls.inverted && graph != CallGraphs::None {
            graph = CallGraphs::Inverted;
        }
        // As in perf: with one row per sample, callers have no rows of their own.
        let is_one_row = raw.layout.hierarchy || raw.keys.branch_stack || raw.keys.mem_mode;
        let children = raw.rows.children || !(raw.rows.no_children || raw.calls.no_call_graph);
        let children = children && !is_one_row;
        let Columns { fields, sort, figures } = Columns::resolve(&raw)?;
        Ok(Self {
            parent: options::parent(&raw)?,
            ignored_callees: options::ignored_callees(&raw)?,
            summed: options::summed(&raw)?,
            branches_if_recorded: !(raw.keys.branch_stack
                || raw.keys.no_branch_stack
                || raw.keys.mem_mode),
            filter: options::filter(&raw),
            layout: options::layout(&raw.layout),
            part: options::part(&raw),
            input: raw.input,
            json: raw.output.json,
            interface: match (raw.output.stdio, raw.output.tui, raw.output.pager) {
                (_, true, _) => Interface::Terminal,
                (_, _, true) => Interface::Pager,
                (true, ..) => Interface::Text,
                _ => Interface::Fitting,
            },
            tui_panic: raw.output.tui_panic,
            fields: (!fields.is_empty()).then_some(fields),
            sort,
            figures,
            children,
            graph: if raw.calls.no_call_graph { CallGraphs::None } else { graph },
            // As in perf, the limit of rows also applies to branches.
            graph_limit: graph_limit.or(raw.rows.percent_limit).unwrap_or(0.5),
            graph_style: (style, amount),
            group: raw.layout.group.then_some(raw.layout.group_sort_idx),
            is_relative: raw.rows.percentage == raw::Percentage::Relative,
            percent_limit: raw.rows.percent_limit.unwrap_or(0.0),
            hides_unresolved: raw.filters.hide_unresolved,
            cpus: script::cpus(raw.filters.cpu.as_deref())?,
            quiet: raw.output.quiet,
            time: script::times(raw.filters.tasks.time.as_deref())?,
            inline: raw.calls.inline,
            exact: raw.keys.weight == raw::SampleWeight::Exact,
            include_self: raw.filters.tasks.include_self,
            threads: raw.output.threads,
            symbols: symbols::resolve(raw.symbol_search),
        })
    }

    /// Returns how much of a sample's code location is needed.
    #[must_use]
    pub fn code(&self, recorded: RecordingTraits, may_have_chains: bool) -> CodeDetail {
        let needs_places = self.needs_places(recorded);
        let shows_chains = self.graph != CallGraphs::None
            || self.children && needs_places
            || self.parent.is_some()
            || self.ignored_callees.is_some();
        if may_have_chains && shows_chains {
            CodeDetail::Stack
        } else if needs_places {
            CodeDetail::Leaf
        } else {
            CodeDetail::None
        }
    }

    /// Whether a named key needs source lines.
    #[must_use]
    pub fn asks_for_lines(&self) -> bool {
        let mut columns = self.sort.iter().chain(self.fields.iter().flatten());
        columns.any(|column| matches!(column, Column::Key(key) if key.is_of_lines()))
    }

    /// Returns the options of summing.
    #[must_use]
    pub fn profile(&self, code: CodeDetail, recorded: RecordingTraits) -> ProfileOptions {
        let cpu = Column::Key(SortKey::Cpu);
        ProfileOptions {
            time: self.time.clone(),
            cpus: self.cpus.clone(),
            by_cpu: self.sort.contains(&cpu)
                || self.fields.as_ref().is_some_and(|fields| fields.contains(&cpu)),
            code,
            lines: self
                .columns(recorded)
                .any(|column| matches!(column, Column::Key(key) if key.is_of_lines())),
            inline: self.inline && code == CodeDetail::Stack,
            trace: self.shows_trace(recorded),
            include_self: self.include_self,
            exact: self.exact,
            symbols: self.symbols.clone(),
            threads: None,
            details: self.details(recorded),
            keeps_callers: self.order(recorded) == Some(Order::Caller),
            ..self.summed.clone()
        }
    }

    /// Returns the keys of rows besides thread, CPU and code location.
    #[must_use]
    pub fn details(&self, recorded: RecordingTraits) -> Vec<Detail> {
        let mut details = Vec::new();
        for column in self.columns(recorded) {
            if let Column::Key(SortKey::Detail(detail)) = column
                && !details.contains(&detail)
            {
                details.push(detail);
            }
        }
        details
    }

    /// Returns the groups of events that are shown side by side.
    #[must_use]
    pub fn groups(&self, description: &Description) -> Vec<EventGroup> {
        let Some(sort_by) = self.group else { return Vec::new() };
        let recorded = description.features().group_desc().unwrap_or_default();
        let events = description.events().len();
        let named = |group: &GroupDesc<'_>| {
            let name = String::from_utf8_lossy(group.name).into_owned();
            let name = if name == "{anon_group}" { "anon group".to_owned() } else { name };
            EventGroup { name, events: group.places(events).collect(), sort_by }
        };
        let groups: Vec<_> = recorded.iter().map(named).collect();
        if groups.is_empty() {
            let events = (0..events).collect();
            return vec![EventGroup { name: "anon group".to_owned(), events, sort_by }];
        }
        groups
    }

    /// Whether rows are keyed by tracepoint fields.
    #[must_use]
    pub fn shows_trace(&self, recorded: RecordingTraits) -> bool {
        self.columns(recorded).any(|column| column == Column::Key(SortKey::Trace))
    }

    /// Returns the root end of call graphs, if any are shown.
    fn order(&self, recorded: RecordingTraits) -> Option<Order> {
        let children = recorded.has_callchains && self.children;
        match self.graph {
            CallGraphs::Asked(Some(order)) => Some(order),
            CallGraphs::None => None,
            _ if !recorded.has_callchains => None,
            CallGraphs::Inverted => Some(Order::Caller),
            _ => Some(if children { Order::Caller } else { Order::Callee }),
        }
    }

    /// Returns the view of a recording.
    #[must_use]
    pub fn view(&self, recorded: RecordingTraits) -> TableView {
        let has_chains = recorded.has_callchains;
        let children = has_chains && self.children;
        let order = self.order(recorded);
        let keys = self.keys(recorded);
        let skips_first = keys.first() == Some(&Column::Key(SortKey::Symbol))
            && self.fields.is_none()
            && !self.sort.is_empty();
        let mut columns = if children {
            vec![Column::Children, Column::Overhead]
        } else {
            vec![Column::Overhead]
        };
        let mut order_by = columns.clone();
        match &self.fields {
            Some(fields) => columns.clone_from(fields),
            None => columns.extend(
                self.figures
                    .iter()
                    .chain(keys.iter())
                    .copied()
                    .filter(|column| !order_by.contains(column))
                    .collect::<Vec<_>>(),
            ),
        }
        match (&self.fields, self.sort.is_empty()) {
            // As in perf, named columns sort the rows, hidden ones don't.
            (Some(_), false) => order_by.clone_from(&self.sort),
            (Some(fields), true) => order_by.clone_from(fields),
            (None, _) => {
                let figures = self.sort.iter().filter(|column| !matches!(column, Column::Key(_)));
                order_by.splice(0..0, figures.copied());
            }
        }
        TableView {
            columns,
            order: order_by,
            children,
            graph: order.map(|order| Graph {
                order,
                percent_limit: self.graph_limit,
                skips_first,
                style: self.graph_style.0,
                amount: self.graph_style.1,
            }),
            percent_limit: self.percent_limit,
            most_rows: None,
            filter: self.filter.clone(),
            is_relative: self.is_relative,
            layout: self.layout.clone(),
        }
    }

    /// Returns the named sort keys, or the default ones.
    fn keys(&self, recorded: RecordingTraits) -> Vec<Column> {
        if self.sort.is_empty() && recorded.only_tracepoints {
            vec![Column::Key(SortKey::Trace)]
        } else if self.sort.is_empty() {
            [SortKey::Comm, SortKey::Dso, SortKey::Symbol].map(Column::Key).to_vec()
        } else {
            self.sort.clone()
        }
    }

    /// Returns all shown columns and sort keys.
    fn columns(&self, recorded: RecordingTraits) -> impl Iterator<Item = Column> {
        let shown = self.fields.clone().unwrap_or_else(|| self.keys(recorded));
        shown.into_iter().chain(self.sort.clone())
    }

    /// Whether options drop samples in a way that the interactive report can't undo.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let switch = &self.summed.switch;
        self.summed.socket.is_some() || switch.on.is_some() || switch.off.is_some()
    }

    /// Whether an option needs the text form.
    #[must_use]
    pub fn is_text_alone(&self) -> bool {
        let has_figures = self.figures.iter().any(|column| matches!(column, Column::OverheadOf(_)));
        let mut columns = self.sort.iter().chain(self.fields.iter().flatten());
        has_figures
            || columns.any(|column| matches!(column, Column::OverheadOf(_)))
            || self.is_partial()
            || self.layout != Layout::default()
            || self.group.is_some()
            || self.is_relative
            || self.parent.is_some()
            || self.ignored_callees.is_some()
            || self.graph_style != (Style::Graph, Amount::Percent)
            || self.summed.blocks
            || self.summed.max_stack.is_some()
    }

    /// Whether rows are keyed by command only.
    #[must_use]
    pub fn is_by_command(&self) -> bool {
        self.sort == [Column::Key(SortKey::Comm)]
    }

    /// Whether an option depends on the samples' code location.
    #[must_use]
    pub fn needs_places(&self, recorded: RecordingTraits) -> bool {
        let by_place = |column| match column {
            Column::Key(SortKey::Detail(detail)) => detail.is_of_places(),
            Column::Key(key) => key.is_of_frames(),
            Column::OverheadOf(_) => true,
            _ => false,
        };
        self.columns(recorded).chain(self.figures.iter().copied()).any(by_place)
            || !self.filter.dsos.is_empty()
            || !self.filter.symbols.is_empty()
            || self.filter.symbol_part.is_some()
            || self.hides_unresolved
    }
}

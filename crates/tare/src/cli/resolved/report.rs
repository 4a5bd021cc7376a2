//! What `tare report` is to do.

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

/// What `tare report` is to do.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// The recording; `-` is standard input.
    pub input: PathBuf,
    /// What is printed.
    pub part: ReportPart,
    /// As JSON.
    pub json: bool,
    /// Text or a terminal's whole screen.
    pub interface: Interface,
    /// Panics once something is shown on the terminal.
    pub tui_panic: bool,
    /// The columns, where they were named one by one.
    pub fields: Option<Vec<Column>>,
    /// The sort keys.
    pub sort: Vec<Column>,
    /// More columns of figures.
    pub figures: Vec<Column>,
    /// Rows for what only calls others, where call chains were recorded.
    pub children: bool,
    /// Call graphs.
    pub graph: CallGraphs,
    /// Branches below so many percent are not shown.
    pub graph_limit: f64,
    /// The form of call graphs, and what stands at their branches.
    pub graph_style: (Style, Amount),
    /// How text is laid out; groups are known with the recording.
    pub layout: Layout,
    /// Groups of events are shown side by side, by the figures of the event with this number.
    pub group: Option<usize>,
    /// Shares are of what the filters let pass.
    pub is_relative: bool,
    /// Which functions are parents.
    pub parent: Option<Regex>,
    /// Of which functions the callees are ignored.
    pub ignored_callees: Option<Regex>,
    /// How samples are summed up, as far as options say.
    pub summed: ProfileOptions,
    /// Branches are shown where they were recorded, unless the user has said something else.
    pub branches_if_recorded: bool,
    /// Rows below so many percent are not shown.
    pub percent_limit: f64,
    /// Which samples are shown.
    pub filter: Filter,
    /// From when to when.
    pub time: TimeRanges,
    /// Samples without a symbol are left out.
    pub hides_unresolved: bool,
    /// Only samples of these CPUs are taken; none: all.
    pub cpus: Vec<u32>,
    /// Only rows are printed.
    pub quiet: bool,
    /// Inlined functions are shown in call chains.
    pub inline: bool,
    /// Samples weigh what their commands' tasks counted.
    pub exact: bool,
    /// Keep the recorder's own samples.
    pub include_self: bool,
    /// What each thread counted.
    pub threads: bool,
    /// Where symbols are looked for.
    pub symbols: SymbolOptions,
}

/// How a report reaches its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// On the terminal where stdout is one, else as text.
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
    /// Wrong usage, in one line.
    pub fn resolve(raw: raw::ReportArgs) -> Result<Self, Refusal> {
        let typed = raw.call_graph.as_deref().map_or(Ok(CallGraph::default()), call_graph)?;
        let CallGraph { wanted: mut graph, limit: graph_limit, style, amount } = typed;
        if raw.inverted && graph != CallGraphs::None {
            graph = CallGraphs::Inverted;
        }
        // As in perf: what is a row once can't be part of what calls it too.
        let is_one_row = raw.layout.hierarchy || raw.branch_stack || raw.mem_mode;
        let children = raw.children || !(raw.no_children || raw.no_call_graph);
        let children = children && !is_one_row;
        let Columns { fields, sort, figures } = Columns::resolve(&raw)?;
        Ok(Self {
            parent: options::parent(&raw)?,
            ignored_callees: options::ignored_callees(&raw)?,
            summed: options::summed(&raw)?,
            branches_if_recorded: !(raw.branch_stack || raw.no_branch_stack || raw.mem_mode),
            filter: options::filter(&raw),
            layout: options::layout(&raw.layout),
            part: options::part(&raw),
            input: raw.input,
            json: raw.json,
            interface: match (raw.stdio, raw.tui, raw.pager) {
                (_, true, _) => Interface::Terminal,
                (_, _, true) => Interface::Pager,
                (true, ..) => Interface::Text,
                _ => Interface::Fitting,
            },
            tui_panic: raw.tui_panic,
            fields: (!fields.is_empty()).then_some(fields),
            sort,
            figures,
            children,
            graph: if raw.no_call_graph { CallGraphs::None } else { graph },
            // As in perf, what is too little for a row is too little for a branch.
            graph_limit: graph_limit.or(raw.percent_limit).unwrap_or(0.5),
            graph_style: (style, amount),
            group: raw.layout.group.then_some(raw.layout.group_sort_idx),
            is_relative: raw.percentage == raw::Percentage::Relative,
            percent_limit: raw.percent_limit.unwrap_or(0.0),
            hides_unresolved: raw.hide_unresolved,
            cpus: script::cpus(raw.cpu.as_deref())?,
            quiet: raw.quiet,
            time: script::times(raw.time.as_deref())?,
            inline: raw.inline,
            exact: raw.weight == raw::Weight::Exact,
            include_self: raw.include_self,
            threads: raw.threads,
            symbols: symbols::resolve(raw.symbol_search),
        })
    }

    /// How much of a sample's place in code is shown.
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

    /// Whether lines of source are asked for, by the keys that are named.
    #[must_use]
    pub fn asks_for_lines(&self) -> bool {
        let mut columns = self.sort.iter().chain(self.fields.iter().flatten());
        columns.any(|column| matches!(column, Column::Key(key) if key.is_of_lines()))
    }

    /// How samples are summed up.
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

    /// What rows are told apart by beside thread, CPU and place in code.
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

    /// The groups of events that are shown side by side.
    #[must_use]
    pub fn groups(&self, description: &Description) -> Vec<EventGroup> {
        let Some(sort_by) = self.group else { return Vec::new() };
        let recorded = description.features().group_desc().unwrap_or_default();
        let events = description.events().len();
        let of = |group: &GroupDesc<'_>| {
            let name = String::from_utf8_lossy(group.name).into_owned();
            let name = if name == "{anon_group}" { "anon group".to_owned() } else { name };
            EventGroup { name, events: group.places(events).collect(), sort_by }
        };
        let groups: Vec<_> = recorded.iter().map(of).collect();
        if groups.is_empty() {
            let events = (0..events).collect();
            return vec![EventGroup { name: "anon group".to_owned(), events, sort_by }];
        }
        groups
    }

    /// Whether rows are told apart by the fields of tracepoints.
    #[must_use]
    pub fn shows_trace(&self, recorded: RecordingTraits) -> bool {
        self.columns(recorded).any(|column| column == Column::Key(SortKey::Trace))
    }

    /// From which end call graphs go on, where there are any.
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

    /// What is shown of a recording.
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
            // As in perf, what is named orders the rows: no column that isn't shown does.
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

    /// The sort keys that were named, or the usual ones.
    fn keys(&self, recorded: RecordingTraits) -> Vec<Column> {
        if self.sort.is_empty() && recorded.only_tracepoints {
            vec![Column::Key(SortKey::Trace)]
        } else if self.sort.is_empty() {
            [SortKey::Comm, SortKey::Dso, SortKey::Symbol].map(Column::Key).to_vec()
        } else {
            self.sort.clone()
        }
    }

    /// All that is shown or sorted by.
    fn columns(&self, recorded: RecordingTraits) -> impl Iterator<Item = Column> {
        let shown = self.fields.clone().unwrap_or_else(|| self.keys(recorded));
        shown.into_iter().chain(self.sort.clone())
    }

    /// Whether only a part of the samples is taken, by what the interface can't take back.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let switch = &self.summed.switch;
        self.summed.socket.is_some() || switch.on.is_some() || switch.off.is_some()
    }

    /// Whether something is asked for that text alone has.
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

    /// Whether rows are told apart by command name alone.
    #[must_use]
    pub fn is_by_command(&self) -> bool {
        self.sort == [Column::Key(SortKey::Comm)]
    }

    /// Whether anything that is asked for depends on where in code samples lie.
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

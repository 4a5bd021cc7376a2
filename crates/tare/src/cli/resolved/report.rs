//! Options of `tare report`.

use std::path::PathBuf;

use tare_format::file::Description;
use tare_format::file::features::GroupDesc;
use tare_profile::{Detail, Filter, Order, SortKey};
use tare_render::{Column, EventGroup, Graph, Layout, TableView};
use tare_replay::{CodeDetail, ProfileOptions};
use tare_symbols::SymbolOptions;

use super::report_columns::is_of_lines;
pub use super::report_columns::{Columns, RecordingTraits};
pub use super::report_graph::{CallGraphs, GraphOptions};
use super::report_options as options;
pub use super::report_options::{
    FunctionPatterns, Interface, ReportOutput, ReportPart, RowOptions,
};
use crate::cli::raw;
use crate::exit::Refusal;

/// Options of `tare report`.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// The recording; `-` is standard input.
    pub input: PathBuf,
    /// What is printed, and in which form.
    pub output: ReportOutput,
    /// Columns and sort keys.
    pub columns: Columns,
    /// Rows and their shares.
    pub rows: RowOptions,
    /// Call graphs.
    pub graph: GraphOptions,
    /// Layout of text, without groups: the recording defines them.
    pub layout: Layout,
    /// Functions named by patterns.
    pub patterns: FunctionPatterns,
    /// Filters of rows.
    pub filter: Filter,
    /// Options of summing, without those that depend on the recording.
    pub summed: ProfileOptions,
    /// Whether branches are shown if they were recorded: `-b`, `--no-branch-stack` and `--mem-mode`
    /// are absent.
    pub branches_if_recorded: bool,
}

impl ReportOptions {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a usage message if an option is invalid.
    pub fn resolve(raw: raw::ReportArgs) -> Result<Self, Refusal> {
        Ok(Self {
            columns: Columns::resolve(&raw)?,
            graph: GraphOptions::resolve(&raw)?,
            patterns: FunctionPatterns::resolve(&raw)?,
            branches_if_recorded: !(raw.keys.branch_stack
                || raw.keys.no_branch_stack
                || raw.keys.mem_mode),
            filter: options::filter(&raw)?,
            layout: options::layout(&raw),
            output: options::output(&raw.output),
            rows: options::rows(&raw),
            input: raw.recording.path(),
            summed: options::summed(raw)?,
        })
    }

    /// Returns how much of a sample's code location is needed.
    #[must_use]
    pub fn code(&self, recorded: RecordingTraits, may_have_chains: bool) -> CodeDetail {
        let needs_places = self.needs_places(recorded);
        let shows_chains = self.graph.graphs != CallGraphs::None
            || self.rows.children && needs_places
            || self.patterns.need_chains();
        if may_have_chains && shows_chains {
            CodeDetail::Stack
        } else if needs_places {
            CodeDetail::Leaf
        } else {
            CodeDetail::None
        }
    }

    /// Returns the options of summing.
    #[must_use]
    pub fn profile(&self, code: CodeDetail, recorded: RecordingTraits) -> ProfileOptions {
        let lines = self.columns.shown(recorded).any(is_of_lines);
        let symbols = &self.summed.symbols;
        ProfileOptions {
            by_cpu: self.columns.has_named(Column::Key(SortKey::Cpu)),
            code,
            lines,
            inline: self.summed.inline && code == CodeDetail::Stack,
            trace: self.columns.show_trace(recorded),
            details: self.details(recorded),
            keeps_callers: self.order(recorded) == Some(Order::Caller),
            symbols: SymbolOptions {
                lines_from_servers: symbols.lines_from_servers || lines,
                ..symbols.clone()
            },
            ..self.summed.clone()
        }
    }

    /// Returns the details of samples that columns and filters need.
    fn details(&self, recorded: RecordingTraits) -> Vec<Detail> {
        let mut details = self.columns.details(recorded);
        if (recorded.shows_latency || self.needs_switches())
            && !details.contains(&Detail::Parallelism)
        {
            details.push(Detail::Parallelism);
        }
        details
    }

    /// Whether the report needs a recording of context switches.
    #[must_use]
    pub fn needs_switches(&self) -> bool {
        self.columns.need_switches() || !self.filter.parallelism.is_empty()
    }

    /// Returns the groups of events that are shown side by side.
    #[must_use]
    pub fn groups(&self, description: &Description) -> Vec<EventGroup> {
        let Some(sort_by) = self.rows.group else { return Vec::new() };
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

    /// Returns the root end of call graphs, if any are shown.
    fn order(&self, recorded: RecordingTraits) -> Option<Order> {
        self.graph.order(recorded.has_callchains, self.rows.children)
    }

    /// Returns the view of a recording.
    #[must_use]
    pub fn view(&self, recorded: RecordingTraits) -> TableView {
        let children = recorded.has_callchains && self.rows.children;
        let graph = self.order(recorded).map(|order| Graph {
            order,
            percent_limit: self.graph.percent_limit,
            skips_first: self.columns.begin_with_symbol(),
            style: self.graph.style,
            amount: self.graph.amount,
        });
        TableView {
            columns: self.columns.for_table(recorded, children),
            order: self.columns.row_order(recorded, children),
            children,
            graph,
            percent_limit: self.rows.percent_limit,
            most_rows: None,
            filter: self.filter.clone(),
            is_relative: self.rows.is_relative,
            layout: self.layout.clone(),
        }
    }

    /// Whether `--socket-filter`, `--switch-on` or `--switch-off` drops samples, which the
    /// interactive report doesn't support.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let switch = &self.summed.switch;
        self.summed.socket.is_some() || switch.on.is_some() || switch.off.is_some()
    }

    /// Whether an option needs the text form.
    #[must_use]
    pub fn is_text_alone(&self) -> bool {
        self.columns.split_overhead()
            || self.needs_switches()
            || self.is_partial()
            || self.layout != Layout::default()
            || self.rows.group.is_some()
            || self.rows.is_relative
            || self.patterns.need_chains()
            || !self.graph.has_default_style()
            || self.summed.blocks
            || self.summed.max_stack.is_some()
    }

    /// Whether a column or a filter depends on the samples' code location.
    #[must_use]
    pub fn needs_places(&self, recorded: RecordingTraits) -> bool {
        self.columns.need_places(recorded)
            || !self.filter.dsos.is_empty()
            || !self.filter.symbols.is_empty()
            || self.filter.symbol_part.is_some()
            || self.rows.hides_unresolved
    }
}

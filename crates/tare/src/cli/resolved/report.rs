//! What `tare report` is to do.

use std::path::PathBuf;

use tare_profile::{Filter, Key, Order};
use tare_render::{Column, Graph, View};
use tare_replay::{Code, ProfileOptions, TimeRange};
use tare_symbols::SymbolOptions;

use crate::cli::raw;
use crate::cli::resolved::{Extent, script, symbols};
use crate::exit::Refusal;

/// What `tare report` is to do.
#[derive(Clone, Debug)]
pub struct Report {
    /// The recording; `-` is standard input.
    pub input: PathBuf,
    /// What is printed.
    pub part: Part,
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
    /// Rows below so many percent are not shown.
    pub percent_limit: f64,
    /// Which samples are shown.
    pub filter: Filter,
    /// From when to when.
    pub time: TimeRange,
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

/// What is printed of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The table.
    Table,
    /// What the recording says of itself, then the table.
    HeaderAndTable(Extent),
    /// What the recording says of itself.
    Header(Extent),
    /// How many records of each kind there are.
    Stats,
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

/// Which call graphs were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGraphs {
    /// Those that fit, where call chains were recorded.
    IfRecorded,
    /// Those from the callers on (`-G`), where call chains were recorded.
    Inverted,
    /// With this end as the root; `None`: the one that fits.
    Asked(Option<Order>),
    /// None; rows for what only calls others stay.
    None,
}

/// What a recording has that decides what is shown of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Samples have call chains.
    pub has_callchains: bool,
    /// All events are tracepoints: their fields are what tells samples apart, as in perf.
    pub only_tracepoints: bool,
}

impl Report {
    /// # Errors
    /// Wrong usage, in one line.
    pub fn resolve(raw: raw::Report) -> Result<Self, Refusal> {
        let extent = if raw.show_info { Extent::Full } else { Extent::Usual };
        let part = match (raw.header || raw.show_info, raw.header_only, raw.stats) {
            (_, true, _) => Part::Header(extent),
            (true, _, false) => Part::HeaderAndTable(extent),
            (.., true) => Part::Stats,
            _ => Part::Table,
        };
        let (mut graph, graph_limit) =
            raw.call_graph.as_deref().map_or(Ok((CallGraphs::IfRecorded, None)), call_graph)?;
        if raw.inverted && graph != CallGraphs::None {
            graph = CallGraphs::Inverted;
        }
        let children = raw.children || !(raw.no_children || raw.no_call_graph);
        let bytes = |names: Vec<String>| names.into_iter().map(String::into_bytes).collect();
        let Columns { fields, sort, figures } = Columns::resolve(&raw)?;
        Ok(Self {
            input: raw.input,
            part,
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
            percent_limit: raw.percent_limit.unwrap_or(0.0),
            filter: Filter {
                comms: bytes(raw.comms),
                dsos: bytes(raw.dsos),
                symbols: bytes(raw.symbols),
                symbol_part: raw.symbol_filter.map(String::into_bytes),
                pids: raw.tasks.pid,
                tids: raw.tasks.tid,
            },
            hides_unresolved: raw.hide_unresolved,
            cpus: script::cpus(raw.cpu.as_deref())?,
            quiet: raw.quiet,
            time: raw.time.as_deref().map_or(Ok(TimeRange::All), time)?,
            inline: raw.inline,
            exact: raw.weight == raw::Weight::Exact,
            include_self: raw.include_self,
            threads: raw.threads,
            symbols: symbols::resolve(raw.symbol_search),
        })
    }

    /// How much of a sample's place in code is shown.
    #[must_use]
    pub fn code(&self, recorded: Recorded, may_have_chains: bool) -> Code {
        let needs_places = self.needs_places(recorded);
        let shows_chains = self.graph != CallGraphs::None || self.children && needs_places;
        if may_have_chains && shows_chains {
            Code::Stack
        } else if needs_places {
            Code::Leaf
        } else {
            Code::None
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
    pub fn profile(&self, code: Code, recorded: Recorded) -> ProfileOptions {
        let cpu = Column::Key(Key::Cpu);
        ProfileOptions {
            time: self.time,
            cpus: self.cpus.clone(),
            by_cpu: self.sort.contains(&cpu)
                || self.fields.as_ref().is_some_and(|fields| fields.contains(&cpu)),
            code,
            lines: self
                .columns(recorded)
                .any(|column| matches!(column, Column::Key(key) if key.is_of_lines())),
            inline: self.inline && code == Code::Stack,
            trace: self.shows_trace(recorded),
            include_self: self.include_self,
            exact: self.exact,
            symbols: self.symbols.clone(),
            threads: None,
        }
    }

    /// Whether rows are told apart by the fields of tracepoints.
    #[must_use]
    pub fn shows_trace(&self, recorded: Recorded) -> bool {
        self.columns(recorded).any(|column| column == Column::Key(Key::Trace))
    }

    /// What is shown of a recording.
    #[must_use]
    pub fn view(&self, recorded: Recorded) -> View {
        let has_chains = recorded.has_callchains;
        let children = has_chains && self.children;
        let order = match self.graph {
            CallGraphs::Asked(Some(order)) => Some(order),
            CallGraphs::None => None,
            _ if !has_chains => None,
            CallGraphs::Inverted => Some(Order::Caller),
            _ => Some(if children { Order::Caller } else { Order::Callee }),
        };
        let keys = self.keys(recorded);
        let skips_first = keys.first() == Some(&Column::Key(Key::Symbol))
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
        View {
            columns,
            order: order_by,
            children,
            graph: order.map(|order| Graph { order, percent_limit: self.graph_limit, skips_first }),
            percent_limit: self.percent_limit,
            most_rows: None,
            filter: self.filter.clone(),
        }
    }

    /// The sort keys that were named, or the usual ones.
    fn keys(&self, recorded: Recorded) -> Vec<Column> {
        if self.sort.is_empty() && recorded.only_tracepoints {
            vec![Column::Key(Key::Trace)]
        } else if self.sort.is_empty() {
            [Key::Comm, Key::Dso, Key::Symbol].map(Column::Key).to_vec()
        } else {
            self.sort.clone()
        }
    }

    /// All that is shown or sorted by.
    fn columns(&self, recorded: Recorded) -> impl Iterator<Item = Column> {
        let shown = self.fields.clone().unwrap_or_else(|| self.keys(recorded));
        shown.into_iter().chain(self.sort.clone())
    }

    /// Whether rows are told apart by command name alone.
    #[must_use]
    pub fn is_by_command(&self) -> bool {
        self.sort == [Column::Key(Key::Comm)]
    }

    /// Whether anything that is asked for depends on where in code samples lie.
    #[must_use]
    pub fn needs_places(&self, recorded: Recorded) -> bool {
        let by_place = |column| matches!(column, Column::Key(key) if key.is_of_frames());
        self.columns(recorded).any(by_place)
            || !self.filter.dsos.is_empty()
            || !self.filter.symbols.is_empty()
            || self.filter.symbol_part.is_some()
            || self.hides_unresolved
    }
}

/// What rows are made of, as it was typed.
struct Columns {
    fields: Vec<Column>,
    sort: Vec<Column>,
    figures: Vec<Column>,
}

impl Columns {
    fn resolve(raw: &raw::Report) -> Result<Self, Refusal> {
        let (mut fields, adds_fields) = columns(&raw.fields)?;
        let (mut sort, adds_keys) = columns(&raw.sort)?;
        let figures =
            [(raw.show_nr_samples, Column::Samples), (raw.show_total_period, Column::Period)];
        let mut figures: Vec<_> =
            figures.iter().filter(|(wanted, _)| *wanted).map(|(_, column)| *column).collect();
        if adds_keys {
            sort.splice(0..0, [Key::Comm, Key::Dso, Key::Symbol].map(Column::Key));
        }
        if adds_fields {
            let (keys, more): (Vec<_>, Vec<_>) =
                fields.drain(..).partition(|column| matches!(column, Column::Key(_)));
            figures.extend(more);
            if sort.is_empty() && !keys.is_empty() {
                sort.extend([Key::Comm, Key::Dso, Key::Symbol].map(Column::Key));
            }
            sort.extend(keys);
        }
        Ok(Self { fields, sort, figures })
    }
}

/// Columns by name, and whether they are added to the usual ones (`+` before the first).
fn columns(words: &[String]) -> Result<(Vec<Column>, bool), Refusal> {
    let adds = words.first().is_some_and(|word| word.starts_with('+'));
    let names = words.iter().map(|word| word.trim_start_matches('+'));
    Ok((names.map(column).collect::<Result<_, _>>()?, adds))
}

fn column(word: &str) -> Result<Column, Refusal> {
    Ok(match word {
        "overhead" => Column::Overhead,
        "overhead_children" => Column::Children,
        "sample" => Column::Samples,
        "period" => Column::Period,
        "comm" => Column::Key(Key::Comm),
        "pid" | "tid" => Column::Key(Key::Tid),
        "tgid" => Column::Key(Key::Tgid),
        "dso" => Column::Key(Key::Dso),
        "sym" | "symbol" => Column::Key(Key::Symbol),
        "srcline" => Column::Key(Key::SrcLine),
        "srcfile" => Column::Key(Key::SrcFile),
        "cpu" => Column::Key(Key::Cpu),
        "event" => Column::Key(Key::Event),
        "trace" => Column::Key(Key::Trace),
        _ => {
            let known = "overhead, overhead_children, sample, period, comm, pid, tid, tgid, dso, sym, srcline, srcfile, cpu, event and trace";
            return Err(Refusal::usage(format!(
                "there is no column or sort key '{word}': there are {known}"
            )));
        }
    })
}

/// `graph,0.5,caller,function,percent` and parts of it, as `perf report -g` has it.
fn call_graph(text: &str) -> Result<(CallGraphs, Option<f64>), Refusal> {
    let (mut wanted, mut limit) = (CallGraphs::Asked(None), None);
    for word in text.split(',').filter(|word| !word.is_empty()) {
        match word {
            "none" => wanted = CallGraphs::None,
            "caller" => wanted = CallGraphs::Asked(Some(Order::Caller)),
            "callee" => wanted = CallGraphs::Asked(Some(Order::Callee)),
            "graph" | "function" | "percent" => {}
            _ => match word.parse() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => limit = Some(percent),
                _ => {
                    return Err(Refusal::usage(format!(
                        "-g {text}: '{word}' is none of caller, callee, none and a percentage"
                    )));
                }
            },
        }
    }
    Ok((wanted, limit))
}

/// `12.5,13`, `10%-20%`, or `10%/2`, which is the same.
pub(super) fn time(text: &str) -> Result<TimeRange, Refusal> {
    if !text.contains('%') {
        return script::time(text).map(|(from_ns, to_ns)| TimeRange::Nanoseconds(from_ns, to_ns));
    }
    let percent = |part: &str| {
        part.strip_suffix('%')?
            .parse::<f64>()
            .ok()
            .filter(|percent| (0.0..=100.0).contains(percent))
    };
    let range = text
        .split_once('-')
        .and_then(|(from, to)| Some(TimeRange::Percent(percent(from)?, percent(to)?)))
        .or_else(|| {
            let (part, nth) = text.split_once('/')?;
            let (part, nth) = (percent(part)?, nth.parse::<u32>().ok().filter(|nth| *nth > 0)?);
            let end = part * f64::from(nth);
            (end <= 100.0).then_some(TimeRange::Percent(end - part, end))
        });
    range.ok_or_else(|| {
        Refusal::usage(format!(
            "--time {text}: a part looks like 10%-20% or 10%/2, a range in seconds like 12.5,13"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ranges_or_parts() {
        assert_eq!(
            time("11787.999418,").unwrap(),
            TimeRange::Nanoseconds(11_787_999_418_000, u64::MAX)
        );
        assert_eq!(time("10%-20.5%").unwrap(), TimeRange::Percent(10.0, 20.5));
        assert_eq!(time("10%/2").unwrap(), TimeRange::Percent(10.0, 20.0));
        for wrong in ["10%/0", "10%/11", "x", "1,y", "10%", "10%-x%", "10%-101%"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn graphs_are_asked_for_as_in_perf() {
        assert_eq!(call_graph("graph").unwrap(), (CallGraphs::Asked(None), None));
        assert_eq!(
            call_graph("caller,0.1,function,percent").unwrap(),
            (CallGraphs::Asked(Some(Order::Caller)), Some(0.1))
        );
        assert_eq!(call_graph("none").unwrap().0, CallGraphs::None);
        assert!(call_graph("fractal").is_err());
    }
}

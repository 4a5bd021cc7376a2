//! `--json`: one document with a version.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

use serde::{Serialize, Serializer};
use serde_json::ser::{CharEscape, Formatter};
use tare_profile::{
    CallTree, Detail, Entry, FunctionKey, Profile, ProfileTable, SortKey, StringId, Value, Weight,
};

use crate::column::{percent, thread_number};
use crate::live::LiveFigures;
use crate::losses::unread_lines;
use crate::rows::rows;
use crate::unwinding::{BrokenChains, ChainsAtLimit, CopiedStacks};
use crate::{Column, TableView};

/// Raised when a field is removed or changes its meaning, not for new fields.
const VERSION: u32 = 1;

/// The document. `serde_json` serializes it piece by piece, so it is never in memory as a whole.
#[derive(Serialize)]
struct ReportDocument<'a, L> {
    version: u32,
    tool: &'static str,
    events: EventTables<'a>,
    /// Exact counts, if the recording has some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    counted: Vec<CountedJson<'a>>,
    loss: Losses<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger: Option<L>,
    /// Only in a live profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<&'a LiveFigures>,
}

/// The weight of a command name's samples beside the exact count of its tasks.
#[derive(Serialize)]
struct CountedJson<'a> {
    event: Cow<'a, str>,
    comm: Cow<'a, str>,
    sampled: WeightSum,
    counted: u64,
}

#[derive(Serialize)]
struct Losses<'a> {
    lost_records: u64,
    lost_samples: u64,
    throttled: u64,
    own_samples_left_out: u64,
    outside_samples_left_out: u64,
    foreign_samples: u64,
    malformed_samples: u64,
    late_records: u64,
    decreased_counts: u64,
    unwound_stacks: u64,
    incomplete_stacks: u64,
    untimed_jitdumps: u64,
    left_out_mappings: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    copied_stacks: Option<CopiedStacks<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated_chains: Option<ChainsAtLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame_pointers: Option<BrokenChains<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unnamed: Option<NamingAdviceJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_step: Option<InStepJson<'a>>,
    missing_user_chains: u64,
    off_cpu_ns: u64,
    off_cpu_whole_ns: u64,
    aux_bytes_left_out: u64,
    unread: Vec<String>,
}

/// The tables of all events with samples.
struct EventTables<'a> {
    profile: &'a Profile,
    view: &'a TableView,
}

impl Serialize for EventTables<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { profile, view } = *self;
        let tables = profile.events().map(|(id, _)| rows(profile, id, view));
        serializer.collect_seq(tables.filter(|table| table.all.samples > 0).map(|table| {
            EventTable {
                event: text(profile, profile.event(table.event).map(|event| event.name)),
                all: sum(table.all),
                graph_percent_limit: view.graph.map(|graph| graph.percent_limit),
                entries: Entries { profile, view, table },
            }
        }))
    }
}

#[derive(Serialize)]
struct EventTable<'a> {
    event: Cow<'a, str>,
    #[serde(flatten)]
    all: WeightSum,
    /// Branches below this percentage of all samples are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    graph_percent_limit: Option<f64>,
    entries: Entries<'a>,
}

struct Entries<'a> {
    profile: &'a Profile,
    view: &'a TableView,
    table: ProfileTable,
}

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { profile, view, table } = self;
        let mut trees =
            view.graph.and_then(|graph| table.call_trees(profile, graph.least(table.all)));
        serializer.collect_seq(table.entries.iter().map(|entry| {
            let tree = trees.as_mut().map(|trees| table.call_tree(trees, entry));
            EntryRow { graph: Graph { profile, tree: tree.unwrap_or_default() }, ..self.row(entry) }
        }))
    }
}

#[derive(Clone, Copy, Serialize)]
struct WeightSum {
    samples: u64,
    period: u64,
}

/// An address in hexadecimal, because JavaScript's numbers have only 53 bits.
struct Address(u64);

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

#[derive(Serialize)]
struct EntryRow<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tgid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dso: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Address>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unresolved: Option<Cow<'a, str>>,
    /// The compiler inlined it into its caller.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    inlined: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Cow<'a, str>>,
    /// Number of threads that ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    parallelism: Option<u64>,
    own: WeightSum,
    total: Option<WeightSum>,
    /// Share of the time that passed, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    own_latency: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_latency: Option<f64>,
    #[serde(skip_serializing_if = "Graph::is_empty")]
    graph: Graph<'a>,
}

/// A call graph as a list, in which parents precede their children.
struct Graph<'a> {
    profile: &'a Profile,
    tree: CallTree,
}

impl Graph<'_> {
    fn is_empty(&self) -> bool {
        self.tree.nodes().is_empty()
    }
}

impl Serialize for Graph<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.tree.nodes().iter().map(|node| {
            let function = FunctionKey::at_frame(self.profile, Some(node.frame));
            let inlined = self.profile.frame(node.frame).is_some_and(|frame| frame.is_inlined);
            Branch {
                parent: node.parent,
                symbol: symbol(self.profile, function),
                address: address(self.profile, function).filter(|_| !inlined),
                inlined,
                own: sum(node.own),
                total: sum(node.total),
            }
        }))
    }
}

/// A function in a call graph.
#[derive(Serialize)]
struct Branch<'a> {
    /// The index of the parent in the list; `null` for a root.
    parent: Option<usize>,
    symbol: Option<Cow<'a, str>>,
    address: Option<Address>,
    /// The compiler inlined it into its caller.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    inlined: bool,
    own: WeightSum,
    total: WeightSum,
}

/// Writes the document. `ledger` is the recorder's account of the recording.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn json(
    out: &mut dyn Write,
    profile: &Profile,
    view: &TableView,
    ledger: Option<&impl Serialize>,
) -> io::Result<()> {
    write(out, profile, view, ledger, None)
}

/// Writes the document of a live profile, in one line.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn live_json(
    out: &mut dyn Write,
    profile: &Profile,
    view: &TableView,
    live: &LiveFigures,
) -> io::Result<()> {
    write(out, profile, view, None::<&()>, Some(live))
}

fn write(
    out: &mut dyn Write,
    profile: &Profile,
    view: &TableView,
    ledger: Option<&impl Serialize>,
    live: Option<&LiveFigures>,
) -> io::Result<()> {
    let counted = profile.counted().iter().map(|known| CountedJson {
        event: text(profile, profile.event(known.event).map(|event| event.name)),
        comm: text(profile, Some(known.comm)),
        sampled: sum(known.sampled),
        counted: known.counted,
    });
    let document = ReportDocument {
        version: VERSION,
        tool: if live.is_some() { "tare top" } else { "tare report" },
        events: EventTables { profile, view },
        counted: counted.collect(),
        loss: losses(&profile.losses),
        ledger,
        live,
    };
    // `serde_json` writes each token on its own; the buffer makes few writes of them.
    let mut out = BufWriter::with_capacity(1 << 16, out);
    json_line(&mut out, &document)?;
    out.flush()
}

/// Writes a value in one line, with characters escaped that a terminal would act on.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn json_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    json_text(out, value)?;
    writeln!(out)
}

/// Writes a value as [`json_line`] does, without the end of the line.
pub(crate) fn json_text(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    Ok(value.serialize(&mut serde_json::Serializer::with_formatter(out, Safe))?)
}

/// Writes an array of texts, escaped as [`json_text`] does.
pub(crate) fn json_texts(
    out: &mut dyn Write,
    texts: impl Iterator<Item = impl Serialize>,
) -> io::Result<()> {
    Ok(serde_json::Serializer::with_formatter(out, Safe).collect_seq(texts)?)
}

/// The first of a command's JSON lines.
#[derive(Serialize)]
struct JsonHeader<'a> {
    kind: &'static str,
    version: u32,
    tool: &'a str,
}

/// Writes the first of a command's JSON lines. Their `version` is raised when a field changes its
/// meaning or is removed, not when one is added.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn json_header(out: &mut dyn Write, version: u32, tool: &str) -> io::Result<()> {
    json_line(out, &JsonHeader { kind: "recording", version, tool })
}

/// The remedy that names most of the samples without a function name.
#[derive(Debug, Serialize)]
struct NamingAdviceJson<'a> {
    percent: f64,
    remedy: &'a str,
}

/// A function in step with the sampling period.
#[derive(Debug, Serialize)]
struct InStepJson<'a> {
    function: &'a str,
    comm: &'a str,
    tid: i32,
    period_ns: u64,
}

fn losses(losses: &tare_profile::Losses) -> Losses<'_> {
    Losses {
        lost_records: losses.lost_records,
        lost_samples: losses.lost_samples,
        throttled: losses.throttled,
        own_samples_left_out: losses.own_samples,
        outside_samples_left_out: losses.outside_samples,
        malformed_samples: losses.malformed_records,
        late_records: losses.late_records,
        foreign_samples: losses.foreign_samples,
        decreased_counts: losses.decreased_counts,
        untimed_jitdumps: losses.untimed_jitdumps,
        left_out_mappings: losses.left_out_mappings,
        unwound_stacks: losses.unwinding.stacks(),
        incomplete_stacks: losses.unwinding.stacks() - losses.unwinding.whole,
        copied_stacks: CopiedStacks::new(&losses.unwinding),
        truncated_chains: ChainsAtLimit::new(&losses.truncated_chains),
        frame_pointers: losses.frame_pointers.as_ref().map(BrokenChains::new),
        unnamed: losses.unnamed.as_ref().and_then(|unnamed| {
            Some(NamingAdviceJson { percent: unnamed.percent, remedy: unnamed.remedy.as_deref()? })
        }),
        in_step: losses.in_step.as_ref().map(|in_step| InStepJson {
            function: &in_step.function,
            comm: &in_step.command,
            tid: in_step.tid,
            period_ns: in_step.period_ns,
        }),
        missing_user_chains: losses.missing_user_chains,
        off_cpu_ns: losses.off_cpu.ns,
        off_cpu_whole_ns: losses.off_cpu.whole_ns,
        aux_bytes_left_out: losses.aux_bytes,
        unread: unread_lines(losses),
    }
}

fn sum(weight: Weight) -> WeightSum {
    WeightSum { samples: weight.samples, period: weight.period }
}

/// Returns a string of the profile; empty without an id.
fn text(profile: &Profile, id: Option<StringId>) -> Cow<'_, str> {
    id.map_or(Cow::Borrowed(""), |id| String::from_utf8_lossy(profile.string(id)))
}

impl<'a> Entries<'a> {
    /// Returns an entry without its graph.
    fn row(&self, entry: &Entry) -> EntryRow<'a> {
        let Self { profile, view, table } = self;
        let text = |id| text(profile, Some(id));
        let is_key = |key| table.keys.contains(&key);
        let thread = |key| thread_number(key, profile, entry).filter(|_| is_key(key));
        let has = |key| view.columns.contains(&Column::Key(key));
        let latency = |column: Column| {
            let is_shown = view.columns.contains(&column);
            is_shown.then(|| percent(column.part(entry), column.whole(table)))
        };
        let frame = entry.frame.and_then(|frame| profile.frame(frame));
        let dso = frame.filter(|_| has(SortKey::Dso) || has(SortKey::Symbol));
        let dso = dso.and_then(|frame| profile.dso(frame.dso?));
        let by_symbol = is_key(SortKey::Symbol);
        let has_line = table.keys.iter().any(|key| key.is_of_lines());
        let line = frame.and_then(|frame| frame.line);
        let function = if by_symbol { entry.function(profile) } else { FunctionKey::Unknown };
        let unresolved = frame.filter(|_| by_symbol).and_then(|frame| frame.function.err());
        EntryRow {
            comm: entry.task.comm.filter(|_| is_key(SortKey::Comm)).map(text),
            tid: thread(SortKey::Tid),
            tgid: thread(SortKey::Tgid),
            dso: dso.map(|dso| text(dso.short)),
            path: dso.filter(|_| has(SortKey::Symbol)).map(|dso| text(dso.path)),
            symbol: symbol(profile, function),
            address: address(profile, function),
            unresolved: unresolved.map(text),
            inlined: frame.is_some_and(|frame| by_symbol && frame.is_inlined),
            file: line.filter(|_| has_line).map(|line| text(line.file)),
            line: line.filter(|_| is_key(SortKey::SrcLine)).map(|line| line.line),
            cpu: entry.task.cpu.filter(|_| is_key(SortKey::Cpu)),
            trace: entry.task.trace.filter(|_| is_key(SortKey::Trace)).map(text),
            parallelism: match profile.detail(entry.task.details, Detail::Parallelism) {
                Value::Number(running) if is_key(SortKey::Detail(Detail::Parallelism)) => {
                    Some(running)
                }
                _ => None,
            },
            own_latency: latency(Column::Latency),
            total_latency: latency(Column::LatencyChildren),
            own: sum(entry.own()),
            total: view.children.then(|| sum(entry.total)),
            graph: Graph { profile, tree: CallTree::default() },
        }
    }
}

/// Returns the name of a function, if it has one.
fn symbol(profile: &Profile, function: FunctionKey) -> Option<Cow<'_, str>> {
    let FunctionKey::Named(symbol) = function else { return None };
    profile.symbol(symbol).map(|symbol| text(profile, Some(symbol.name)))
}

/// Returns the start address of a named function, else the sampled address.
fn address(profile: &Profile, function: FunctionKey) -> Option<Address> {
    match function {
        FunctionKey::Named(symbol) => profile.symbol(symbol).map(|symbol| Address(symbol.start)),
        FunctionKey::Address(_, address) => Some(Address(address)),
        FunctionKey::Unknown => None,
    }
}

/// Compact JSON that escapes characters that a terminal acts on, also where JSON allows them.
struct Safe;

impl Formatter for Safe {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        tare_format::json::write_f64(writer, value)
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for piece in fragment.split_inclusive(tare_format::is_unsafe) {
            let last = piece.chars().next_back().filter(|c| tare_format::is_unsafe(*c));
            let plain = piece.len() - last.map_or(0, char::len_utf8);
            writer.write_all(&piece.as_bytes()[..plain])?;
            if let Some(c) = last {
                write!(writer, "\\u{:04x}", u32::from(c))?;
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        serde_json::ser::CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_names_and_reads_them_back() {
        let name = "a\u{1b}[2J\u{9b}\u{202e}b\"\u{7f}";
        let mut out = Vec::new();
        name.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Safe)).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert!(!written.chars().any(tare_format::is_unsafe), "{written:?}");
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), name);
    }
}

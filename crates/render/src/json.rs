//! `--json`: one document, with its version.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter};
use tare_profile::{CallTree, Entry, Event, EventId, Function, Key, Loss, Profile, Weight};

use crate::rows::rows;
use crate::{Column, View};

/// Raised when a field changes its meaning or goes; new fields don't raise it.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<L> {
    version: u32,
    tool: &'static str,
    events: Vec<Table>,
    /// Where tasks were counted exactly.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    counted: Vec<Counted>,
    loss: Losses,
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger: Option<L>,
}

/// What the samples of a command name stand for beside what its tasks counted.
#[derive(Serialize)]
struct Counted {
    event: String,
    comm: String,
    sampled: Sum,
    counted: u64,
}

#[derive(Serialize)]
struct Losses {
    lost_records: u64,
    lost_samples: u64,
    throttled: u64,
    own_samples_left_out: u64,
    outside_samples_left_out: u64,
    malformed_samples: u64,
    late_records: u64,
    unread: Vec<String>,
}

#[derive(Serialize)]
struct Table {
    event: String,
    #[serde(flatten)]
    all: Sum,
    entries: Vec<Row>,
}

#[derive(Serialize)]
struct Sum {
    samples: u64,
    period: u64,
}

#[derive(Default, Serialize)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tgid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dso: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<String>,
    /// In hexadecimal: JavaScript's numbers have 53 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unresolved: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    own: Option<Sum>,
    total: Option<Sum>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    graph: Vec<Branch>,
}

/// A place in a call graph. The list has a branch's parent before it.
#[derive(Serialize)]
struct Branch {
    /// The place of the parent in the list; `null` is the root.
    parent: Option<usize>,
    symbol: Option<String>,
    address: Option<String>,
    own: Sum,
    total: Sum,
}

/// Writes the document. `ledger` is what the recorder said about itself.
///
/// # Errors
/// Those of `out`.
pub fn json(
    out: &mut dyn Write,
    profile: &Profile,
    view: &View,
    ledger: Option<&impl Serialize>,
) -> io::Result<()> {
    let tables = profile
        .events()
        .map(|(id, event)| table(profile, id, event, view))
        .filter(|table| table.all.samples > 0);
    let text = |id| String::from_utf8_lossy(profile.string(id)).into_owned();
    let counted = profile.counted().iter().map(|known| Counted {
        event: profile.event(known.event).map_or_else(String::new, |event| text(event.name)),
        comm: text(known.comm),
        sampled: Sum { samples: known.sampled.samples, period: known.sampled.period },
        counted: known.counted,
    });
    let (events, counted, loss) = (tables.collect(), counted.collect(), losses(&profile.loss));
    let document =
        Document { version: VERSION, tool: "tare report", events, counted, loss, ledger };
    json_line(out, &document)
}

/// Writes any value in one line, with no character that a terminal acts on.
///
/// # Errors
/// Those of `out`.
pub fn json_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, Safe))?;
    writeln!(out)
}

fn losses(loss: &Loss) -> Losses {
    Losses {
        lost_records: loss.lost_records,
        lost_samples: loss.lost_samples,
        throttled: loss.throttled,
        own_samples_left_out: loss.own_samples,
        outside_samples_left_out: loss.outside_samples,
        malformed_samples: loss.malformed_samples,
        late_records: loss.late_records,
        unread: loss.unread.clone(),
    }
}

fn sum(weight: Weight) -> Sum {
    Sum { samples: weight.samples, period: weight.period }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn table(profile: &Profile, id: EventId, event: &Event, view: &View) -> Table {
    let table = rows(profile, id, view);
    let entries = table.entries.iter().map(|entry| {
        let mut row = row(profile, entry, view);
        if view.graph.is_some() {
            row.graph = branches(profile, &table.call_tree(profile, entry));
        }
        row
    });
    Table {
        event: text(profile.string(event.name)),
        all: sum(table.all),
        entries: entries.collect(),
    }
}

fn row(profile: &Profile, entry: &Entry, view: &View) -> Row {
    let group = entry.group;
    let mut row = Row {
        comm: group.comm.map(|comm| text(profile.string(comm))),
        tid: group.tid,
        tgid: group.tgid,
        ..Row::default()
    };
    row.cpu = group.cpu.flatten();
    row.own = Some(sum(entry.own));
    row.total = view.children.then(|| sum(entry.total));
    let frame = entry.frame.and_then(|frame| profile.frame(frame));
    let has = |key| view.columns.contains(&Column::Key(key));
    if has(Key::Dso) || has(Key::Symbol) {
        let dso = frame.and_then(|frame| profile.dso(frame.dso?));
        row.dso = dso.map(|dso| text(profile.string(dso.short)));
        row.path = dso.filter(|_| has(Key::Symbol)).map(|dso| text(profile.string(dso.path)));
    }
    if let Some(function) = group.function {
        (row.symbol, row.address) = name_and_address(profile, function);
        row.unresolved =
            frame.and_then(|frame| frame.function.err()).map(|reason| text(profile.string(reason)));
    }
    row
}

fn name_and_address(profile: &Profile, function: Function) -> (Option<String>, Option<String>) {
    match function {
        Function::Named(symbol) => {
            let symbol = profile.symbol(symbol);
            (
                symbol.map(|symbol| text(profile.string(symbol.name))),
                symbol.map(|symbol| format!("{:#x}", symbol.start)),
            )
        }
        Function::Address(_, address) => (None, Some(format!("{address:#x}"))),
        Function::Unknown => (None, None),
    }
}

fn branches(profile: &Profile, tree: &CallTree) -> Vec<Branch> {
    let mut parents = vec![None; tree.nodes().len()];
    for (at, node) in tree.nodes().iter().enumerate() {
        node.children.iter().for_each(|child| parents[*child] = Some(at));
    }
    let branch = |(node, parent): (&tare_profile::Node, Option<usize>)| {
        let (symbol, address) = name_and_address(profile, Function::of(profile, Some(node.frame)));
        Branch { parent, symbol, address, own: sum(node.own), total: sum(node.total) }
    };
    tree.nodes().iter().zip(parents).map(branch).collect()
}

/// Compact JSON in which characters that a terminal acts on are escaped, also those that JSON
/// allows.
struct Safe;

impl Formatter for Safe {
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
    fn names_come_back_and_do_nothing_to_a_terminal() {
        let name = "a\u{1b}[2J\u{9b}\u{202e}b\"\u{7f}";
        let mut out = Vec::new();
        name.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Safe)).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert!(!written.chars().any(tare_format::is_unsafe), "{written:?}");
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), name);
    }
}

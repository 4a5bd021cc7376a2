//! Tables as text, in the layout of `perf report --stdio`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use tare_profile::{Entry, Event, EventId, Key, Profile, StringId, Table, Weight};
use unicode_width::UnicodeWidthStr;

use crate::column::percent;
use crate::rows::rows;
use crate::tree::tree;
use crate::{Column, View};
use tare_format::printable;

/// Writes the account of what is missing, and a table for each event that has samples.
///
/// # Errors
/// Those of `out`.
pub fn text(out: &mut dyn Write, profile: &Profile, view: &View) -> io::Result<()> {
    let elided = Elided::of(view);
    elided.write(out)?;
    writeln!(
        out,
        "# Total Lost Samples: {}",
        profile.loss.lost_records.saturating_add(profile.loss.lost_samples)
    )?;
    losses(out, profile)?;
    writeln!(out, "#")?;
    for (id, event) in profile.events() {
        let table = rows(profile, id, &elided.view);
        if table.all.samples > 0 {
            section(out, profile, (id, event), &elided.view, &table)?;
        }
    }
    Ok(())
}

/// A view without the columns that a filter leaves one value of: that value stands above the table.
struct Elided<'a> {
    view: View,
    values: Vec<(&'static str, &'a [u8])>,
}

impl<'a> Elided<'a> {
    fn of(view: &'a View) -> Self {
        let filter = &view.filter;
        let filters = [
            (Key::Comm, "comm", &filter.comms),
            (Key::Dso, "dso", &filter.dsos),
            (Key::Symbol, "symbol", &filter.symbols),
        ];
        let mut elided = Self { view: view.clone(), values: Vec::new() };
        for (key, name, wanted) in filters {
            if let [only] = wanted.as_slice() {
                elided.view.columns.retain(|column| *column != Column::Key(key));
                elided.values.push((name, only));
            }
        }
        elided
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.values
            .iter()
            .try_for_each(|(name, value)| writeln!(out, "# {name}: {}\n#", printable(value)))
    }
}

/// One line for each thing that is missing.
fn losses(out: &mut dyn Write, profile: &Profile) -> io::Result<()> {
    let loss = &profile.loss;
    let counted = [
        (loss.throttled, "times an event was throttled: it has fewer samples than it would"),
        (loss.malformed_samples, "samples could not be decoded"),
        (loss.late_records, "records came too late to be put in order of time"),
        (loss.outside_samples, "samples of what is not the command's are left out"),
        (
            loss.own_samples,
            "samples of the recorder itself are left out (--include-self keeps them)",
        ),
    ];
    for (count, what) in counted.into_iter().filter(|(count, _)| *count > 0) {
        writeln!(out, "# {count} {what}")?;
    }
    loss.unread.iter().try_for_each(|line| writeln!(out, "# {}", printable(line.as_bytes())))
}

fn section(
    out: &mut dyn Write,
    profile: &Profile,
    (id, event): (EventId, &Event),
    view: &View,
    table: &Table,
) -> io::Result<()> {
    let name = printable(profile.string(event.name));
    writeln!(out, "# Samples: {} of event '{name}'", rounded(table.all.samples))?;
    writeln!(out, "# Event count (approx.): {}", table.all.period)?;
    if let Some(line) = unresolved(profile, id, table.all) {
        writeln!(out, "# {line}")?;
    }
    writeln!(out, "#")?;
    let cells: Vec<Vec<String>> = table
        .entries
        .iter()
        .map(|entry| {
            view.columns.iter().map(|column| column.cell(profile, entry, table.all)).collect()
        })
        .collect();
    let titles: Vec<String> =
        view.columns.iter().map(|column| column.title(view.children).to_owned()).collect();
    let widths: Vec<usize> = (0..titles.len())
        .map(|at| width(view.columns[at], &titles[at], cells.iter().map(|cells| &cells[at])))
        .collect();
    writeln!(out, "# {}", line(view, &titles, &widths))?;
    let dots: Vec<_> = widths.iter().map(|width| ".".repeat(*width)).collect();
    writeln!(out, "# {}\n#", dots.join("  "))?;
    for (entry, cells) in table.entries.iter().zip(&cells) {
        writeln!(out, "  {}", line(view, cells, &widths))?;
        graph(out, profile, view, table, entry)?;
    }
    writeln!(out, "\n")
}

fn graph(
    out: &mut dyn Write,
    profile: &Profile,
    view: &View,
    table: &Table,
    entry: &Entry,
) -> io::Result<()> {
    let Some(graph) = view.graph else { return Ok(()) };
    let own = if view.children { entry.total } else { entry.own };
    tree(out, profile, &table.call_tree(profile, entry), graph, own, table.all)
}

fn width<'a>(column: Column, title: &str, cells: impl Iterator<Item = &'a String>) -> usize {
    let widest = cells.map(|cell| cell.width()).max().unwrap_or(0);
    widest.max(title.width()).max(column.figure_width().unwrap_or(0))
}

/// Cells with two spaces between them, nothing behind the last.
fn line(view: &View, cells: &[String], widths: &[usize]) -> String {
    let padded = view.columns.iter().zip(cells).zip(widths).map(|((column, cell), width)| {
        let filling = " ".repeat(width.saturating_sub(cell.width()));
        if column.figure_width().is_some() { filling + cell } else { format!("{cell}{filling}") }
    });
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// A count as `perf report` rounds it: thousands are K, millions M.
fn rounded(count: u64) -> String {
    let units = ["", "K", "M", "G"];
    let power = (0..3).take_while(|power| count / 1000_u64.pow(*power) > 1000).count();
    format!("{}{}", count / 1000_u64.pow(u32::try_from(power).unwrap_or(0)), units[power])
}

/// The share of samples whose place in code has no name, by reason; `None` where all have one.
fn unresolved(profile: &Profile, event: EventId, all: Weight) -> Option<String> {
    let mut by_reason: BTreeMap<StringId, Weight> = BTreeMap::new();
    for (row, weight) in profile.rows().filter(|(row, _)| row.event == event) {
        if let Some(Err(reason)) =
            row.leaf.and_then(|leaf| profile.frame(leaf)).map(|frame| frame.function)
        {
            by_reason.entry(reason).or_default().add(weight);
        }
    }
    let mut sum = Weight::default();
    by_reason.values().for_each(|weight| sum.add(*weight));
    let mut reasons: Vec<_> = by_reason.into_iter().collect();
    reasons.sort_by_key(|(_, weight)| std::cmp::Reverse(weight.period));
    let reasons: Vec<_> = reasons
        .iter()
        .map(|(reason, weight)| {
            format!("{:.2}% {}", percent(*weight, all), printable(profile.string(*reason)))
        })
        .collect();
    (sum.samples > 0).then(|| {
        format!("Without a function's name: {:.2}% ({})", percent(sum, all), reasons.join(", "))
    })
}

#[cfg(test)]
mod tests;

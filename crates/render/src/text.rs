//! Tables as text, in the layout of `perf report --stdio`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use tare_profile::{Entry, Event, Key, Profile, StringId, Table, Weight};
use unicode_width::UnicodeWidthStr;

use crate::column::percent;
use crate::losses::loss_lines;
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
        profile.losses.lost_records.saturating_add(profile.losses.lost_samples)
    )?;
    for line in loss_lines(&profile.losses) {
        writeln!(out, "# {}", printable(line.as_bytes()))?;
    }
    writeln!(out, "#")?;
    for (id, event) in profile.events() {
        let table = rows(profile, id, &elided.view);
        if table.all.samples > 0 {
            section(out, profile, event, &elided.view, &table)?;
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

fn section(
    out: &mut dyn Write,
    profile: &Profile,
    event: &Event,
    view: &View,
    table: &Table,
) -> io::Result<()> {
    let name = printable(profile.string(event.name));
    writeln!(out, "# Samples: {} of event '{name}'", rounded(table.all.samples))?;
    writeln!(out, "# Event count (approx.): {}", table.all.period)?;
    if let Some(line) = unresolved(profile, table) {
        writeln!(out, "# {line}")?;
    }
    writeln!(out, "#")?;
    let mut lines = Lines::new(profile, view, table);
    out.write_all(lines.titles(view).as_bytes())?;
    let dots: Vec<_> = lines.columns.iter().map(|(_, width)| ".".repeat(*width)).collect();
    writeln!(out, "# {}\n#", dots.join("  "))?;
    let mut trees = view
        .graph
        .and_then(|graph| Some((graph, table.call_trees(profile, graph.least(table.all))?)));
    for entry in &table.entries {
        out.write_all(lines.entry(entry).as_bytes())?;
        if let Some((graph, trees)) = &mut trees {
            let own = if view.children { entry.total } else { entry.own };
            tree(out, profile, &table.call_tree(trees, entry), *graph, own, table.all)?;
        }
    }
    writeln!(out, "\n")
}

/// Writes the lines of a table, each into the same memory.
struct Lines<'a> {
    profile: &'a Profile,
    table: &'a Table,
    /// With their widths.
    columns: Vec<(Column, usize)>,
    text: String,
    cell: String,
}

impl<'a> Lines<'a> {
    /// Goes through all entries for the widths of the columns.
    fn new(profile: &'a Profile, view: &View, table: &'a Table) -> Self {
        let (text, cell) = Default::default();
        let mut lines = Self { profile, table, columns: Vec::new(), text, cell };
        for column in &view.columns {
            let title = column.title(view.children).width();
            let least = title.max(column.figure_width().unwrap_or(0));
            let widths = table.entries.iter().map(|entry| lines.format(*column, entry));
            let width = widths.max().unwrap_or(0).max(least);
            lines.columns.push((*column, width));
        }
        lines
    }

    fn titles(&mut self, view: &View) -> &str {
        self.line("# ", |lines, column| {
            lines.cell.clear();
            lines.cell.push_str(column.title(view.children));
            lines.cell.width()
        })
    }

    fn entry(&mut self, entry: &Entry) -> &str {
        self.line("  ", |lines, column| lines.format(column, entry))
    }

    /// Cells with two spaces between them, nothing behind the last. `cell` makes each one, and
    /// returns its width.
    fn line(&mut self, front: &str, mut cell: impl FnMut(&mut Self, Column) -> usize) -> &str {
        self.text.clear();
        self.text.push_str(front);
        for at in 0..self.columns.len() {
            let (column, width) = self.columns[at];
            let filling = width.saturating_sub(cell(self, column));
            let blanks = std::iter::repeat_n(' ', filling);
            self.text.push_str(if at > 0 { "  " } else { "" });
            if column.figure_width().is_some() {
                self.text.extend(blanks);
                self.text.push_str(&self.cell);
            } else {
                self.text.push_str(&self.cell);
                self.text.extend(blanks);
            }
        }
        let end = self.text.trim_end().len().max(front.len());
        self.text.truncate(end);
        self.text.push('\n');
        &self.text
    }

    /// Formats a cell, and returns its width.
    fn format(&mut self, column: Column, entry: &Entry) -> usize {
        self.cell.clear();
        // A string takes all that is written to it.
        let _ = column.cell(&mut self.cell, self.profile, self.table, entry);
        if self.cell.is_ascii() { self.cell.len() } else { self.cell.width() }
    }
}
/// A count as `perf report` rounds it: thousands are K, millions M.
fn rounded(count: u64) -> String {
    let units = ["", "K", "M", "G"];
    let power = (0..3).take_while(|power| count / 1000_u64.pow(*power) > 1000).count();
    format!("{}{}", count / 1000_u64.pow(u32::try_from(power).unwrap_or(0)), units[power])
}

/// The share of samples whose place in code has no name, by reason; `None` where all have one.
fn unresolved(profile: &Profile, table: &Table) -> Option<String> {
    let all = table.all;
    let mut by_reason: BTreeMap<StringId, Weight> = BTreeMap::new();
    for (row, weight) in profile.rows().filter(|(row, _)| row.event == table.event) {
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

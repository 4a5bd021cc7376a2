//! `--hierarchy`: each sort key is a level of a tree, as `perf report --hierarchy` draws it.

use std::io::{self, Write};

use indexmap::IndexMap;
use tare_profile::{Entry, Profile, ProfileTable, Weight};
use unicode_width::UnicodeWidthStr;

use crate::column::percent;
use crate::tree::Graphs;
use crate::{Column, TableView};

/// Cells by which each level is indented.
const INDENT: usize = 3;

/// The rows with the same first sort keys.
struct Level {
    own: Weight,
    own_latency: u64,
    below: LevelContent,
}

enum LevelContent {
    Levels(IndexMap<String, Level>),
    /// The row that all sort keys select.
    Entry(Box<Entry>),
}

impl Level {
    fn new() -> Self {
        let below = LevelContent::Levels(IndexMap::new());
        Self { own: Weight::default(), own_latency: 0, below }
    }

    /// Adds an entry below the levels that its sort keys name.
    fn add(&mut self, names: &[String], entry: &Entry, number: usize) {
        self.own.add(entry.own());
        self.own_latency = self.own_latency.saturating_add(entry.parts().own_latency);
        let LevelContent::Levels(levels) = &mut self.below else { return };
        match names {
            [] => self.below = LevelContent::Entry(Box::new(entry.clone())),
            // Different functions may have the same name.
            [last] => levels.entry(format!("{last}\0{number}")).or_insert_with(Self::new).add(
                &[],
                entry,
                number,
            ),
            [first, rest @ ..] => {
                levels.entry(first.clone()).or_insert_with(Self::new).add(rest, entry, number);
            }
        }
    }

    /// Sorts all levels, the heaviest first.
    fn sort(&mut self, by_latency: bool) {
        let weight = |level: &Self| match by_latency {
            true => level.own_latency,
            false => level.own.period,
        };
        if let LevelContent::Levels(levels) = &mut self.below {
            levels.sort_by(|left_name, left, right_name, right| {
                weight(right).cmp(&weight(left)).then_with(|| left_name.cmp(right_name))
            });
            levels.values_mut().for_each(|level| level.sort(by_latency));
        }
    }
}

/// Writes the tree of an event's rows. The table must have all of them: a level's weight includes
/// rows below the percentage limit.
pub(crate) fn section(
    out: &mut dyn Write,
    profile: &Profile,
    view: &TableView,
    table: &ProfileTable,
) -> io::Result<()> {
    let is_key = |column: &&Column| matches!(column, Column::Key(_));
    let keys: Vec<Column> = view.columns.iter().filter(is_key).copied().collect();
    let mut top = Level::new();
    for (number, entry) in table.entries.iter().enumerate() {
        let names: Vec<_> = keys.iter().map(|key| key.text(profile, table, entry)).collect();
        top.add(&names, entry, number);
    }
    top.sort(view.order.first().is_some_and(|column| column.is_latency()));
    let figures: Vec<Column> =
        view.columns.iter().filter(|column| !is_key(column)).copied().collect();
    let mut graphs = Graphs::new(profile, table, view);
    let drawing = Drawing { view, table, figures, levels: keys.len() };
    drawing.titles(out, &keys, &top)?;
    drawing.levels(out, &top, 0, &mut graphs)
}

struct Drawing<'a> {
    view: &'a TableView,
    table: &'a ProfileTable,
    figures: Vec<Column>,
    levels: usize,
}

impl Drawing<'_> {
    /// Returns the cells that the figures take, with the indentation of the levels.
    fn figures_width(&self) -> usize {
        let width =
            |column: &Column| column.figure_width().unwrap_or(0).max(column.title(false).width());
        let figures = self.figures.iter().map(width).sum::<usize>();
        self.levels.saturating_sub(1) * INDENT + figures + 2 * self.figures.len().saturating_sub(1)
    }

    fn titles(&self, out: &mut dyn Write, keys: &[Column], top: &Level) -> io::Result<()> {
        let title = |column: &Column| {
            let width = column.figure_width().unwrap_or(0);
            format!("{:>width$}", column.title(false))
        };
        let figures: Vec<_> = self.figures.iter().map(title).collect();
        let names: Vec<_> = keys.iter().map(|key| key.title(false).trim().to_owned()).collect();
        let names = names.join(" / ");
        let width = self.figures_width();
        writeln!(out, "# {:>width$}  {names}", figures.join("  "))?;
        let widest = widest(top, 0).max(names.width());
        writeln!(out, "# {}  {}\n#", ".".repeat(width), ".".repeat(widest))
    }

    fn levels(
        &self,
        out: &mut dyn Write,
        level: &Level,
        depth: usize,
        graphs: &mut Option<Graphs<'_>>,
    ) -> io::Result<()> {
        let LevelContent::Levels(levels) = &level.below else { return Ok(()) };
        let limit = self.view.percent_limit;
        let is_shown = |level: &Level| percent(level.own, self.table.all) >= limit;
        let mut is_empty = true;
        for (name, level) in levels.iter().filter(|(_, level)| is_shown(level)) {
            is_empty = false;
            self.line(out, name, level, depth)?;
            match &level.below {
                LevelContent::Levels(_) => self.levels(out, level, depth + 1, graphs)?,
                LevelContent::Entry(entry) => {
                    if let Some(graphs) = graphs {
                        graphs.write(out, entry, entry.own())?;
                    }
                }
            }
        }
        if is_empty && depth > 0 {
            let indent = self.figures_width() + 4 + depth * INDENT;
            writeln!(out, "{:indent$}no entry >= {limit:.2}%", "")?;
        }
        Ok(())
    }

    fn line(&self, out: &mut dyn Write, name: &str, level: &Level, depth: usize) -> io::Result<()> {
        let figure = |column: &Column| {
            let text = match column {
                Column::Samples => level.own.samples.to_string(),
                Column::Period => level.own.period.to_string(),
                column if column.is_latency() => {
                    let part = Weight { period: level.own_latency, ..level.own };
                    format!("{:.2}%", percent(part, column.whole(self.table)))
                }
                _ => format!("{:.2}%", percent(level.own, self.table.all)),
            };
            format!("  {text:>width$}", width = column.figure_width().unwrap_or(0))
        };
        let figures: String = self.figures.iter().map(figure).collect();
        let name = name.split('\0').next().unwrap_or(name);
        let before = depth * INDENT;
        let between = self.levels.saturating_sub(1) * INDENT + 2;
        let line = format!("{:before$}{figures}{:between$}{name}", "", "");
        writeln!(out, "{}", line.trim_end())
    }
}

/// Returns the cells of the widest name, with its indentation.
fn widest(level: &Level, depth: usize) -> usize {
    let LevelContent::Levels(levels) = &level.below else { return 0 };
    let width = |(name, level): (&String, &Level)| {
        let name = name.split('\0').next().unwrap_or(name);
        (depth * INDENT + name.width()).max(widest(level, depth + 1))
    };
    levels.iter().map(width).max().unwrap_or(0)
}

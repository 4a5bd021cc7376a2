//! `--group`: the figures of several events side by side, as in `perf report --group`.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::{self, Write};

use tare_format::printable;
use tare_profile::{Entry, EventId, FunctionKey, Profile, ProfileTable, SortKey, Weight};
use unicode_width::UnicodeWidthStr;

use crate::column::percent;
use crate::layout::EventGroup;
use crate::plural::rounded;
use crate::rows::rows;
use crate::table::TableLines;
use crate::tree::Graphs;
use crate::{Column, TableView};

/// The entries of several events with the same sort keys.
struct GroupRow {
    /// The texts of the sort keys' columns.
    names: Vec<String>,
    /// By event; `None` if the event has no such entry.
    entries: Vec<Option<Entry>>,
}

impl GroupRow {
    fn weight(&self, event: usize, column: Column) -> Weight {
        let entry = self.entries.get(event).and_then(Option::as_ref);
        entry.map(|entry| column.part(entry)).unwrap_or_default()
    }
}

/// Writes the table of a group of events.
pub(crate) fn section(
    out: &mut dyn Write,
    profile: &Profile,
    view: &TableView,
    group: &EventGroup,
) -> io::Result<()> {
    let event_id = |place: &usize| profile.events().nth(*place).map(|(id, _)| id);
    let events: Vec<EventId> = group.events.iter().filter_map(event_id).collect();
    let everything = TableView { percent_limit: 0.0, ..view.clone() };
    let tables: Vec<ProfileTable> =
        events.iter().map(|id| rows(profile, *id, &everything)).collect();
    let mut all = Weight::default();
    tables.iter().for_each(|table| all.add(table.all));
    if all.samples == 0 {
        return Ok(());
    }
    let names = events.iter().filter_map(|id| profile.event(*id));
    let names: Vec<_> = names.map(|event| printable(profile.string(event.name))).collect();
    let samples = rounded(all.samples);
    let name = printable(group.name.as_bytes());
    writeln!(out, "# Samples: {samples} of events '{name} {{ {} }}'", names.join(", "))?;
    writeln!(out, "# Event count (approx.): {}\n#", all.period)?;
    let joined = GroupTable { profile, view, tables: &tables, group };
    joined.write(out)
}

struct GroupTable<'a> {
    profile: &'a Profile,
    view: &'a TableView,
    tables: &'a [ProfileTable],
    group: &'a EventGroup,
}

impl GroupTable<'_> {
    /// Joins the rows of all events by sort keys and function.
    fn join_rows(&self) -> Vec<GroupRow> {
        let mut joined: Vec<GroupRow> = Vec::new();
        let mut places: HashMap<(Vec<String>, Option<FunctionKey>), usize> = HashMap::new();
        let is_key = |column: &&Column| matches!(column, Column::Key(_));
        let keys: Vec<_> = self.view.columns.iter().filter(is_key).collect();
        for (event, table) in self.tables.iter().enumerate() {
            for entry in &table.entries {
                let names: Vec<_> =
                    keys.iter().map(|key| key.text(self.profile, table, entry)).collect();
                // Different functions may have the same name.
                let by_function = keys.contains(&&Column::Key(SortKey::Symbol));
                let function = by_function.then(|| entry.function(self.profile));
                let key = (names.clone(), function);
                let at = *places.entry(key).or_insert(joined.len());
                if at == joined.len() {
                    joined.push(GroupRow { names, entries: vec![None; self.tables.len()] });
                }
                joined[at].entries[event] = Some(entry.clone());
            }
        }
        joined
    }

    /// Compares two rows by the event to sort by, then by the others in their order.
    fn compare(&self, left: &GroupRow, right: &GroupRow) -> Ordering {
        let first = if self.view.children { Column::Children } else { Column::Overhead };
        let others = (0..self.tables.len()).filter(|event| *event != self.group.sort_by);
        let share = |row: &GroupRow, event: usize| {
            percent(row.weight(event, first), self.tables[event].all)
        };
        std::iter::once(self.group.sort_by)
            .chain(others)
            .filter(|event| *event < self.tables.len())
            .map(|event| share(right, event).total_cmp(&share(left, event)))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| left.names.cmp(&right.names))
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut rows = self.join_rows();
        let leader = self.tables.first().map(|table| table.all).unwrap_or_default();
        let first = if self.view.children { Column::Children } else { Column::Overhead };
        let is_shown =
            |row: &GroupRow| percent(row.weight(0, first), leader) >= self.view.percent_limit;
        rows.retain(is_shown);
        rows.sort_by(|left, right| self.compare(left, right));
        let cells: Vec<Vec<String>> = rows.iter().map(|row| self.cells(row)).collect();
        let mut lines = TableLines::new(self.view, |at, _| {
            cells.iter().map(|cells| cells[at].width()).max().unwrap_or(0)
        });
        lines.titles(out)?;
        let graphs = |table| Graphs::new(self.profile, table, self.view);
        let mut graphs: Vec<_> = self.tables.iter().map(graphs).collect();
        for (row, cells) in rows.iter().zip(&cells) {
            lines.row(out, |cell, at, _| cell.push_str(&cells[at]))?;
            self.write_graph(out, row, &mut graphs)?;
        }
        writeln!(out, "\n")
    }

    /// Returns a row's cells; a figure's cell holds the figures of all events.
    fn cells(&self, row: &GroupRow) -> Vec<String> {
        let mut names = row.names.iter();
        let cell = |column: &Column| {
            let figure = |event: usize| {
                let weight = row.weight(event, *column);
                match column {
                    Column::Samples => format!("{:>12}", weight.samples),
                    Column::Period => format!("{:>12}", weight.period),
                    _ => format!("{:>7.2}%", percent(weight, column.whole(&self.tables[event]))),
                }
            };
            match column {
                Column::Key(_) => names.next().cloned().unwrap_or_default(),
                _ => (0..self.tables.len()).map(figure).collect(),
            }
        };
        self.view.columns.iter().map(cell).collect()
    }

    /// Writes the call graph of the first event that has the row.
    fn write_graph(
        &self,
        out: &mut dyn Write,
        row: &GroupRow,
        graphs: &mut [Option<Graphs<'_>>],
    ) -> io::Result<()> {
        let mut found = row.entries.iter().zip(graphs);
        let Some((entry, graphs)) =
            found.find_map(|(entry, graphs)| Some((entry.as_ref()?, graphs)))
        else {
            return Ok(());
        };
        let own = if self.view.children { entry.total } else { entry.own() };
        graphs.as_mut().map_or(Ok(()), |graphs| graphs.write(out, entry, own))
    }
}

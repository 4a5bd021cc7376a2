//! Tables as text, in the layout of `perf report --stdio`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use tare_profile::{Event, Key, Profile, StringId, Table, Weight};

use crate::column::percent;
use crate::losses::loss_lines;
use crate::plural::rounded;
use crate::rows::rows;
use crate::table::{Cells, Lines};
use crate::tree::Graphs;
use crate::{Column, View, group, hierarchy};
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
    for (place, (id, event)) in profile.events().enumerate() {
        let of_group = |group: &&crate::Group| group.events.contains(&place);
        if let Some(group) = view.layout.groups.iter().find(of_group) {
            if group.events.first() == Some(&place) {
                group::section(out, profile, &elided.view, group)?;
            }
            continue;
        }
        // Of a branch of the hierarchy that is shown, what is too little counts too.
        let table = if view.layout.hierarchy {
            rows(profile, id, &View { percent_limit: 0.0, ..elided.view.clone() })
        } else {
            rows(profile, id, &elided.view)
        };
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
        // Rows without any key say nothing: then all of them stay, as in perf.
        if !elided.view.columns.iter().any(|column| matches!(column, Column::Key(_))) {
            elided.view.columns.clone_from(&view.columns);
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
    if view.layout.hierarchy {
        hierarchy::section(out, profile, view, table)?;
        return writeln!(out, "\n");
    }
    let cells = Cells { profile, table, layout: &view.layout };
    let mut lines = Lines::new(view, |_, column| cells.widest(column));
    lines.titles(out)?;
    let mut graphs = Graphs::new(profile, table, view);
    for entry in &table.entries {
        lines.row(out, |cell, _, column| cells.fill(cell, column, entry))?;
        if let Some(graphs) = &mut graphs {
            graphs.write(out, entry, if view.children { entry.total } else { entry.own })?;
        }
    }
    writeln!(out, "\n")
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

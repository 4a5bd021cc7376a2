//! Tables as text, in the layout of `perf report --stdio`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use tare_profile::{Profile, ProfileEvent, ProfileTable, SortKey, StringId, Weight};

use crate::column::percent;
use crate::losses::loss_lines;
use crate::plural::rounded;
use crate::rows::rows;
use crate::table::{Cells, TableLines};
use crate::tree::Graphs;
use crate::{Column, TableView, group, hierarchy};
use tare_format::printable;

/// Writes the losses, and a table for each event with samples.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn text(out: &mut dyn Write, profile: &Profile, view: &TableView) -> io::Result<()> {
    let elided = Elided::new(view);
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
        let has_event = |group: &&crate::EventGroup| group.events.contains(&place);
        if let Some(group) = view.layout.groups.iter().find(has_event) {
            if group.events.first() == Some(&place) {
                group::section(out, profile, &elided.view, group)?;
            }
            continue;
        }
        // A level of the hierarchy includes the weight of rows below the limit.
        let table = if view.layout.hierarchy {
            rows(profile, id, &TableView { percent_limit: 0.0, ..elided.view.clone() })
        } else {
            rows(profile, id, &elided.view)
        };
        if table.all.samples > 0 {
            section(out, profile, event, &elided.view, &table)?;
        }
    }
    Ok(())
}

/// A view without the columns that a filter restricts to one value. That value is printed above the
/// table.
struct Elided<'a> {
    view: TableView,
    values: Vec<(&'static str, &'a [u8])>,
}

impl<'a> Elided<'a> {
    fn new(view: &'a TableView) -> Self {
        let filter = &view.filter;
        let filters = [
            (SortKey::Comm, "comm", &filter.comms),
            (SortKey::Dso, "dso", &filter.dsos),
            (SortKey::Symbol, "symbol", &filter.symbols),
        ];
        let mut elided = Self { view: view.clone(), values: Vec::new() };
        for (key, name, wanted) in filters {
            if let [only] = wanted.as_slice() {
                elided.view.columns.retain(|column| *column != Column::Key(key));
                elided.values.push((name, only));
            }
        }
        // If no key would be left, all columns stay, as in perf.
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
    event: &ProfileEvent,
    view: &TableView,
    table: &ProfileTable,
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
    let mut lines = TableLines::new(view, |_, column| cells.widest(column));
    lines.titles(out)?;
    let mut graphs = Graphs::new(profile, table, view);
    for entry in &table.entries {
        lines.row(out, |cell, _, column| cells.fill(cell, column, entry))?;
        if let Some(graphs) = &mut graphs {
            graphs.write(out, entry, if view.children { entry.total } else { entry.own() })?;
        }
    }
    writeln!(out, "\n")
}

/// Returns the shares of samples without a function name, by reason; `None` if all have one.
fn unresolved(profile: &Profile, table: &ProfileTable) -> Option<String> {
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
        format!("Without a function name: {:.2}% ({})", percent(sum, all), reasons.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use tare_profile::{Dso, Order, ProfileFrame, Row, Space, Symbol, Thread};

    use super::*;
    use crate::Graph;
    use crate::{Amount, Style};

    /// Builds a profile of samples: command, functions from the outermost, and period of each.
    fn profile(stacks: &[(&str, &[&str], u64)]) -> Profile {
        let mut profile = Profile::default();
        let name = profile.add_string(b"cycles");
        let event = profile.name_event(0, name);
        let short = profile.add_string(b"prog");
        let dso = profile.add_dso(Dso { path: short, short });
        let thread = profile.add_thread(Thread { pid: 7, tid: 8 });
        for (comm, functions, period) in stacks {
            let comm = profile.add_string(comm.as_bytes());
            let mut frames = Vec::new();
            for name in *functions {
                let start = u64::from(name.as_bytes()[0]);
                let name = profile.add_string(name.as_bytes());
                let symbol = profile.add_symbol(Symbol { dso, name, start });
                let frame = profile.add_frame(ProfileFrame {
                    space: Space::User,
                    dso: Some(dso),
                    function: Ok(symbol),
                    address: start,
                    is_inlined: false,
                    line: None,
                });
                frames.insert(0, frame);
            }
            let leaf = frames.first().copied();
            let stack = profile.add_stack(&frames);
            profile.add_samples(
                Row {
                    event,
                    thread: Some(thread),
                    comm: Some(comm),
                    cpu: None,
                    leaf,
                    stack,
                    trace: None,
                    details: None,
                },
                Weight { period: *period, samples: 1 },
            );
        }
        profile
    }

    fn shown(profile: &Profile, view: &TableView) -> String {
        let mut out = Vec::new();
        text(&mut out, profile, view).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn aligns_columns_and_escapes_names() {
        let profile = profile(&[("漢字", &["a"], 3), ("x\x1b[1m", &["a"], 1)]);
        let columns = vec![
            Column::Overhead,
            Column::Samples,
            Column::Key(SortKey::Comm),
            Column::Key(SortKey::Symbol),
        ];
        let view = TableView { order: vec![Column::Overhead], columns, ..TableView::default() };
        let expected = "\
# Total Lost Samples: 0
#
# Samples: 2 of event 'cycles'
# Event count (approx.): 4
#
# Overhead       Samples  Command     Symbol
# ........  ............  ..........  ......
#
    75.00%             1  漢字        [.] a
    25.00%             1  x\\u{1b}[1m  [.] a


";
        assert_eq!(shown(&profile, &view), expected);
    }

    #[test]
    fn draws_the_trunk_and_the_branches_of_a_graph() {
        let profile = profile(&[("x", &["a", "b", "c"], 60), ("x", &["a", "b", "d", "e"], 40)]);
        let graph = Graph {
            order: Order::Caller,
            percent_limit: 0.5,
            skips_first: false,
            style: Style::Graph,
            amount: Amount::Percent,
        };
        let columns = vec![Column::Overhead, Column::Key(SortKey::Comm)];
        let text = shown(
            &profile,
            &TableView {
                order: vec![Column::Overhead],
                columns,
                graph: Some(graph),
                ..TableView::default()
            },
        );
        let expected = "
   100.00%  x
            |
            ---a
               b
               |          
               |--60.00%--c
               |          
                --40.00%--d
                          e

";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn prints_losses_above_the_table() {
        let mut profile = profile(&[("x", &["a"], 60)]);
        profile.losses.lost_records = 7;
        profile.losses.own_samples = 3;
        let why = "the data end within a record\x1b".to_owned();
        profile.losses.gaps.push(tare_profile::Gap { offset: 99, bytes: 4, why });
        let text = shown(
            &profile,
            &TableView {
                columns: vec![Column::Overhead],
                order: vec![Column::Overhead],
                ..TableView::default()
            },
        );
        assert!(text.contains("# Total Lost Samples: 7\n# 7 records were lost"), "{text}");
        assert!(text.contains("\n# 3 samples of the recorder itself"), "{text}");
        assert!(text.contains("within a record\\u{1b}\n"), "{text}");
    }

    #[test]
    fn rounds_counts_as_perf_does() {
        assert_eq!(
            [999, 1000, 1001, 2892, 1_000_001].map(rounded),
            ["999", "1000", "1K", "2K", "1000K"]
        );
        assert_eq!([1_001_000, 11_400_000].map(rounded), ["1M", "11M"]);
    }
}

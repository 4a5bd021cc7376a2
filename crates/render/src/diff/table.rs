//! The columns of a comparison, for text and terminal.

use super::amount::{amount, bounds, signed_percent};
use super::{Diff, DiffFigure, DiffOrder, DiffRow, DiffView, EventDiff, weighted};
use crate::samples::Unit;

/// A cell of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// It is aligned to the right.
    pub is_figure: bool,
}

fn figure(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), is_figure: true }
}

fn name(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), is_figure: false }
}

/// Returns the titles of the columns.
#[must_use]
pub fn titles(diff: &Diff, event: &EventDiff, view: &DiffView) -> Vec<Cell> {
    let per = |side: &str| figure(format!("{side} per {}", diff.per));
    let mut titles =
        vec![figure("Baseline"), figure("Delta"), figure("95% interval"), figure("Finds")];
    titles.push(per("A"));
    if view.period {
        titles.push(per("B"));
    }
    titles.extend([figure("B / A"), figure("95% interval"), figure("Finds")]);
    if let DiffOrder::Weighted(..) = view.order {
        titles.push(figure("Weighted diff"));
    }
    if view.verbose {
        titles.extend(["p share", "p weight", "Samples A", "Samples B"].map(figure));
    }
    titles.push(name("Change"));
    let Some(row) = event.rows.first() else { return titles };
    titles.extend(row.comm.as_ref().map(|_| name("Command")));
    titles.extend(row.dso.as_ref().map(|_| name("Shared Object")));
    match (&row.symbol, &row.stack) {
        (_, Some(_)) => titles.push(name("Stack")),
        (Some(_), None) => titles.push(name("Symbol")),
        (None, None) => {}
    }
    titles
}

/// Returns the cells of a row.
#[must_use]
pub fn cells(row: &DiffRow, unit: Unit, view: &DiffView) -> Vec<Cell> {
    let share = &row.share;
    let weight = &row.weight;
    let mut cells = vec![
        figure(if share.a > 0.0 { format!("{:.2}%", 100.0 * share.a) } else { String::new() }),
        figure(signed_percent(share.delta())),
        figure(interval_of_share(share)),
        figure(share.detectable.map(|least| format!("{:.2}%", 100.0 * least)).unwrap_or_default()),
        figure(amount(weight.a, unit)),
    ];
    if view.period {
        cells.push(figure(amount(weight.b, unit)));
    }
    cells.extend([
        figure(signed_percent(weight.quotient() - 1.0)),
        figure(interval_of_ratio(weight)),
        figure(finds(weight)),
    ]);
    if let DiffOrder::Weighted(a, b) = view.order {
        cells.push(figure(amount(weighted(row, a, b), unit)));
    }
    if view.verbose {
        let p = |p: Option<f64>| figure(p.map(|p| format!("{p:.4}")).unwrap_or_default());
        cells.extend([p(share.p), p(weight.p)]);
        cells.extend(row.samples.map(|samples| figure(samples.to_string())));
    }
    cells.push(name(row.verdict().words()));
    cells.extend(row.comm.as_ref().map(name));
    cells.extend(row.dso.as_ref().map(name));
    if row.symbol.is_some() || row.stack.is_some() {
        cells.push(name(row.name()));
    }
    cells
}

fn interval_of_share(share: &DiffFigure) -> String {
    share.difference.map(|change| bounds(change.low, change.high)).unwrap_or_default()
}

pub(super) fn interval_of_ratio(weight: &DiffFigure) -> String {
    weight.ratio.map(|ratio| bounds(ratio.low - 1.0, ratio.high - 1.0)).unwrap_or_default()
}

/// Formats the smallest change of a weight that would be significant, relative to A.
fn finds(weight: &DiffFigure) -> String {
    let least = weight.detectable.filter(|_| weight.a > 0.0);
    least.map(|least| format!("{:.2}%", 100.0 * least / weight.a)).unwrap_or_default()
}

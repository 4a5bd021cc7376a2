//! Which groups have other shares in a second selection?

use std::collections::BTreeMap;

use crate::answer::{Answer, Cell, column, share, weight};
use crate::engine::{Engine, RunControl};
use crate::error::FleetError;
use crate::question::{Grouping, Request};

/// What is compared.
pub(super) struct DiffOptions {
    pub(super) by: Grouping,
    pub(super) with_total: bool,
    pub(super) limit: usize,
}

/// A group's weight and share on each side.
#[derive(Default)]
struct Sides {
    weights: [i64; 2],
    shares: [f64; 2],
}

pub(super) fn ask(
    requests: [&Request; 2],
    compared: &DiffOptions,
    engine: &dyn Engine,
    control: &RunControl<'_>,
) -> Result<Answer, FleetError> {
    let is_total = compared.with_total && compared.by.has_callers();
    let mut groups: BTreeMap<(String, Option<String>), Sides> = BTreeMap::new();
    for (side, request) in requests.into_iter().enumerate() {
        engine.rows(request, control, &mut |_, row| {
            let event = row[0].text().unwrap_or_default().to_owned();
            let sum = row[if is_total { 4 } else { 3 }].int();
            let group = groups.entry((event, row[1].text().map(str::to_owned))).or_default();
            group.weights[side] = sum;
            group.shares[side] = share(engine, sum, row[5].int())?;
            Ok(())
        })?;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    let size = |sides: &Sides| (sides.shares[1] - sides.shares[0]).abs();
    // The sort is stable, so equal differences stay in the order of their names, NULL last.
    groups.sort_by(|((a, left_name), left), ((b, right_name), right)| {
        let order = a.cmp(b).then(size(right).total_cmp(&size(left)));
        order.then(left_name.is_none().cmp(&right_name.is_none()))
    });
    let by_event = groups.chunk_by(|((a, _), _), ((b, _), _)| a == b);
    let listed = by_event.flat_map(|groups| groups.iter().take(compared.limit));
    let rows = listed.map(|((event, name), sides)| {
        let [before, after] = sides.shares;
        vec![
            Cell::Text(event.clone()),
            Cell::Points(after - before),
            Cell::Share(before),
            Cell::Share(after),
            weight(event, sides.weights[0]),
            weight(event, sides.weights[1]),
            name.clone().map_or(Cell::Missing, Cell::Text),
        ]
    });
    let columns = vec![
        column("event", "event"),
        column("difference", "points"),
        column("before_share", "before"),
        column("after_share", "after"),
        column("before", "weight"),
        column("after", "weight"),
        column(compared.by.name(), compared.by.name()),
    ];
    let rows = rows.collect();
    Ok(Answer { question: requests[0].question.name(), columns, rows, remarks: Vec::new() })
}

//! Which groups have the most weight?

use crate::answer::{Answer, Cell, column, share, weight};
use crate::engine::{Engine, RunControl};
use crate::error::FleetError;
use crate::question::{Grouping, Request};

pub(super) fn ask(
    request: &Request,
    by: Grouping,
    with_total: bool,
    engine: &dyn Engine,
    control: &RunControl<'_>,
) -> Result<Answer, FleetError> {
    let has_total = with_total && by.has_callers();
    let mut columns = vec![
        column("event", "event"),
        column(by.name(), by.name()),
        column("self_share", "self"),
        column("self", "weight"),
        column("samples", "samples"),
    ];
    if has_total {
        columns.insert(2, column("total_share", "total"));
        columns.insert(3, column("total", "weight"));
    }
    let mut rows = Vec::new();
    engine.rows(request, control, &mut |_, row| {
        let event = row[0].text().unwrap_or_default();
        let [samples, own, total, all] = [2, 3, 4, 5].map(|at| row[at].int());
        let name = row[1].text().map_or(Cell::Missing, |name| Cell::Text(name.to_owned()));
        let mut cells = vec![Cell::Text(event.to_owned()), name];
        let total_share = share(engine, total, all)?;
        share(engine, own, total)?;
        if has_total {
            cells.extend([Cell::Share(total_share), weight(event, total)]);
        }
        cells.extend([
            Cell::Share(share(engine, own, all)?),
            weight(event, own),
            Cell::Count(samples),
        ]);
        rows.push(cells);
        Ok(())
    })?;
    Ok(Answer { question: request.question.name(), columns, rows, remarks: Vec::new() })
}

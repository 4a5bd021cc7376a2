//! Which functions match, who calls them, and what do they cost?

use std::collections::BTreeMap;

use crate::answer::{Answer, Cell, column, is_time, share, weight};
use crate::engine::{Engine, RunControl};
use crate::error::FleetError;
use crate::question::Request;
use crate::rows::Part;

/// Callers listed by function.
const CALLERS: usize = 5;

/// Hours of a month, for costs.
const MONTH_HOURS: f64 = 730.0;

/// Callers by event and function, most weight first.
type Callers = BTreeMap<(String, String), Vec<(Option<String>, i64)>>;

pub(super) fn ask(
    request: &Request,
    cost_per_core_hour: Option<f64>,
    engine: &dyn Engine,
    control: &RunControl<'_>,
) -> Result<Answer, FleetError> {
    let mut columns = vec![
        column("event", "event"),
        column("total_share", "total"),
        column("self_share", "self"),
        column("total", "weight"),
        column("cores", "cores"),
        column("function", "function"),
        column("caller", "caller"),
    ];
    if cost_per_core_hour.is_some() {
        columns.insert(5, column("cost_per_month", "per month"));
    }
    let mut rows = Vec::new();
    let mut times: BTreeMap<String, i64> = BTreeMap::new();
    let mut callers = Callers::new();
    engine.rows(request, control, &mut |part, row| {
        let event = row[0].text().unwrap_or_default();
        if part == Part::Times {
            times.insert(event.to_owned(), row[2].int().saturating_sub(row[1].int()));
            return Ok(());
        }
        let name = row[1].text().unwrap_or_default();
        let key = (event.to_owned(), name.to_owned());
        if part == Part::Callers {
            let caller = row[2].text().map(str::to_owned);
            callers.entry(key).or_default().push((caller, row[3].int()));
            return Ok(());
        }
        let [own, total, all] = [3, 4, 5].map(|at| row[at].int());
        share(engine, own, total)?;
        let shown = FunctionRow {
            event,
            name,
            all,
            length_us: times.get(event).copied().filter(|_| is_time(event)),
            price: cost_per_core_hour,
        };
        rows.push(shown.cells(engine, Some(own), total, None)?);
        for (caller, weight) in callers.get(&key).into_iter().flatten().take(CALLERS) {
            let caller = caller.clone().map_or(Cell::Missing, Cell::Text);
            share(engine, *weight, total)?;
            rows.push(shown.cells(engine, None, *weight, Some(caller))?);
        }
        Ok(())
    })?;
    let mut remarks = Vec::new();
    if rows.is_empty() {
        remarks.push("no function matches".to_owned());
    }
    Ok(Answer { question: request.question.name(), columns, rows, remarks })
}

/// A function of an event.
struct FunctionRow<'a> {
    event: &'a str,
    name: &'a str,
    /// Weight of all samples of the event.
    all: i64,
    /// Length of the samples' times, if the event's weight is time.
    length_us: Option<i64>,
    price: Option<f64>,
}

impl FunctionRow<'_> {
    /// The row of the function, or of one of its callers.
    fn cells(
        &self,
        engine: &dyn Engine,
        own: Option<i64>,
        total: i64,
        caller: Option<Cell>,
    ) -> Result<Vec<Cell>, FleetError> {
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let cores = self
            .length_us
            .filter(|length| *length > 0)
            .map(|length| total as f64 / 1000.0 / length as f64);
        let own = own.map(|own| share(engine, own, self.all)).transpose()?;
        let mut cells = vec![
            Cell::Text(self.event.to_owned()),
            Cell::Share(share(engine, total, self.all)?),
            own.map_or(Cell::Missing, Cell::Share),
            weight(self.event, total),
            cores.map_or(Cell::Missing, Cell::Cores),
        ];
        if let Some(price) = self.price {
            let cost = cores.map(|cores| cores * MONTH_HOURS * price);
            cells.push(cost.map_or(Cell::Missing, Cell::Money));
        }
        cells.push(Cell::Text(self.name.to_owned()));
        cells.push(match caller {
            None => Cell::Text(String::new()),
            Some(caller) => caller,
        });
        Ok(cells)
    }
}

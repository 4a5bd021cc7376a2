//! Rows -> answers. Everything here is shared by all engines: shares, checks, orders and wording.

mod diff;
mod flame;
mod losses;
mod nameless;
mod regressions;
mod search;
mod sql;
mod top;
mod write;

use std::borrow::Cow;
use std::io::{self, Write};

use crate::engine::{Engine, RunControl};
use crate::error::FleetError;
use crate::question::{Question, Request};

pub use flame::FlameGraph;

/// A value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// There is no value.
    Missing,
    /// A text.
    Text(String),
    /// A number of things.
    Count(i64),
    /// A share, 1 for all.
    Share(f64),
    /// Nanoseconds.
    Duration(i64),
    /// A difference of shares, in points.
    Points(f64),
    /// A relative change, 0.1 for 10% more.
    Change(f64),
    /// A probability.
    Probability(f64),
    /// CPU cores in use on average.
    Cores(f64),
    /// Another number.
    Number(f64),
    /// Money, in the unit of the price.
    Money(f64),
    /// Microseconds since 1970 (UTC).
    Moment(i64),
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerColumn {
    /// Its name in JSON and CSV.
    pub name: Cow<'static, str>,
    /// Its title in a table.
    pub title: Cow<'static, str>,
}

/// An answer: a table and remarks.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Name of the question.
    pub question: &'static str,
    /// The columns.
    pub columns: Vec<AnswerColumn>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// What the table doesn't say, a line each.
    pub remarks: Vec<String>,
}

impl Answer {
    /// Asks an engine.
    ///
    /// # Errors
    /// Fails if the engine does, if the time is over or the caller gave up, and if the rows
    /// contradict each other.
    pub fn ask(
        request: &Request,
        engine: &dyn Engine,
        control: &RunControl<'_>,
    ) -> Result<Self, FleetError> {
        match &request.question {
            Question::Top { by, with_total, .. } => {
                top::ask(request, *by, *with_total, engine, control)
            }
            Question::Losses { limits, all } => losses::ask(request, limits, *all, engine, control),
            Question::Diff { by, with_total, limit, versus } => {
                let compared =
                    diff::DiffOptions { by: *by, with_total: *with_total, limit: *limit };
                diff::ask([request, &request.about(versus)], &compared, engine, control)
            }
            Question::Regressions { versus } => {
                let versus = versus.as_ref().map(|versus| request.about(versus));
                regressions::ask(request, versus.as_ref(), engine, control)
            }
            Question::Flame { .. } => {
                Err(FleetError::Question("flame isn't answered by a table".to_owned()))
            }
            Question::Sql { text } => sql::ask(request, text, engine, control),
            Question::Nameless => nameless::ask(request, engine, control),
            Question::Search { cost_per_core_hour, .. } => {
                search::ask(request, *cost_per_core_hour, engine, control)
            }
        }
    }
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFormat {
    /// Tables, or a tree.
    Text,
    /// A JSON document.
    Json,
    /// Comma-separated values.
    Csv,
    /// The page of a flame graph.
    Page,
}

/// What a question is answered with.
pub enum Reply {
    /// A table.
    Table(Answer),
    /// Call chains.
    Flame(FlameGraph),
}

impl Reply {
    /// Asks an engine.
    ///
    /// # Errors
    /// Fails as [`Answer::ask`] does.
    pub fn ask(
        request: &Request,
        engine: &dyn Engine,
        control: &RunControl<'_>,
    ) -> Result<Self, FleetError> {
        match &request.question {
            Question::Flame { by } => {
                FlameGraph::ask(request, *by, engine, control).map(Self::Flame)
            }
            _ => Answer::ask(request, engine, control).map(Self::Table),
        }
    }

    /// Writes the answer.
    ///
    /// # Errors
    /// Fails if `out` can't be written, and if a table is to be a page.
    pub fn write(&self, format: AnswerFormat, out: &mut dyn Write) -> io::Result<()> {
        match (self, format) {
            (Self::Flame(graph), format) => graph.write(format, out),
            (Self::Table(answer), AnswerFormat::Text) => out.write_all(answer.to_text().as_bytes()),
            (Self::Table(answer), AnswerFormat::Json) => out.write_all(answer.to_json().as_bytes()),
            (Self::Table(answer), AnswerFormat::Csv) => out.write_all(answer.to_csv().as_bytes()),
            (Self::Table(_), AnswerFormat::Page) => {
                Err(io::Error::other("only flame draws a page: give another name than .html"))
            }
        }
    }
}

const fn column(name: &'static str, title: &'static str) -> AnswerColumn {
    AnswerColumn { name: Cow::Borrowed(name), title: Cow::Borrowed(title) }
}

/// Returns whether an event's weight is nanoseconds.
fn is_time(event: &str) -> bool {
    matches!(event, "cpu-clock" | "task-clock" | "offcpu-time")
}

/// The weight of an event: nanoseconds, or a number of what it counts.
fn weight(event: &str, weight: i64) -> Cell {
    if is_time(event) { Cell::Duration(weight) } else { Cell::Count(weight) }
}

/// Returns a part's share of a whole.
///
/// # Errors
/// Fails if the part is negative or exceeds the whole.
fn share(engine: &dyn Engine, part: i64, whole: i64) -> Result<f64, FleetError> {
    if part < 0 || part > whole {
        return Err(FleetError::Row {
            engine: engine.name(),
            message: format!("a part of {part} of {whole}"),
        });
    }
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let share = if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    Ok(share)
}

#[cfg(test)]
mod tests;

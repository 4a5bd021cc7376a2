//! Free SQL: the rows as the engine gives them.

use std::borrow::Cow;

use serde_json::Value;

use crate::answer::{Answer, AnswerColumn, Cell};
use crate::engine::{Engine, RunControl};
use crate::error::FleetError;
use crate::question::Request;

pub(super) fn ask(
    request: &Request,
    text: &str,
    engine: &dyn Engine,
    control: &RunControl<'_>,
) -> Result<Answer, FleetError> {
    let mut columns: Vec<AnswerColumn> = Vec::new();
    let mut rows = Vec::new();
    engine.query(&request.selection, text, control, &mut |row| {
        if columns.is_empty() {
            let column = |(name, _): &(String, Value)| AnswerColumn {
                name: Cow::Owned(name.clone()),
                title: Cow::Owned(name.clone()),
            };
            columns = row.iter().map(column).collect();
        }
        rows.push(row.into_iter().map(|(_, value)| cell(value)).collect());
        Ok(())
    })?;
    Ok(Answer { question: request.question.name(), columns, rows, remarks: Vec::new() })
}

fn cell(value: Value) -> Cell {
    match value {
        Value::Null => Cell::Missing,
        Value::String(text) => Cell::Text(text),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(count), _) => Cell::Count(count),
            (None, Some(number)) => Cell::Number(number),
            (None, None) => Cell::Text(number.to_string()),
        },
        other => Cell::Text(other.to_string()),
    }
}

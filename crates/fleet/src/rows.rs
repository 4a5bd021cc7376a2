//! Rows as engines give them.

use std::fmt::{self, Formatter};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::error::FleetError;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A number of 64 bits with a sign.
    Int,
    /// A text, or NULL.
    Text,
}

/// A column of a row set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowColumn {
    /// Its name in SQL.
    pub name: &'static str,
    /// The type of its values.
    pub kind: ColumnType,
}

/// A row set that a question is answered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Sums by group.
    Sums,
    /// Segments, summed up by host.
    Hosts,
    /// Weight of frames without names, by build id and module.
    Builds,
    /// Functions that match a pattern.
    Functions,
    /// Their callers.
    Callers,
    /// First and last moment of the samples, by event.
    Times,
    /// Weight by service, version, host and hour.
    Rates,
}

const fn text(name: &'static str) -> RowColumn {
    RowColumn { name, kind: ColumnType::Text }
}

const fn int(name: &'static str) -> RowColumn {
    RowColumn { name, kind: ColumnType::Int }
}

const SUMS: [RowColumn; 6] = [
    text("event"),
    text("name"),
    int("sample_count"),
    int("self_weight"),
    int("total_weight"),
    int("event_weight"),
];

impl Part {
    /// Returns the columns.
    #[must_use]
    pub fn columns(self) -> &'static [RowColumn] {
        match self {
            Self::Sums | Self::Functions => &SUMS,
            Self::Hosts => {
                const {
                    &[
                        text("host"),
                        int("window_count"),
                        int("gap_count"),
                        int("sample_count"),
                        int("lost_count"),
                        int("gap_samples"),
                        int("truncated_count"),
                        int("unnamed_count"),
                        int("omitted_count"),
                        int("cost_us"),
                        int("cpu_us"),
                        int("first_us"),
                        int("last_us"),
                    ]
                }
            }
            Self::Builds => {
                const {
                    &[
                        text("event"),
                        text("build_id"),
                        text("module"),
                        int("self_weight"),
                        int("total_weight"),
                        int("event_weight"),
                    ]
                }
            }
            Self::Callers => {
                const { &[text("event"), text("name"), text("caller"), int("total_weight")] }
            }
            Self::Rates => {
                const {
                    &[
                        text("event"),
                        text("service"),
                        text("version"),
                        text("host"),
                        int("hour_us"),
                        int("covered_us"),
                        int("self_weight"),
                    ]
                }
            }
            Self::Times => const { &[text("event"), int("first_us"), int("last_us")] },
        }
    }
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowValue<'a> {
    /// NULL.
    Null,
    /// A number.
    Int(i64),
    /// A text.
    Text(&'a str),
}

impl<'a> RowValue<'a> {
    pub(crate) fn from_text(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }

    /// Returns the number; 0 for other values.
    #[must_use]
    pub fn int(self) -> i64 {
        if let Self::Int(number) = self { number } else { 0 }
    }

    /// Returns the text.
    #[must_use]
    pub fn text(self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// Takes rows one by one.
pub type RowSink<'a> = dyn FnMut(&[RowValue<'_>]) -> Result<(), FleetError> + 'a;

/// Takes rows of free SQL one by one: names and values in the order of the columns.
pub type JsonRowSink<'a> = dyn FnMut(Vec<(String, Value)>) -> Result<(), FleetError> + 'a;

/// An object of JSON in the order of its text.
pub(crate) struct JsonRow(pub(crate) Vec<(String, Value)>);

impl<'de> Deserialize<'de> for JsonRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RowVisitor;

        impl<'de> Visitor<'de> for RowVisitor {
            type Value = JsonRow;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("a row")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonRow, A::Error> {
                let mut row = Vec::new();
                while let Some(field) = map.next_entry()? {
                    row.push(field);
                }
                Ok(JsonRow(row))
            }
        }

        deserializer.deserialize_map(RowVisitor)
    }
}

/// Passes a row of JSON on: an object by column names. A missing name is NULL.
pub(crate) fn pass_json(
    engine: &'static str,
    columns: &[RowColumn],
    json: &Value,
    each: &mut RowSink<'_>,
) -> Result<(), FleetError> {
    let wrong = |message: String| FleetError::Row { engine, message };
    let mut row = Vec::with_capacity(columns.len());
    for column in columns {
        let value = json.get(column.name);
        row.push(match (value.unwrap_or(&Value::Null), column.kind) {
            (Value::Null, ColumnType::Text) => RowValue::Null,
            (Value::String(text), ColumnType::Text) => RowValue::Text(text),
            (Value::Number(number), ColumnType::Int) if number.is_i64() => {
                RowValue::Int(number.as_i64().unwrap_or(0))
            }
            // Some engines quote numbers that JavaScript can't hold.
            (Value::String(text), ColumnType::Int) if text.parse::<i64>().is_ok() => {
                RowValue::Int(text.parse().unwrap_or(0))
            }
            (value, _) => return Err(wrong(format!("{} is {value}", column.name))),
        });
    }
    each(&row)
}

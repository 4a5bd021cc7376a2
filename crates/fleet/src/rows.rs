//! Rows as engines give them.

use std::borrow::Cow;
use std::fmt::{self, Formatter};

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
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
    /// Sums by label, reason and stack.
    Stacks,
    /// The frames of these stacks.
    Frames,
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

const HOSTS: [RowColumn; 13] = [
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
];

impl Part {
    /// Returns the columns.
    #[must_use]
    pub fn columns(self) -> &'static [RowColumn] {
        match self {
            Self::Sums | Self::Functions => &SUMS,
            Self::Hosts => &HOSTS,
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
            Self::Stacks => {
                const {
                    &[
                        text("event"),
                        text("name"),
                        text("wait_reason"),
                        int("stack_id"),
                        int("sample_count"),
                        int("self_weight"),
                    ]
                }
            }
            Self::Frames => {
                const { &[int("stack_id"), int("depth"), text("function"), text("module")] }
            }
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
pub(crate) type RowSink<'a> = dyn FnMut(&[RowValue<'_>]) -> Result<(), FleetError> + 'a;

/// Takes the rows of a question's parts one by one.
pub type PartSink<'a> = dyn FnMut(Part, &[RowValue<'_>]) -> Result<(), FleetError> + 'a;

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

/// A value of a row's text.
enum LineValue<'a> {
    Null,
    Int(i64),
    Text(Cow<'a, str>),
    /// Neither.
    Other(String),
}

impl<'de> Deserialize<'de> for LineValue<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;

        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = LineValue<'de>;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a text or null")
            }

            fn visit_unit<E>(self) -> Result<LineValue<'de>, E> {
                Ok(LineValue::Null)
            }

            fn visit_i64<E>(self, number: i64) -> Result<LineValue<'de>, E> {
                Ok(LineValue::Int(number))
            }

            fn visit_u64<E>(self, number: u64) -> Result<LineValue<'de>, E> {
                let other = || LineValue::Other(number.to_string());
                Ok(i64::try_from(number).map_or_else(|_| other(), LineValue::Int))
            }

            fn visit_f64<E>(self, number: f64) -> Result<LineValue<'de>, E> {
                Ok(LineValue::Other(number.to_string()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<LineValue<'de>, E> {
                Ok(LineValue::Other(value.to_string()))
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<LineValue<'de>, E> {
                Ok(LineValue::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<LineValue<'de>, E> {
                Ok(LineValue::Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_any(ValueVisitor)
    }
}

/// Reads an object's values in the order of columns. A missing name is NULL.
struct LineRow<'a>(&'a [RowColumn]);

impl<'de> DeserializeSeed<'de> for LineRow<'_> {
    type Value = Vec<LineValue<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for LineRow<'_> {
    type Value = Vec<LineValue<'de>>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut row: Vec<LineValue<'de>> = self.0.iter().map(|_| LineValue::Null).collect();
        while let Some(at) = map.next_key_seed(ColumnName(self.0))? {
            match at {
                Some(at) => row[at] = map.next_value()?,
                None => drop(map.next_value::<de::IgnoredAny>()?),
            }
        }
        Ok(row)
    }
}

/// Finds the column of a name.
struct ColumnName<'a>(&'a [RowColumn]);

impl<'de> DeserializeSeed<'de> for ColumnName<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ColumnName<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a column")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|column| column.name == name))
    }
}

/// Passes on a row: the text of a JSON object.
pub(crate) fn pass_line(
    engine: &'static str,
    columns: &[RowColumn],
    line: &str,
    each: &mut RowSink<'_>,
) -> Result<(), FleetError> {
    let wrong = |message: String| FleetError::Row { engine, message };
    let mut text = serde_json::Deserializer::from_str(line);
    let values = LineRow(columns).deserialize(&mut text);
    let values = values.map_err(|error| wrong(format!("{error}: {line}")))?;
    let mut row = Vec::with_capacity(columns.len());
    for (column, value) in columns.iter().zip(&values) {
        row.push(match (value, column.kind) {
            (LineValue::Null, ColumnType::Text) => RowValue::Null,
            (LineValue::Text(text), ColumnType::Text) => RowValue::Text(text),
            (LineValue::Int(number), ColumnType::Int) => RowValue::Int(*number),
            // Some engines quote numbers that JavaScript can't hold.
            (LineValue::Text(text), ColumnType::Int) if text.parse::<i64>().is_ok() => {
                RowValue::Int(text.parse().unwrap_or(0))
            }
            (LineValue::Other(other), _) => {
                return Err(wrong(format!("{} is {other}", column.name)));
            }
            _ => return Err(wrong(format!("{} of another type: {line}", column.name))),
        });
    }
    each(&row)
}

/// Returns the names and values of a row: the text of a JSON object.
pub(crate) fn parse_line(
    engine: &'static str,
    line: &str,
) -> Result<Vec<(String, Value)>, FleetError> {
    let row = serde_json::from_str(line);
    let wrong = |error| FleetError::Row { engine, message: format!("{error}: {line}") };
    row.map(|JsonRow(row)| row).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_values_by_name_and_refuses_other_types() {
        let columns = Part::Frames.columns();
        let read = |line: &str| -> Result<Vec<String>, FleetError> {
            let mut all = Vec::new();
            pass_line("test", columns, line, &mut |row| {
                all = row.iter().map(|value| format!("{value:?}")).collect();
                Ok(())
            })?;
            Ok(all)
        };
        let line = r#"{"module":"a\"b","depth":3,"x":[1,{}],"stack_id":"-7"}"#;
        assert_eq!(read(line).unwrap(), ["Int(-7)", "Int(3)", "Null", r#"Text("a\"b")"#]);
        for wrong in [
            r#"{"stack_id":1.5,"depth":0}"#,
            r#"{"stack_id":null,"depth":0}"#,
            r#"{"stack_id":9223372036854775808,"depth":0}"#,
            r#"{"stack_id":1,"depth":0,"module":1}"#,
            r#"[1,0,null,null]"#,
            "Killed",
        ] {
            assert!(matches!(read(wrong), Err(FleetError::Row { .. })), "{wrong}");
        }
    }
}

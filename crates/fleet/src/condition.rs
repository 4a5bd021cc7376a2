//! Conditions on labels, for tare's reader and for SQL.

use std::str::FromStr;

use tare_store::LabelFilter;
use tare_store::schema::{ColumnKind, SAMPLES, SampleColumn};

use crate::error::FleetError;

/// How a condition tests a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// The label has this value.
    Equal(String),
    /// It has another value, or none.
    Different(String),
    /// A part of its value matches this regular expression.
    Matching(String),
}

/// A condition on a label.
#[derive(Clone, Debug)]
pub struct Condition {
    text: String,
    label: String,
    test: Test,
    filter: LabelFilter,
}

/// Parses `label=value`, `label!=value` or `label~pattern`.
impl FromStr for Condition {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<Self, FleetError> {
        let filter = text.parse::<LabelFilter>()?;
        let at = text.find(['=', '!', '~']).unwrap_or(text.len());
        let (label, rest) = text.split_at(at);
        let test = if let Some(value) = rest.strip_prefix("!=") {
            Test::Different(value.to_owned())
        } else if let Some(value) = rest.strip_prefix('~') {
            Test::Matching(value.to_owned())
        } else {
            Test::Equal(rest.strip_prefix('=').unwrap_or(rest).to_owned())
        };
        Ok(Self { text: text.to_owned(), label: label.to_owned(), test, filter })
    }
}

impl Condition {
    /// Returns the condition that a label has this value.
    ///
    /// # Errors
    /// Fails if the label's name is empty or has an operator.
    pub fn for_value(label: &str, value: &str) -> Result<Self, FleetError> {
        let condition: Self = format!("{label}={value}").parse()?;
        if condition.label == label {
            Ok(condition)
        } else {
            Err(FleetError::Question(format!("'{label}' isn't the name of a label")))
        }
    }

    /// Returns the condition as it was typed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the name of the label.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns how the label is tested.
    #[must_use]
    pub fn test(&self) -> &Test {
        &self.test
    }

    /// Returns the column of the label; `None` if it is in `extra`.
    #[must_use]
    pub fn column(&self) -> Option<SampleColumn> {
        SampleColumn::ALL.iter().copied().find(|column| {
            SAMPLES.columns[*column as usize].kind == ColumnKind::Text
                && column.name() == self.label
        })
    }

    /// Returns whether a label with this value fulfils the condition.
    #[must_use]
    pub fn is_met_by(&self, value: Option<&str>) -> bool {
        self.filter.is_met_by(value)
    }

    pub(crate) fn filter(&self) -> &LabelFilter {
        &self.filter
    }
}

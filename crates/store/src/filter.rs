//! Which rows a query wants.

use std::fmt;

use regex_lite::Regex;

use crate::schema::{ColumnKind, SAMPLES, SampleColumn};

/// A condition on a label.
#[derive(Clone, Debug)]
pub struct LabelFilter {
    column: SampleColumn,
    /// Name of a further label, if `column` is `extra`.
    label: Option<String>,
    test: LabelTest,
}

#[derive(Clone, Debug)]
enum LabelTest {
    Equal(String),
    /// Also true of a label that is missing.
    Different(String),
    Matching(Regex),
}

/// Why a text isn't a filter.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// It has no operator.
    #[error("'{0}' has no operator: write LABEL=VALUE, LABEL!=VALUE or LABEL~PATTERN")]
    Operator(String),
    /// Its regular expression isn't valid.
    #[error("'{pattern}' isn't a regular expression: {source}")]
    Pattern {
        /// The expression.
        pattern: String,
        /// The reason.
        source: regex_lite::Error,
    },
}

/// Parses `label=value`, `label!=value` (also rows without the label) or `label~pattern` (a regular
/// expression that matches a part). A label is a column of texts, or a name in `extra`.
impl std::str::FromStr for LabelFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let missing = || FilterError::Operator(text.to_owned());
        let at = text.find(['=', '!', '~']).filter(|at| *at > 0).ok_or_else(missing)?;
        let (label, rest) = text.split_at(at);
        let test =
            if let Some(value) = rest.strip_prefix("!=") {
                LabelTest::Different(value.to_owned())
            } else if let Some(value) = rest.strip_prefix('=') {
                LabelTest::Equal(value.to_owned())
            } else if let Some(pattern) = rest.strip_prefix('~') {
                let compiled = Regex::new(pattern);
                LabelTest::Matching(compiled.map_err(|source| FilterError::Pattern {
                    pattern: pattern.to_owned(),
                    source,
                })?)
            } else {
                return Err(missing());
            };
        Ok(Self::new(label, test))
    }
}

impl LabelFilter {
    fn new(label: &str, test: LabelTest) -> Self {
        let is_text =
            |column: SampleColumn| SAMPLES.columns[column as usize].kind == ColumnKind::Text;
        let named = SampleColumn::ALL.iter().find(|column| column.name() == label);
        match named.filter(|column| is_text(**column)) {
            Some(column) => Self { column: *column, label: None, test },
            None => Self { column: SampleColumn::Extra, label: Some(label.to_owned()), test },
        }
    }

    /// Returns the name of the label.
    #[must_use]
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(self.column.name())
    }

    /// Returns whether a label with this value fulfils the condition.
    #[must_use]
    pub fn is_met_by(&self, value: Option<&str>) -> bool {
        self.test.keeps(value)
    }

    pub(crate) fn column(&self) -> SampleColumn {
        self.column
    }

    /// Returns the value that the column must have, if the filter is an equation.
    pub(crate) fn wanted(&self) -> Option<&str> {
        match &self.test {
            LabelTest::Equal(value) if self.label.is_none() => Some(value),
            _ => None,
        }
    }

    /// Returns whether the filter keeps a row with this value of the column.
    pub(crate) fn keeps(&self, value: Option<&str>) -> bool {
        let Some(label) = &self.label else { return self.test.keeps(value) };
        let object = value.and_then(|json| serde_json::from_str::<serde_json::Value>(json).ok());
        self.test.keeps(object.as_ref().and_then(|object| object.get(label)?.as_str()))
    }
}

impl fmt::Display for LabelFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = self.label();
        match &self.test {
            LabelTest::Equal(value) => write!(f, "{label}={value}"),
            LabelTest::Different(value) => write!(f, "{label}!={value}"),
            LabelTest::Matching(pattern) => write!(f, "{label}~{pattern}"),
        }
    }
}

impl LabelTest {
    fn keeps(&self, value: Option<&str>) -> bool {
        match (self, value) {
            (Self::Equal(wanted), Some(value)) => wanted == value,
            (Self::Matching(pattern), Some(value)) => pattern.is_match(value),
            (Self::Different(unwanted), Some(value)) => unwanted != value,
            (Self::Different(_), None) => true,
            (_, None) => false,
        }
    }
}

/// The rows that a query wants.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Start of the first window, in microseconds since 1970.
    pub since_us: Option<i64>,
    /// Windows start before this moment, in microseconds since 1970.
    pub until_us: Option<i64>,
    /// Conditions that a row must fulfil, all of them.
    pub filters: Vec<LabelFilter>,
}

impl Query {
    /// Returns whether the query's times have a window with this start.
    pub(crate) fn has_window(&self, start_us: i64) -> bool {
        self.since_us.is_none_or(|since| start_us >= since)
            && self.until_us.is_none_or(|until| start_us < until)
    }

    /// Returns whether the filters of hosts keep this one.
    pub(crate) fn has_host(&self, host: &str) -> bool {
        let mut of_hosts =
            self.filters.iter().filter(|filter| filter.column() == SampleColumn::Host);
        of_hosts.all(|filter| filter.keeps(Some(host)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps(filter: &str, value: Option<&str>) -> bool {
        filter.parse::<LabelFilter>().unwrap().keeps(value)
    }

    #[test]
    fn filters_compare_and_match() {
        assert!(keeps("service=a=b", Some("a=b")) && !keeps("service=a", None));
        assert!(keeps("service!=a", Some("b")) && keeps("service!=a", None));
        assert!(!keeps("service!=a", Some("a")));
        assert!(keeps("version~^1\\.5", Some("1.5.2")) && !keeps("version~1\\.5", Some("1x5")));
        assert!(!keeps("version~.*", None));
        let filter: LabelFilter = "version=1".parse().unwrap();
        assert_eq!((filter.column(), filter.wanted()), (SampleColumn::Version, Some("1")));
    }

    #[test]
    fn other_labels_are_names_in_extra() {
        let json = Some(r#"{"env":"prod","weight":"7"}"#);
        assert!(keeps("env=prod", json) && !keeps("env=dev", json) && keeps("zone!=a", json));
        // A column of numbers isn't a label.
        assert!(keeps("weight=7", json) && !keeps("env=prod", Some("no JSON")));
        let filter: LabelFilter = "env=prod".parse().unwrap();
        assert_eq!((filter.column(), filter.wanted()), (SampleColumn::Extra, None));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "service", "=a", "~a", "a!b"] {
            assert!(matches!(text.parse::<LabelFilter>(), Err(FilterError::Operator(_))), "{text}");
        }
        let pattern = "a~(".parse::<LabelFilter>();
        assert!(matches!(pattern, Err(FilterError::Pattern { .. })), "{pattern:?}");
    }
}

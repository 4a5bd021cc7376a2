//! What differs between the engines' SQL.

use std::path::{Path, PathBuf};

use crate::error::FleetError;
use crate::time::utc;

/// An engine's SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// DuckDB.
    DuckDb,
}

/// Characters of paths that engines read as patterns.
const PATTERN_CHARACTERS: &[char] = &['*', '?', '[', ']', '{', '}', ',', '\\', '`', '\n', '\0'];

/// Returns a path without characters that engines read as a pattern.
fn plain(path: &Path) -> Result<&str, FleetError> {
    let text = path.to_str().filter(|text| !text.contains(PATTERN_CHARACTERS));
    text.ok_or_else(|| {
        FleetError::Question(format!(
            "{}: engines read a character of this path as a pattern; move the store",
            path.display()
        ))
    })
}

impl Dialect {
    /// All dialects.
    #[cfg(test)]
    pub(super) const ALL: [Self; 1] = [Self::DuckDb];

    /// Returns whether a backslash in a literal changes the meaning of what follows.
    #[cfg(test)]
    pub(super) fn escapes_by_backslash(self) -> bool {
        match self {
            Self::DuckDb => false,
        }
    }

    /// Returns a literal.
    pub(super) fn text(self, value: &str) -> Result<String, FleetError> {
        if value.contains('\0') {
            return Err(FleetError::Question("a value has a NUL character".to_owned()));
        }
        Ok(match self {
            Self::DuckDb => format!("'{}'", value.replace('\'', "''")),
        })
    }

    /// Returns a moment as a literal that compares with a table's times.
    pub(super) fn moment(self, time_us: i64) -> String {
        match self {
            Self::DuckDb => format!("timestamptz '{}+00:00'", utc(time_us)),
        }
    }

    /// Returns the microseconds since 1970 of a time.
    pub(super) fn micros(self, time: &str) -> String {
        match self {
            Self::DuckDb => format!("epoch_us({time})"),
        }
    }

    /// Returns whether a part of a text matches a regular expression.
    pub(super) fn matches(self, text: &str, pattern: &str) -> Result<String, FleetError> {
        let pattern = self.text(pattern)?;
        Ok(match self {
            Self::DuckDb => format!("regexp_matches({text}, {pattern})"),
        })
    }

    /// Returns a label of the JSON in `extra`, NULL if it is missing.
    pub(super) fn extra(self, label: &str) -> Result<String, FleetError> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        if label.is_empty() || !label.chars().all(is_plain) {
            return Err(FleetError::Question(format!(
                "'{label}': an engine takes names of labels with letters, digits, '_', '-' and '.'"
            )));
        }
        Ok(match self {
            Self::DuckDb => format!("json_extract_string(extra, '$.\"{label}\"')"),
        })
    }

    /// Returns what `from` names for all files of a pattern below a folder.
    pub(super) fn pattern(self, folder: &Path, pattern: &str) -> Result<String, FleetError> {
        let path = plain(folder)?;
        Ok(match self {
            Self::DuckDb => {
                let files = self.text(&format!("{}/{pattern}", path.trim_end_matches('/')))?;
                format!("read_parquet({files}, hive_partitioning = false)")
            }
        })
    }

    /// Returns what `from` names for files; `empty` are the columns of a table without files.
    pub(super) fn files(self, paths: &[PathBuf], empty: &str) -> Result<String, FleetError> {
        if paths.is_empty() {
            return Ok(empty.to_owned());
        }
        let texts = paths.iter().map(|path| plain(path)).collect::<Result<Vec<_>, _>>()?;
        Ok(match self {
            Self::DuckDb => {
                let texts: Result<Vec<String>, _> =
                    texts.iter().map(|text| self.text(text)).collect();
                format!("read_parquet([{}], hive_partitioning = false)", texts?.join(", "))
            }
        })
    }

    /// Returns the type of a table's column.
    pub(super) fn type_name(self, kind: tare_store::schema::ColumnKind) -> &'static str {
        use tare_store::schema::ColumnKind;
        match (self, kind) {
            (Self::DuckDb, ColumnKind::Time) => "timestamptz",
            (Self::DuckDb, ColumnKind::Int64) => "bigint",
            (Self::DuckDb, ColumnKind::Int32) => "integer",
            (Self::DuckDb, ColumnKind::Text) => "varchar",
        }
    }
}

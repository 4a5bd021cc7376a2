//! What differs between the engines' SQL.

use std::path::{Path, PathBuf};

use tare_store::schema::{ColumnKind, TableDefinition};

use crate::error::FleetError;
use crate::time::utc;

/// An engine's SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// DuckDB.
    DuckDb,
    /// ClickHouse.
    ClickHouse,
    /// Spark.
    Spark,
    /// Trino.
    Trino,
    /// DataFusion.
    DataFusion,
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

/// Returns a pattern that the paths alone match.
fn one_of(paths: &[&str]) -> String {
    match paths {
        [path] => (*path).to_owned(),
        _ => {
            let first = paths.first().copied().unwrap_or_default();
            let common = paths.iter().fold(first.len(), |common, path| {
                let equal = first.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
                common.min(equal)
            });
            let folder =
                first.bytes().take(common).rposition(|byte| byte == b'/').map_or(0, |at| at + 1);
            let rest: Vec<&str> = paths.iter().map(|path| &path[folder..]).collect();
            format!("{}{{{}}}", &first[..folder], rest.join(","))
        }
    }
}

impl Dialect {
    /// All dialects.
    #[cfg(test)]
    pub(super) const ALL: [Self; 5] =
        [Self::DuckDb, Self::ClickHouse, Self::Spark, Self::Trino, Self::DataFusion];

    /// Returns whether a backslash in a literal changes the meaning of what follows.
    pub(super) fn escapes_by_backslash(self) -> bool {
        matches!(self, Self::ClickHouse | Self::Spark)
    }

    /// Returns a literal.
    pub(super) fn text(self, value: &str) -> Result<String, FleetError> {
        if value.contains('\0') {
            return Err(FleetError::Question("a value has a NUL character".to_owned()));
        }
        Ok(match self.escapes_by_backslash() {
            true => format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'")),
            false => format!("'{}'", value.replace('\'', "''")),
        })
    }

    /// Returns a quoted name of a column.
    pub(super) fn name(self, column: &str) -> String {
        match self {
            Self::Spark => format!("`{column}`"),
            _ => format!("\"{column}\""),
        }
    }

    /// Returns a moment as a literal that compares with a table's times.
    pub(super) fn moment(self, time_us: i64) -> String {
        match self {
            Self::DuckDb => format!("timestamptz '{}+00:00'", utc(time_us)),
            Self::ClickHouse => format!("fromUnixTimestamp64Micro({time_us}, 'UTC')"),
            Self::Spark => format!("timestamp_micros({time_us})"),
            Self::Trino => format!("timestamp '{}'", utc(time_us)),
            Self::DataFusion => {
                format!("arrow_cast({time_us}, 'Timestamp(Microsecond, Some(\"UTC\"))')")
            }
        }
    }

    /// Returns the microseconds since 1970 of a time.
    pub(super) fn micros(self, time: &str) -> String {
        match self {
            Self::DuckDb => format!("epoch_us({time})"),
            Self::ClickHouse => format!("toUnixTimestamp64Micro({time})"),
            Self::Spark => format!("unix_micros({time})"),
            Self::Trino => format!("cast(round(to_unixtime({time}) * 1000000) as bigint)"),
            Self::DataFusion => format!("arrow_cast({time}, 'Int64')"),
        }
    }

    /// Returns whether a part of a text matches a regular expression.
    pub(super) fn matches(self, text: &str, pattern: &str) -> Result<String, FleetError> {
        let pattern = self.text(pattern)?;
        Ok(match self {
            Self::DuckDb => format!("regexp_matches({text}, {pattern})"),
            Self::ClickHouse => format!("match({text}, {pattern})"),
            Self::Spark => format!("{text} rlike {pattern}"),
            Self::Trino | Self::DataFusion => format!("regexp_like({text}, {pattern})"),
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
            Self::ClickHouse => {
                let json = "coalesce(extra, '')";
                format!(
                    "if(JSONHas({json}, '{label}'), JSONExtractString({json}, '{label}'), null)"
                )
            }
            Self::Spark => format!("get_json_object(extra, '$[\\'{label}\\']')"),
            Self::Trino => format!("json_extract_scalar(extra, '$[\"{label}\"]')"),
            Self::DataFusion => {
                return Err(FleetError::Question(format!(
                    "'{label}': DataFusion reads no labels in extra"
                )));
            }
        })
    }

    /// Returns the statements that define a table of all its files.
    pub(super) fn definition(
        self,
        name: &str,
        table: &TableDefinition,
        store: &Path,
    ) -> Result<String, FleetError> {
        let folder = format!("{}/{}", plain(store)?.trim_end_matches('/'), table.name);
        let parts = if table.name == "samples" { "date, hour" } else { "date" };
        let files = format!("{folder}{}/*.parquet", "/*".repeat(parts.split(',').count()));
        let [folder, files] = [self.text(&folder)?, self.text(&files)?];
        Ok(match self {
            Self::DuckDb => format!(
                "create view {name} as select * from read_parquet({files}, hive_partitioning = false);\n"
            ),
            Self::ClickHouse => {
                format!("create view {name} as select * from file({files}, 'Parquet');\n")
            }
            Self::Spark => {
                format!("create temporary view {name} using parquet options (path {files});\n")
            }
            Self::DataFusion => {
                format!("create external table {name} stored as parquet location {folder};\n")
            }
            Self::Trino => {
                let columns = table.columns.iter().map(|column| {
                    format!("  {} {},\n", self.name(column.name), self.type_name(column.kind))
                });
                let added = parts.split(", ").map(|part| format!("  {part} varchar"));
                let added = added.collect::<Vec<_>>().join(",\n");
                let parts = parts.replace(", ", "', '");
                let folder = folder.replacen('\'', "'file://", 1);
                format!(
                    "create table {name} (\n{}{added}\n) with (format = 'PARQUET', \
                     external_location = {folder},\n  partitioned_by = array['{parts}']);\n\
                     call system.sync_partition_metadata(current_schema, '{name}', 'FULL');\n",
                    columns.collect::<String>()
                )
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
            Self::ClickHouse => format!("file({}, 'Parquet')", self.text(&one_of(&texts))?),
            Self::Spark => format!("parquet.`{}`", one_of(&texts)),
            Self::Trino | Self::DataFusion => {
                return Err(FleetError::Question(
                    "this engine reads no lists of files; use the tables of tare fleet ddl"
                        .to_owned(),
                ));
            }
        })
    }

    /// Returns the type of a table's column.
    pub(super) fn type_name(self, kind: ColumnKind) -> &'static str {
        match (self, kind) {
            (Self::DuckDb, ColumnKind::Time) => "timestamptz",
            (Self::ClickHouse, ColumnKind::Time) => "Nullable(DateTime64(6, 'UTC'))",
            (Self::Spark, ColumnKind::Time) => "timestamp",
            (Self::Trino, ColumnKind::Time) => "timestamp(6)",
            (Self::DataFusion, ColumnKind::Time) => "timestamptz",
            (Self::ClickHouse, ColumnKind::Int64) => "Nullable(Int64)",
            (Self::ClickHouse, ColumnKind::Int32) => "Nullable(Int32)",
            (Self::ClickHouse, ColumnKind::Text) => "Nullable(String)",
            (_, ColumnKind::Int64) => "bigint",
            (_, ColumnKind::Int32) => "integer",
            (Self::Spark, ColumnKind::Text) => "string",
            (_, ColumnKind::Text) => "varchar",
        }
    }
}

//! Engines: a question's parts -> rows.

mod access;
mod built_in;
mod child;
mod clickhouse;
mod duckdb;
mod http;
mod lines;
mod options;
mod spark;
mod trino;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tare_store::StoreReader;
use tare_store::schema::{FRAMES, SAMPLES, SEGMENTS};

use crate::error::FleetError;
use crate::question::{Request, Selection};
use crate::rows::{JsonRowSink, PartSink, parse_line, pass_line};
use crate::sql::{Dialect, Tables, free_statement, statement};

pub use access::{Access, Secret};
pub use built_in::{BuiltIn, TrendOptions, TrendSeries, Trends};
pub use clickhouse::ClickHouse;
pub use duckdb::{DuckDb, DuckDbProgram};
pub use options::EngineOptions;
pub use spark::Spark;
pub use trino::Trino;

/// Answers the parts of questions.
pub trait Engine {
    /// Returns its name.
    fn name(&self) -> &'static str;

    /// Passes the rows of a question's parts to `each`, part by part, in the order of the parts'
    /// statements.
    ///
    /// # Errors
    /// Fails if the engine does, if the time is over or the caller gave up, and if `each` fails.
    fn rows(
        &self,
        request: &Request,
        control: &RunControl<'_>,
        each: &mut PartSink<'_>,
    ) -> Result<(), FleetError>;

    /// Passes the rows of a select statement on the tables `samples`, `frames` and `segments` to
    /// `each`. `samples` has the selection's rows alone, `segments` those of its files.
    ///
    /// # Errors
    /// Fails as [`Engine::rows`] does, and if the engine runs no SQL.
    fn query(
        &self,
        _selection: &Selection,
        _text: &str,
        _control: &RunControl<'_>,
        _each: &mut JsonRowSink<'_>,
    ) -> Result<(), FleetError> {
        let message = "sql: the built-in engine runs no SQL; add --engine duckdb";
        Err(FleetError::Question(message.to_owned()))
    }

    /// Returns the dialect of its SQL; of the built-in one, which runs none, that of DuckDB.
    fn dialect(&self) -> Dialect {
        Dialect::DuckDb
    }
}

/// Takes the texts of JSON objects, a row each.
pub type LineSink<'a> = dyn FnMut(&str) -> Result<(), FleetError> + 'a;

/// What the adapter of an engine with SQL has.
pub trait SqlEngine {
    /// Returns its name.
    fn engine_name(&self) -> &'static str;

    /// Returns the dialect of its SQL.
    fn engine_dialect(&self) -> Dialect;

    /// Returns what a store's tables are called, with all rows of the selection's times.
    ///
    /// # Errors
    /// Fails if the store can't be read.
    fn tables(&self, selection: &Selection) -> Result<Tables, FleetError>;

    /// Runs a select statement and passes on its rows.
    ///
    /// # Errors
    /// Fails as [`Engine::rows`] does.
    fn select(
        &self,
        text: &str,
        control: &RunControl<'_>,
        each: &mut LineSink<'_>,
    ) -> Result<(), FleetError>;
}

impl<T: SqlEngine> Engine for T {
    fn name(&self) -> &'static str {
        self.engine_name()
    }

    fn dialect(&self) -> Dialect {
        self.engine_dialect()
    }

    fn rows(
        &self,
        request: &Request,
        control: &RunControl<'_>,
        each: &mut PartSink<'_>,
    ) -> Result<(), FleetError> {
        let tables = self.tables(&request.selection)?;
        for part in request.question.parts() {
            let text = statement(request, *part, self.dialect(), &tables)?;
            self.select(&text, control, &mut |line| {
                pass_line(self.name(), part.columns(), line, &mut |row| each(*part, row))
            })?;
        }
        Ok(())
    }

    fn query(
        &self,
        selection: &Selection,
        text: &str,
        control: &RunControl<'_>,
        each: &mut JsonRowSink<'_>,
    ) -> Result<(), FleetError> {
        let tables = self.tables(selection)?;
        let text = free_statement(selection, self.dialect(), &tables, text)?;
        self.select(&text, control, &mut |line| each(parse_line(self.name(), line)?))
    }
}

/// When a question is given up.
#[derive(Clone, Copy, Default)]
pub struct RunControl<'a> {
    /// Time that all parts may take.
    pub timeout: Option<Duration>,
    /// When the time began.
    pub begin: Option<Instant>,
    /// Returns whether the caller gave up.
    pub is_interrupted: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// Takes the engine's progress, in words.
    pub progress: Option<&'a (dyn Fn(&str) + Sync)>,
}

impl RunControl<'_> {
    /// Returns whether the question is still wanted.
    ///
    /// # Errors
    /// Fails if it isn't.
    pub fn check(&self) -> Result<(), FleetError> {
        if self.is_interrupted.is_some_and(|is_interrupted| is_interrupted()) {
            return Err(FleetError::Interrupted);
        }
        match self.timeout.zip(self.begin) {
            Some((timeout, begin)) if begin.elapsed() >= timeout => {
                Err(FleetError::Timeout(timeout))
            }
            _ => Ok(()),
        }
    }

    /// Tells the caller how far the engine is.
    pub(crate) fn report(&self, progress: &str) {
        if let Some(report) = self.progress {
            report(progress);
        }
    }

    /// Returns the time that is left; `None` without a limit.
    pub(crate) fn left(&self) -> Option<Duration> {
        let (timeout, begin) = self.timeout.zip(self.begin)?;
        Some(timeout.saturating_sub(begin.elapsed()))
    }
}

/// What an engine on this machine may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Number of threads; the engine's own choice if `None`.
    pub threads: Option<usize>,
    /// Bytes of memory; the engine's own choice if `None`.
    pub memory_bytes: Option<u64>,
}

/// A store in a folder whose files an engine reads.
#[derive(Clone, Debug)]
pub struct StoreFiles {
    folder: PathBuf,
}

impl StoreFiles {
    /// The store in this folder.
    ///
    /// # Errors
    /// Fails if it doesn't exist.
    pub fn open(folder: &Path) -> Result<Self, FleetError> {
        let error = |source| FleetError::Start { program: folder.display().to_string(), source };
        Ok(Self { folder: folder.canonicalize().map_err(error)? })
    }

    /// Returns the files with rows of the selection's times, each row once.
    pub(crate) fn tables(
        &self,
        dialect: Dialect,
        selection: &Selection,
    ) -> Result<Tables, FleetError> {
        let reader = StoreReader::open(&self.folder, 1)?;
        let query = selection.query();
        // A gap that began earlier may reach into the times.
        let earlier = tare_store::Query { since_us: None, ..query.clone() };
        let samples = reader.paths(&SAMPLES, &query)?;
        let frames = reader.paths(&FRAMES, &query)?;
        let segments = reader.paths(&SEGMENTS, &earlier)?;
        Tables::from_files(dialect, [&samples, &frames, &segments])
    }
}

#[cfg(test)]
mod tests;

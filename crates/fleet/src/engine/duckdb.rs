//! DuckDB: its command line, or its Python package.

use std::path::PathBuf;
use std::process::Command;

use crate::engine::child::{self, LineSink};
use crate::engine::{Engine, ResourceLimits, RunControl, StoreFiles};
use crate::error::FleetError;
use crate::question::{Request, Selection};
use crate::rows::{JsonRow, JsonRowSink, Part, RowSink, pass_json};
use crate::sql::{selected_views, statement};

/// Runs the text on standard input.
const SCRIPT: &str = "
import sys
try: import duckdb
except ImportError:
    sys.exit(f'{sys.executable} lacks the package duckdb; --engine duckdb=PROGRAM names another')
try: duckdb.connect().execute(sys.stdin.read())
except duckdb.Error as error: sys.exit(str(error))
";

/// How DuckDB is run.
#[derive(Clone, Debug)]
pub enum DuckDbProgram {
    /// Its command line.
    CommandLine(PathBuf),
    /// A Python with the package `duckdb`.
    Python(PathBuf),
}

/// DuckDB on this machine.
#[derive(Clone, Debug)]
pub struct DuckDb {
    /// How it is run.
    pub program: DuckDbProgram,
    /// The store.
    pub store: StoreFiles,
    /// What it may use.
    pub limits: ResourceLimits,
}

impl DuckDb {
    fn command(&self) -> Command {
        match &self.program {
            DuckDbProgram::CommandLine(path) => {
                let mut command = Command::new(path);
                command.args(["-init", "/dev/null", "-batch", "-bail", ":memory:"]);
                command
            }
            DuckDbProgram::Python(path) => {
                let mut command = Command::new(path);
                command.args(["-c", SCRIPT]);
                command
            }
        }
    }

    /// Runs a select statement after others.
    fn run(
        &self,
        before: &str,
        text: &str,
        control: &RunControl<'_>,
        each: &mut LineSink<'_>,
    ) -> Result<(), FleetError> {
        let settings = self.settings();
        let input =
            format!("{settings}{before}copy (\n{text}\n) to '/dev/stdout' (format json);\n");
        child::run("duckdb", self.command(), &input, control, each)
    }

    fn settings(&self) -> String {
        let threads = self.limits.threads.map(|threads| format!("set threads = {threads};\n"));
        let memory = self.limits.memory_bytes;
        let memory = memory.map(|bytes| format!("set memory_limit = '{bytes}B';\n"));
        // A progress bar would be on standard output, among the rows.
        let quiet = Some("set enable_progress_bar = false;\n".to_owned());
        [quiet, threads, memory].into_iter().flatten().collect()
    }
}

impl Engine for DuckDb {
    fn name(&self) -> &'static str {
        "duckdb"
    }

    fn rows(
        &self,
        request: &Request,
        part: Part,
        control: &RunControl<'_>,
        each: &mut RowSink<'_>,
    ) -> Result<(), FleetError> {
        let dialect = self.dialect();
        let tables = self.store.tables(dialect, &request.selection)?;
        let text = statement(request, part, dialect, &tables)?;
        self.run("", &text, control, &mut |line| {
            pass_json(self.name(), part.columns(), &child::parse(self.name(), line)?, each)
        })
    }

    fn query(
        &self,
        selection: &Selection,
        text: &str,
        control: &RunControl<'_>,
        each: &mut JsonRowSink<'_>,
    ) -> Result<(), FleetError> {
        let tables = self.store.tables(self.dialect(), selection)?;
        let text = text.trim_end().trim_end_matches(';');
        let views = selected_views(selection, self.dialect(), &tables)?;
        self.run(&views, text, control, &mut |line| {
            let JsonRow(row) = child::parse(self.name(), line)?;
            each(row)
        })
    }
}

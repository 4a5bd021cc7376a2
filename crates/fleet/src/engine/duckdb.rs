//! DuckDB: its command line, or its Python package.

use std::path::PathBuf;
use std::process::Command;

use crate::engine::{LineSink, ResourceLimits, RunControl, SqlEngine, StoreFiles, child};
use crate::error::FleetError;
use crate::question::Selection;
use crate::sql::{Dialect, Tables};

/// Runs the text on standard input, and prints its progress.
const SCRIPT: &str = "
import sys, threading, time
try: import duckdb
except ImportError:
    sys.exit(f'{sys.executable} lacks the package duckdb; --engine duckdb=PROGRAM names another')
connection = duckdb.connect()
def report():
    while True:
        time.sleep(0.5)
        share = connection.query_progress()
        if share >= 0: print(f'progress: {share:.0f}%', file=sys.stderr, flush=True)
threading.Thread(target=report, daemon=True).start()
try: connection.execute(sys.stdin.read())
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

    fn settings(&self) -> String {
        let threads = self.limits.threads.map(|threads| format!("set threads = {threads};\n"));
        let memory = self.limits.memory_bytes;
        let memory = memory.map(|bytes| format!("set memory_limit = '{bytes}B';\n"));
        // Printed, a progress bar would be on standard output, among the rows.
        let quiet = match self.program {
            DuckDbProgram::CommandLine(_) => "set enable_progress_bar = false;\n",
            DuckDbProgram::Python(_) => {
                "set enable_progress_bar = true;\nset enable_progress_bar_print = false;\n"
            }
        };
        [Some(quiet.to_owned()), threads, memory].into_iter().flatten().collect()
    }
}

impl SqlEngine for DuckDb {
    fn engine_name(&self) -> &'static str {
        "duckdb"
    }

    fn engine_dialect(&self) -> Dialect {
        Dialect::DuckDb
    }

    fn tables(&self, selection: &Selection) -> Result<Tables, FleetError> {
        self.store.tables(Dialect::DuckDb, selection)
    }

    fn select(
        &self,
        text: &str,
        control: &RunControl<'_>,
        each: &mut LineSink<'_>,
    ) -> Result<(), FleetError> {
        let settings = self.settings();
        let input = format!("{settings}copy (\n{text}\n) to '/dev/stdout' (format json);\n");
        child::run("duckdb", self.command(), &input, control, each)
    }
}

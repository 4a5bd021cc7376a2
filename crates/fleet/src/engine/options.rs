//! Which engine is asked.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::engine::access::{Access, ServerUrl};
use crate::engine::{
    BuiltIn, ClickHouse, DuckDb, DuckDbProgram, Engine, ResourceLimits, Spark, StoreFiles, Trino,
};
use crate::error::FleetError;
use crate::sql::Dialect;

/// Threads of the built-in engine.
const THREADS: usize = 2;

/// What an engine is opened with.
#[derive(Clone, Debug)]
pub struct EngineOptions<'a> {
    /// The store's folder.
    pub store: &'a Path,
    /// What the engine may use.
    pub limits: ResourceLimits,
    /// What a server asks for.
    pub access: Access,
    /// Folders of programs, as in the variable `PATH`.
    pub path: Option<OsString>,
    /// A Python for Spark, if it isn't `python3`.
    pub spark_python: Option<PathBuf>,
}

impl Dialect {
    /// Returns the dialect of an engine, which may have an address; of the built-in one, which runs
    /// no SQL, that of DuckDB.
    ///
    /// # Errors
    /// Fails if there is no such engine.
    pub fn from_engine(text: &str) -> Result<Self, FleetError> {
        Ok(match text.split_once('=').map_or(text, |(name, _)| name) {
            "built-in" | "duckdb" => Self::DuckDb,
            "clickhouse" => Self::ClickHouse,
            "datafusion" => Self::DataFusion,
            "spark" => Self::Spark,
            "trino" => Self::Trino,
            _ => return Err(unknown(text)),
        })
    }
}

fn unknown(text: &str) -> FleetError {
    FleetError::Question(format!(
        "--engine {text}: give built-in, duckdb[=PROGRAM], clickhouse=URL, spark=SERVER or trino=URL"
    ))
}

impl EngineOptions<'_> {
    /// Opens an engine: `built-in`, `duckdb[=PROGRAM]`, `clickhouse=URL`, `spark=SERVER` or
    /// `trino=URL`.
    ///
    /// # Errors
    /// Fails if there is no such engine or no such store, and if an address can't be used.
    pub fn open(&self, text: &str) -> Result<Box<dyn Engine>, FleetError> {
        let (name, address) = match text.split_once('=') {
            Some((name, address)) => (name, Some(address)),
            None => (text, None),
        };
        let limits = self.limits;
        Ok(match (name, address) {
            ("built-in", None) => {
                Box::new(BuiltIn::open(self.store, limits.threads.unwrap_or(THREADS))?)
            }
            ("duckdb", _) => {
                let store = StoreFiles::open(self.store)?;
                Box::new(DuckDb { program: self.duckdb(address), store, limits })
            }
            ("clickhouse", Some(address)) => {
                let store = StoreFiles::open(self.store)?;
                let url = ServerUrl::parse(address)?;
                Box::new(ClickHouse::open(&url, &self.access, store, limits)?)
            }
            ("trino", Some(address)) => {
                Box::new(Trino::open(&ServerUrl::parse(address)?, &self.access)?)
            }
            ("spark", Some(server)) => Box::new(Spark {
                python: self.spark_python.clone().unwrap_or_else(|| "python3".into()),
                server: server.to_owned(),
                access: self.access.clone(),
                store: StoreFiles::open(self.store)?,
                limits,
            }),
            ("datafusion", _) => {
                let message = "datafusion: ddl and --show-sql print its SQL for another program";
                return Err(FleetError::Question(message.to_owned()));
            }
            _ => return Err(unknown(text)),
        })
    }

    /// Returns the typed program, or `duckdb` in PATH, or else `python3`.
    fn duckdb(&self, typed: Option<&str>) -> DuckDbProgram {
        let path = self.path.clone().unwrap_or_default();
        let mut folders = std::env::split_paths(&path);
        let is_python = |path: &Path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"))
        };
        match typed.map(PathBuf::from) {
            Some(path) if is_python(&path) => DuckDbProgram::Python(path),
            Some(path) => DuckDbProgram::CommandLine(path),
            None if folders.any(|folder| folder.join("duckdb").is_file()) => {
                DuckDbProgram::CommandLine("duckdb".into())
            }
            None => DuckDbProgram::Python("python3".into()),
        }
    }
}

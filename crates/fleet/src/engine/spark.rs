//! Spark, by its Python package.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::engine::access::Access;
use crate::engine::{LineSink, ResourceLimits, RunControl, SqlEngine, StoreFiles, child};
use crate::error::FleetError;
use crate::question::Selection;
use crate::sql::{Dialect, Tables};

/// Asks what standard input says, and prints rows and progress.
const SCRIPT: &str = "
import json, sys, threading, time
asked = json.loads(sys.stdin.read())
try: from pyspark.sql import SparkSession, functions
except ImportError:
    sys.exit(f'{sys.executable} lacks the package pyspark; PYSPARK_PYTHON names another')
def report(tracker):
    while True:
        time.sleep(0.5)
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        done, tasks = (sum(getattr(stage, name) for stage in stages if stage) for name in ('numCompletedTasks', 'numTasks'))
        if tasks: print(f'progress: {done} of {tasks} tasks', file=sys.stderr, flush=True)
try:
    builder = SparkSession.builder.appName('tare fleet')
    for name, value in asked['settings'].items(): builder = builder.config(name, value)
    if asked['server'].startswith('sc:'):
        session = builder.remote(asked['server']).getOrCreate()
    else:
        session = builder.master(asked['server']).getOrCreate()
        threading.Thread(target=report, args=[session.sparkContext.statusTracker()], daemon=True).start()
    rows = session.sql(asked['text'])
    columns = [functions.col('`' + name.replace('`', '``') + '`') for name in rows.columns]
    row = functions.to_json(functions.struct(*columns), {'ignoreNullFields': 'false'})
    for text, in rows.select(row).toLocalIterator(): print(text)
    sys.stdout.flush()
    session.stop()
except Exception as error: sys.exit(str(error))
";

/// A Spark cluster that reads the store's files.
#[derive(Clone, Debug)]
pub struct Spark {
    /// A Python with the package `pyspark`.
    pub python: PathBuf,
    /// A master, such as `spark://HOST:7077` or `local[2]`, or a Connect server, `sc://HOST:15002`.
    pub server: String,
    /// A token for a Connect server.
    pub access: Access,
    /// The store.
    pub store: StoreFiles,
    /// What an executor may use.
    pub limits: ResourceLimits,
}

impl Spark {
    fn settings(&self) -> BTreeMap<&str, String> {
        let fixed = [
            ("spark.sql.session.timeZone", "UTC"),
            ("spark.sql.ansi.enabled", "false"),
            // Else a job on the cluster lists the files that tare has listed.
            ("spark.sql.sources.parallelPartitionDiscovery.threshold", "1000000"),
        ];
        let mut settings: BTreeMap<&str, String> =
            fixed.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        if !self.server.starts_with("sc:") {
            settings.insert("spark.ui.enabled", "false".to_owned());
            let threads = self.limits.threads.map(|threads| threads.to_string());
            settings.extend(threads.map(|threads| ("spark.cores.max", threads)));
            let memory = self.limits.memory_bytes.map(|bytes| format!("{}k", bytes / 1024));
            settings.extend(memory.map(|memory| ("spark.executor.memory", memory)));
        }
        settings
    }
}

impl SqlEngine for Spark {
    fn engine_name(&self) -> &'static str {
        "spark"
    }

    fn engine_dialect(&self) -> Dialect {
        Dialect::Spark
    }

    fn tables(&self, selection: &Selection) -> Result<Tables, FleetError> {
        self.store.tables(Dialect::Spark, selection)
    }

    fn select(
        &self,
        text: &str,
        control: &RunControl<'_>,
        each: &mut LineSink<'_>,
    ) -> Result<(), FleetError> {
        let asked = json!({ "server": self.server, "settings": self.settings(), "text": text });
        let mut command = Command::new(&self.python);
        command.args(["-c", SCRIPT]);
        // An argument could be seen by other users.
        if let Some(token) = &self.access.token {
            command.env("SPARK_CONNECT_AUTHENTICATE_TOKEN", token.reveal());
        }
        child::run("spark", command, &asked.to_string(), control, each)
    }
}

//! Options of `tare fleet`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tare_agent::config::{Share, Size};
use tare_fleet::{
    Access, AnswerFormat, Dialect, Engine, EngineOptions, FleetError, Grouping, LossLimits,
    Question, Request, ResourceLimits, Secret, Selection, definitions, statements,
};

use crate::cli::raw::{self, FleetQuestion};
use crate::cli::resolved::stored::StoredSamples;
use crate::exit::Refusal;

/// The agent's default store.
const STORE: &str = "/var/lib/tare";

/// Rows of `top` by event.
const ROWS: usize = 20;

/// What `tare fleet` does.
pub(crate) enum FleetTask {
    /// Asks an engine a question.
    Ask(Request, Box<dyn Engine>),
    /// Prints SQL.
    Print(String),
}

/// Options of `tare fleet`.
pub(crate) struct FleetOptions {
    /// What is to be done.
    pub(crate) task: FleetTask,
    /// When it is given up.
    pub(crate) timeout: Option<Duration>,
    /// When the time began.
    pub(crate) begin: Instant,
    /// How the answer is written.
    pub(crate) format: AnswerFormat,
    /// Where to.
    pub(crate) output: PathBuf,
}

impl FleetOptions {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails if an option isn't valid, or there is no such store.
    pub(crate) fn resolve(mut raw: raw::FleetArgs) -> anyhow::Result<Self> {
        let begin = Instant::now();
        raw.stored.store.get_or_insert_with(|| STORE.into());
        raw.stored.conditions.extend(raw.event.iter().map(|event| format!("event={event}")));
        if raw.versus.versus_store.is_some() {
            return Err(
                Refusal::usage("--versus-store: fleet compares samples of one store").into()
            );
        }
        let (stored, versus) = both(&raw)?;
        let selection = Selection::from_query(&stored.query)?;
        // A bucket's windows of both sets are copied into one folder.
        let folder = || {
            let others = versus.as_ref().map(StoredSamples::folder).transpose();
            others.and_then(|_| stored.folder())
        };
        let compared = versus.as_ref().map(|versus| Selection::from_query(&versus.query));
        let compared = compared.transpose()?;
        let dialect = Dialect::from_engine(&raw.engine).map_err(usage)?;
        let task = match question(&raw, compared)? {
            None => {
                let store = folder()?.canonicalize()?;
                FleetTask::Print(definitions(dialect, &store)?)
            }
            Some(question) => {
                let request = Request { question, selection };
                match raw.show_sql {
                    true => FleetTask::Print(statements(&request, dialect)?),
                    false => FleetTask::Ask(request, engine(&raw, &folder()?)?),
                }
            }
        };
        let output = raw.result.output.unwrap_or_else(|| "-".into());
        let format = match (raw.json.json, raw.csv) {
            (true, _) => AnswerFormat::Json,
            (_, true) => AnswerFormat::Csv,
            _ if output.extension().is_some_and(|ending| ending == "html") => AnswerFormat::Page,
            _ => AnswerFormat::Text,
        };
        if format == AnswerFormat::Page && raw.question != FleetQuestion::Flame {
            return Err(
                Refusal::usage("-o: only flame draws a page; end the name otherwise").into()
            );
        }
        Ok(Self { task, timeout: raw.end.duration(), begin, format, output })
    }
}

/// Returns A's samples, and B's if they are given or needed.
fn both(raw: &raw::FleetArgs) -> Result<(StoredSamples, Option<StoredSamples>), Refusal> {
    let raw::VersusStoreArgs { versus_where, versus_since, versus_until, .. } = &raw.versus;
    let is_typed = !versus_where.is_empty() || versus_since.is_some() || versus_until.is_some();
    let compares = matches!(raw.question, FleetQuestion::Diff | FleetQuestion::Regressions);
    if is_typed && !compares {
        return Err(Refusal::usage(
            "--versus-where, --versus-since, --versus-until: only diff and regressions compare",
        ));
    }
    if !is_typed && raw.question != FleetQuestion::Diff {
        return Ok((StoredSamples::from_store(&raw.stored)?, None));
    }
    let both = StoredSamples::both(&raw.stored, &raw.versus)?;
    let [first, second] = both.ok_or_else(|| Refusal::usage("--store: no store is given"))?;
    Ok((first, Some(second)))
}

/// Returns the question; `None` for the definitions of tables.
fn question(raw: &raw::FleetArgs, versus: Option<Selection>) -> Result<Option<Question>, Refusal> {
    if raw.text.is_some() && !matches!(raw.question, FleetQuestion::Search | FleetQuestion::Sql) {
        return Err(Refusal::usage("only search and sql take a text"));
    }
    Ok(Some(match raw.question {
        FleetQuestion::Ddl => return Ok(None),
        FleetQuestion::Top => Question::Top {
            by: grouping(&raw.by)?,
            with_total: raw.total,
            limit: raw.entries.entries.unwrap_or(ROWS),
        },
        FleetQuestion::Flame => Question::Flame { by: grouping(&raw.by)? },
        FleetQuestion::Losses => {
            let budget = Share::parse(&raw.budget)
                .map_err(|error| Refusal::usage(format!("--budget {}: {error}", raw.budget)))?;
            let limits = LossLimits { cost: budget.0, ..LossLimits::default() };
            Question::Losses { limits, all: raw.all_hosts }
        }
        FleetQuestion::Nameless => Question::Nameless,
        FleetQuestion::Diff => Question::Diff {
            by: grouping(&raw.by)?,
            with_total: raw.total,
            limit: raw.entries.entries.unwrap_or(ROWS),
            versus: versus.unwrap_or_default(),
        },
        FleetQuestion::Sql => {
            let text = raw.text.clone();
            Question::Sql { text: text.ok_or_else(|| Refusal::usage("sql: give a statement"))? }
        }
        FleetQuestion::Regressions => Question::Regressions { versus },
        FleetQuestion::Search => {
            let pattern = raw.text.clone();
            let pattern = pattern.ok_or_else(|| Refusal::usage("search: give a PATTERN"))?;
            regex_lite::Regex::new(&pattern).map_err(|error| {
                Refusal::usage(format!("search '{pattern}' isn't a regular expression: {error}"))
            })?;
            let price = raw.cost_per_core_hour;
            if price.is_some_and(|price| !(price.is_finite() && price >= 0.0)) {
                return Err(Refusal::usage("--cost-per-core-hour: give a price of 0 or more"));
            }
            Question::Search { pattern, cost_per_core_hour: price }
        }
    }))
}

fn grouping(name: &str) -> Result<Grouping, Refusal> {
    let found = Grouping::ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, grouping)| *grouping).ok_or_else(|| {
        let names: Vec<&str> = Grouping::ALL.iter().map(|(name, _)| *name).collect();
        Refusal::usage(format!("--by {name}: give one of {}", names.join(", ")))
    })
}

fn engine(raw: &raw::FleetArgs, store: &Path) -> anyhow::Result<Box<dyn Engine>> {
    let memory = raw.memory.as_deref().map(|text| {
        Size::parse(text).map_err(|error| Refusal::usage(format!("--memory {text}: {error}")))
    });
    let limits = ResourceLimits {
        threads: raw.threads.and_then(|threads| usize::try_from(threads).ok()),
        memory_bytes: memory.transpose()?.map(|size| size.0),
    };
    let secret = |file: &Option<PathBuf>, variable: &str| match file {
        Some(path) => Secret::read(path).map(Some),
        None => Ok(std::env::var(variable).ok().map(|text| Secret::new(&text))),
    };
    let access = Access {
        user: raw.user.clone(),
        password: secret(&raw.password_file, "TARE_FLEET_PASSWORD")?,
        token: secret(&raw.token_file, "TARE_FLEET_TOKEN")?,
        ca_file: raw.ca_file.clone(),
    };
    let spark_python = std::env::var_os("PYSPARK_PYTHON").map(PathBuf::from);
    let path = std::env::var_os("PATH");
    let options = EngineOptions { store, limits, access, path, spark_python };
    options.open(&raw.engine).map_err(usage)
}

/// Returns the error of a command line that can't be used so.
fn usage(error: FleetError) -> anyhow::Error {
    match error {
        FleetError::Question(message) => Refusal::usage(message).into(),
        other => other.into(),
    }
}

//! Samples of a store.

use std::path::{Path, PathBuf};

use tare_agent::{now_us, parse_time};
use tare_store::{FilterError, LabelFilter, Query, StoreAccess, StoreError, StoreLocation};

use crate::cli::raw;
use crate::cli::resolved::symbols;
use crate::exit::Refusal;

/// Sort keys and columns that samples of a store have.
const KEYS: [&str; 10] = [
    "comm",
    "dso",
    "sym",
    "symbol",
    "overhead",
    "overhead_children",
    "overhead_us",
    "overhead_sys",
    "sample",
    "period",
];

/// Samples of a store.
#[derive(Clone, Debug)]
pub(crate) struct StoredSamples {
    /// Where the store is.
    pub(crate) store: StoreLocation,
    /// Which of them.
    pub(crate) query: Query,
    /// Its times as typed.
    times: [Option<String>; 2],
}

impl StoredSamples {
    /// Resolves the typed options; `None` without `--store`.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] that names the remedy.
    pub(crate) fn resolve(raw: &raw::StoreArgs) -> Result<Option<Self>, Refusal> {
        raw.store.is_some().then(|| Self::from_store(raw)).transpose()
    }

    /// Resolves two sets of samples. The second has the first one's options where it has none of
    /// its own; `None` without `--store`.
    ///
    /// # Errors
    /// As [`StoredSamples::resolve`]; and if nothing distinguishes the sets.
    pub(crate) fn both(
        raw: &raw::StoreArgs,
        versus: &raw::VersusStoreArgs,
    ) -> Result<Option<[Self; 2]>, Refusal> {
        let Some(first) = Self::resolve(raw)? else { return Ok(None) };
        let raw::VersusStoreArgs { versus_where, versus_since, versus_until, versus_store } =
            versus;
        let has_time = versus_since.is_some() || versus_until.is_some();
        if !has_time && versus_where.is_empty() && versus_store.is_none() {
            return Err(Refusal::usage(
                "--store: say what to compare with, as in --where version=1.4 --versus-where version=1.5, or --since 2h --until 1h --versus-since 1h",
            ));
        }
        let filters = filters("--versus-where", versus_where)?;
        let is_replaced =
            |filter: &LabelFilter| filters.iter().any(|other| other.label() == filter.label());
        let of_first = first.query.filters.iter().filter(|filter| !is_replaced(filter)).cloned();
        let filters: Vec<_> = of_first.chain(filters.iter().cloned()).collect();
        let time = |option, text: &Option<String>, of_first| match has_time {
            true => text.as_deref().map(|text| moment(option, text)).transpose(),
            false => Ok(of_first),
        };
        let query = Query {
            since_us: time("--versus-since", versus_since, first.query.since_us)?,
            until_us: time("--versus-until", versus_until, first.query.until_us)?,
            filters,
        };
        let times = if has_time { [versus_since, versus_until] } else { [&raw.since, &raw.until] };
        let store = versus_store.as_deref().map(StoreLocation::from_path);
        let store = store.unwrap_or_else(|| first.store.clone());
        let second = Self { store, query, times: times.map(Clone::clone) };
        Ok(Some([first, second]))
    }

    /// Returns a folder with the selected windows: the store's own, or copies of a bucket's.
    pub(crate) fn folder(&self) -> Result<PathBuf, StoreError> {
        self.access().folder(&self.query)
    }

    /// Returns access to the store.
    pub(crate) fn access(&self) -> StoreAccess<'_> {
        let cache = self.store.is_bucket().then(symbols::cache_folder).flatten();
        StoreAccess {
            location: &self.store,
            variable: &|name| std::env::var(name).ok(),
            cache: cache.map(|folder| folder.join("stores")),
        }
    }

    /// Returns the store's path with what selects the samples.
    pub(crate) fn name(&self) -> String {
        let conditions = self.query.filters.iter().map(ToString::to_string);
        let times = ["since", "until"].into_iter().zip(&self.times);
        let times = times.filter_map(|(word, text)| Some(format!("{word} {}", text.as_ref()?)));
        let words: Vec<String> = conditions.chain(times).collect();
        format!("{} {}", self.store, words.join(", ")).trim_end().to_owned()
    }

    /// Resolves the typed options of a command that needs a store.
    ///
    /// # Errors
    /// As [`StoredSamples::resolve`].
    pub(crate) fn from_store(raw: &raw::StoreArgs) -> Result<Self, Refusal> {
        let store = StoreLocation::from_path(raw.store.as_deref().unwrap_or(Path::new("")));
        let query = Query {
            since_us: raw.since.as_deref().map(|text| moment("--since", text)).transpose()?,
            until_us: raw.until.as_deref().map(|text| moment("--until", text)).transpose()?,
            filters: filters("--where", &raw.conditions)?,
        };
        Ok(Self { store, query, times: [raw.since.clone(), raw.until.clone()] })
    }

    /// Refuses sort keys and columns that samples of a store don't have.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] that lists those that they have.
    pub(crate) fn check_keys(columns: &raw::ColumnArgs) -> Result<(), Refusal> {
        let typed = columns.sort.iter().chain(&columns.fields);
        let mut keys = typed.map(|word| word.trim_start_matches('+'));
        match keys.find(|key| !KEYS.contains(key)) {
            Some(key) => Err(Refusal::usage(format!(
                "{key}: samples of a store have {}; --where selects by labels",
                KEYS.join(", ")
            ))),
            None => Ok(()),
        }
    }
}

fn filters(option: &str, conditions: &[String]) -> Result<Vec<LabelFilter>, Refusal> {
    let parsed = conditions.iter().map(|text| text.parse());
    let parsed: Result<_, FilterError> = parsed.collect();
    parsed.map_err(|error| Refusal::usage(format!("{option}: {error}")))
}

/// Returns a moment in microseconds since 1970 (UTC).
fn moment(option: &str, text: &str) -> Result<i64, Refusal> {
    let refuse = || {
        Refusal::usage(format!(
            "{option} {text}: give a time such as 1h or 30d, or a date such as 2026-11-26T10:00"
        ))
    };
    parse_time(text, now_us()).ok_or_else(refuse)
}

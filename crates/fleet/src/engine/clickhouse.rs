//! ClickHouse, by its HTTP interface.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, SystemTime};

use ureq::http::Method;

use crate::engine::access::{Access, ServerUrl};
use crate::engine::http::{HttpClient, refusal};
use crate::engine::lines::{LineSender, run_thread};
use crate::engine::{LineSink, ResourceLimits, RunControl, SqlEngine, StoreFiles};
use crate::error::FleetError;
use crate::question::Selection;
use crate::sql::{Dialect, Tables};

const NAME: &str = "clickhouse";

/// How often the server is asked how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Settings by which ClickHouse's SQL means what that of others does, and by which an error comes
/// in place of rows, not after some of them.
const SETTINGS: &str = "default_format=JSONEachRow&output_format_json_quote_64bit_integers=0\
    &join_use_nulls=1&prefer_column_name_to_alias=1&union_default_mode=DISTINCT\
    &use_hive_partitioning=0&max_query_size=268435456&wait_end_of_query=1";

/// A ClickHouse server.
#[derive(Clone, Debug)]
pub struct ClickHouse {
    client: HttpClient,
    /// The database with the tables of `ddl`; without one, the server reads the store's files.
    database: Option<String>,
    store: StoreFiles,
    limits: ResourceLimits,
}

impl ClickHouse {
    /// A server at `http[s]://HOST:PORT[/DATABASE]`.
    ///
    /// # Errors
    /// Fails if the address or the credentials can't be used.
    pub(super) fn open(
        url: &ServerUrl,
        access: &Access,
        store: StoreFiles,
        limits: ResourceLimits,
    ) -> Result<Self, FleetError> {
        let database = match &url.path[..] {
            [] => None,
            [database] => Some(database.clone()),
            _ => {
                let message = "--engine: clickhouse=http://HOST:PORT[/DATABASE]";
                return Err(FleetError::Question(message.to_owned()));
            }
        };
        let mut client = HttpClient::new(url, access, "default")?;
        if let Some(user) = access.user.as_deref().filter(|_| access.password.is_none()) {
            client.add("x-clickhouse-user", user)?;
        }
        Ok(Self { client, database, store, limits })
    }

    fn address(&self, id: &str, control: &RunControl<'_>) -> String {
        let mut address = self.client.address(&format!("/?query_id={id}&{SETTINGS}"));
        let mut add = |name: &str, value: Option<u64>| {
            if let Some(value) = value {
                // Writing to a text never fails.
                let _ = write!(address, "&{name}={value}");
            }
        };
        let threads = self.limits.threads.and_then(|threads| u64::try_from(threads).ok());
        add("max_threads", threads);
        add("max_memory_usage", self.limits.memory_bytes);
        add("max_execution_time", control.left().map(|left| left.as_secs() + 1));
        // The function that reads files needs more rights.
        add("readonly", self.database.as_ref().map(|_| 2));
        add("cancel_http_readonly_queries_on_client_close", self.database.as_ref().map(|_| 1));
        address
    }
}

impl SqlEngine for ClickHouse {
    fn engine_name(&self) -> &'static str {
        NAME
    }

    fn engine_dialect(&self) -> Dialect {
        Dialect::ClickHouse
    }

    fn tables(&self, selection: &Selection) -> Result<Tables, FleetError> {
        match &self.database {
            Some(database) => Ok(Tables::defined(&format!("{database}."))),
            None => self.store.tables(Dialect::ClickHouse, selection),
        }
    }

    fn select(
        &self,
        text: &str,
        control: &RunControl<'_>,
        each: &mut LineSink<'_>,
    ) -> Result<(), FleetError> {
        let id = query_id();
        let address = self.address(&id, control);
        let [client, told] = [self.client.clone(), self.client.clone()];
        let text = text.to_owned();
        let asked = id.clone();
        let work = move |lines: &LineSender| {
            let (end, ended) = channel::<()>();
            let lines_of_progress = lines.clone();
            let reporter = std::thread::spawn(move || {
                while ended.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    if let Some(progress) = progress(&told, &asked) {
                        lines_of_progress.tell(&progress);
                    }
                }
            });
            let read = read(&client, &address, &text, lines);
            drop(end);
            // It has a sender of lines, which ends with it.
            let _ = reporter.join();
            read
        };
        let kill = format!("KILL QUERY WHERE query_id = '{id}' ASYNC");
        let cancel = || self.client.cancel(&Method::POST, &self.client.address("/"), &kill);
        run_thread(NAME, control, each, work, cancel)
    }
}

/// Asks, and sends the lines of the answer.
fn read(client: &HttpClient, address: &str, text: &str, lines: &LineSender) -> Result<(), String> {
    let mut response = client.send(&Method::POST, address, text, None)?;
    if !response.status().is_success() {
        return Err(refusal(&mut response));
    }
    for line in BufReader::new(response.into_body().into_reader()).lines() {
        if !lines.send(line.map_err(|error| error.to_string())) {
            break;
        }
    }
    Ok(())
}

/// Returns how far the server is with a question, if it says so.
fn progress(client: &HttpClient, id: &str) -> Option<String> {
    let text = format!(
        "SELECT read_rows, total_rows_approx FROM system.processes WHERE query_id = '{id}' \
         FORMAT TabSeparated"
    );
    let address = client.address("/");
    let mut response = client.send(&Method::POST, &address, &text, Some(PROGRESS_INTERVAL)).ok()?;
    let text = response.body_mut().read_to_string().ok()?;
    let (read, all) = text.trim().split_once('\t')?;
    let [read, all] = [read, all].map(|number| number.parse::<f64>().unwrap_or(0.0));
    let millions = |rows: f64| rows / 1e6;
    (read > 0.0)
        .then(|| format!("{:.1} of {:.1} million rows", millions(read), millions(all.max(read))))
}

/// Returns an id that no other question has.
fn query_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("tare-{}-{}-{count}", std::process::id(), since.as_nanos())
}

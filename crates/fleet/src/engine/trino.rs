//! Trino, by its REST interface.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use ureq::http::Method;

use crate::engine::access::{Access, ServerUrl};
use crate::engine::http::{HttpClient, refusal};
use crate::engine::lines::{LineSender, run_thread};
use crate::engine::{LineSink, RunControl, SqlEngine};
use crate::error::FleetError;
use crate::question::Selection;
use crate::sql::{Dialect, Tables};

const NAME: &str = "trino";

/// How often a request is repeated if the server is busy, and how long tare waits before each.
const RETRIES: u32 = 50;
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Time that one of a question's requests may take. The server answers within a second or so, also
/// if it has no rows yet.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Largest answer to one request, in bytes.
const ANSWER_BYTES: u64 = 256 << 20;

/// A Trino coordinator, with the tables of `ddl`.
#[derive(Clone, Debug)]
pub struct Trino {
    client: HttpClient,
}

/// An answer to one of a question's requests.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TrinoAnswer {
    next_uri: Option<String>,
    columns: Option<Vec<TrinoColumn>>,
    #[serde(default)]
    data: Vec<Vec<Value>>,
    stats: Option<TrinoStats>,
    error: Option<TrinoError>,
}

#[derive(Deserialize)]
struct TrinoColumn {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TrinoStats {
    state: String,
    progress_percentage: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TrinoError {
    message: String,
    error_name: Option<String>,
}

/// The request that is next, and by which a question is ended.
type NextRequest = Arc<Mutex<Option<String>>>;

impl Trino {
    /// A coordinator at `http[s]://HOST:PORT/CATALOG/SCHEMA`.
    ///
    /// # Errors
    /// Fails if the address or the credentials can't be used.
    pub(super) fn open(url: &ServerUrl, access: &Access) -> Result<Self, FleetError> {
        let [catalog, schema] = &url.path[..] else {
            let message = "--engine: trino=https://HOST:PORT/CATALOG/SCHEMA";
            return Err(FleetError::Question(message.to_owned()));
        };
        let user = access.user.as_deref().unwrap_or("tare");
        let mut client = HttpClient::new(url, access, user)?;
        let headers = [
            ("x-trino-user", user),
            ("x-trino-source", "tare"),
            ("x-trino-catalog", catalog),
            ("x-trino-schema", schema),
            ("x-trino-time-zone", "UTC"),
        ];
        headers.into_iter().try_for_each(|(name, value)| client.add(name, value))?;
        Ok(Self { client })
    }
}

impl SqlEngine for Trino {
    fn engine_name(&self) -> &'static str {
        NAME
    }

    fn engine_dialect(&self) -> Dialect {
        Dialect::Trino
    }

    fn tables(&self, _: &Selection) -> Result<Tables, FleetError> {
        Ok(Tables::defined(""))
    }

    fn select(
        &self,
        text: &str,
        control: &RunControl<'_>,
        each: &mut LineSink<'_>,
    ) -> Result<(), FleetError> {
        let next = NextRequest::default();
        let client = self.client.clone();
        let text = text.to_owned();
        let known = Arc::clone(&next);
        let work = move |lines: &LineSender| read(&client, &text, &known, lines);
        let cancel = || {
            let address = next.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(address) = address {
                self.client.cancel(&Method::DELETE, &address, "");
            }
        };
        run_thread(NAME, control, each, work, cancel)
    }
}

/// Asks, and sends the rows of all answers.
fn read(
    client: &HttpClient,
    text: &str,
    next: &NextRequest,
    lines: &LineSender,
) -> Result<(), String> {
    let mut answer = request(client, &Method::POST, &client.address("/v1/statement"), text)?;
    let mut names: Vec<String> = Vec::new();
    loop {
        if let Some(error) = answer.error {
            let name = error.error_name.unwrap_or_default();
            return Err(format!("{name}: {}", error.message).trim_start_matches(": ").to_owned());
        }
        if let Some(stats) = &answer.stats {
            let share = stats.progress_percentage.map(|share| format!(" {share:.0}%"));
            lines.tell(&format!("{}{}", stats.state.to_lowercase(), share.unwrap_or_default()));
        }
        if let Some(columns) = answer.columns {
            names =
                columns.into_iter().map(|column| Value::from(column.name).to_string()).collect();
        }
        for row in answer.data {
            let fields = names.iter().zip(row).map(|(name, value)| format!("{name}:{value}"));
            let fields: Vec<String> = fields.collect();
            if !lines.send(Ok(format!("{{{}}}", fields.join(",")))) {
                return Ok(());
            }
        }
        let Some(address) = answer.next_uri else { return Ok(()) };
        if !client.owns(&address) {
            // Credentials are for the typed server alone.
            return Err(format!("it leads to another server: {address}"));
        }
        *next.lock().unwrap_or_else(PoisonError::into_inner) = Some(address.clone());
        answer = request(client, &Method::GET, &address, "")?;
    }
}

/// Sends a request, again while the server is busy.
fn request(
    client: &HttpClient,
    method: &Method,
    address: &str,
    body: &str,
) -> Result<TrinoAnswer, String> {
    let mut left = RETRIES;
    loop {
        let mut response = client.send(method, address, body, Some(REQUEST_TIMEOUT))?;
        if matches!(response.status().as_u16(), 429 | 502..=504) && left > 0 {
            left -= 1;
            std::thread::sleep(RETRY_PAUSE);
            continue;
        }
        if !response.status().is_success() {
            return Err(refusal(&mut response));
        }
        let text = response.body_mut().with_config().limit(ANSWER_BYTES).read_to_string();
        let text = text.map_err(|error| error.to_string())?;
        return serde_json::from_str(&text).map_err(|error| format!("{error}: {text:.200}"));
    }
}

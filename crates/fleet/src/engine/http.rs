//! Requests to an engine's server.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use ureq::config::{Config, ConfigBuilder};
use ureq::http::{HeaderName, HeaderValue, Method, Request, Response};
use ureq::typestate::AgentScope;
use ureq::{Agent, Body};

use crate::engine::access::{Access, ServerUrl};
use crate::error::FleetError;

/// Time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a request to end a question may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes of a server's message that an error has.
const MESSAGE_BYTES: u64 = 1000;

/// A client's options while they are set.
type AgentConfig = ConfigBuilder<AgentScope>;

/// A client of a server.
#[derive(Clone, Debug)]
pub(super) struct HttpClient {
    agent: Agent,
    origin: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl HttpClient {
    /// Makes a client. `user` is who asks if no other is given.
    pub(super) fn new(url: &ServerUrl, access: &Access, user: &str) -> Result<Self, FleetError> {
        let config = Config::builder()
            .proxy(None)
            .user_agent(concat!("tare/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .http_status_as_error(false)
            // A redirect could lead credentials to another host.
            .max_redirects(0);
        let config = match url.is_tls {
            true => with_tls(config, access.ca_file.as_deref())?,
            false => config,
        };
        let mut client = Self {
            agent: Agent::new_with_config(config.build()),
            origin: url.origin(),
            headers: Vec::new(),
        };
        let secret = match (&access.token, &access.password) {
            (Some(token), _) => format!("Bearer {}", token.reveal()),
            (None, Some(password)) => {
                let user = access.user.as_deref().unwrap_or(user);
                let pair = format!("{user}:{}", password.reveal());
                format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(pair))
            }
            (None, None) => return Ok(client),
        };
        if !url.is_private() {
            let message = "--engine: credentials need https";
            return Err(FleetError::Question(message.to_owned()));
        }
        client.add("authorization", &secret)?;
        Ok(client)
    }

    /// Adds a header of all requests.
    pub(super) fn add(&mut self, name: &'static str, value: &str) -> Result<(), FleetError> {
        let wrong = |_| FleetError::Question(format!("{name}: HTTP doesn't allow its characters"));
        let mut value = HeaderValue::from_str(value).map_err(wrong)?;
        value.set_sensitive(name == "authorization");
        self.headers.push((HeaderName::from_static(name), value));
        Ok(())
    }

    /// Returns whether an address is this server's.
    pub(super) fn owns(&self, address: &str) -> bool {
        address.strip_prefix(&self.origin).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Returns the address of a path.
    pub(super) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Fails if there is no answer within the time.
    pub(super) fn send(
        &self,
        method: &Method,
        address: &str,
        body: &str,
        timeout: Option<Duration>,
    ) -> Result<Response<Body>, String> {
        let mut request = Request::builder().method(method).uri(address);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(body.to_owned()).map_err(|error| error.to_string())?;
        let request = self.agent.configure_request(request).timeout_global(timeout).build();
        self.agent.run(request).map_err(|error| format!("{}: {error}", self.origin))
    }

    /// Asks the server to end a question, and doesn't wait long for its answer.
    pub(super) fn cancel(&self, method: &Method, address: &str, body: &str) {
        // The question ends without it too, by its own limit.
        drop(self.send(method, address, body, Some(CANCEL_TIMEOUT)));
    }
}

/// Returns the answer of a status other than success, as an error.
pub(super) fn refusal(response: &mut Response<Body>) -> String {
    let mut body = Vec::new();
    // What could be read is the message.
    drop(response.body_mut().as_reader().take(MESSAGE_BYTES).read_to_end(&mut body));
    let text = String::from_utf8_lossy(&body);
    format!("it answered {}: {}", response.status(), text.trim())
        .trim_end_matches([':', ' '])
        .to_owned()
}

/// Trusts the authorities of a file, or those of the machine.
#[cfg(feature = "tls")]
fn with_tls(config: AgentConfig, ca_file: Option<&Path>) -> Result<AgentConfig, FleetError> {
    use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
    let mut trusted: Vec<Certificate<'static>> = Vec::new();
    match ca_file {
        None => {
            let machine = rustls_native_certs::load_native_certs().certs;
            trusted.extend(machine.iter().map(|one| Certificate::from_der(one).to_owned()));
        }
        Some(path) => {
            let error = |source| FleetError::Start { program: path.display().to_string(), source };
            let text = std::fs::read(path).map_err(error)?;
            let items = parse_pem(&text).filter_map(Result::ok);
            trusted.extend(items.filter_map(|item| match item {
                PemItem::Certificate(one) => Some(one),
                _ => None,
            }));
            if trusted.is_empty() {
                let message = format!("--ca-file {}: it has no certificate", path.display());
                return Err(FleetError::Question(message));
            }
        }
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&trusted))
        .unversioned_rustls_crypto_provider(provider)
        .build();
    Ok(config.tls_config(tls))
}

#[cfg(not(feature = "tls"))]
fn with_tls(_: AgentConfig, _: Option<&Path>) -> Result<AgentConfig, FleetError> {
    Err(FleetError::Question("--engine: this tare was built without TLS; use http".to_owned()))
}

//! Sends requests by HTTP.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ureq::config::Config;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::credentials::{authorities, authorization};
use super::otlp::accepted;
use super::request::PushRequest;
use super::sender::{SendFailure, TargetAnswer, Transport};
use super::target::{Protocol, PushTarget};

/// Bytes of an answer that are read.
const ANSWER_BYTES: u64 = 64 << 10;

/// Characters of an answer's text that an error shows.
const ERROR_CHARS: usize = 200;

/// A client of a target.
pub(super) struct HttpTransport {
    target: PushTarget,
    /// Made for the first request, and again after a failure: the certificates may have changed.
    agent: Option<Agent>,
}

impl HttpTransport {
    pub(super) fn new(target: PushTarget) -> Self {
        Self { target, agent: None }
    }

    fn agent(&mut self) -> Result<Agent, String> {
        if let Some(agent) = &self.agent {
            return Ok(agent.clone());
        }
        let config = Config::builder()
            .proxy(None)
            .user_agent(concat!("tare/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(self.target.timeout.0))
            .http_status_as_error(false)
            // A redirect could lead a token to another host.
            .max_redirects(0);
        let config = match self.target.url.is_tls {
            true => config.tls_config(tls(self.target.ca_file.as_deref())?),
            false => config,
        };
        let agent = Agent::new_with_config(config.build());
        self.agent = Some(agent.clone());
        Ok(agent)
    }

    fn post(&mut self, request: &PushRequest) -> Result<Response<Body>, String> {
        let agent = self.agent()?;
        let url = &self.target.url;
        let scheme = if url.is_tls { "https" } else { "http" };
        let address = format!("{scheme}://{}{}{}", url.authority, url.path, request.path);
        let mut post = agent.post(address).header("Content-Type", &request.content_type);
        if request.is_gzip {
            post = post.header("Content-Encoding", "gzip");
        }
        for (name, value) in &self.target.headers {
            post = post.header(name, value);
        }
        if let Some(path) = &self.target.token_file {
            post = post.header("Authorization", authorization(path)?);
        }
        post.send(&request.body[..]).map_err(|error| error.to_string())
    }
}

impl Transport for HttpTransport {
    fn send(&mut self, request: &PushRequest) -> TargetAnswer {
        match self.post(request) {
            Ok(response) => answer(self.target.url.protocol, response),
            Err(why) => {
                self.agent = None;
                TargetAnswer::Failed(SendFailure::of_connection(why))
            }
        }
    }
}

/// Trusts the authorities of a file, or those of the machine.
fn tls(ca_file: Option<&Path>) -> Result<TlsConfig, String> {
    let trusted = authorities(ca_file)?;
    let trusted: Vec<_> = trusted.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&trusted))
        .unversioned_rustls_crypto_provider(provider)
        .build())
}

/// Tells what an answer means.
fn answer(protocol: Protocol, mut response: Response<Body>) -> TargetAnswer {
    let status = response.status();
    let asked = response.headers().get("Retry-After");
    let after = asked.and_then(|seconds| seconds.to_str().ok()?.trim().parse().ok());
    let after = after.map(Duration::from_secs);
    let mut body = Vec::new();
    let read = response.body_mut().as_reader().take(ANSWER_BYTES).read_to_end(&mut body);
    if status.is_success() {
        return match (protocol, read) {
            (Protocol::OtlpHttp, Ok(_)) => accepted(&body),
            // The target has the request, and sending it again would count its samples twice.
            _ => TargetAnswer::Accepted,
        };
    }
    let text = String::from_utf8_lossy(&body);
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut why = format!("it answered {status}");
    if !text.trim().is_empty() {
        why.push_str(": ");
        why.extend(text.trim().chars().take(ERROR_CHARS));
    }
    match status.as_u16() {
        408 | 429 | 502..=504 => {
            TargetAnswer::Failed(SendFailure { why, after, is_limited: false })
        }
        500..=599 => TargetAnswer::Failed(SendFailure { why, after, is_limited: true }),
        _ => TargetAnswer::Refused(why),
    }
}

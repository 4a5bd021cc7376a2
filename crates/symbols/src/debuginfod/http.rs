//! Sends HTTP requests.

use ureq::config::Config;
use ureq::http::header::CONTENT_LENGTH;
use ureq::{Agent, Error, Proxy};

use super::{DownloadError, Servers};

/// A server's response.
pub(super) struct HttpResponse {
    pub(super) body: ureq::BodyReader<'static>,
    /// Bytes of the whole file, if known.
    pub(super) bytes: Option<u64>,
}

/// Requests a file.
pub(super) fn get(servers: &Servers, url: &str) -> Result<HttpResponse, DownloadError> {
    let proxy = servers.proxy.as_deref().and_then(|proxy| Proxy::new(proxy).ok());
    let config = Config::builder()
        .proxy(proxy)
        .user_agent(concat!("tare/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(servers.timeout)
        .timeout_resolve(servers.timeout)
        .timeout_recv_response(servers.timeout)
        .timeout_per_read(servers.timeout)
        .timeout_per_write(servers.timeout)
        .timeout_global(servers.max_time)
        .max_redirects(5);
    #[cfg(feature = "tls")]
    let config = if url.starts_with("https:") { config.tls_config(tls()) } else { config };
    let request = Agent::new_with_config(config.build()).get(url);
    // With this header, the server can refuse a file that is too large before it sends anything.
    let request = request.header("X-DEBUGINFOD-MAXSIZE", servers.max_bytes.to_string());
    let response = request.call().map_err(|error| match error {
        Error::StatusCode(404) => DownloadError::Absent,
        Error::StatusCode(status) => {
            DownloadError::Refused(format!("it answered with status {status}"))
        }
        Error::Timeout(_) => DownloadError::Slow(servers.timeout.unwrap_or_default()),
        error => DownloadError::Refused(error.to_string()),
    })?;
    let bytes = response.headers().get(CONTENT_LENGTH);
    let bytes = bytes.and_then(|bytes| bytes.to_str().ok()?.parse().ok());
    let body = response.into_body().into_with_config();
    // The library's limit is one byte above ours, so that ours is reached first, with its own
    // message.
    let body = body.limit(servers.max_bytes.saturating_add(1)).reader();
    Ok(HttpResponse { body, bytes })
}

/// Uses the certificates that the system trusts, usually in `/etc/ssl/certs`.
#[cfg(feature = "tls")]
fn tls() -> ureq::tls::TlsConfig {
    use ureq::tls::{Certificate, RootCerts, TlsConfig};
    let trusted = rustls_native_certs::load_native_certs().certs;
    let trusted: Vec<_> = trusted.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&trusted))
        .unversioned_rustls_crypto_provider(provider)
        .build()
}

//! Where windows are sent: the tables `push` of the configuration.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use thiserror::Error;

use crate::values::{Interval, Size};

/// Shortest and longest time that a request may take.
const TIMEOUTS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Smallest spool.
const MIN_SPOOL: u64 = 1 << 20;

/// What a target understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP profiles by HTTP.
    OtlpHttp,
    /// OTLP profiles by gRPC.
    OtlpGrpc,
    /// Parca's `writeraw`.
    Parca,
    /// Pyroscope's `ingest`.
    Pyroscope,
}

/// Schemes of URLs, with their protocol and whether they use TLS.
const SCHEMES: [(&str, Protocol, bool); 8] = [
    ("otlp+http", Protocol::OtlpHttp, false),
    ("otlp+https", Protocol::OtlpHttp, true),
    ("otlp+grpc", Protocol::OtlpGrpc, false),
    ("otlp+grpcs", Protocol::OtlpGrpc, true),
    ("parca+http", Protocol::Parca, false),
    ("parca+https", Protocol::Parca, true),
    ("pyroscope+http", Protocol::Pyroscope, false),
    ("pyroscope+https", Protocol::Pyroscope, true),
];

/// A target's URL, such as `otlp+https://collector:4318`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// What the target understands.
    pub protocol: Protocol,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
    /// Host and port.
    pub authority: String,
    /// The path, without a slash at its end.
    pub path: String,
    /// The scheme, as typed.
    scheme: &'static str,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PushTarget {
    /// Where it is.
    pub url: Endpoint,
    /// File with a token, which is read before each request.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// File with the certificates of authorities, in place of the machine's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Further headers of requests.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Time that a request may take.
    #[serde(default = "default_timeout")]
    pub timeout: Interval,
    /// Size of the requests that wait, above which the oldest are dropped.
    #[serde(default = "default_spool")]
    pub spool: Size,
}

/// Why a target can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// Not a URL of a target.
    #[error("push: {0:?}: give a URL such as otlp+https://HOST:4318 ({schemes})", schemes = schemes())]
    Url(String),
    /// A URL that has a user or a query.
    #[error(
        "push: give the URL without user, password and query; token-file names a file with a token"
    )]
    Secret,
    /// Two targets with the same URL.
    #[error("push: {0} is there twice")]
    Repeated(Endpoint),
    /// A time limit that is too short or too long.
    #[error("push: timeout = \"{0}\": give 1s to 60s")]
    Timeout(Interval),
    /// A URL of a method's host with a path.
    #[error("push: {0}: gRPC takes no path")]
    Path(Endpoint),
    /// A spool that is too small.
    #[error("push: spool: give at least 1M")]
    Spool,
    /// A header that HTTP doesn't allow.
    #[error("push: headers: {0:?}: a name has letters, digits and -, a value printable characters")]
    Header(String),
    /// Built without the feature.
    #[error("push: this tare was built without the feature `push`")]
    Absent,
}

fn default_timeout() -> Interval {
    Interval(Duration::from_secs(10))
}

fn default_spool() -> Size {
    Size(64 << 20)
}

fn schemes() -> String {
    SCHEMES.map(|(scheme, ..)| scheme).join(", ")
}

impl Endpoint {
    /// Reads a URL.
    ///
    /// # Errors
    /// Fails with [`TargetError::Url`] or [`TargetError::Secret`].
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let wrong = || TargetError::Url(text.to_owned());
        let (typed, rest) = text.split_once("://").ok_or_else(wrong)?;
        let known = SCHEMES.into_iter().find(|(scheme, ..)| *scheme == typed);
        let (scheme, protocol, is_tls) = known.ok_or_else(wrong)?;
        if rest.contains(['@', '?', '#']) {
            return Err(TargetError::Secret);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = rest.bytes().all(|byte| byte.is_ascii_graphic());
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let has_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        if !is_plain || !has_port || host.is_empty() {
            return Err(wrong());
        }
        let path = path.trim_end_matches('/').to_owned();
        Ok(Self { protocol, is_tls, authority: authority.to_owned(), path, scheme })
    }
}

impl Display for Endpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl PushTarget {
    /// Makes a target with default options.
    ///
    /// # Errors
    /// See [`Endpoint::parse`].
    pub fn from_url(url: &str) -> Result<Self, TargetError> {
        Ok(Self {
            url: Endpoint::parse(url)?,
            token_file: None,
            ca_file: None,
            headers: BTreeMap::new(),
            timeout: default_timeout(),
            spool: default_spool(),
        })
    }

    fn validate(&self) -> Result<(), TargetError> {
        if self.timeout.0 < TIMEOUTS[0] || self.timeout.0 > TIMEOUTS[1] {
            return Err(TargetError::Timeout(self.timeout));
        }
        if self.url.protocol == Protocol::OtlpGrpc && !self.url.path.is_empty() {
            return Err(TargetError::Path(self.url.clone()));
        }
        if self.spool.0 < MIN_SPOOL {
            return Err(TargetError::Spool);
        }
        let is_name = |name: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            !name.is_empty() && name.bytes().all(is_allowed)
        };
        let is_value = |value: &str| value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let wrong = self.headers.iter().find(|(name, value)| !is_name(name) || !is_value(value));
        wrong.map_or(Ok(()), |(name, _)| Err(TargetError::Header(name.clone())))
    }
}

/// Checks targets.
///
/// # Errors
/// See [`TargetError`].
pub(crate) fn validate(targets: &[PushTarget]) -> Result<(), TargetError> {
    if !targets.is_empty() && !cfg!(feature = "push") {
        return Err(TargetError::Absent);
    }
    for (at, target) in targets.iter().enumerate() {
        target.validate()?;
        if targets[..at].iter().any(|earlier| earlier.url == target.url) {
            return Err(TargetError::Repeated(target.url.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_protocol_and_host() {
        let url = Endpoint::parse("otlp+https://collector:4318/base/").unwrap();
        assert_eq!((url.is_tls, url.authority.as_str()), (true, "collector:4318"));
        assert_eq!(url.to_string(), "otlp+https://collector:4318/base");
        for host in ["[::1]:4318", "[::1]", "10.0.0.1"] {
            assert_eq!(Endpoint::parse(&format!("otlp+http://{host}")).unwrap().authority, host);
        }
        for wrong in [
            "",
            "otlp+http://",
            "http://host",
            "otlp+http://host:port",
            "otlp+http://:4318",
            "otlp+http://ho st",
            "otlp+http://host\r\nX: y",
        ] {
            assert_eq!(Endpoint::parse(wrong), Err(TargetError::Url(wrong.to_owned())));
        }
        for secret in ["otlp+http://user:password@host", "otlp+http://host/?token=x"] {
            assert_eq!(Endpoint::parse(secret), Err(TargetError::Secret));
        }
    }

    #[test]
    fn options_have_limits() {
        let target = || PushTarget::from_url("otlp+http://host").unwrap();
        assert_eq!(target().validate(), Ok(()));
        let slow = PushTarget { timeout: Interval(Duration::from_secs(61)), ..target() };
        assert!(matches!(slow.validate(), Err(TargetError::Timeout(_))));
        let small = PushTarget { spool: Size(1), ..target() };
        assert_eq!(small.validate(), Err(TargetError::Spool));
        for header in [["a b", "c"], ["a", "b\r\nc"], ["", "b"]] {
            let headers = BTreeMap::from([header.map(str::to_owned).into()]);
            let wrong = PushTarget { headers, ..target() };
            assert!(matches!(wrong.validate(), Err(TargetError::Header(_))), "{header:?}");
        }
    }
}

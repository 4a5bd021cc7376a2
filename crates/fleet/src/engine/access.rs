//! How an engine's server is reached: address, credentials, certificates.

use std::fmt::{self, Debug, Formatter};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::error::FleetError;

/// A secret, which no message shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret from the environment.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Reads a secret from a file.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn read(path: &Path) -> Result<Self, FleetError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| FleetError::Start { program: path.display().to_string(), source })?;
        Ok(Self::new(&text))
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl Debug for Secret {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What a server asks for.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Name of the user.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<Secret>,
    /// A token, in place of a password.
    pub token: Option<Secret>,
    /// PEM file of the authorities to trust, in place of the machine's.
    pub ca_file: Option<PathBuf>,
}

/// A server's address: `http[s]://HOST[:PORT][/PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerUrl {
    pub(super) is_tls: bool,
    /// Host and port.
    pub(super) authority: String,
    /// Names between slashes.
    pub(super) path: Vec<String>,
}

impl ServerUrl {
    /// Reads an address.
    pub(super) fn parse(text: &str) -> Result<Self, FleetError> {
        let wrong = |why: &str| FleetError::Question(format!("--engine: {why}"));
        let (is_tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            _ => return Err(wrong("give an address such as https://HOST:PORT")),
        };
        if rest.contains(['@', '?', '#']) {
            return Err(wrong("give the address without user, password and query"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        if authority.is_empty() || !authority.bytes().all(is_plain) {
            return Err(wrong("the address has no host"));
        }
        let names: Vec<String> =
            path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let is_name = |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !names.iter().all(is_name) {
            return Err(wrong(
                "a name in the path has other characters than letters, digits and _",
            ));
        }
        Ok(Self { is_tls, authority: authority.to_owned(), path: names })
    }

    /// Returns scheme, host and port.
    pub(super) fn origin(&self) -> String {
        format!("{}://{}", if self.is_tls { "https" } else { "http" }, self.authority)
    }

    /// Returns whether only this machine can see what is sent.
    pub(super) fn is_private(&self) -> bool {
        let host = self.authority.rsplit_once(':').map_or(&*self.authority, |(host, _)| host);
        let is_loopback = host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
        self.is_tls || host == "localhost" || host == "[::1]" || is_loopback
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_no_secrets_and_secrets_no_text() {
        let url = ServerUrl::parse("https://trino.example:8443/hive/tare").unwrap();
        assert_eq!((url.origin().as_str(), url.path.len()), ("https://trino.example:8443", 2));
        assert!(ServerUrl::parse("http://[::1]:8123").unwrap().is_private());
        assert!(!ServerUrl::parse("http://127.example:8123").unwrap().is_private());
        for wrong in
            ["", "ftp://host", "http://", "http://a:b@host", "http://h/?p=1", "http://h/a'b"]
        {
            let error = ServerUrl::parse(wrong).unwrap_err().to_string();
            assert!(!error.contains("a:b") && error.contains("--engine"), "{error}");
        }
        assert_eq!(format!("{:?}", Secret::new("hunter2\n")), "Secret");
    }
}

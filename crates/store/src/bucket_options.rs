//! How a bucket is reached: by the variables and the file that other programs for S3 use too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::StoreError;
use crate::folder::file_error;

/// Longest time without an answer, and for a request with its repetitions.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The profile of a file of credentials that is used if no other is named.
const PROFILE: &str = "default";

/// How a bucket is reached.
#[derive(Clone, Debug)]
pub struct BucketOptions {
    /// `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    pub url: String,
    /// The server's address, if it isn't Amazon's. Only `https` unless `allow_http`.
    pub endpoint: Option<String>,
    /// The region; `us-east-1` if there is no other.
    pub region: Option<String>,
    /// Key and secret; the machine's role if there are none.
    pub credentials: Option<BucketCredentials>,
    /// Accepts an endpoint without TLS.
    pub allow_http: bool,
    /// Longest time without an answer, and for a request with its repetitions.
    pub timeout: Duration,
}

/// A key of a bucket.
#[derive(Clone, PartialEq, Eq)]
pub struct BucketCredentials {
    /// The key's name.
    pub key_id: String,
    /// The key's secret.
    pub secret: String,
    /// The token of temporary keys.
    pub token: Option<String>,
}

impl std::fmt::Debug for BucketCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BucketCredentials").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

impl BucketOptions {
    /// Reads the options from environment variables, which `variable` returns, or credentials from
    /// the file that they name.
    ///
    /// # Errors
    /// Fails with half of a key, a file that can't be read or lacks the profile, or an endpoint
    /// without TLS that isn't on this machine, unless `AWS_ALLOW_HTTP` is `true`.
    pub fn from_variables(
        url: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, StoreError> {
        let first = |names: &[&str]| {
            names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()))
        };
        let endpoint = first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]);
        let allows = first(&["AWS_ALLOW_HTTP"]).is_some_and(|value| value == "true");
        let plain = endpoint.as_deref().and_then(|endpoint| endpoint.strip_prefix("http://"));
        if let Some(rest) = plain
            && !is_loopback(rest)
            && !allows
        {
            return Err(StoreError::BucketOption(format!(
                "AWS_ENDPOINT_URL: http://{rest} has no TLS: give an https:// address, or set AWS_ALLOW_HTTP=true"
            )));
        }
        Ok(Self {
            url: url.to_owned(),
            allow_http: plain.is_some(),
            endpoint,
            region: first(&["AWS_REGION", "AWS_DEFAULT_REGION"]),
            credentials: credentials(&first)?,
            timeout: TIMEOUT,
        })
    }
}

/// Whether an address is one of this machine.
fn is_loopback(address: &str) -> bool {
    let authority = address.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => authority.split(':').next(),
    };
    let host = host.unwrap_or_default();
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn credentials(
    first: &dyn Fn(&[&str]) -> Option<String>,
) -> Result<Option<BucketCredentials>, StoreError> {
    let [key_id, secret, token] =
        ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
            .map(|name| first(&[name]));
    match (key_id, secret) {
        (Some(key_id), Some(secret)) => {
            return Ok(Some(BucketCredentials { key_id, secret, token }));
        }
        (None, None) => {}
        _ => {
            let message = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: set both or none";
            return Err(StoreError::BucketOption(message.to_owned()));
        }
    }
    let profile = first(&["AWS_PROFILE"]);
    let named = first(&["AWS_SHARED_CREDENTIALS_FILE"]).map(PathBuf::from);
    let is_optional = named.is_none() && profile.is_none();
    let usual = || Some(Path::new(&first(&["HOME"])?).join(".aws/credentials"));
    let Some(path) = named.or_else(usual) else { return Ok(None) };
    let text = match std::fs::read_to_string(&path) {
        Err(_) if is_optional => return Ok(None),
        text => text.map_err(file_error(&path))?,
    };
    let profile = profile.as_deref().unwrap_or(PROFILE);
    let found = parse(&text, profile);
    if found.is_none() && !is_optional {
        let path = path.display();
        return Err(StoreError::BucketOption(format!("{path}: no key in [{profile}]")));
    }
    Ok(found)
}

/// Reads the key of a profile in a file of credentials.
fn parse(text: &str, profile: &str) -> Option<BucketCredentials> {
    let is_header = |line: &str| line.starts_with('[');
    let header = format!("[{profile}]");
    let lines = text.lines().map(str::trim).skip_while(|line| *line != header).skip(1);
    let entries: Vec<(&str, &str)> = lines
        .take_while(|line| !is_header(line))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let value = |wanted| {
        let found = entries.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| (*value).to_owned())
    };
    Some(BucketCredentials {
        key_id: value("aws_access_key_id")?,
        secret: value("aws_secret_access_key")?,
        token: value("aws_session_token"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(variables: &[(&str, &str)]) -> Result<BucketOptions, StoreError> {
        let variable = |wanted: &str| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        };
        BucketOptions::from_variables("s3://bucket", &variable)
    }

    #[test]
    fn keys_come_from_variables_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        let text = "[other]\naws_access_key_id = o\n\n[default]\n# mine\naws_access_key_id=AK\n\
                    aws_secret_access_key = s3cr3t=\n[more]\naws_session_token = t\n";
        std::fs::write(&path, text).unwrap();
        let file = ("AWS_SHARED_CREDENTIALS_FILE", path.to_str().unwrap());
        let key = options(&[file]).unwrap().credentials.unwrap();
        assert_eq!((&*key.key_id, &*key.secret, key.token), ("AK", "s3cr3t=", None));
        let keys = [file, ("AWS_ACCESS_KEY_ID", "B"), ("AWS_SECRET_ACCESS_KEY", "c")];
        assert_eq!(options(&keys).unwrap().credentials.unwrap().key_id, "B");
        assert!(options(&[]).unwrap().credentials.is_none());
        assert!(options(&[("HOME", "/nowhere")]).unwrap().credentials.is_none());
        for wrong in [
            &[file, ("AWS_PROFILE", "other")][..],
            &[("AWS_SECRET_ACCESS_KEY", "c")],
            &[("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")],
        ] {
            let error = options(wrong).unwrap_err();
            assert!(!error.to_string().contains("s3cr3t"), "{error}");
        }
    }

    #[test]
    fn only_this_machine_is_reached_without_tls() {
        let endpoint = |url| options(&[("AWS_ENDPOINT_URL", url)]);
        for url in ["http://127.0.0.1:9000", "http://localhost/x", "http://[::1]:9000"] {
            assert!(endpoint(url).unwrap().allow_http, "{url}");
        }
        assert!(!endpoint("https://storage.example").unwrap().allow_http);
        for url in ["http://storage.example", "http://127.0.0.1.example", "http://10.0.0.1:9000"] {
            assert!(matches!(endpoint(url), Err(StoreError::BucketOption(_))), "{url}");
        }
        let allowed = [("AWS_ENDPOINT_URL", "http://a"), ("AWS_ALLOW_HTTP", "true")];
        assert!(options(&allowed).unwrap().allow_http);
    }
}

//! What a target is trusted by, and what it trusts: files that are read again for each connection.

use std::fmt::Display;
use std::path::Path;

use ureq::http::HeaderValue;
use ureq::tls::{PemItem, parse_pem};

/// Returns the header of a token.
///
/// # Errors
/// Fails if the file can't be read, or what it has can't be in a header.
pub(super) fn authorization(path: &Path) -> Result<HeaderValue, String> {
    let wrong = |error: &dyn Display| format!("token-file {}: {error}", path.display());
    let token = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
    let mut value = value.map_err(|_| wrong(&"not a token"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the certificates of the authorities in a file, or of those that the machine trusts.
///
/// # Errors
/// Fails if the file can't be read or has no certificate.
pub(super) fn authorities(ca_file: Option<&Path>) -> Result<Vec<Vec<u8>>, String> {
    let Some(path) = ca_file else {
        let trusted = rustls_native_certs::load_native_certs().certs;
        return Ok(trusted.into_iter().map(|one| one.to_vec()).collect());
    };
    let wrong = |error: &dyn Display| format!("ca-file {}: {error}", path.display());
    let text = std::fs::read(path).map_err(|error| wrong(&error))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(one) = item.map_err(|error| wrong(&error))? {
            certificates.push(one.der().to_vec());
        }
    }
    if certificates.is_empty() {
        return Err(wrong(&"it has no certificate"));
    }
    Ok(certificates)
}

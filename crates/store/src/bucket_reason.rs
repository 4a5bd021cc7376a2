//! Why a bucket can't be used, in a line.

use std::error::Error;

use object_store::Error as ObjectError;
use object_store::client::{HttpError, HttpErrorKind};

/// Codes of S3 with which a server refuses a key.
const OF_KEYS: [&str; 6] = [
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
];

/// Longest part of a server's own words, in bytes.
const MAX_WORDS: usize = 200;

/// Returns why a request failed. A server's words have no control characters.
pub(crate) fn reason(error: &ObjectError) -> String {
    words(error).chars().filter(|letter| !letter.is_control()).collect()
}

fn words(error: &ObjectError) -> String {
    let text = error.to_string();
    match element(&text, "Code") {
        Some("NoSuchBucket") => return "there is no such bucket (404)".to_owned(),
        Some(code) if OF_KEYS.contains(&code) => {
            return format!("the server refuses the key (403 {code})");
        }
        Some(code) => {
            let message = element(&text, "Message").map(|words| format!(": {}", cut(words)));
            return format!("the server answers {code}{}", message.unwrap_or_default());
        }
        None => {}
    }
    match error {
        ObjectError::PermissionDenied { .. } => "the server refuses access (403)".to_owned(),
        ObjectError::Unauthenticated { .. } => "the server refuses the key (401)".to_owned(),
        ObjectError::NotFound { .. } => "not found (404)".to_owned(),
        _ => of_connection(error),
    }
}

fn of_connection(error: &ObjectError) -> String {
    let mut kind = None;
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        kind = source.downcast_ref::<HttpError>().map(HttpError::kind).or(kind);
        innermost = source;
    }
    let words = innermost.to_string();
    match kind {
        Some(HttpErrorKind::Timeout) => "the server doesn't answer in time".to_owned(),
        Some(HttpErrorKind::Connect) => format!("cannot connect: {}", cut(&words)),
        Some(_) => format!("the connection failed: {}", cut(&words)),
        None => cut(&words).to_owned(),
    }
}

/// Returns the text of an XML element.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once("</")?.0)
}

/// Returns the first line, up to an element.
fn cut(words: &str) -> &str {
    let line = words.lines().next().unwrap_or_default();
    let line = line.split('<').next().unwrap_or_default().trim_end_matches([' ', ':']);
    crate::texts::cut(line, MAX_WORDS)
}

//! The head of an HTTP request.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::response::Refusal;

/// Most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Most header lines.
const MAX_HEADERS: usize = 64;

/// Time that a client has to send the head.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// A request without a body.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names and values, decoded.
    parameters: Vec<(String, String)>,
    /// Names in small letters.
    headers: Vec<(String, String)>,
}

impl HttpRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// Fails if the client is too slow, if the head is too long, and if it isn't HTTP. `None` if
    /// the client sent nothing.
    pub(crate) fn read(stream: &mut TcpStream) -> Result<Option<Self>, Refusal> {
        let end = Instant::now() + HEAD_TIME;
        let slow = || Refusal::new(408, "408: no request within 5 s\n");
        let mut head = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
                return Err(slow());
            }
            let count = match stream.read(&mut chunk) {
                Ok(0) if head.is_empty() => return Ok(None),
                Ok(0) => return Err(Refusal::new(400, "400: half a request\n")),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(slow()),
                Err(_) => return Ok(None),
            };
            head.extend_from_slice(&chunk[..count]);
            if let Some(request) = Self::parse(&head)? {
                return Ok(Some(request));
            }
            if head.len() >= MAX_HEAD_BYTES {
                return Err(Refusal::new(431, "431: the request's head is too long\n"));
            }
        }
    }

    /// Parses a head; `None` if it isn't complete.
    pub(crate) fn parse(head: &[u8]) -> Result<Option<Self>, Refusal> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Refusal::new(431, "431: too many header lines\n"));
            }
            Err(_) => return Err(Refusal::new(400, "400: this isn't HTTP\n")),
        }
        let target = parsed.path.unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut parameters = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.push((decode(name)?, decode(value)?));
        }
        let mut headers = Vec::new();
        for header in &*parsed.headers {
            let value = std::str::from_utf8(header.value);
            let value = value.map_err(|_| Refusal::new(400, "400: a header isn't UTF-8\n"))?;
            headers.push((header.name.to_ascii_lowercase(), value.to_owned()));
        }
        let method = parsed.method.unwrap_or_default().to_owned();
        Ok(Some(Self { method, path: path.to_owned(), parameters, headers }))
    }

    /// Returns a header.
    ///
    /// # Errors
    /// 400 if there are several, because others may choose another one of them.
    pub(crate) fn header(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(Refusal::new(400, "400: a header occurs twice\n")),
            (value, None) => Ok(value.map(|(_, value)| value.as_str())),
        }
    }

    /// Returns the parameters except those of a name, encoded.
    pub(crate) fn encoded_except(&self, name: &str) -> String {
        let others = self.parameters.iter().filter(|(known, _)| known != name);
        let pairs = others.map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        pairs.collect::<Vec<_>>().join("&")
    }

    /// Returns the first value of a parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters(name).next()
    }

    /// Returns the values of a parameter.
    pub(crate) fn parameters<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let values = self.parameters.iter().filter(move |(known, _)| known == name);
        values.map(|(_, value)| value.as_str())
    }
}

/// Encodes a text so that only letters, digits, `-`, `_` and `.` are left as they are.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Decodes percent signs and plus signs.
fn decode(text: &str) -> Result<String, Refusal> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.filter(|code| code.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None if *first == b'%' => return Err(Refusal::new(400, "400: % without digits\n")),
            None => {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| Refusal::new(400, "400: a parameter isn't UTF-8\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<HttpRequest>, u16> {
        HttpRequest::parse(text.as_bytes()).map_err(|refusal| refusal.status)
    }

    #[test]
    fn parameters_are_decoded() {
        let request = parse("GET /a?x=1+2%2B%C3%A4&y&x=%00 HTTP/1.1\r\n\r\n").unwrap().unwrap();
        assert_eq!(request.path, "/a");
        assert_eq!(request.parameters("x").collect::<Vec<_>>(), ["1 2+ä", "\0"]);
        assert_eq!(request.parameter("y"), Some(""));
        assert_eq!(request.parameter("z"), None);
        for wrong in ["%", "%2", "%zz", "%+1", "%ff"] {
            assert_eq!(
                parse(&format!("GET /?x={wrong} HTTP/1.1\r\n\r\n")).unwrap_err(),
                400,
                "{wrong}"
            );
        }
    }

    #[test]
    fn half_a_head_is_no_request_and_a_strange_one_is_refused() {
        assert!(parse("GET / HTTP/1.1\r\nHost: a\r\n").unwrap().is_none());
        assert_eq!(parse("\0\0\0\0").unwrap_err(), 400);
        let many = "a: b\r\n".repeat(MAX_HEADERS + 1);
        assert_eq!(parse(&format!("GET / HTTP/1.1\r\n{many}\r\n")).unwrap_err(), 431);
        let request = parse("GET / HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n").unwrap().unwrap();
        assert_eq!(request.header("host").unwrap_err().status, 400);
    }
}

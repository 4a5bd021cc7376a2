//! HTTP responses. Each one ends its connection.

use std::borrow::Cow;
use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Time that a client has to take some of a response.
const STALL_TIME: Duration = Duration::from_secs(10);

/// Time that a client has to take a whole response.
const RESPONSE_TIME: Duration = Duration::from_secs(300);

/// The policy of the page: it runs its own files, and loads from nowhere else.
pub(crate) const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// Headers of all responses. Nothing is kept in caches, and no other site may embed or read it.
const ALWAYS: &str = "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n";

/// A request that isn't answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    text: Cow<'static, str>,
}

impl Refusal {
    pub(crate) fn new(status: u16, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, text: text.into() }
    }
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    status: u16,
    kind: &'static str,
    /// Further header lines.
    headers: String,
    body: Cow<'static, [u8]>,
}

impl HttpResponse {
    /// A response with this media type.
    pub(crate) fn new(kind: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Self {
        let headers = format!("Content-Security-Policy: {PAGE_POLICY}\r\n");
        Self { status: 200, kind, headers, body: body.into() }
    }

    /// A response that runs under this policy.
    pub(crate) fn with_policy(self, policy: &str) -> Self {
        Self { headers: format!("Content-Security-Policy: {policy}\r\n"), ..self }
    }

    /// Adds a header line, with its end.
    pub(crate) fn with_header(mut self, line: &str) -> Self {
        self.headers.push_str(line);
        self
    }

    /// A refusal in words.
    pub(crate) fn refused(refusal: Refusal) -> Self {
        let body = match refusal.text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
        let allow = if refusal.status == 405 { "Allow: GET\r\n" } else { "" };
        let response = Self::new("text/plain; charset=utf-8", body).with_header(allow);
        Self { status: refusal.status, ..response }
    }

    /// Writes the response.
    ///
    /// # Errors
    /// Fails if the client is gone or too slow.
    pub(crate) fn write(&self, stream: &TcpStream) -> io::Result<()> {
        let mut out = PatientWriter::new(stream)?;
        let length = format!("Content-Length: {}\r\n{}", self.body.len(), self.headers);
        write_head(&mut out, self.status, self.kind, &length)?;
        out.write_all(&self.body)
    }
}

/// Writes the head of a response.
pub(crate) fn write_head(
    out: &mut impl Write,
    status: u16,
    kind: &str,
    headers: &str,
) -> io::Result<()> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    };
    let head =
        format!("HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\n{headers}{ALWAYS}\r\n");
    out.write_all(head.as_bytes())
}

/// Writes to a client, which has a limited time for each piece and for all of them.
pub(crate) struct PatientWriter<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl<'a> PatientWriter<'a> {
    pub(crate) fn new(stream: &'a TcpStream) -> io::Result<Self> {
        stream.set_write_timeout(Some(STALL_TIME))?;
        Ok(Self { stream, end: Instant::now() + RESPONSE_TIME })
    }

    /// Lets the time begin again, for a response whose rest was just computed.
    pub(crate) fn extend(&mut self) {
        self.end = Instant::now() + RESPONSE_TIME;
    }
}

impl Write for PatientWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if Instant::now() >= self.end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut stream = self.stream;
        stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

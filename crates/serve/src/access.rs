//! Who may read: names of this server, origins, and the token.

use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::request::HttpRequest;
use crate::response::Refusal;

/// Bytes of a random token.
const TOKEN_BYTES: usize = 24;

/// Fewest characters of a token in a file.
const SHORTEST: usize = 20;

/// Most characters of a token in a file.
const LONGEST: usize = 256;

/// Why a token can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file can't be read.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Others may read the file.
    #[error("{path}: other users may read this token; run: chmod 600 {path}", path = .0.display())]
    Readable(PathBuf),
    /// The file's text isn't a token.
    #[error("{path}: a token has {SHORTEST} to {LONGEST} letters and digits; run: head -c 24 /dev/urandom | base32 >{path}", path = .0.display())]
    Text(PathBuf),
}

/// The secret that a client needs. Its text isn't shown by `Debug`.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Makes a random one.
    ///
    /// # Errors
    /// Fails if the kernel's random numbers can't be read.
    pub fn random() -> Result<Self, TokenError> {
        let path = Path::new("/dev/urandom");
        let mut bytes = [0; TOKEN_BYTES];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
        read.map_err(|source| TokenError::File { path: path.to_owned(), source })?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Reads one from a file of this user.
    ///
    /// # Errors
    /// Fails if the file can't be read, if other users may read it, and if it isn't a token.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::File { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
            return Err(TokenError::Readable(path.to_owned()));
        }
        let mut text = String::new();
        // One byte more than allowed shows that the file is longer.
        file.take(LONGEST as u64 + 2).read_to_string(&mut text).map_err(failed)?;
        let token = text.trim_end_matches(['\n', '=']);
        let is_long = (SHORTEST..=LONGEST).contains(&token.len());
        if !is_long || !token.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(TokenError::Text(path.to_owned()));
        }
        Ok(Self(token.to_owned()))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Compares in a time that doesn't depend on where the texts differ.
    fn is(&self, text: &str) -> bool {
        let differences = self.0.bytes().zip(text.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
        self.0.len() == text.len() && differences == 0
    }
}

/// Decides which requests are answered.
#[derive(Debug)]
pub(crate) struct Access {
    /// Values of `Host`.
    hosts: Vec<String>,
    token: Token,
    cookie: String,
}

/// How a request proves that it may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The cookie, or a header with the token.
    Known,
    /// The token in the link.
    Link,
}

impl Access {
    pub(crate) fn new(address: SocketAddr, names: &[String], token: Token) -> Self {
        let port = address.port();
        let own = [
            format!("127.0.0.1:{port}"),
            format!("localhost:{port}"),
            format!("[::1]:{port}"),
            address.to_string(),
        ];
        let named = names.iter().map(|name| name.to_ascii_lowercase());
        let named = named.flat_map(|name| [format!("{name}:{port}"), name]);
        let hosts = own.into_iter().chain(named).collect();
        // Cookies don't distinguish ports, and several servers may run.
        Self { hosts, token, cookie: format!("tare-{port}") }
    }

    /// Checks a request.
    ///
    /// # Errors
    /// 403 for a foreign `Host` or `Origin`, and for requests that another site's page makes; 405
    /// for methods that could change something; 401 without the token.
    pub(crate) fn check(&self, request: &HttpRequest) -> Result<Proof, Refusal> {
        let host = request.header("host")?.unwrap_or_default().to_ascii_lowercase();
        if !self.hosts.contains(&host) {
            let text = "403: this name isn't the server's; add it with --host NAME\n";
            return Err(Refusal::new(403, text));
        }
        if let Some(origin) = request.header("origin")? {
            let origin = origin.to_ascii_lowercase();
            let name =
                ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
            if !name.is_some_and(|name| self.hosts.iter().any(|host| host == name)) {
                return Err(Refusal::new(403, "403: a foreign origin\n"));
            }
        }
        let is_foreign = request
            .header("sec-fetch-site")?
            .is_some_and(|site| !["same-origin", "none"].contains(&site));
        if is_foreign && request.header("sec-fetch-mode")? != Some("navigate") {
            return Err(Refusal::new(403, "403: a request of another site\n"));
        }
        if request.method != "GET" {
            return Err(Refusal::new(405, "405: this server only reads\n"));
        }
        self.proof(request)
    }

    fn proof(&self, request: &HttpRequest) -> Result<Proof, Refusal> {
        let bearer =
            request.header("authorization")?.and_then(|value| value.strip_prefix("Bearer "));
        let cookies = request.header("cookie")?.unwrap_or_default().split("; ");
        let mut values = cookies.filter_map(|pair| pair.split_once('='));
        let cookie = values.find(|(name, _)| *name == self.cookie).map(|(_, value)| value);
        if [bearer, cookie].into_iter().flatten().any(|text| self.token.is(text)) {
            return Ok(Proof::Known);
        }
        let link = (request.path == "/").then(|| request.parameter("token")).flatten();
        match link {
            Some(text) if self.token.is(text) => Ok(Proof::Link),
            _ => Err(Refusal::new(401, "401: open the link that tare serve printed\n")),
        }
    }

    /// Returns the header that gives the client a cookie.
    pub(crate) fn cookie(&self) -> String {
        format!(
            "Set-Cookie: {}={}; HttpOnly; SameSite=Strict; Path=/\r\n",
            self.cookie, self.token.0
        )
    }

    pub(crate) fn token(&self) -> &Token {
        &self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &str) -> Result<Proof, u16> {
        let address = "127.0.0.1:4000".parse().unwrap();
        let access = Access::new(address, &["tare.example".to_owned()], Token("secret".to_owned()));
        let request = HttpRequest::parse(format!("{lines}\r\n\r\n").as_bytes()).unwrap().unwrap();
        access.check(&request).map_err(|refusal| refusal.status)
    }

    #[test]
    fn the_host_comes_before_the_origin_and_this_before_the_token() {
        let get = "GET /?token=secret HTTP/1.1\r\nHost: ";
        for host in ["127.0.0.1:4000", "LOCALHOST:4000", "[::1]:4000", "tare.example"] {
            assert_eq!(check(&format!("{get}{host}")), Ok(Proof::Link), "{host}");
        }
        for host in ["", "localhost", "127.0.0.1", "evil.example:4000", "127.0.0.1:4000@evil"] {
            assert_eq!(check(&format!("{get}{host}")), Err(403), "{host}");
        }
        let get = format!("{get}localhost:4000\r\n");
        for origin in ["null", "http://evil.example", "http://localhost", "file://localhost:4000"] {
            assert_eq!(check(&format!("{get}Origin: {origin}")), Err(403), "{origin}");
        }
        assert_eq!(check(&format!("{get}Origin: http://localhost:4000")), Ok(Proof::Link));
        assert_eq!(check(&format!("{get}Sec-Fetch-Site: cross-site")), Err(403));
        assert_eq!(check(&format!("{get}Sec-Fetch-Site: same-origin")), Ok(Proof::Link));
    }

    #[test]
    fn the_token_is_in_the_link_a_cookie_or_a_header() {
        let get = |path: &str, rest: &str| {
            check(&format!("GET {path} HTTP/1.1\r\nHost: localhost:4000\r\n{rest}"))
        };
        assert_eq!(get("/", ""), Err(401));
        assert_eq!(get("/?token=secreT", ""), Err(401));
        assert_eq!(get("/?token=secret1", ""), Err(401));
        assert_eq!(get("/?token=", ""), Err(401));
        assert_eq!(get("/api/about?token=secret", ""), Err(401), "only the first page takes it");
        assert_eq!(get("/", "Cookie: a=b; tare-4000=secret"), Ok(Proof::Known));
        assert_eq!(get("/", "Cookie: tare-4001=secret"), Err(401));
        assert_eq!(get("/", "Authorization: Bearer secret"), Ok(Proof::Known));
        assert_eq!(get("/", "Authorization: Basic secret"), Err(401));
        assert_eq!(check("POST / HTTP/1.1\r\nHost: localhost:4000"), Err(405));
    }
}

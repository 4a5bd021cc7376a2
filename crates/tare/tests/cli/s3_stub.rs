//! A server of S3 for tests: it keeps objects in memory, and fails as told.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Objects of a page of a listing: few, so that tests have several pages.
const PAGE: usize = 7;

/// How long a request may take, at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the server does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// It answers.
    Answers,
    /// It closes connections.
    Down,
    /// It answers with a status and a code of S3.
    Refuses(u16, &'static str),
    /// It closes connections in the middle of a request's or an answer's body.
    Cuts,
    /// It answers after a while.
    IsSlow(Duration),
}

#[derive(Debug)]
struct StubState {
    objects: BTreeMap<String, Vec<u8>>,
    /// For a number of requests, and for all later ones.
    next: Vec<Behaviour>,
    usual: Behaviour,
    /// Method and key of each request.
    requests: Vec<String>,
}

/// The server. It has the bucket `tare`.
#[derive(Debug)]
pub(crate) struct S3Stub {
    port: u16,
    state: Arc<Mutex<StubState>>,
}

impl S3Stub {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = StubState {
            objects: BTreeMap::new(),
            next: Vec::new(),
            usual: Behaviour::Answers,
            requests: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let state = Arc::clone(&shared);
                // A client that goes away is no failure.
                std::thread::spawn(move || while serve(&stream, &state).is_some() {});
            }
        });
        Self { port, state }
    }

    /// Changes the behaviour from the next request on.
    pub(crate) fn set(&self, behaviour: Behaviour) {
        self.state.lock().unwrap().usual = behaviour;
    }

    /// Chooses the behaviours for the next requests.
    pub(crate) fn fail_next(&self, behaviours: impl IntoIterator<Item = Behaviour>) {
        self.state.lock().unwrap().next.extend(behaviours);
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.state.lock().unwrap().objects.keys().cloned().collect()
    }

    /// Returns the requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }

    pub(crate) fn url() -> &'static str {
        "s3://tare/team/profiles"
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Lets a command reach the server. Copies of windows go into a cache in a folder.
    pub(crate) fn lead<'a>(&self, command: &'a mut Command, folder: &Path) -> &'a mut Command {
        let cache = folder.join("cache");
        std::fs::create_dir_all(&cache).unwrap();
        for name in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_SHARED_CREDENTIALS_FILE"] {
            command.env_remove(name);
        }
        command
            .env("AWS_ENDPOINT_URL", self.endpoint())
            .env("AWS_ACCESS_KEY_ID", "a-key")
            .env("AWS_SECRET_ACCESS_KEY", "a-secret")
            .env("XDG_CACHE_HOME", cache)
    }
}

/// Returns the request's line and headers.
fn read_head(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => return Some(lines),
            line => lines.push(line.to_owned()),
        }
    }
}

fn serve(stream: &TcpStream, state: &Mutex<StubState>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let lines = read_head(&mut reader)?;
    let length = lines.iter().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().ok())?
    });
    let mut words = lines.first()?.split(' ');
    let method = words.next()?;
    let target = words.next()?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let key = decoded(path.strip_prefix("/tare")?).trim_start_matches('/').to_owned();
    let behaviour = {
        let mut state = state.lock().unwrap();
        state.requests.push(format!("{method} {key}"));
        match state.next.is_empty() {
            true => state.usual,
            false => state.next.remove(0),
        }
    };
    let mut body = vec![0; length.unwrap_or(0)];
    match behaviour {
        Behaviour::Down => return None,
        Behaviour::Cuts if method == "PUT" => {
            let half = body.len() / 2;
            let _ = reader.read(&mut body[..half]);
            return None;
        }
        _ => reader.read_exact(&mut body).ok()?,
    }
    if let Behaviour::IsSlow(time) = behaviour {
        std::thread::sleep(time);
    }
    let (status, answer) = match behaviour {
        Behaviour::Refuses(status, code) => {
            (status, format!("<Error><Code>{code}</Code></Error>").into_bytes())
        }
        _ => answer(&mut state.lock().unwrap(), method, &key, query, body),
    };
    let head = format!(
        "HTTP/1.1 {status} x\r\nContent-Length: {}\r\nETag: \"e\"\r\n\
         Last-Modified: Thu, 26 Nov 2026 10:00:00 GMT\r\n\r\n",
        if method == "HEAD" { 0 } else { answer.len() }
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes()).ok()?;
    if behaviour == Behaviour::Cuts {
        let _ = stream.write_all(&answer[..answer.len() / 2]);
        return None;
    }
    stream.write_all(&answer).ok()
}

fn answer(
    state: &mut StubState,
    method: &str,
    key: &str,
    query: &str,
    body: Vec<u8>,
) -> (u16, Vec<u8>) {
    match method {
        "PUT" => {
            state.objects.insert(key.to_owned(), body);
            (200, Vec::new())
        }
        "DELETE" => {
            state.objects.remove(key);
            (204, Vec::new())
        }
        "GET" if query.contains("list-type=2") => (200, listing(state, query)),
        "GET" => match state.objects.get(key) {
            Some(object) => (200, object.clone()),
            None => (404, b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
        },
        _ => (501, Vec::new()),
    }
}

fn listing(state: &StubState, query: &str) -> Vec<u8> {
    let value = |wanted: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == wanted).map(|(_, value)| decoded(value))
    };
    let prefix = value("prefix").unwrap_or_default();
    let after = value("continuation-token").unwrap_or_default();
    let all = state.objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
    let page: Vec<_> = all.clone().take(PAGE).collect();
    let mut text = "<ListBucketResult>".to_owned();
    for (key, object) in &page {
        write!(
            text,
            "<Contents><Key>{key}</Key><Size>{}</Size><ETag>e</ETag>\
             <LastModified>2026-11-26T10:00:00.000Z</LastModified></Contents>",
            object.len()
        )
        .unwrap();
    }
    if all.count() > PAGE
        && let Some((last, _)) = page.last()
    {
        write!(text, "<NextContinuationToken>{last}</NextContinuationToken>").unwrap();
    }
    text.push_str("</ListBucketResult>");
    text.into_bytes()
}

/// Replaces `%XX` by its byte.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let hex = others.get(..2).filter(|_| *first == b'%');
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &others[2..] } else { others };
    }
    String::from_utf8(bytes).unwrap()
}

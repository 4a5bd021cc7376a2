//! `tare serve`: who can read, and what the answers are.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tare_store::{Figures, LabelSet, SegmentBuilder, SegmentInfo, StackFrame, Store, StoreOptions};

use crate::browser::Browser;
use crate::support::{ProcessGuard, signal, status, stderr, tare, wait_until};

/// 2026-11-26 10:00:00 UTC, in microseconds since 1970.
const TEN_US: i64 = 1_795_687_200_000_000;
const MINUTE_US: i64 = 60_000_000;

/// A name that would be an element, end a script, or leave a string.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"'&<!--";

/// Writes ten minutes of a service on six hosts. Its second version begins after five minutes, uses
/// twice the CPU time, and spends half of it in `parse`.
fn write_store(folder: &Path) {
    let store = Store::open(folder, StoreOptions::default()).unwrap();
    for number in 0..6 {
        for minute in 0..10_i64 {
            let start_us = TEN_US + minute * MINUTE_US;
            let host = format!("web-{number}");
            let end_us = start_us + MINUTE_US;
            let mut window = SegmentBuilder::new(SegmentInfo {
                host,
                start_us,
                end_us,
                ..SegmentInfo::default()
            });
            let mut frame = |name: &str, address| StackFrame {
                function: Some(window.text(name)),
                module: Some(window.text("/opt/api")),
                address,
                ..StackFrame::default()
            };
            let [main, parse, hostile] =
                [("main", 1), ("parse", 2), (HOSTILE, 3)].map(|(name, at)| frame(name, at));
            let [parsing, other] =
                [[parse, main], [hostile, main]].map(|frames| window.stack(&frames));
            let event = window.text("cpu-clock");
            let (version, times) = if minute < 5 { ("1.4", 1) } else { ("1.5", 2) };
            let labels = LabelSet {
                service: Some(window.text("api")),
                version: Some(window.text(version)),
                ..LabelSet::default()
            };
            window.add(&labels, event, None, parsing, times, times * 1_000_000_000);
            // Without a difference between hosts there is no error to test by.
            let more = if minute < 5 { 0 } else { number * 10_000_000 };
            window.add(&labels, event, None, other, 2, 2_000_000_000 + more);
            let labels = LabelSet { service: Some(window.text(HOSTILE)), ..LabelSet::default() };
            window.add(&labels, event, None, other, 1, 1_000_000_000);
            let samples = times + 3;
            let figures =
                Figures { samples, cpus: 2, recorder_cpu_us: 12_000, ..Figures::default() };
            store.write(&window.finish(figures)).unwrap();
        }
    }
}

/// A running `tare serve`.
struct Served {
    /// Declared first, so that the process ends before its store is removed.
    process: ProcessGuard,
    port: u16,
    token: String,
    _folder: tempfile::TempDir,
}

/// A response.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

fn send(port: u16, request: &str) -> Reply {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The server may answer and leave before it has read all of a long request.
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // Without a reply, the status is 0.
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

impl Served {
    fn start(command: &mut Command, folder: tempfile::TempDir) -> Self {
        let mut process = ProcessGuard::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut link = String::new();
        BufReader::new(process.take_stdout()).read_line(&mut link).unwrap();
        let rest = link.trim_end().strip_prefix("http://127.0.0.1:").expect("a link to loopback");
        let (port, token) = rest.split_once("/?token=").expect("a link with a token");
        let token = token.split('&').next().unwrap().to_owned();
        let port = port.parse().unwrap();
        Self { process, port, token, _folder: folder }
    }

    fn store() -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_store(folder.path());
        Self::start(tare().args(["serve", "--store"]).arg(folder.path()), folder)
    }

    fn send(&self, method: &str, path: &str, headers: &str) -> Reply {
        let host = format!("Host: 127.0.0.1:{}\r\n", self.port);
        send(self.port, &format!("{method} {path} HTTP/1.1\r\n{host}{headers}\r\n"))
    }

    fn bearer(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.token)
    }

    fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &self.bearer())
    }

    /// The answer of a question.
    fn ask(&self, path: &str) -> Value {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        let line = reply.body.lines().last().unwrap();
        let mut message: Value = serde_json::from_str(line).unwrap();
        assert!(message["error"].is_null(), "{path}: {message}");
        message["answer"].take()
    }
}

const PATHS: [&str; 11] = [
    "/",
    "/page.css",
    "/page.js",
    "/api/about",
    "/api/series",
    "/api/top",
    "/api/losses",
    "/api/diff",
    "/api/regressions",
    "/flame",
    "/profile.pb.gz",
];

#[test]
fn the_link_gives_a_cookie_and_nothing_is_answered_without() {
    let served = Served::store();
    for path in PATHS {
        assert_eq!(served.send("GET", path, "").status, 401, "{path}");
        let wrong = format!("Authorization: Bearer {}x\r\n", served.token);
        assert_eq!(served.send("GET", path, &wrong).status, 401, "{path}");
    }
    let link = format!("/?token={}&since=5&where={}", served.token, encoded("service=\"<a>"));
    let reply = served.send("GET", &link, "");
    assert_eq!(reply.status, 200, "{reply:?}");
    let next = "0;url=/#since=5&where=service%3D%22%3Ca%3E\"";
    assert!(reply.body.contains(next), "{}", reply.body);
    assert!(!reply.body.contains(&served.token));
    let cookie = reply.head.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).unwrap();
    let mut parts = cookie.split("; ");
    let pair = parts.next().unwrap();
    let attributes: Vec<&str> = parts.collect();
    assert_eq!(attributes, ["HttpOnly", "SameSite=Strict", "Path=/"]);
    let reply = served.send("GET", "/", &format!("Cookie: a=b; {pair}\r\n"));
    assert_eq!(reply.status, 200);
    assert!(reply.body.starts_with("<!DOCTYPE html>"));
    for reply in [reply, served.get("/api/about"), served.get("/flame"), served.get("/none")] {
        for header in [
            "Content-Security-Policy: default-src 'none'; ",
            "X-Content-Type-Options: nosniff",
            "Cache-Control: no-store",
            "Referrer-Policy: no-referrer",
            "Cross-Origin-Resource-Policy: same-origin",
        ] {
            assert!(reply.head.contains(header), "{header}: {}", reply.head);
        }
        assert!(!reply.head.contains("unsafe-"), "{}", reply.head);
    }
    let other = Served::store();
    assert_ne!(other.token, served.token);
    assert_eq!(other.send("GET", "/", &served.bearer()).status, 401);
}

#[test]
fn another_user_of_the_machine_gets_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let served = Served::store();
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; printf 'GET /api/about HTTP/1.1\\r\\nHost: localhost:{}\\r\\n\\r\\n' >&3; cat <&3",
        served.port, served.port
    );
    let output =
        Command::new("bash").args(["-c", &script]).uid(65_534).gid(65_534).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("HTTP/1.1 401 "), "{text} {}", stderr(&output));
    let command = std::fs::read(format!("/proc/{}/cmdline", served.process.id())).unwrap();
    assert!(!String::from_utf8_lossy(&command).contains(&served.token), "every user can read this");
}

#[test]
fn foreign_hosts_origins_and_methods_are_refused() {
    let served = Served::store();
    let port = served.port;
    let bearer = served.bearer();
    for path in PATHS {
        for host in
            ["evil.example".to_owned(), format!("evil.example:{port}"), "127.0.0.1".to_owned()]
        {
            let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n");
            assert_eq!(send(port, &head).status, 403, "{path} {host}");
        }
        assert_eq!(send(port, &format!("GET {path} HTTP/1.0\r\n{bearer}\r\n")).status, 403);
        for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
            let headers = format!("Origin: {origin}\r\n{bearer}");
            assert_eq!(served.send("GET", path, &headers).status, 403, "{path} {origin}");
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "BREW"] {
            let reply = served.send(method, path, &bearer);
            assert_eq!(reply.status, 405, "{method} {path}");
            assert!(reply.head.contains("Allow: GET"));
        }
    }
    let own = format!("Origin: http://localhost:{port}\r\n{bearer}");
    assert_eq!(served.send("GET", "/api/about", &own).status, 200);
}

#[test]
fn other_machines_need_a_token_in_a_file_that_others_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path());
    let run = |more: &[&str]| {
        let mut command = tare();
        command.args(["serve", "--listen", "0.0.0.0:0", "--store"]).arg(folder.path()).args(more);
        command
    };
    let output = run(&[]).output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("--token-file"), "{}", stderr(&output));
    let file = folder.path().join("token");
    let name = file.to_str().unwrap();
    for (text, mode) in
        [("shortshort", 0o600), ("with space with space with", 0o600), (&*"a".repeat(30), 0o644)]
    {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let output = run(&["--token-file", name]).output().unwrap();
        assert_eq!(status(&output), 1, "{text} {mode:o}");
        assert!(stderr(&output).contains(name), "{}", stderr(&output));
    }
    std::fs::write(&file, "a".repeat(30)).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = run(&["--token-file", name, "--host", "tare.example.org"]);
    let mut process = ProcessGuard::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut link = String::new();
    BufReader::new(process.take_stdout()).read_line(&mut link).unwrap();
    let port = link.split([':', '/']).nth(4).unwrap().parse().unwrap();
    let bearer = format!("Authorization: Bearer {}", "a".repeat(30));
    for (host, expected) in [("tare.example.org", 200), ("tare.example.com", 403)] {
        let head =
            format!("GET / HTTP/1.1\r\nHost: {host}\r\nOrigin: https://{host}\r\n{bearer}\r\n\r\n");
        assert_eq!(send(port, &head).status, expected, "{host}");
    }
    signal(&process, rustix::process::Signal::TERM);
    process.wait_for_exit();
    let mut said = String::new();
    process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("TLS"), "{said}");
}

/// Names of files below a folder, with lengths.
fn tree(folder: &Path) -> Vec<(std::path::PathBuf, u64)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(tree(&path)),
            false => files.push((path.clone(), path.metadata().unwrap().len())),
        }
    }
    files.sort();
    files
}

/// Values that would be a path, a statement, a pattern, a number or a header elsewhere.
const PAYLOADS: [&str; 18] = [
    "../../../../etc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
    "..\\..\\etc\\passwd",
    "service=../../etc/passwd",
    "service='; drop table samples; --",
    "service=x' union select * from read_csv('/etc/passwd') --",
    "host~(a+)+$",
    "host~(",
    "$(id)",
    "`id`",
    "\0",
    "service=\0",
    "\u{202e}\r\nSet-Cookie: a=b",
    "-1",
    "99999999999999999999999999",
    "9223372036854775807",
    HOSTILE,
];

/// Names of parameters, and some that there are not.
const NAMES: [&str; 15] = [
    "since",
    "until",
    "where",
    "by",
    "total",
    "rows",
    "slices",
    "function",
    "versus_since",
    "versus_until",
    "versus_where",
    "token",
    "store",
    "path",
    "file",
];

#[test]
fn no_parameter_reaches_a_file_or_an_engine() {
    let served = Served::store();
    let before = tree(served._folder.path());
    let long = "a".repeat(5000);
    let payloads = PAYLOADS.iter().copied().chain([&*long]);
    let range = format!("since={TEN_US}&until={}", TEN_US + 10 * MINUTE_US);
    // All names with all payloads; the path changes, so that each has each name.
    let pairs = payloads.flat_map(|payload| NAMES.map(|name| (name, payload)));
    for ((name, payload), path) in pairs.zip(PATHS[3..].iter().cycle()) {
        let target = format!("{path}?{name}={}&{range}", encoded(payload));
        let reply = served.get(&target);
        assert!([200, 400].contains(&reply.status), "{target} {reply:?}");
        assert!(!reply.body.contains("root:x:0:0"), "{target}");
        assert!(!reply.head.contains("Set-Cookie"), "{target}");
        let is_json = reply.head.contains("application/x-ndjson");
        for line in reply.body.lines().filter(|_| is_json) {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{target} {line}");
        }
    }
    for path in
        ["/../etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/page.js/../../x", "*"]
    {
        assert!([400, 404].contains(&served.get(path).status), "{path}");
    }
    assert_eq!(tree(served._folder.path()), before);
}

#[test]
fn hostile_names_are_text() {
    let served = Served::store();
    let top = served.ask("/api/top?by=service");
    let names: Vec<&Value> =
        top["rows"].as_array().unwrap().iter().map(|row| &row["service"]).collect();
    assert!(names.contains(&&Value::from(HOSTILE)), "{names:?}");
    for path in ["/api/top", "/api/series"] {
        let reply = served.get(&format!("{path}?by=service&since=0&until=2000000000000000"));
        assert!(reply.head.contains("Content-Type: application/x-ndjson"), "{}", reply.head);
    }
    let page = served.get(&format!("/flame?where={}", encoded(&format!("service={HOSTILE}"))));
    assert_eq!(page.status, 200);
    assert!(!page.body.contains("<img"), "a name became an element");
    assert_eq!(page.body.matches("</script>").count(), 2, "a name ended the script");
    let refused = served.get(&format!("/flame?where={}", encoded(&format!("host={HOSTILE}"))));
    assert!(refused.head.contains("Content-Type: text/plain"), "{}", refused.head);
}

#[test]
fn long_requests_and_slow_clients_do_not_stop_the_others() {
    let served = Served::store();
    let long = format!("X: {}\r\n", "a".repeat(100_000));
    assert_eq!(served.send("GET", "/", &long).status, 431);
    let many = "X: y\r\n".repeat(100);
    assert_eq!(served.send("GET", "/", &many).status, 431);
    assert_eq!(served.send("GET", &format!("/?{}", "a".repeat(100_000)), "").status, 431);
    assert_eq!(send(served.port, "\u{1}\u{2}\r\n\r\n").status, 400);
    // More than the server takes, each with half a request.
    let slow: Vec<TcpStream> = (0..100)
        .filter_map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", served.port)).ok()?;
            stream.write_all(b"GET / HTTP/1.1\r\n").ok().map(|()| stream)
        })
        .collect();
    let threads =
        || std::fs::read_dir(format!("/proc/{}/task", served.process.id())).unwrap().count();
    assert!(threads() < 100, "{} threads", threads());
    wait_until("slow clients are dropped", || served.get("/").status == 200);
    drop(slow);
}

#[test]
fn sigterm_ends_the_server_at_once() {
    let mut served = Served::store();
    let _open = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    let begin = Instant::now();
    signal(&served.process, rustix::process::Signal::TERM);
    served.process.wait_for_exit();
    println!("ended after {:?}", begin.elapsed());
    let ended = served.process.try_wait().unwrap().unwrap();
    assert_eq!((ended.code(), ended.signal()), (Some(143), None));
}

#[test]
fn answers_are_those_of_the_other_commands() {
    let served = Served::store();
    let about = served.ask("/api/about");
    assert_eq!(about["start_us"], TEN_US);
    assert_eq!(about["end_us"], TEN_US + 10 * MINUTE_US);
    let range = format!("since={TEN_US}&until={}", TEN_US + 10 * MINUTE_US);
    let kept: u64 =
        about["kept"].as_array().unwrap().iter().map(|kept| kept.as_u64().unwrap()).sum();
    assert_eq!(kept, 6 * (5 * 4 + 5 * 5));

    let series = served.ask(&format!("/api/series?by=service,version&slices=10&{range}"));
    let by_name = |names: [&str; 2]| {
        let all = series["series"].as_array().unwrap();
        all.iter().find(|one| one["names"] == serde_json::json!(names)).unwrap().clone()
    };
    let second = 1_000_000_000_i64;
    let expected: Vec<i64> = (0..10).map(|at| if at < 5 { 18 * second } else { 0 }).collect();
    assert_eq!(by_name(["api", "1.4"])["weights"], serde_json::json!(expected));

    let query = format!("by=version&function=parse&where=service%3Dapi&slices=10&{range}");
    let trend = served.ask(&format!("/api/series?{query}"));
    let parts: Vec<i64> = trend["series"][1]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part.as_i64().unwrap())
        .collect();
    let expected: Vec<i64> = (0..10).map(|at| if at < 5 { 0 } else { 12 * second }).collect();
    assert_eq!(parts, expected);

    let mut fleet = tare();
    fleet.args(["fleet", "top", "--by", "function", "--total", "--json", "-E", "200", "--store"]);
    let output = fleet.arg(served._folder.path()).output().unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(served.ask("/api/top?by=function&total=1"), printed);

    let verdicts = served.ask(&format!("/api/regressions?{range}"));
    assert_eq!(verdicts["rows"][0]["verdict"], "more");
    assert_eq!(verdicts["rows"][0]["versions"], "1.4 -> 1.5");
    let diff = served.ask(&format!(
        "/api/diff?by=function&where=version%3D1.4&versus_where=version%3D1.5&{range}"
    ));
    let parse = diff["rows"].as_array().unwrap().iter().find(|row| row["function"] == "parse");
    let points = parse.unwrap()["difference"].as_f64().unwrap();
    assert!((points - (12.0 / 24.15 - 1.0 / 3.0)).abs() < 1e-9, "{points}");
    let losses = served.ask(&format!("/api/losses?where=service%3Dapi&{range}"));
    assert_eq!(losses["rows"].as_array().unwrap().len(), 6);
}

#[test]
fn a_recording_has_the_views_that_need_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/0.1.0.data");
    let served = Served::start(tare().arg("serve").arg(&recording), folder);
    assert_eq!(served.ask("/api/about")["kind"], "recording");
    let top = served.ask("/api/top?by=function&total=1");
    let rows = top["rows"].as_array().unwrap();
    let own: f64 = rows.iter().map(|row| row["self_share"].as_f64().unwrap()).sum();
    assert!(rows.iter().all(|row| row["total"].as_u64() >= row["self"].as_u64()), "{rows:?}");
    assert!(own > 0.99, "{own}");
    let threads = served.ask("/api/series?by=thread");
    let thread = threads["series"][0]["names"][0].as_str().unwrap().to_owned();
    let alone = served
        .ask(&format!("/api/series?by=thread&where={}", encoded(&format!("thread={thread}"))));
    assert!(alone["series"].as_array().unwrap().iter().all(|one| one["names"][0] == *thread));
    assert!(!served.ask("/api/losses")["remarks"].as_array().unwrap().is_empty());
    assert!(served.get("/flame").body.starts_with("<!DOCTYPE html>"));
    assert_eq!(served.get("/profile.pb.gz").status, 200);
    assert_eq!(served.get("/api/top?by=service").status, 200, "the error is in the stream");
}

/// Chromium on the page, with names that would be elements if they were HTML.
#[test]
fn the_page_shows_hostile_names_and_asks_only_its_server() {
    let served = Served::store();
    let site = format!("http://127.0.0.1:{}/", served.port);
    let link = format!("{site}?token={}", served.token);
    let Some(mut browser) = Browser::visit(&link, &site, "dark") else { return };
    for view in ["services", "table&by=service", "compare", "function&fn=parse", "losses", "flame"]
    {
        browser.js(&format!("location.hash = 'view={view}'"));
        browser.js("new Promise((done) => setTimeout(done, 50))");
        let begin = Instant::now();
        while browser.js("document.body.dataset.busy") != "no" {
            assert!(begin.elapsed() < Duration::from_secs(60), "{view} is never complete");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(browser.js("document.body.dataset.failed ?? null").is_null(), "{view}");
        assert_eq!(browser.js("document.querySelectorAll('img').length"), 0, "{view}");
        let text = browser.js("document.getElementById('main').textContent");
        let is_named = text.as_str().unwrap().contains(HOSTILE);
        assert_eq!(is_named, ["services", "table&by=service"].contains(&view), "{view}: {text}");
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

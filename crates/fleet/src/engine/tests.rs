//! Servers of engines, as tests make them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::engine::{Access, Engine, EngineOptions, ResourceLimits, RunControl, Secret};
use crate::error::FleetError;
use crate::question::Selection;

/// A request that a server got.
#[derive(Clone, Debug, Default)]
struct StubRequest {
    method: String,
    path: String,
    /// Lines in lower case.
    head: String,
    body: String,
}

/// Status and body of an answer.
type StubAnswer = (u16, String);

/// A server on loopback, whose requests are kept.
struct StubServer {
    address: String,
    requests: Arc<Mutex<Vec<StubRequest>>>,
}

impl StubServer {
    /// Serves until the test ends. The answer is made from the request and its number.
    fn start(answer: impl Fn(&StubRequest, usize) -> StubAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || serve(stream, &kept, &*answer));
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> Vec<StubRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits for a request.
    fn wait_for(&self, is_it: impl Fn(&StubRequest) -> bool) {
        let begin = Instant::now();
        while !self.requests().iter().any(&is_it) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", self.requests());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn serve(
    stream: TcpStream,
    kept: &Mutex<Vec<StubRequest>>,
    answer: &(dyn Fn(&StubRequest, usize) -> StubAnswer + Send + Sync),
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut request = StubRequest::default();
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap_or(0) > 2 {
        request.head += &line.to_lowercase();
        if request.method.is_empty() {
            let mut words = line.split_whitespace().map(str::to_owned);
            request.method = words.next().unwrap_or_default();
            request.path = words.next().unwrap_or_default();
        }
        line.clear();
    }
    let length = request.head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    request.body = String::from_utf8(body).unwrap();
    let number = {
        let mut kept = kept.lock().unwrap();
        kept.push(request.clone());
        kept.len() - 1
    };
    let (status, body) = answer(&request, number);
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = stream;
    // The client may be gone.
    let _ = stream.write_all((head + &body).as_bytes());
}

fn open(text: &str, access: Access) -> Result<Box<dyn Engine>, FleetError> {
    let folder = tempfile::tempdir().unwrap();
    let limits = ResourceLimits { threads: Some(2), memory_bytes: Some(1 << 29) };
    let options =
        EngineOptions { store: folder.path(), limits, access, path: None, spark_python: None };
    let engine = options.open(text);
    // Its files are listed for each question; there are none.
    std::mem::forget(folder);
    engine
}

/// Passes a statement to an engine and returns the rows.
fn ask(
    engine: &dyn Engine,
    text: &str,
    control: &RunControl<'_>,
) -> Result<Vec<Vec<(String, Value)>>, FleetError> {
    let mut rows = Vec::new();
    engine.query(&Selection::default(), text, control, &mut |row| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

fn token() -> Access {
    Access {
        user: Some("ada".to_owned()),
        token: Some(Secret::new("hunter2\n")),
        ..Access::default()
    }
}

/// Asks, and gives up once `is_it` is among the requests.
fn interrupted(server: &StubServer, engine: &dyn Engine, is_it: fn(&StubRequest) -> bool) {
    let is_asked = AtomicBool::new(false);
    let is_interrupted = || {
        is_asked.fetch_or(server.requests().iter().any(is_it), Ordering::Relaxed);
        is_asked.load(Ordering::Relaxed)
    };
    let control = RunControl { is_interrupted: Some(&is_interrupted), ..RunControl::default() };
    let error = ask(engine, "select 1", &control).unwrap_err();
    assert!(matches!(error, FleetError::Interrupted), "{error}");
}

#[test]
fn trino_answers_page_by_page() {
    let server = StubServer::start(|request, number| {
        let host = request.head.lines().find_map(|line| line.strip_prefix("host:")).unwrap();
        let next = |page: &str| format!("http://{}/v1/statement/{page}", host.trim());
        let columns =
            json!([{ "name": "b", "type": "bigint" }, { "name": "a", "type": "varchar" }]);
        let stats = json!({ "state": "RUNNING", "progressPercentage": 12.3 });
        let answer = match (request.path.as_str(), number) {
            ("/v1/statement", _) => json!({ "nextUri": next("1"), "stats": stats }),
            ("/v1/statement/1", 1) => return (503, String::new()),
            ("/v1/statement/1", _) => json!({
                "nextUri": next("2"), "columns": columns, "stats": stats,
                "data": [[i64::MAX, "x\"\u{e9}"], [2, null]],
            }),
            _ => json!({ "columns": columns, "data": [[3, ""]], "stats": stats }),
        };
        (200, answer.to_string())
    });
    let engine = open(&format!("trino={}/hive/tare", server.address), token()).unwrap();
    let told = Mutex::new(Vec::new());
    let progress = |text: &str| told.lock().unwrap().push(text.to_owned());
    let control = RunControl { progress: Some(&progress), ..RunControl::default() };
    let rows = ask(&*engine, "select b, a from x;", &control).unwrap();
    let row = |b: i64, a: Value| vec![("b".to_owned(), json!(b)), ("a".to_owned(), a)];
    assert_eq!(rows, [row(i64::MAX, json!("x\"\u{e9}")), row(2, Value::Null), row(3, json!(""))]);
    assert!(told.lock().unwrap().iter().any(|text| text == "trino: running 12%"), "{told:?}");
    let requests = server.requests();
    for request in &requests {
        for line in [
            "authorization: bearer hunter2",
            "x-trino-user: ada",
            "x-trino-catalog: hive",
            "x-trino-schema: tare",
            "x-trino-time-zone: utc",
        ] {
            assert!(request.head.contains(line), "{line}: {}", request.head);
        }
    }
    assert!(requests[0].method == "POST" && requests[0].body.ends_with("\nselect b, a from x"));
}

#[test]
fn a_question_to_trino_ends_with_tare() {
    let server = StubServer::start(|request, _| {
        let host = request.head.lines().find_map(|line| line.strip_prefix("host:")).unwrap();
        if request.method == "GET" {
            std::thread::sleep(Duration::from_secs(3600));
        }
        (200, json!({ "nextUri": format!("http://{}/v1/q/7", host.trim()) }).to_string())
    });
    let engine = open(&format!("trino={}/hive/tare", server.address), token()).unwrap();
    interrupted(&server, &*engine, |request| request.method == "GET");
    server.wait_for(|request| request.method == "DELETE" && request.path == "/v1/q/7");
}

#[test]
fn trino_s_errors_have_its_words_and_no_secret() {
    for (answer, words) in [
        (
            (
                200,
                json!({ "error": { "message": "no table", "errorName": "NOT_FOUND" } }).to_string(),
            ),
            "NOT_FOUND: no table",
        ),
        ((401, "not today".to_owned()), "it answered 401 Unauthorized: not today"),
        ((200, "<html>".to_owned()), "expected value"),
        (
            (200, json!({ "nextUri": "http://127.0.0.1.example/v1" }).to_string()),
            "leads to another server",
        ),
    ] {
        let server = StubServer::start(move |_, _| answer.clone());
        let engine = open(&format!("trino={}/hive/tare", server.address), token()).unwrap();
        let error = ask(&*engine, "select 1", &RunControl::default()).unwrap_err().to_string();
        assert!(error.starts_with("trino: ") && error.contains(words), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        assert_eq!(server.requests().len(), 1, "{words}");
    }
}

#[test]
fn clickhouse_gets_the_statement_and_its_limits() {
    let server = StubServer::start(|_, _| {
        (200, "{\"n\":-7,\"t\":null}\n{\"n\":8,\"t\":\"x\"}\n".to_owned())
    });
    let password = Some(Secret::new("hunter2"));
    let access = Access { user: Some("ada".to_owned()), password, ..Access::default() };
    let engine = open(&format!("clickhouse={}/tare", server.address), access).unwrap();
    let begin = Some(Instant::now());
    let timeout = Some(Duration::from_secs(90));
    let control = RunControl { timeout, begin, ..RunControl::default() };
    let rows = ask(&*engine, "select n, t from samples", &control).unwrap();
    let row = |n: i64, t: Value| vec![("n".to_owned(), json!(n)), ("t".to_owned(), t)];
    assert_eq!(rows, [row(-7, Value::Null), row(8, json!("x"))]);
    let request = &server.requests()[0];
    for part in [
        "default_format=JSONEachRow",
        "max_threads=2",
        "max_memory_usage=536870912",
        "max_execution_time=90",
        "readonly=2",
        "wait_end_of_query=1",
    ] {
        assert!(request.path.contains(part), "{part}: {}", request.path);
    }
    assert!(request.head.contains("authorization: basic "), "{}", request.head);
    assert!(request.body.contains("from tare.samples") && !request.path.contains("hunter2"));
}

#[test]
fn a_question_to_clickhouse_ends_with_tare() {
    let server = StubServer::start(|request, _| {
        if request.body.contains("select 1") {
            std::thread::sleep(Duration::from_secs(3600));
        }
        (200, String::new())
    });
    let engine = open(&format!("clickhouse={}", server.address), Access::default()).unwrap();
    interrupted(&server, &*engine, |request| request.body.contains("select 1"));
    let requests = server.requests();
    let asked = requests.iter().find(|request| request.body.contains("select 1")).unwrap();
    let id = asked.path.split(['=', '&']).nth(1).unwrap();
    let kill = format!("KILL QUERY WHERE query_id = '{id}' ASYNC");
    server.wait_for(|request| request.body == kill);
}

#[test]
fn clickhouse_s_errors_have_its_words() {
    let words = "Code: 62. DB::Exception: Syntax error: failed at position 1";
    let server = StubServer::start(move |_, _| (500, words.to_owned()));
    let engine = open(&format!("clickhouse={}", server.address), Access::default()).unwrap();
    let error = ask(&*engine, "selec", &RunControl::default()).unwrap_err().to_string();
    assert!(error.starts_with("clickhouse: ") && error.contains(words), "{error}");
}

#[test]
fn credentials_go_to_no_server_without_tls() {
    for engine in ["clickhouse=http://db.example:8123", "trino=http://10.0.0.1:8080/hive/tare"] {
        let error = open(engine, token()).err().unwrap().to_string();
        assert!(error.contains("credentials need https"), "{error}");
        assert!(open(engine, Access::default()).is_ok());
    }
    for engine in ["clickhouse=db.example", "trino=https://db.example", "spark", "oracle=x"] {
        assert!(open(engine, Access::default()).is_err(), "{engine}");
    }
}

#[test]
fn a_program_gets_the_statement_as_input_and_the_token_by_the_environment() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("python");
    let here = folder.path().display();
    let script = format!(
        "#!/bin/sh\ncat >{here}/asked\nenv >{here}/environment\necho \"$@\" >{here}/arguments\n\
         echo 'progress: 3 of 8 tasks' >&2\nsleep 1\necho '{{\"n\":1}}'\n"
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    let limits = ResourceLimits { threads: Some(2), memory_bytes: Some(1 << 29) };
    let options = EngineOptions {
        store: folder.path(),
        limits,
        access: token(),
        path: None,
        spark_python: Some(program),
    };
    let engine = options.open("spark=spark://127.0.0.1:7077").unwrap();
    let told = Mutex::new(Vec::new());
    let progress = |text: &str| told.lock().unwrap().push(text.to_owned());
    let control = RunControl { progress: Some(&progress), ..RunControl::default() };
    let rows = ask(&*engine, "select 1 as n", &control).unwrap();
    assert_eq!(rows, [vec![("n".to_owned(), json!(1))]]);
    assert_eq!(*told.lock().unwrap(), ["spark: 3 of 8 tasks"]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let asked: Value = serde_json::from_str(&read("asked")).unwrap();
    assert!(asked["text"].as_str().unwrap().ends_with("\nselect 1 as n"), "{asked}");
    assert_eq!(asked["settings"]["spark.executor.memory"], "524288k");
    assert!(read("environment").contains("hunter2") && !read("arguments").contains("hunter2"));
}

//! `tare agent --push`: targets get what the store has, and losses are counted.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyKind;
use opentelemetry_proto::tonic::profiles::v1development::{Profile, ProfilesDictionary};
use prost::Message;
use rustix::process::Signal;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;

use super::agent::{
    agent, busy, file_rows, may_record, open_window, rows, segment_files, signal, start, status,
    sum,
};
use crate::support::{ProcessGuard, stderr, tare, workload};

/// How long a test's server waits for a byte.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that a server got.
#[derive(Clone, Debug)]
pub(super) struct Received {
    pub(super) line: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Returns the body, decompressed.
    fn bytes(&self) -> Vec<u8> {
        if self.header("content-encoding") != "gzip" {
            return self.body.clone();
        }
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&self.body[..]).read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn otlp(&self) -> ExportProfilesServiceRequest {
        ExportProfilesServiceRequest::decode(&self.bytes()[..]).unwrap()
    }
}

/// How a server answers.
#[derive(Clone, Copy, Debug)]
enum StubReply {
    /// A status, and headers.
    Status(u16, &'static str),
    /// Nothing, ever.
    Silence,
}

/// A server of HTTP/1.1 that keeps what it gets.
pub(super) struct Stub {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    /// Answers to the next requests; further ones get 200.
    replies: Arc<Mutex<VecDeque<StubReply>>>,
}

impl Stub {
    pub(super) fn new() -> Self {
        Self::with_tls(TcpListener::bind("127.0.0.1:0").unwrap(), None)
    }

    fn with_tls(listener: TcpListener, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let port = listener.local_addr().unwrap().port();
        let stub = Self { port, received: Arc::default(), replies: Arc::default() };
        let received = Arc::clone(&stub.received);
        let replies = Arc::clone(&stub.replies);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let received = Arc::clone(&received);
                let replies = Arc::clone(&replies);
                let tls = tls.clone();
                std::thread::spawn(move || match tls {
                    None => serve(stream, &received, &replies),
                    Some(config) => {
                        let connection = rustls::ServerConnection::new(config).unwrap();
                        let stream = rustls::StreamOwned::new(connection, stream);
                        serve(stream, &received, &replies);
                    }
                });
            }
        });
        stub
    }

    fn reply(&self, replies: impl IntoIterator<Item = StubReply>) {
        self.replies.lock().unwrap().extend(replies);
    }

    pub(super) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

fn serve(
    stream: impl Read + Write,
    received: &Mutex<Vec<Received>>,
    replies: &Mutex<VecDeque<StubReply>>,
) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream) {
        received.lock().unwrap().push(request);
        let reply = replies.lock().unwrap().pop_front().unwrap_or(StubReply::Status(200, ""));
        let StubReply::Status(status, headers) = reply else {
            // The client gives up and closes the connection.
            let _ = stream.read(&mut [0]);
            return;
        };
        let answer = format!("HTTP/1.1 {status} x\r\n{headers}Content-Length: 0\r\n\r\n");
        if stream
            .get_mut()
            .write_all(answer.as_bytes())
            .and_then(|()| stream.get_mut().flush())
            .is_err()
        {
            return;
        }
    }
}

fn read_request(stream: &mut impl BufRead) -> Option<Received> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |line: &String| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_lowercase(), value.to_owned()))
    };
    let headers: BTreeMap<_, _> = lines[1..].iter().filter_map(header).collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Received { line: lines.swap_remove(0), headers, body })
}

/// A server of gRPC. It answers the first calls with these statuses, and further ones with 0.
fn grpc_stub(statuses: &[&'static str]) -> Stub {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let stub = Stub { port, received: Arc::default(), replies: Arc::default() };
    let received = Arc::clone(&stub.received);
    let mut statuses: VecDeque<_> = statuses.iter().copied().collect();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                // A connection has one call.
                let status = statuses.pop_front().unwrap_or("0");
                let _ = serve_grpc(stream, status, &received).await;
            }
        });
    });
    stub
}

async fn serve_grpc(
    stream: tokio::net::TcpStream,
    status: &'static str,
    received: &Mutex<Vec<Received>>,
) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(call) = connection.accept().await {
        let (request, mut respond) = call?;
        let (head, mut stream) = request.into_parts();
        let served = async {
            let mut body = Vec::new();
            while let Some(chunk) = stream.data().await {
                let chunk = chunk?;
                stream.flow_control().release_capacity(chunk.len())?;
                body.extend_from_slice(&chunk);
            }
            let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
            let headers = head.headers.iter().map(|(n, v)| (n.to_string(), text(v))).collect();
            let line = format!("{} {}", head.method, head.uri.path());
            received.lock().unwrap().push(Received { line, headers, body });
            let answer = http::Response::builder().header("content-type", "application/grpc");
            let mut answer = respond.send_response(answer.body(()).unwrap(), false)?;
            answer.send_data(bytes::Bytes::from_static(&[0; 5]), false)?;
            let mut trailers = http::HeaderMap::new();
            trailers.insert("grpc-status", http::HeaderValue::from_static(status));
            answer.send_trailers(trailers)
        };
        // The connection has to be driven while the call is served.
        let mut served = std::pin::pin!(served);
        std::future::poll_fn(|context| {
            if let std::task::Poll::Ready(result) = served.as_mut().poll(context) {
                return std::task::Poll::Ready(result);
            }
            let _ = connection.poll_closed(context);
            std::task::Poll::Pending
        })
        .await?;
    }
    Ok(())
}

/// Weight and samples.
type WeightAndCount = [i64; 2];

/// WeightAndCount by service, process and innermost function.
pub(super) type SumTable = BTreeMap<[String; 3], WeightAndCount>;

/// The sums of windows of a store, which start at these times.
fn stored(store: &Path, starts: &[i64]) -> SumTable {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let mut sums = SumTable::new();
    let mut files = segment_files(store, "samples");
    files.retain(|file| starts.contains(&window_time(file)[0]));
    for row in files.iter().flat_map(|file| file_rows(file)) {
        let key = ["service", "process", "function"].map(|label| text(&row[label]));
        let sum = sums.entry(key).or_default();
        sum[0] += row["weight"].as_i64().unwrap();
        sum[1] += row["samples"].as_i64().unwrap();
    }
    sums
}

/// Start and end of a file's window, which are in its name, in microseconds.
fn window_time(file: &Path) -> [i64; 2] {
    let name = file.file_name().unwrap().to_string_lossy();
    let mut parts = name.split('-').skip(1).map(|part| part.parse().unwrap());
    [parts.next().unwrap(), parts.next().unwrap()]
}

fn string(dictionary: &ProfilesDictionary, index: i32) -> String {
    dictionary.string_table[usize::try_from(index).unwrap()].clone()
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(AnyKind::StringValue(text)) => text.clone(),
        other => panic!("{other:?}"),
    }
}

fn innermost(dictionary: &ProfilesDictionary, stack: i32) -> String {
    let at = |index: i32| usize::try_from(index).unwrap();
    let leaf = dictionary.stack_table[at(stack)].location_indices[0];
    let location = &dictionary.location_table[at(leaf)];
    let name = location.lines.first().map(|line| {
        string(dictionary, dictionary.function_table[at(line.function_index)].name_strindex)
    });
    // The store has no name for frames of which nothing is known.
    name.filter(|name| !name.starts_with('[')).unwrap_or_default()
}

fn process(dictionary: &ProfilesDictionary, attributes: &[i32]) -> String {
    let rows =
        attributes.iter().map(|at| &dictionary.attribute_table[usize::try_from(*at).unwrap()]);
    let mut names = rows
        .filter(|row| string(dictionary, row.key_strindex) == "process.executable.name")
        .map(|row| text(row.value.as_ref()));
    names.next().unwrap_or_default()
}

/// The profiles of requests, with their service and dictionary.
fn profiles(
    requests: &[ExportProfilesServiceRequest],
) -> Vec<(String, &ProfilesDictionary, &Profile)> {
    let mut found = Vec::new();
    for request in requests {
        let dictionary = request.dictionary.as_ref().unwrap();
        for resource in &request.resource_profiles {
            let attributes = &resource.resource.as_ref().unwrap().attributes;
            let service = attributes.iter().find(|pair| pair.key == "service.name");
            let service = service.map(|pair| text(pair.value.as_ref())).unwrap_or_default();
            let all = resource.scope_profiles.iter().flat_map(|scope| &scope.profiles);
            found.extend(all.map(|profile| (service.clone(), dictionary, profile)));
        }
    }
    found
}

/// The sums that a collector got.
fn pushed(requests: &[ExportProfilesServiceRequest]) -> SumTable {
    let mut sums = SumTable::new();
    for (service, dictionary, profile) in profiles(requests) {
        let kind = profile.sample_type.as_ref().unwrap();
        let [name, unit] =
            [kind.type_strindex, kind.unit_strindex].map(|at| string(dictionary, at));
        let place = match (&name[..], &unit[..]) {
            ("cpu", "nanoseconds") => 0,
            ("samples", "count") => 1,
            other => panic!("{other:?}"),
        };
        for sample in &profile.samples {
            let process = process(dictionary, &sample.attribute_indices);
            let key = [service.clone(), process, innermost(dictionary, sample.stack_index)];
            sums.entry(key).or_default()[place] += sample.values.iter().sum::<i64>();
        }
    }
    sums
}

fn otlp(received: &[Received]) -> Vec<ExportProfilesServiceRequest> {
    received.iter().map(Received::otlp).collect()
}

/// The starts of windows in requests, in microseconds.
fn starts(requests: &[ExportProfilesServiceRequest]) -> Vec<i64> {
    let start = |profile: &Profile| i64::try_from(profile.time_unix_nano).unwrap() / 1000;
    let mut starts: Vec<_> =
        profiles(requests).into_iter().map(|(_, _, profile)| start(profile)).collect();
    starts.dedup();
    starts
}

fn stored_starts(store: &Path) -> Vec<i64> {
    let mut files = segment_files(store, "samples");
    files.retain(|file| !file_rows(file).is_empty());
    let mut starts: Vec<_> = files.iter().map(|file| window_time(file)[0]).collect();
    starts.sort_unstable();
    starts
}

/// Waits up to 90 s: windows take 10 s, retries seconds, and an agent of a test build long to start.
fn wait_long(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(90);
    while !holds() {
        assert!(Instant::now() < end, "{what}: waited in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn wait_for_samples(store: &Path) {
    wait_long("it notes samples", || {
        open_window(store).is_some_and(|note| note["samples"].as_u64() > Some(5))
    });
}

/// The sums that a target should have got, of the windows that it got: all in order but those that
/// still waited when the agent ended.
fn expected(store: &Path, starts: &[i64]) -> SumTable {
    let all = stored_starts(store);
    assert!(!starts.is_empty() && all.starts_with(starts), "{starts:?} of {all:?}");
    assert_eq!(target(store)["waiting_windows"], all.len() - starts.len());
    stored(store, starts)
}

/// Ends the window: the agent begins again, with the options of its file.
fn next_window(running: &ProcessGuard, store: &Path) {
    wait_for_samples(store);
    let started_us = status(store)["started_us"].clone();
    signal(running, Signal::HUP);
    wait_long("it begins again", || {
        let now = status(store)["started_us"].clone();
        now.is_i64() && now != started_us
    });
}

/// Ends the agent, which writes its open window and sends it.
fn finish(running: &ProcessGuard, store: &Path) {
    signal(running, Signal::TERM);
    wait_long("it ends", || status(store)["ended"] == Value::Bool(true));
}

/// Requests without those that were sent again.
fn distinct(requests: &[ExportProfilesServiceRequest]) -> Vec<ExportProfilesServiceRequest> {
    let mut requests = requests.to_vec();
    requests.dedup();
    requests
}

fn sum_of(figures: &Value, names: [&str; 2]) -> i64 {
    names.iter().filter_map(|name| figures[name].as_i64()).sum()
}

/// A target's figures in the status.
fn target(store: &Path) -> Value {
    status(store)["push"][0].clone()
}

/// A program whose name tries to break out of texts.
fn hostile(folder: &Path) -> ProcessGuard {
    let path = folder.join("a\"b\\\n{}=,\u{1b}é");
    std::fs::copy(workload("mix"), &path).unwrap();
    let mut command = Command::new(path);
    ProcessGuard::spawn(command.args(["60", "100", "2"]).stdout(Stdio::null()))
}

#[test]
fn a_collector_gets_the_sums_names_and_times_of_the_store() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let stub = Stub::new();
    let _programs = [busy(), hostile(folder.path())];
    let options = ["-e", "cpu-clock", "--host", "h\"\n", "--push", &stub.url("otlp+http")];
    let running = start(&mut agent(&store, &options));
    next_window(&running, &store);
    wait_for_samples(&store);
    finish(&running, &store);
    let received = stub.received();
    for request in &received {
        assert_eq!(request.line, "POST /v1development/profiles HTTP/1.1");
        assert_eq!(request.header("content-type"), "application/x-protobuf");
        assert_eq!(request.header("authorization"), "");
    }
    let requests = otlp(&received);
    let expected = expected(&store, &starts(&requests));
    assert_eq!(pushed(&requests), expected);
    let strings =
        requests.iter().flat_map(|request| &request.dictionary.as_ref().unwrap().string_table);
    assert!(strings.into_iter().any(|text| text == "work"), "names of callers");
    assert!(expected.keys().any(|[_, process, _]| process.starts_with("a\"b\\")), "{expected:?}");
    let times: BTreeMap<_, _> =
        segment_files(&store, "samples").iter().map(|file| window_time(file).into()).collect();
    for (_, dictionary, profile) in profiles(&requests) {
        let start_us = i64::try_from(profile.time_unix_nano / 1000).unwrap();
        let length_us = times[&start_us] - start_us;
        assert_eq!(i64::try_from(profile.duration_nano).unwrap(), length_us * 1000);
        assert_eq!(profile.profile_id.len(), 16);
        assert_eq!(string(dictionary, profile.period_type.as_ref().unwrap().type_strindex), "cpu");
    }
    let host = &requests[0].resource_profiles[0].resource.as_ref().unwrap().attributes[0];
    assert_eq!((&host.key[..], text(host.value.as_ref())), ("host.name", "h\"\n".to_owned()));
    let figures = target(&store);
    let sent = sum_of(&figures, ["samples", "waiting_samples"]);
    assert_eq!(sent, status(&store)["samples"]);
    assert_eq!(figures["dropped_windows"], 0);
    assert_eq!(figures["error"], Value::Null);
}

/// What the tests read of a profile of pprof.
#[derive(Clone, PartialEq, Message)]
struct Pprof {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<PprofPair>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<PprofSample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<PprofLocation>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<PprofPair>,
    #[prost(string, repeated, tag = "6")]
    strings: Vec<String>,
    #[prost(int64, tag = "9")]
    time_ns: i64,
    #[prost(int64, tag = "10")]
    duration_ns: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<PprofPair>,
}

/// Type and unit, id and name, or name and value.
#[derive(Clone, Copy, PartialEq, Message)]
struct PprofPair {
    #[prost(int64, tag = "1")]
    first: i64,
    #[prost(int64, tag = "2")]
    second: i64,
}

#[derive(Clone, PartialEq, Message)]
struct PprofSample {
    #[prost(uint64, repeated, tag = "1")]
    locations: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    values: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    labels: Vec<PprofPair>,
}

#[derive(Clone, PartialEq, Message)]
struct PprofLocation {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    lines: Vec<PprofPair>,
}

impl Pprof {
    fn new(gzip: &[u8]) -> Self {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(gzip).read_to_end(&mut bytes).unwrap();
        Self::decode(&bytes[..]).unwrap()
    }

    fn string(&self, index: i64) -> &str {
        &self.strings[usize::try_from(index).unwrap()]
    }

    fn kinds(&self) -> Vec<[&str; 2]> {
        let text = |pair: &PprofPair| [pair.first, pair.second].map(|at| self.string(at));
        self.sample_type.iter().map(text).collect()
    }

    fn start_us(&self) -> i64 {
        self.time_ns / 1000
    }

    fn innermost(&self, sample: &PprofSample) -> &str {
        let location = self.location.iter().find(|location| location.id == sample.locations[0]);
        let Some(line) = location.unwrap().lines.first() else { return "" };
        let function = self.function.iter().find(|function| function.first == line.first);
        let name = self.string(function.unwrap().second);
        if name.starts_with('[') { "" } else { name }
    }

    /// Adds the sums of a service.
    fn add(&self, service: &str, sums: &mut SumTable) {
        assert_eq!(self.kinds(), [["samples", "count"], ["cpu", "nanoseconds"]]);
        assert_eq!(self.string(self.period_type.unwrap().first), "cpu");
        for sample in &self.sample {
            let mut labels = sample.labels.iter();
            let process = labels.find(|label| self.string(label.first) == "process");
            let process = process.map_or("", |label| self.string(label.second));
            let key = [service, process, self.innermost(sample)].map(str::to_owned);
            let sum = sums.entry(key).or_default();
            sum[0] += sample.values[1];
            sum[1] += sample.values[0];
        }
    }
}

/// Records two windows for a target, and returns its requests.
fn pushed_to(scheme: &str, folder: &Path) -> Vec<Received> {
    let store = folder.join("store");
    let stub = Stub::new();
    let _programs = [busy(), hostile(folder)];
    let options = ["-e", "cpu-clock", "--host", "h\"\n", "--push", &stub.url(scheme)];
    let running = start(&mut agent(&store, &options));
    next_window(&running, &store);
    wait_for_samples(&store);
    finish(&running, &store);
    stub.received()
}

#[test]
fn parca_gets_a_series_for_each_service() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut sums = SumTable::new();
    let mut starts = Vec::new();
    for request in pushed_to("parca+http", folder.path()) {
        assert_eq!(request.line, "POST /api/profiles/writeraw HTTP/1.1");
        assert_eq!(request.header("content-type"), "application/json");
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        for series in body["series"].as_array().unwrap() {
            let labels = series["labels"]["labels"].as_array().unwrap().iter();
            let labels: BTreeMap<_, _> = labels
                .map(|label| (label["name"].as_str().unwrap(), label["value"].as_str().unwrap()))
                .collect();
            assert_eq!((labels["__name__"], labels["host"]), ("tare", "h\"\n"));
            for sample in series["samples"].as_array().unwrap() {
                let gzip = STANDARD.decode(sample["rawProfile"].as_str().unwrap()).unwrap();
                let profile = Pprof::new(&gzip);
                profile.add(labels.get("service").copied().unwrap_or_default(), &mut sums);
                assert!(profile.duration_ns > 0);
                starts.push(profile.start_us());
            }
        }
    }
    starts.dedup();
    assert_eq!(sums, expected(&folder.path().join("store"), &starts));
}

#[test]
fn a_collector_gets_the_same_by_grpc() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let stub = grpc_stub(&["14", "3"]);
    let _program = busy();
    let config = folder.path().join("agent.toml");
    let url = stub.url("otlp+grpc");
    let text = format!("[[push]]\nurl = \"{url}\"\nheaders = {{ X-Scope-OrgID = \"team\" }}\n");
    std::fs::write(&config, text).unwrap();
    let options = ["-e", "cpu-clock", "--config", config.to_str().unwrap()];
    let running = start(&mut agent(&store, &options));
    wait_long("a window is refused", || target(&store)["dropped_windows"] == 1);
    wait_long("a window is accepted", || target(&store)["windows"].as_u64() > Some(0));
    finish(&running, &store);
    let received = stub.received();
    let requests: Vec<_> = received
        .iter()
        .map(|request| {
            let method =
                "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";
            assert_eq!(request.line, format!("POST {method}"));
            assert_eq!(request.header("content-type"), "application/grpc");
            assert_eq!(request.header("te"), "trailers");
            assert_eq!(request.header("x-scope-orgid"), "team");
            let [kind, length @ ..] = *request.body.first_chunk::<5>().unwrap();
            assert_eq!((kind, request.header("grpc-encoding")), (1, "gzip"));
            let message = &request.body[5..];
            assert_eq!(message.len(), u32::from_be_bytes(length) as usize);
            let mut bytes = Vec::new();
            flate2::read::GzDecoder::new(message).read_to_end(&mut bytes).unwrap();
            ExportProfilesServiceRequest::decode(&bytes[..]).unwrap()
        })
        .collect();
    assert_eq!(requests[0], requests[1], "after UNAVAILABLE");
    let starts = starts(&requests);
    assert_eq!(pushed(&distinct(&requests)), expected(&store, &starts));
    let refused: i64 = stored(&store, &starts[..1]).values().map(|sums| sums[1]).sum();
    assert_eq!(target(&store)["dropped_samples"], refused, "INVALID_ARGUMENT");
}

/// The fields of a form.
fn form(request: &Received) -> BTreeMap<String, Vec<u8>> {
    let boundary = request.header("content-type").split_once("boundary=").unwrap().1.to_owned();
    let boundary = format!("--{boundary}\r\n").into_bytes();
    let find = |text: &[u8], part: &[u8]| text.windows(part.len()).position(|at| at == part);
    let mut fields = BTreeMap::new();
    let mut rest = &request.body[..];
    while let Some(at) = find(rest, &boundary) {
        rest = &rest[at + boundary.len()..];
        let head = find(rest, b"\r\n\r\n").unwrap();
        let name = String::from_utf8_lossy(&rest[..head]).into_owned();
        let name = name.split("name=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        let content = &rest[head + 4..];
        let end = find(content, &boundary[..boundary.len() - 2]).unwrap();
        fields.insert(name, content[..end - 2].to_vec());
    }
    fields
}

#[test]
fn pyroscope_gets_a_form_for_each_service() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut sums = SumTable::new();
    let mut starts = Vec::new();
    for request in pushed_to("pyroscope+http", folder.path()) {
        let fields = form(&request);
        let profile = Pprof::new(&fields["profile"]);
        let types: Value = serde_json::from_slice(&fields["sample_type_config"]).unwrap();
        for [name, unit] in profile.kinds() {
            assert_eq!(types[name]["units"], unit);
        }
        let query = request.line.strip_prefix("POST /ingest?name=").unwrap();
        let (name, query) = query.strip_suffix(" HTTP/1.1").unwrap().split_once('&').unwrap();
        let service = name.split("%7B").next().unwrap();
        assert!(name.ends_with("%7D") && name.contains("host%3Dh__"), "{name}");
        let seconds = profile.start_us() / 1_000_000;
        assert!(query.starts_with(&format!("from={seconds}&until=")), "{query}");
        assert!(query.contains("&format=pprof"), "{query}");
        profile.add(service, &mut sums);
        starts.push(profile.start_us());
    }
    starts.dedup();
    let expected = expected(&store, &starts);
    let total = |sums: &SumTable| sums.values().fold([0; 2], |[a, b], [c, d]| [a + c, b + d]);
    assert_eq!(total(&sums), total(&expected));
    let of_mix = |sums: &SumTable| {
        let mut sums = sums.clone();
        sums.retain(|[service, ..], _| service == "mix");
        sums
    };
    assert!(!of_mix(&expected).is_empty());
    assert_eq!(of_mix(&sums), of_mix(&expected));
}

#[test]
fn windows_wait_for_a_target_that_is_down_also_for_that_of_the_next_agent() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    // A port at which nothing listens.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    drop(held);
    let url = format!("otlp+http://127.0.0.1:{port}");
    let options = ["-e", "cpu-clock", "--push", &url];
    let running = start(&mut agent(&store, &options));
    next_window(&running, &store);
    next_window(&running, &store);
    wait_long("requests fail", || target(&store)["error"].is_string());
    finish(&running, &store);
    let waiting = target(&store);
    assert_eq!(waiting["waiting_windows"], stored_starts(&store).len());
    assert_eq!(waiting["waiting_samples"], sum(&rows(&store, "segments"), "samples"));
    assert_eq!([&waiting["windows"], &waiting["dropped_windows"]], [&0, &0]);
    let stub = Stub::with_tls(TcpListener::bind(("127.0.0.1", port)).unwrap(), None);
    let running = start(&mut agent(&store, &options));
    wait_for_samples(&store);
    wait_long("the windows arrive", || target(&store)["waiting_windows"] == 0);
    finish(&running, &store);
    let requests = otlp(&stub.received());
    assert_eq!(pushed(&requests), expected(&store, &starts(&requests)), "once each, in order");
}

#[test]
fn a_refused_window_is_counted_and_a_failed_one_is_sent_again() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let stub = Stub::new();
    stub.reply([StubReply::Status(400, ""), StubReply::Status(500, "")]);
    stub.reply([StubReply::Status(429, "Retry-After: 1\r\n")]);
    let config = folder.path().join("agent.toml");
    let url = stub.url("otlp+http");
    std::fs::write(&config, format!("window = \"10s\"\n[[push]]\nurl = \"{url}\"\n")).unwrap();
    let options = ["--config", config.to_str().unwrap(), "-e", "cpu-clock"];
    let running = start(&mut agent(&store, &options));
    // Two windows end by themselves: an agent that begins again would forget its figures.
    wait_long("a window is refused", || target(&store)["dropped_windows"] == 1);
    wait_long("a window is accepted", || target(&store)["windows"].as_u64() > Some(0));
    finish(&running, &store);
    let requests = otlp(&stub.received());
    let starts = starts(&requests);
    assert_eq!(pushed(&distinct(&requests)), expected(&store, &starts));
    let same = requests[1..].iter().filter(|request| **request == requests[1]).count();
    assert_eq!(same, 3, "sent again after 500 and 429");
    let refused: i64 = stored(&store, &starts[..1]).values().map(|sums| sums[1]).sum();
    let figures = target(&store);
    assert_eq!(figures["dropped_samples"], refused);
    let all = sum(&rows(&store, "segments"), "samples");
    assert_eq!(sum_of(&figures, ["samples", "waiting_samples"]), all - refused);
    assert_eq!(figures["windows"], starts.len() - 1);
    let shown = tare().args(["agent", "--status", "--store"]).arg(&store).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(&format!("dropped 1 windows, {refused} samples")), "{shown}");
}

#[test]
fn a_silent_target_delays_neither_the_store_nor_the_end() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let stub = Stub::new();
    stub.reply([StubReply::Silence; 100]);
    let config = folder.path().join("agent.toml");
    let url = stub.url("otlp+http");
    std::fs::write(&config, format!("[[push]]\nurl = \"{url}\"\ntimeout = \"60s\"\n")).unwrap();
    let running = start(&mut agent(&store, &["--config", config.to_str().unwrap()]));
    next_window(&running, &store);
    wait_long("the request is under way", || !stub.received().is_empty());
    next_window(&running, &store);
    wait_for_samples(&store);
    // The server would keep it for a minute; `end` gives up earlier.
    finish(&running, &store);
    let windows = rows(&store, "segments").len();
    assert!(windows >= 3, "{windows}");
    assert_eq!(target(&store)["waiting_samples"], sum(&rows(&store, "segments"), "samples"));
}

/// A server's certificate, and the authority that signed it, as PEM.
fn certificates() -> (Arc<rustls::ServerConfig>, String) {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::from_params(&parameters, &authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = parameters.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (Arc::new(config), authority.pem())
}

#[test]
fn tls_token_and_headers_come_from_the_file() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let (tls, authority) = certificates();
    let (_, other) = certificates();
    let stub = Stub::with_tls(TcpListener::bind("127.0.0.1:0").unwrap(), Some(tls));
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("ca.pem"), other).unwrap();
    std::fs::write(at("token"), "s3cret\n").unwrap();
    let text = format!(
        "[[push]]\nurl = \"{}/base\"\nca-file = \"{}\"\ntoken-file = \"{}\"\nheaders = {{ X-Scope-OrgID = \"team\" }}\n",
        stub.url("otlp+https"),
        at("ca.pem").display(),
        at("token").display()
    );
    std::fs::write(at("agent.toml"), text).unwrap();
    let options =
        ["--config", at("agent.toml").to_str().unwrap(), "-e", "cpu-clock"].map(str::to_owned);
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let running = start(&mut agent(&store, &options));
    next_window(&running, &store);
    wait_long("the certificate is refused", || {
        target(&store)["error"]
            .as_str()
            .is_some_and(|error| error.contains("invalid peer certificate"))
    });
    assert!(stub.received().is_empty());
    // The file is read again after a failure.
    std::fs::write(at("ca.pem"), authority).unwrap();
    wait_long("it is sent", || target(&store)["waiting_windows"] == 0);
    finish(&running, &store);
    let received = stub.received();
    let requests = otlp(&received);
    assert_eq!(pushed(&requests), expected(&store, &starts(&requests)));
    for request in &received {
        assert_eq!(request.line, "POST /base/v1development/profiles HTTP/1.1");
        assert_eq!(request.header("authorization"), "Bearer s3cret");
        assert_eq!(request.header("x-scope-orgid"), "team");
    }
    let shown =
        tare().args(["agent", "--status", "--json", "--store"]).arg(&store).output().unwrap();
    assert!(!String::from_utf8(shown.stdout).unwrap().contains("s3cret"));
}

/// Requests a path, and returns the answer.
fn get(port: u16, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn metric(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn metrics_are_the_figures_of_the_status() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stub = Stub::new();
    let address = format!("127.0.0.1:{port}");
    let options = ["--host", "a\"b", "--push", &stub.url("otlp+http"), "--metrics", &address];
    let running = start(&mut agent(&store, &options));
    wait_long("a window is written", || target(&store)["windows"].as_u64() > Some(0));
    // A client that sends nothing delays the next one for seconds, and the agent not at all.
    let _silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    wait_long("the figures are those of the status", || {
        let Some(text) = get(port, "GET /metrics") else { return false };
        let status = status(&store);
        let of_target = format!("tare_push_samples_total{{target=\"{}\"}}", stub.url("otlp+http"));
        text.contains("Content-Type: application/openmetrics-text; version=1.0.0")
            && text.contains("host=\"a\\\"b\"} 1\n")
            && text.ends_with("\n# EOF\n")
            && metric(&text, "tare_samples_total") == status["samples"].as_u64()
            && metric(&text, &of_target) == status["push"][0]["samples"].as_u64()
    });
    assert!(get(port, "GET /").unwrap().starts_with("HTTP/1.1 404"));
    assert!(get(port, "POST /metrics").unwrap().starts_with("HTTP/1.1 405"));
    // The address is free for the agent that begins again.
    next_window(&running, &store);
    wait_long("it serves again", || get(port, "GET /metrics").is_some());
    finish(&running, &store);
    let check = |options: &[&str]| {
        let output = tare().args(["agent", "--check"]).args(options).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let (code, said) = check(&["--metrics", "0.0.0.0:9464"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("give a loopback address such as 127.0.0.1:9464"), "{said}");
    assert_eq!(check(&["--metrics", "0.0.0.0:9464", "--metrics-public"]).0, Some(0));
    assert_eq!(check(&["--metrics", "[::1]:9464"]).0, Some(0));
}

#[test]
fn check_names_what_is_wrong_with_a_target() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("agent.toml");
    let check = |text: &str, more: &[&str]| {
        std::fs::write(&config, text).unwrap();
        tare().args(["agent", "--check", "--config"]).arg(&config).args(more).output().unwrap()
    };
    let valid =
        check("[[push]]\nurl = \"otlp+https://collector:4318\"\n", &["--push", "otlp+http://b"]);
    let text = String::from_utf8(valid.stdout).unwrap();
    assert!(
        text.contains("push          otlp+https://collector:4318\npush          otlp+http://b\n"),
        "{text}"
    );
    for (text, why) in [
        (
            "[[push]]\nurl = \"http://a\"",
            "line 2: push: \"http://a\": give a URL such as otlp+https",
        ),
        ("[[push]]\nurl = \"otlp+http://u:p@a\"", "without user, password and query"),
        ("[[push]]\nurl = \"otlp+http://a\"\nspool = \"1K\"", "spool: give at least 1M"),
        ("[[push]]\nurl = \"otlp+http://a\"\ntimeout = \"1h\"", "give 1s to 60s"),
        ("[[push]]\nurl = \"otlp+http://a\"\ntoken = \"x\"", "unknown field `token`"),
        ("[[push]]\nurl = \"otlp+http://a\"\nheaders = { \"a b\" = \"c\" }", "headers: \"a b\""),
        ("[[push]]\nurl = \"otlp+http://a\"\n[[push]]\nurl = \"otlp+http://a/\"", "is there twice"),
    ] {
        let refused = check(text, &[]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(stderr(&refused).contains(why), "{text}: {refused:?}");
    }
    let option = check("", &["--push", "collector:4318"]);
    assert!(stderr(&option).contains("--push: \"collector:4318\""), "{option:?}");
}

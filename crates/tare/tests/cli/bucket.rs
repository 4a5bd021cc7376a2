//! Stores in buckets: agents write, readers read, servers fail.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tare_store::{Bucket, BucketOptions, Query, Spool, Store, StoreOptions, StoreReader};

use crate::agent::{busy, may_record, open_window, rows, segment_files, signal, start, sum};
use crate::fleet::written;
use crate::s3_stub::{Behaviour, S3Stub};
use crate::support::{ProcessGuard, stderr, tare};

/// Waits up to 90 s: windows take 10 s, retries seconds, and an agent of a test build long to start.
fn wait_long(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(90);
    while !holds() {
        assert!(Instant::now() < end, "{what}: waited in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An agent that samples often into a bucket, through a spool in a folder.
fn agent(stub: &S3Stub, folder: &Path, args: &[&str]) -> Command {
    let mut command = tare();
    stub.lead(&mut command, folder);
    command.args(["agent", "--store", S3Stub::url(), "--spool"]).arg(folder.join("spool"));
    // Other tests run agents too.
    command.env("RUNTIME_DIRECTORY", folder.join("run"));
    command.args(["--window", "10s", "-F", "99", "--max-overhead", "50%"]).args(args);
    command
}

fn status(stub: &S3Stub, folder: &Path) -> Value {
    let output = agent(stub, folder, &["--status", "--json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Ends an agent, which writes its open window and sends it.
fn end(running: &mut ProcessGuard) {
    signal(running, Signal::TERM);
    running.wait_for_exit();
}

/// Runs a command on the bucket.
fn of_bucket(stub: &S3Stub, folder: &Path, args: &[&str]) -> Output {
    let mut command = tare();
    stub.lead(&mut command, folder).args(args).args(["--store", S3Stub::url()]).output().unwrap()
}

/// Runs a command on the bucket, which must succeed, and returns its output.
fn text(stub: &S3Stub, folder: &Path, args: &[&str]) -> String {
    let output = of_bucket(stub, folder, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a bucket's objects as a store in a folder.
fn copy(stub: &S3Stub, folder: &Path) -> std::path::PathBuf {
    let copy = folder.join("copy");
    let variable = variables(stub);
    let options = BucketOptions::from_variables(S3Stub::url(), &variable).unwrap();
    let bucket = Bucket::open(&options).unwrap();
    bucket.download(&copy, &Query::default(), u64::MAX).unwrap();
    copy
}

fn variables(stub: &S3Stub) -> impl Fn(&str) -> Option<String> {
    let endpoint = stub.endpoint();
    move |name| match name {
        "AWS_ENDPOINT_URL" => Some(endpoint.clone()),
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("x".to_owned()),
        _ => None,
    }
}

/// Sends a store to the bucket.
fn upload(stub: &S3Stub, spool: &Path) {
    let options = BucketOptions::from_variables(S3Stub::url(), &variables(stub)).unwrap();
    let bucket = Bucket::open(&options).unwrap();
    bucket.upload(&Spool::open(spool, u64::MAX).unwrap(), |_| {}).unwrap();
}

/// Waits until an agent has noted samples. The note of a killed agent stays until the next starts.
fn wait_for_samples(running: &ProcessGuard, stub: &S3Stub, folder: &Path) {
    wait_long("it notes samples", || {
        let note = open_window(&folder.join("spool"));
        status(stub, folder)["pid"] == running.id()
            && note.is_some_and(|note| note["samples"].as_u64() > Some(20))
    });
}

#[test]
fn an_agents_windows_are_in_the_bucket_and_are_read_from_it() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [folder, spool] = [folder.path().to_owned(), folder.path().join("spool")];
    let stub = S3Stub::new();
    let _program = busy();
    let mut running = start(&mut agent(&stub, &folder, &[]));
    wait_for_samples(&running, &stub, &folder);
    end(&mut running);
    let status = status(&stub, &folder);
    assert_eq!(status["error"], Value::Null, "{status}");
    let bucket = &status["bucket"];
    assert_eq!([&bucket["error"], &bucket["url"]], [&Value::Null, &S3Stub::url().into()]);
    assert_eq!([&bucket["windows"], &bucket["samples"]], [&status["windows"], &status["samples"]]);
    assert_eq!(bucket["waiting_windows"], 0, "{status}");
    assert_eq!(segment_files(&spool, "segments").len(), 0);

    let store = copy(&stub, &folder);
    let mut services: BTreeMap<String, i64> = BTreeMap::new();
    for row in rows(&store, "samples") {
        let service = row["service"].as_str().unwrap_or_default().to_owned();
        *services.entry(service).or_default() += row["samples"].as_i64().unwrap();
    }
    assert_eq!(services.values().sum::<i64>(), bucket["samples"].as_i64().unwrap());
    let top = text(&stub, &folder, &["fleet", "top", "--json", "--entries", "1000"]);
    let top: Value = serde_json::from_str(&top).unwrap();
    let read = top["rows"].as_array().expect("rows").clone();
    let read: i64 = read.iter().filter_map(|row| row["samples"].as_i64()).sum();
    assert_eq!(read, bucket["samples"].as_i64().unwrap(), "{top}");
    text(&stub, &folder, &["store", "verify"]);
    let report = text(&stub, &folder, &["report", "--stdio", "--where", "service=mix"]);
    assert!(report.contains("work"), "{report}");
    assert!(text(&stub, &folder, &["export", "--format", "folded"]).contains("work"));
}

#[test]
fn a_server_that_fails_gets_every_window_once_and_the_gap_of_a_killed_agent() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [folder, spool] = [folder.path().to_owned(), folder.path().join("spool")];
    let stub = S3Stub::new();
    stub.set(Behaviour::Down);
    let _program = busy();
    let mut first = start(&mut agent(&stub, &folder, &[]));
    wait_for_samples(&first, &stub, &folder);
    end(&mut first);
    let waiting = status(&stub, &folder);
    assert_eq!(waiting["bucket"]["waiting_windows"], waiting["windows"], "{waiting}");
    assert!(waiting["bucket"]["error"].as_str().unwrap().starts_with("s3://tare/"), "{waiting}");
    let unsent = i64::try_from(segment_files(&spool, "segments").len()).unwrap();
    assert!(waiting["windows"] == unsent && stub.keys().is_empty(), "{unsent} {waiting}");
    assert!(!waiting.to_string().contains("a-secret"));
    let samples = waiting["samples"].as_i64().unwrap();

    // Every kind of failure, then answers so late that the agent is killed before it knows.
    stub.set(Behaviour::IsSlow(Duration::from_secs(3)));
    stub.fail_next([
        Behaviour::Refuses(503, "SlowDown"),
        Behaviour::Cuts,
        Behaviour::Refuses(403, "AccessDenied"),
        Behaviour::Down,
    ]);
    let mut second = start(&mut agent(&stub, &folder, &[]));
    wait_for_samples(&second, &stub, &folder);
    let noted = |spool: &Path| open_window(spool).and_then(|note| note["samples"].as_i64());
    wait_long("an object arrives", || !stub.keys().is_empty());
    let lost = noted(&spool).unwrap();
    signal(&second, Signal::KILL);
    second.wait_for_exit();
    let lost = lost..=noted(&spool).unwrap_or(i64::MAX);

    stub.set(Behaviour::Answers);
    let mut third = start(&mut agent(&stub, &folder, &[]));
    wait_for_samples(&third, &stub, &folder);
    end(&mut third);
    let status = status(&stub, &folder);
    assert_eq!(
        [&status["bucket"]["waiting_windows"], &status["bucket"]["error"]],
        [&Value::from(0), &Value::Null]
    );
    text(&stub, &folder, &["store", "verify"]);
    check_segments(&copy(&stub, &folder), [unsent, samples], &lost);
}

/// Checks that each window is in the store once, that the first ones have a number of samples, and
/// that there is a gap with those that were lost.
fn check_segments(store: &Path, [first, samples]: [i64; 2], lost: &std::ops::RangeInclusive<i64>) {
    let mut segments = rows(store, "segments");
    segments.sort_by_key(|row| row["start"].to_string());
    let [windows, gaps]: [Vec<_>; 2] = ["window", "gap"]
        .map(|kind| segments.iter().filter(|row| row["kind"] == kind).cloned().collect());
    assert_eq!(gaps.len(), 1, "{segments:?}");
    assert!(lost.contains(&sum(&gaps, "samples")), "{lost:?} {gaps:?}");
    let starts: Vec<&str> = windows.iter().filter_map(|row| row["start"].as_str()).collect();
    assert_eq!(starts.len(), windows.len());
    let mut distinct = starts.clone();
    distinct.dedup();
    assert_eq!(starts, distinct, "each window is there once");
    assert_eq!(sum(&windows[..usize::try_from(first).unwrap()], "samples"), samples);
    assert_eq!(sum(&rows(store, "samples"), "samples"), sum(&windows, "samples"));
}

#[test]
fn readers_get_only_the_files_of_the_times_and_keep_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let stub = S3Stub::new();
    written(&folder.join("spool"));
    upload(&stub, &folder.join("spool"));
    assert_eq!(stub.keys().len(), 33);
    stub.take_requests();
    let times = ["--since", "2026-11-26T10:03", "--until", "2026-11-26T10:05"];
    let objects = |requests: Vec<String>| -> usize {
        requests.iter().filter(|request| request.ends_with(".parquet")).count()
    };
    let top = text(&stub, folder, &[&["fleet", "top", "--csv"][..], &times].concat());
    assert!(top.contains("api"), "{top}");
    let requests = stub.take_requests();
    assert!(objects(requests.clone()) <= 9, "{requests:?}");
    let again = text(&stub, folder, &[&["fleet", "top", "--csv"][..], &times].concat());
    assert_eq!(again, top);
    assert_eq!(objects(stub.take_requests()), 0, "the copies are used");
    let status = text(&stub, folder, &["store", "status", "--json"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["hosts"].as_array().unwrap().len(), 2, "{status}");
    let diff = ["diff", "--where", "host=web-1", "--versus-where", "host=web-2"];
    assert!(text(&stub, folder, &diff).contains("json::parse"));
    let page = folder.join("page.html");
    text(&stub, folder, &["flame", "-o", page.to_str().unwrap()]);
    assert!(std::fs::read_to_string(page).unwrap().contains("json::parse"));

    let compacted = text(&stub, folder, &["store", "compact", "--json"]);
    assert!(compacted.contains("\"outputs\":"), "{compacted}");
    let keys = stub.keys();
    assert_eq!(keys.len(), 3, "{keys:?}");
    let after = text(&stub, folder, &[&["fleet", "top", "--csv"][..], &times].concat());
    assert_eq!(after, top);
    text(&stub, folder, &["store", "verify"]);
    let part = folder.join("part");
    let export = ["export", "--format", "parquet", "-o", part.to_str().unwrap()];
    text(&stub, folder, &export);
    let overview = StoreReader::open(&part, 1).unwrap().overview(&Query::default()).unwrap();
    assert_eq!(overview.hosts["web-1"].windows, 10);
}

#[test]
fn a_reader_says_in_a_line_why_a_bucket_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let stub = S3Stub::new();
    let store = Store::open(&folder.join("spool"), StoreOptions::default()).unwrap();
    drop(store);
    for (behaviour, expected) in [
        (Behaviour::Refuses(403, "AccessDenied"), "the server refuses the key (403 AccessDenied)"),
        (Behaviour::Refuses(404, "NoSuchBucket"), "there is no such bucket (404)"),
        (Behaviour::Refuses(400, "InvalidRequest"), "the server answers InvalidRequest"),
        (Behaviour::Down, "the connection failed"),
    ] {
        stub.set(behaviour);
        let output = of_bucket(&stub, folder, &["store", "status"]);
        let error = stderr(&output);
        assert!(!output.status.success() && error.lines().count() == 1, "{error}");
        assert!(
            error.contains("s3://tare/team/profiles/segments") && error.contains(expected),
            "{error}"
        );
        assert!(!error.contains("a-secret") && !error.contains("a-key"), "{error}");
    }
    let mut command = tare();
    stub.lead(&mut command, folder).env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    let output = command.args(["report", "--store", S3Stub::url()]).output().unwrap();
    assert!(stderr(&output).contains("cannot connect: "), "{}", stderr(&output));
    let mut command = tare();
    stub.lead(&mut command, folder).env("AWS_ENDPOINT_URL", "http://storage.example");
    let output = command.args(["report", "--store", S3Stub::url()]).output().unwrap();
    assert!(stderr(&output).contains("AWS_ALLOW_HTTP=true"), "{}", stderr(&output));
}

#[test]
fn check_names_what_a_bucket_does_not_take() {
    let folder = tempfile::tempdir().unwrap();
    let stub = S3Stub::new();
    let check = |args: &[&str]| {
        let output = agent(&stub, folder.path(), &[&["--check"], args].concat()).output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr(&output),
        )
    };
    let (is_valid, shown, _) = check(&[]);
    assert!(is_valid && shown.contains("s3://tare/team/profiles"), "{shown}");
    assert!(shown.contains("spool"), "{shown}");
    let (is_valid, _, error) = check(&["--max-age", "1d"]);
    assert!(!is_valid && error.contains("spool.size"), "{error}");
    let (is_valid, _, error) = check(&["--spool-size", "much"]);
    assert!(!is_valid && error.contains("--spool-size much"), "{error}");
}

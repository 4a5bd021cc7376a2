use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::*;

/// How long a client waits for servers that are slow on purpose.
const SHORT: Duration = Duration::from_millis(300);

/// Starts a server that answers each request with these pieces, `pause` apart, unless the client
/// hangs up. Returns its URL, and the first lines of all requests.
fn server(answer: Vec<Vec<u8>>, pause: Duration) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let answer = answer.clone();
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                let mut connection = connection.unwrap();
                let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
                seen.lock().unwrap().push(lines.next().unwrap().unwrap());
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                for bytes in answer {
                    if connection.write_all(&bytes).is_err() {
                        return;
                    }
                    std::thread::sleep(pause);
                }
            });
        }
    });
    (url, asked)
}

fn answer(status: &str, body: &[u8]) -> Vec<Vec<u8>> {
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    vec![head.into_bytes(), body.to_vec()]
}

/// This test's own program, and its build id.
fn program() -> (Vec<u8>, BuildId) {
    let bytes = std::fs::read("/proc/self/exe").unwrap();
    let id = elf::build_id(&bytes[..]).unwrap().expect("linked with a build id");
    (bytes, id)
}

struct Client {
    debuginfod: Debuginfod,
    failures: Arc<Mutex<Vec<String>>>,
    cache: PathBuf,
    _folder: tempfile::TempDir,
}

/// Creates a client with a timeout that even a loaded machine meets.
fn client(urls: &[&str], max_bytes: u64) -> Client {
    client_with(urls, max_bytes, Duration::from_secs(20))
}

fn client_with(urls: &[&str], max_bytes: u64, timeout: Duration) -> Client {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let servers = Servers {
        urls: urls.iter().map(|url| (*url).to_owned()).collect(),
        timeout: Some(timeout),
        max_time: Some(Duration::from_secs(20)),
        max_bytes,
        proxy: None,
    };
    let failures = Arc::new(Mutex::new(Vec::new()));
    let said = Arc::clone(&failures);
    let watch = Box::new(move |progress: DownloadProgress<'_>| {
        if let DownloadProgress::Failed { why, .. } = progress {
            said.lock().unwrap().push(why.to_owned());
        }
    });
    let uid = folder.path().metadata().unwrap().uid();
    let debuginfod = Debuginfod::new(servers, cache.clone(), uid, watch);
    Client { debuginfod, failures, cache, _folder: folder }
}

fn said(client: &Client) -> Vec<String> {
    std::mem::take(&mut client.failures.lock().unwrap())
}

#[test]
fn keeps_downloads_where_other_clients_find_them() {
    let (bytes, id) = program();
    let (none, _) = server(answer("404 Not Found", b""), Duration::ZERO);
    let (has, asked) = server(answer("200 OK", &bytes), Duration::ZERO);
    let client = client(&[&none, &format!("{has}/base/")], 1 << 30);
    let path = client.debuginfod.fetch(id, Artifact::Debuginfo).unwrap();
    assert_eq!(path, client.cache.join(format!("{id}/debuginfo")));
    assert_eq!(*asked.lock().unwrap(), [format!("GET /base/buildid/{id}/debuginfo HTTP/1.1")]);
    assert!(std::fs::read(&path).unwrap() == bytes);
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    assert_eq!(
        (mode(&path), mode(&client.cache), mode(path.parent().unwrap())),
        (0o400, 0o700, 0o700)
    );
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing beside it");
    assert_eq!(client.debuginfod.fetch(id, Artifact::Debuginfo), Some(path), "asked once");
    assert_eq!((asked.lock().unwrap().len(), said(&client).len()), (1, 0));
}

#[test]
fn does_not_repeat_a_recent_negative_answer() {
    let (_, id) = program();
    let (none, asked) = server(answer("404 Not Found", b""), Duration::ZERO);
    let first = client(&[&none], 1 << 30);
    assert_eq!(first.debuginfod.fetch(id, Artifact::Executable), None);
    let miss = first.cache.join(format!("{id}/executable"));
    assert_eq!(miss.metadata().unwrap().len(), 0);
    let again = Debuginfod::new(
        first.debuginfod.servers.clone(),
        first.cache.clone(),
        first.debuginfod.uid,
        Box::new(|_| {}),
    );
    assert_eq!(again.fetch(id, Artifact::Executable), None);
    assert_eq!(asked.lock().unwrap().len(), 1);
    // The request is repeated once the answer is stale.
    std::fs::write(first.cache.join("cache_miss_s"), "0\n").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    again.state().asked.clear();
    assert_eq!(again.fetch(id, Artifact::Executable), None);
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[test]
fn wrong_answers_are_not_kept() {
    let (bytes, id) = program();
    let other = BuildId::new(b"another build id").unwrap();
    let endless = || {
        let mut answer = vec![b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec()];
        answer.extend(std::iter::repeat_n(vec![0; 1 << 16], 1 << 10));
        answer
    };
    let slow: Vec<_> = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"
        .chunks(64)
        .map(<[u8]>::to_vec)
        .chain(std::iter::repeat_n(vec![0; 10], 100))
        .collect();
    for (what, answer, pause, id, expected) in [
        ("another build", answer("200 OK", &bytes), 0, other, "another build id"),
        ("no ELF file", answer("200 OK", b"<html>"), 0, id, "another build id"),
        ("an error", answer("500 Oh", b"x"), 0, id, "status 500"),
        ("no HTTP", vec![b"\x16\x03\x01\x02garbage\n\n".to_vec()], 0, id, ""),
        ("too large", answer("200 OK", &vec![0; 2 << 20]), 0, id, "more than 1048576 bytes"),
        ("without end", endless(), 0, id, "more than 1048576 bytes"),
        ("silent", vec![b"HTTP/1.1".to_vec(), vec![]], 5000, id, "DEBUGINFOD_TIMEOUT"),
        ("drop by drop", slow, 100, id, "DEBUGINFOD_TIMEOUT"),
        ("cut", vec![answer("200 OK", &bytes)[0].clone(), bytes[..1000].to_vec()], 0, id, ""),
    ] {
        let most = if id == other || what == "cut" { 1 << 30 } else { 1 << 20 };
        let (url, _) = server(answer, Duration::from_millis(pause));
        let is_slow = expected == "DEBUGINFOD_TIMEOUT";
        let timeout = if is_slow { SHORT } else { Duration::from_secs(20) };
        let client = client_with(&[&url], most, timeout);
        let start = Instant::now();
        assert_eq!(client.debuginfod.fetch(id, Artifact::Debuginfo), None, "{what}");
        let said = said(&client);
        assert!(said.len() == 1 && said[0].contains(expected), "{what}: {said:?}");
        assert!(start.elapsed() < Duration::from_secs(25), "{what}: it never ends");
        let kept = std::fs::read_dir(client.cache.join(id.to_string())).unwrap().count();
        assert_eq!(kept, 0, "{what}");
    }
}

#[test]
fn a_server_that_failed_is_asked_once() {
    let (_, id) = program();
    let (url, asked) = server(vec![b"HTTP/1.1".to_vec(), vec![]], Duration::from_secs(5));
    let client = client_with(&[&url], 1 << 20, SHORT);
    for artifact in [Artifact::Executable, Artifact::Debuginfo] {
        assert_eq!(client.debuginfod.fetch(id, artifact), None);
    }
    assert_eq!((asked.lock().unwrap().len(), said(&client).len()), (1, 1));
}

#[test]
fn a_cache_that_others_can_write_to_is_not_used() {
    let (bytes, id) = program();
    let (url, asked) = server(answer("200 OK", &bytes), Duration::ZERO);
    let client = client(&[&url], 1 << 30);
    std::fs::create_dir(&client.cache).unwrap();
    std::fs::set_permissions(&client.cache, Permissions::from_mode(0o777)).unwrap();
    assert_eq!(client.debuginfod.fetch(id, Artifact::Debuginfo), None);
    assert_eq!(asked.lock().unwrap().len(), 0);
}

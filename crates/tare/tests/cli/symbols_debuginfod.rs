//! Debug files from Debian's debuginfod on loopback, and the cache of its answers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{ProcessGuard, stderr, tare, wait_until};
use crate::symbols::{SPIN, build_id, compile, record, run};

/// A server of the ELF files in a folder. If debuginfod isn't installed, prints the reason and
/// returns `None`.
fn server(folder: &Path, wanted: &str) -> Option<(ProcessGuard, String)> {
    if Command::new("debuginfod").arg("--version").output().is_err() {
        println!("skipped: debuginfod is not installed");
        return None;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut debuginfod = Command::new("debuginfod");
    debuginfod.args(["-d", ":memory:", "-p", &port.to_string(), "-F"]).arg(folder);
    debuginfod.env("HOME", folder).env_remove("DEBUGINFOD_URLS");
    let process = ProcessGuard::spawn(debuginfod.stdout(Stdio::null()).stderr(Stdio::null()));
    wait_until("the server has scanned the folder", || has(port, wanted).unwrap_or(false));
    Some((process, format!("http://127.0.0.1:{port}")))
}

fn has(port: u16, id: &str) -> Option<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET /buildid/{id}/debuginfo HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = [0; 15];
    stream.read_exact(&mut answer).ok()?;
    Some(answer.ends_with(b" 200 OK"))
}

/// A deleted program whose debug file a server has.
struct MissingProgram {
    folder: tempfile::TempDir,
    file: PathBuf,
    id: String,
}

impl MissingProgram {
    fn record() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let binary = compile(path, SPIN, "spin", &["-Wl,--build-id=sha1", "-g"])?;
        let file = path.join("perf.data");
        let id = build_id(&binary);
        let served = path.join("served");
        std::fs::create_dir(&served).unwrap();
        run("objcopy", &["--only-keep-debug", "spin", "served/spin.debug"], path);
        run("objcopy", &["--strip-all", "spin"], path);
        record(&binary, &file)?;
        std::fs::rename(&binary, served.join("spin")).unwrap();
        Some(Self { folder, file, id })
    }

    fn report(&self, urls: &str, cache: &Path) -> Output {
        let mut tare = tare();
        tare.args(["report", "--stdio", "-i"]).arg(&self.file).env_remove("HOME");
        tare.env("DEBUGINFOD_URLS", urls).env("DEBUGINFOD_CACHE_PATH", cache);
        let output = tare.env("DEBUGINFOD_TIMEOUT", "1").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output
    }
}

fn shows(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stdout).contains("hot_function")
}

#[test]
fn debian_s_server_has_what_is_gone() {
    let Some(gone) = MissingProgram::record() else { return };
    let folder = gone.folder.path();
    let Some((mut process, url)) = server(&folder.join("served"), &gone.id) else { return };
    let cache = folder.join("cache");
    let nobody = gone.report("", &cache);
    assert!(!shows(&nobody) && !cache.exists(), "tare asks only configured servers");
    let output = gone.report(&format!("ima:ignore {url}"), &cache);
    assert!(shows(&output), "{output:?}");
    assert_eq!(stderr(&output), "", "no progress where stderr is no terminal");
    let kept = ["executable", "debuginfo"].map(|name| cache.join(&gone.id).join(name));
    kept.iter().for_each(|file| assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o400));
    process.end();
    let output = gone.report(&url, &cache);
    assert!(shows(&output) && stderr(&output).is_empty(), "from the cache: {output:?}");
    // elfutils finds tare's downloads in the same cache, and asks for what isn't there.
    let other = "00".repeat(20);
    std::fs::create_dir(cache.join(&other)).unwrap();
    let find = |id: &str| {
        let mut find = Command::new("debuginfod-find");
        find.args(["debuginfo", id]).env("DEBUGINFOD_CACHE_PATH", &cache);
        find.env("DEBUGINFOD_URLS", "http://127.0.0.1:1").output().unwrap()
    };
    let theirs = find(&gone.id);
    assert_eq!(String::from_utf8_lossy(&theirs.stdout).trim(), kept[1].to_str().unwrap());
    assert!(stderr(&find(&other)).contains("Connection refused"), "it asks");
}

#[test]
fn what_the_server_lacks_is_noted_as_elfutils_does() {
    let Some(gone) = MissingProgram::record() else { return };
    let folder = gone.folder.path();
    let served = folder.join("served");
    let other = folder.join("other");
    std::fs::create_dir(&other).unwrap();
    let source = SPIN.replace("hot_function", "other_function");
    let binary = compile(&other, &source, "spin", &["-Wl,--build-id=sha1", "-g"]).unwrap();
    let Some((_process, url)) = server(&other, &build_id(&binary)) else { return };
    let cache = folder.join("cache");
    assert!(!shows(&gone.report(&url, &cache)));
    let miss = cache.join(&gone.id).join("executable");
    assert_eq!(miss.metadata().unwrap().len(), 0);
    let mut find = Command::new("debuginfod-find");
    find.args(["executable", &gone.id]).env("DEBUGINFOD_CACHE_PATH", &cache);
    let said = stderr(&find.env("DEBUGINFOD_URLS", "http://127.0.0.1:1").output().unwrap());
    assert!(said.contains("No such file"), "it doesn't ask: {said}");
    // Conversely, tare doesn't ask for what elfutils noted as missing.
    std::fs::remove_dir_all(&cache).unwrap();
    std::fs::create_dir(&cache).unwrap();
    let mut find = Command::new("debuginfod-find");
    find.args(["executable", &gone.id]).env("DEBUGINFOD_CACHE_PATH", &cache);
    find.env("DEBUGINFOD_URLS", &url).output().unwrap();
    assert_eq!(miss.metadata().unwrap().len(), 0);
    let output = gone.report("http://127.0.0.1:1", &cache);
    assert_eq!(stderr(&output), "", "tare asks no server");
    assert!(served.join("spin").exists());
}

#[test]
fn a_server_that_never_answers_is_left_after_a_while() {
    let Some(gone) = MissingProgram::record() else { return };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let start = Instant::now();
    let output = gone.report(&url, &gone.folder.path().join("cache"));
    assert!(!shows(&output));
    let said = stderr(&output);
    assert!(said.contains("DEBUGINFOD_TIMEOUT") && said.lines().count() == 1, "{said}");
    assert!(start.elapsed() < Duration::from_secs(20), "it goes on and on");
}

/// A server whose certificate is trusted only through `SSL_CERT_FILE`.
#[test]
fn servers_are_asked_by_https_too() {
    let Some(gone) = MissingProgram::record() else { return };
    let folder = gone.folder.path();
    let at = folder.join("buildid").join(&gone.id);
    std::fs::create_dir_all(&at).unwrap();
    std::fs::copy(folder.join("served/spin"), at.join("executable")).unwrap();
    std::fs::copy(folder.join("served/spin.debug"), at.join("debuginfo")).unwrap();
    let mut certificate = Command::new("openssl");
    certificate.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"]);
    certificate.args(["/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
    certificate.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    certificate.args(["-keyout", "key.pem", "-out", "certificate.pem"]).current_dir(folder);
    if !certificate.output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: no openssl");
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new("openssl");
    server.args(["s_server", "-quiet", "-WWW", "-accept", &port.to_string()]).current_dir(folder);
    server.args(["-cert", "certificate.pem", "-key", "key.pem"]).stderr(Stdio::null());
    let _process = ProcessGuard::spawn(server.stdin(Stdio::null()).stdout(Stdio::null()));
    wait_until("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let url = format!("https://127.0.0.1:{port}");
    let ask = |trusted: &Path, cache: &str| {
        let mut tare = tare();
        tare.args(["report", "-i"]).arg(&gone.file).env_remove("HOME").env("DEBUGINFOD_URLS", &url);
        tare.env("SSL_CERT_FILE", trusted).env("DEBUGINFOD_CACHE_PATH", folder.join(cache));
        tare.env("DEBUGINFOD_TIMEOUT", "20").output().unwrap()
    };
    let output = ask(&folder.join("certificate.pem"), "trusting");
    assert!(shows(&output), "{}", stderr(&output));
    let output = ask(Path::new("/dev/null"), "not_trusting");
    assert!(!shows(&output) && stderr(&output).contains("certificate"), "{}", stderr(&output));
}

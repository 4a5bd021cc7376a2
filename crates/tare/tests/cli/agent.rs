//! `tare agent`: what is in the store while it runs, after it ended, and after it was killed.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;

use crate::support::{ProcessGuard, is_root, stderr, tare, wait_until, workload};

/// A container's id.
const ID: &str = "4f2c9c0f7a4c6cb1d5f0b7a1d3e8c2a94f2c9c0f7a4c6cb1d5f0b7a1d3e8c2a9";

/// An agent that samples often, for a short test.
pub(crate) fn agent(store: &Path, args: &[&str]) -> Command {
    let mut command = tare();
    command.arg("agent").arg("--store").arg(store);
    // Other tests run agents too.
    command.env("RUNTIME_DIRECTORY", store.with_file_name("run"));
    command.args(["--window", "10s", "-F", "99", "--max-overhead", "50%"]).args(args);
    command
}

pub(crate) fn start(command: &mut Command) -> ProcessGuard {
    ProcessGuard::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

/// A program that computes in its own functions.
pub(super) fn busy() -> ProcessGuard {
    let mut command = Command::new(workload("mix"));
    ProcessGuard::spawn(command.args(["60", "100", "2"]).stdout(Stdio::null()))
}

/// Whole-machine events need privileges.
pub(crate) fn may_record() -> bool {
    let may = is_root();
    if !may {
        println!("skipped: only root may sample the whole machine here");
    }
    may
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.path() {
            path if path.is_dir() => files(&path),
            path => vec![path],
        })
        .collect()
}

/// The rows of a table, as JSON. Names that begin with a dot are of files being written.
pub(crate) fn rows(store: &Path, table: &str) -> Vec<Value> {
    segment_files(store, table).iter().flat_map(|path| file_rows(path)).collect()
}

/// The rows of a file.
pub(crate) fn file_rows(path: &Path) -> Vec<Value> {
    let reader = SerializedFileReader::new(File::open(path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_json_value()).collect()
}

pub(crate) fn segment_files(store: &Path, table: &str) -> Vec<PathBuf> {
    let is_whole = |path: &PathBuf| {
        path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
    };
    files(&store.join(table)).into_iter().filter(is_whole).collect()
}

pub(crate) fn sum(rows: &[Value], column: &str) -> i64 {
    rows.iter().filter_map(|row| row[column].as_i64()).sum()
}

pub(super) fn open_window(store: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(store.join(".agent/open-window")).ok()?;
    serde_json::from_str(&text).ok()
}

/// The functions of a module.
fn frames_of(store: &Path, module: &'static str) -> impl Iterator<Item = Value> {
    let frames = rows(store, "frames").into_iter();
    frames.filter(move |frame| frame["module"] == module).map(|frame| frame["function"].clone())
}

/// Waits until an agent has noted samples.
pub(crate) fn wait_for_samples(store: &Path) {
    wait_until("it notes samples", || {
        open_window(store).is_some_and(|note| note["samples"].as_u64() > Some(20))
    });
}

pub(super) fn signal(agent: &ProcessGuard, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(agent.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Ends an agent, which writes its open window.
pub(crate) fn end(agent: &ProcessGuard, store: &Path) {
    signal(agent, Signal::TERM);
    wait_until("it ends", || status(store)["ended"] == Value::Bool(true));
}

/// The status of a store's agent; null before its first.
pub(super) fn status(store: &Path) -> Value {
    let output = tare().args(["agent", "--status", "--json", "--store"]).arg(store).output();
    serde_json::from_slice(&output.unwrap().stdout).unwrap_or_default()
}

#[test]
fn windows_have_named_stacks_and_labels_and_add_up() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let _program = busy();
    let agent = start(&mut agent(&store, &[]));
    wait_for_samples(&store);
    assert_eq!(status(&store)["running"], Value::Bool(true));
    std::thread::sleep(Duration::from_secs(2));
    end(&agent, &store);
    let samples = rows(&store, "samples");
    let of_mix: Vec<_> = samples.iter().filter(|row| row["process"] == "mix").collect();
    assert!(of_mix.iter().any(|row| row["service"] == "mix"), "{samples:?}");
    let named = of_mix.iter().filter(|row| row["function"].is_string()).count();
    assert!(named * 2 > of_mix.len(), "{of_mix:?}");
    let stack = of_mix.iter().find(|row| row["function"].is_string()).unwrap()["stack_id"].clone();
    let frames = rows(&store, "frames");
    let frames: Vec<_> = frames.iter().filter(|frame| frame["stack_id"] == stack).collect();
    assert!(frames.iter().any(|frame| frame["function"] == "work"), "{frames:?}");
    let has_root = frames.iter().any(|frame| {
        frame["function"].as_str().is_some_and(|name| name.contains("clone") || name == "_start")
    });
    assert!(has_root, "the stack is whole: {frames:?}");
    let in_kernel = |name: &str| frames_of(&store, "[kernel.kallsyms]").any(|frame| frame == name);
    assert!(in_kernel("do_syscall_64"), "the kernel's functions have names");
    let segments = rows(&store, "segments");
    assert!(!segments.is_empty());
    assert_eq!(sum(&samples, "samples"), sum(&segments, "samples"));
    let status = status(&store);
    assert_eq!(status["samples"].as_i64(), Some(sum(&samples, "samples")));
    assert_eq!(open_window(&store), None, "an agent that ended by itself leaves no note");
}

#[test]
fn a_killed_agent_leaves_a_gap_in_the_next_ones_store() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut killed = start(&mut agent(&store, &[]));
    wait_for_samples(&store);
    let note = open_window(&store).unwrap();
    signal(&killed, Signal::KILL);
    killed.wait_for_exit();
    let noted = open_window(&store).unwrap();
    let output = agent(&store, &["--timeout", "500"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(stderr(&output).contains("the last agent was killed"), "{output:?}");
    let segments = rows(&store, "segments");
    let gaps: Vec<_> = segments.iter().filter(|row| row["kind"] == "gap").collect();
    assert_eq!(gaps.len(), 1, "{segments:?}");
    assert!(gaps[0]["samples"].as_u64() >= note["samples"].as_u64(), "{gaps:?}");
    assert_eq!(gaps[0]["samples"], noted["samples"]);
    let again = agent(&store, &["--timeout", "500"]).output().unwrap();
    assert!(!stderr(&again).contains("killed"), "a gap is written once: {again:?}");
}

#[test]
fn a_store_has_one_agent() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let _first = start(&mut agent(&store, &[]));
    wait_until("it runs", || open_window(&store).is_some());
    let second = agent(&store, &["--timeout", "500"]).output().unwrap();
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert!(stderr(&second).contains("another agent writes into"), "{second:?}");
}

#[test]
fn a_machine_has_one_agent_and_a_cgroup_another() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stores = ["first", "second"].map(|name| folder.path().join(name));
    let [first, second] = &stores;
    let running = start(&mut agent(first, &[]));
    wait_until("it runs", || open_window(first).is_some());
    let refused = agent(second, &["--timeout", "500"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = stderr(&refused);
    assert!(said.contains(&format!("the agent {} samples these", running.id())), "{said}");
    assert!(open_window(second).is_none());
    if let Some(cgroup) = ContainerCgroup::new() {
        let path = cgroup.0.to_str().unwrap();
        let of_cgroup = agent(second, &["--timeout", "500", "--cgroup", path]).output().unwrap();
        assert!(of_cgroup.status.success(), "{of_cgroup:?}");
    } else {
        println!("skipped in part: no cgroup can be created here");
    }
    // Asking the agent would take time that it needs.
    let start_us = || {
        let text = std::fs::read_to_string(first.join(".agent/status.json")).ok()?;
        serde_json::from_str::<Value>(&text).ok()?["started_us"].as_i64()
    };
    wait_until("it writes its status", || start_us().is_some());
    let first_us = start_us();
    signal(&running, Signal::HUP);
    wait_until("it goes on after a reload", || start_us() > first_us);
    end(&running, first);
    drop(running);
    let after = agent(second, &["--timeout", "500"]).output().unwrap();
    assert!(after.status.success(), "{after:?}");
}

#[test]
fn sighup_reads_the_file_again() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let config = folder.path().join("agent.toml");
    std::fs::write(&config, "host = \"first\"").unwrap();
    let agent = start(&mut agent(&store, &["--config", config.to_str().unwrap()]));
    wait_for_samples(&store);
    let start_us = || status(&store)["started_us"].as_i64();
    wait_until("it writes its status", || start_us().is_some());
    let first_us = start_us();
    std::fs::write(&config, "host = ").unwrap();
    signal(&agent, Signal::HUP);
    wait_until("it goes on after a wrong file", || start_us() > first_us);
    assert_eq!(status(&store)["host"], "first");
    std::fs::write(&config, "host = \"second\"").unwrap();
    signal(&agent, Signal::HUP);
    wait_until("the file is read", || status(&store)["host"] == "second");
    wait_for_samples(&store);
    end(&agent, &store);
    let hosts: Vec<_> = rows(&store, "segments").iter().map(|row| row["host"].clone()).collect();
    assert!(hosts.iter().filter(|host| *host == "first").count() >= 2, "a wrong file: {hosts:?}");
    assert!(hosts.iter().any(|host| host == "second"), "{hosts:?}");
}

#[test]
fn check_prints_the_options_or_the_line_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("agent.toml");
    let check = |text: &str, more: &[&str]| {
        std::fs::write(&config, text).unwrap();
        tare().args(["agent", "--check", "--config"]).arg(&config).args(more).output().unwrap()
    };
    let valid = check("window = \"10min\"\n[limits]\nage = \"30d\"\n", &["-F", "99"]);
    let text = String::from_utf8(valid.stdout).unwrap();
    assert!(text.starts_with("ok: ") && text.contains("10min") && text.contains("99 Hz"), "{text}");
    for (text, why) in [
        ("window = \"1s\"", "give 10s to 10min"),
        ("\n\nfoo = 1", "line 3: unknown field `foo`"),
        ("max-overhead = \"200%\"", "give a share such as 0.5%"),
    ] {
        let refused = check(text, &[]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(stderr(&refused).contains(why), "{refused:?}");
    }
    let option = check("", &["--max-age", "soon"]);
    assert!(stderr(&option).contains("--max-age soon: give a time"), "{option:?}");
}

/// Reads messages of the agent until one has this text.
fn wait_for_message(socket: &UnixDatagram, text: &str) {
    let mut buffer = [0; 1024];
    for _ in 0..100 {
        let length = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("{text}: {error}"));
        if String::from_utf8_lossy(&buffer[..length]).contains(text) {
            return;
        }
    }
    panic!("no {text} among 100 messages");
}

#[test]
fn the_service_manager_hears_of_start_life_and_end() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = agent(&folder.path().join("store"), &[]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000000");
    let agent = start(&mut command);
    wait_for_message(&socket, "READY=1");
    wait_for_message(&socket, "WATCHDOG=1");
    wait_for_message(&socket, "WATCHDOG=1");
    signal(&agent, Signal::TERM);
    wait_for_message(&socket, "STOPPING=1");
}

/// A cgroup with the name that Docker gives a container's.
struct ContainerCgroup(PathBuf);

impl ContainerCgroup {
    fn new() -> Option<Self> {
        let own = Cgroups::read(&Host::default()).v2?.own?;
        let folder = own.join(format!("docker-{ID}.scope"));
        std::fs::create_dir(&folder).ok()?;
        Some(Self(folder))
    }
}

impl Drop for ContainerCgroup {
    fn drop(&mut self) {
        // It can be removed a moment after its last process ended.
        let is_gone = || std::fs::remove_dir(&self.0).is_ok();
        let _ = (0..100).any(|_| {
            is_gone() || {
                std::thread::sleep(Duration::from_millis(20));
                false
            }
        });
    }
}

#[test]
fn processes_in_a_container_have_its_id_however_short_they_live() {
    if !may_record() {
        return;
    }
    let Some(cgroup) = ContainerCgroup::new() else {
        println!("skipped: no cgroup can be created here");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let running = start(&mut agent(&store, &["-F", "999"]));
    wait_until("it runs", || open_window(&store).is_some());
    // Each of these processes has exited when its samples are read. Other tests run `mix` too.
    let boxed = folder.path().join("boxed");
    std::fs::copy(workload("mix"), &boxed).unwrap();
    let script = format!(
        "echo $$ >{}/cgroup.procs; for i in $(seq 100); do {} 0.02 100 1 >/dev/null; done",
        cgroup.0.display(),
        boxed.display()
    );
    let mut shell: Child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    assert!(shell.wait().unwrap().success());
    end(&running, &store);
    drop(running);
    drop(cgroup);
    let samples = rows(&store, "samples");
    let of_boxed: Vec<_> = samples.iter().filter(|row| row["process"] == "boxed").collect();
    assert!(of_boxed.len() > 1, "{samples:?}");
    for row in of_boxed {
        assert_eq!(row["container"], ID, "{row}");
        let extra: Value = serde_json::from_str(row["extra"].as_str().unwrap()).unwrap();
        assert_eq!(extra["runtime"], "docker", "{row}");
    }
}

#[test]
fn a_store_is_shown_as_a_recording_is() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let _program = busy();
    let running = start(&mut agent(&store, &[]));
    wait_for_samples(&store);
    std::thread::sleep(Duration::from_secs(1));
    end(&running, &store);
    let show = |args: &[&str]| {
        let output = tare().args(args).arg("--store").arg(&store).output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr(&output),
        )
    };
    let mix = ["report", "--where", "service=mix,event~clock", "--since", "1h", "-s", "comm,sym"];
    let (code, text, said) = show(&mix);
    assert_eq!(code, Some(0), "{said}");
    assert!(text.contains("] work") && text.contains("__clone3"), "{text}");
    assert!(text.lines().all(|line| !line.contains(" tare ")), "other services: {text}");
    let (_, folded, said) = show(&["export", "--format", "folded", "-o", "-"]);
    let weight: u64 =
        folded.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
    assert_eq!(i64::try_from(weight).ok(), Some(sum(&rows(&store, "samples"), "weight")), "{said}");
    let page = folder.path().join("flame.html");
    let (code, _, said) = show(&["flame", "-o", page.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("work"));
    for (args, why) in [
        (&["report", "-s", "pid"][..], "samples of a store have comm"),
        (&["report", "--where", "service"], "has no operator"),
        (&["report", "--where", "service=nobody"], "no window has such samples"),
        (&["report", "--until", "1970-01-01"], "no window has such samples"),
        (&["report", "--since", "soon"], "give a time such as 1h"),
        (&["export", "--format", "chrome", "-o", "x"], "choose another format"),
        (&["flame", "--comm", "mix"], "cannot be used with"),
    ] {
        let (code, _, said) = show(args);
        assert_ne!(code, Some(0), "{args:?}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
}

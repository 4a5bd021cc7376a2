//! Helpers for tests of the binary.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Builds the workloads in `workloads/` and returns the path of one. Building tare needs a C
/// compiler anyway.
pub(crate) fn workload(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("workloads");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/build.sh");
    let built = Command::new(script).arg(&folder).status().expect("bash is there");
    assert!(built.success(), "{script} failed");
    folder.join(name)
}

/// A tare command in the C locale without a state folder, so that recordings don't calibrate.
pub(crate) fn tare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.env("LC_ALL", "C").env("XDG_STATE_HOME", "/dev/null");
    command
}

/// Runs `tare stat` to its end.
pub(crate) fn stat(args: &[&str]) -> Output {
    tare().arg("stat").args(args).output().expect("tare was built")
}

/// Runs a line of shell.
pub(crate) fn sh(line: &str) -> Output {
    Command::new("sh").args(["-c", line]).output().expect("sh is there")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs `tare stat` in the background, its output captured.
pub(crate) fn spawn_stat(args: &[&str]) -> Child {
    tare()
        .arg("stat")
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tare was built")
}

/// The first column of the `-x,` lines on stderr.
pub(crate) fn csv_values(output: &Output) -> Vec<String> {
    stderr(output)
        .lines()
        .filter(|line| line.contains(',') && !line.starts_with("tare:"))
        .map(|line| line.split(',').next().unwrap_or_default().to_owned())
        .collect()
}

/// The JSON document on stdout.
pub(crate) fn document(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

pub(crate) fn status(output: &Output) -> i32 {
    output.status.code().expect("tare itself is not killed")
}

/// Waits up to 30 s until a condition holds, because test machines may be slow.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "{what}: waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A shell script that ends when a process has used 100 ms of CPU time more, however many others
/// run beside it, or after 60 s.
pub(crate) fn until_it_ran(pid: u32) -> String {
    format!(
        "used() {{ read -r line </proc/{pid}/stat; set -- ${{line##*) }}; echo $((${{12}} + ${{13}})); }}
         end=$(($(used) + 10)); rounds=0
         until [ $(used) -ge $end ] || [ $((rounds += 1)) -gt 6000 ]; do sleep 0.01; done"
    )
}

pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal)
        .expect("the process is there");
}

/// The number of samples that `tare script` leaves out because they are from outside the command.
pub(crate) fn left_out(output: &Output) -> usize {
    let text = stderr(output);
    let line = text.lines().find_map(|line| {
        let (number, what) = line.strip_prefix("tare: ")?.split_once(' ')?;
        what.contains(" from outside the command ").then_some(number)
    });
    line.map_or(0, |number| number.replace(',', "").parse().expect("a number"))
}

/// Whether the tests run as root; otherwise prints that the rest of the test is skipped.
pub(crate) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: only root counts whole machines");
    }
    root
}

/// A process that is ended and reaped on drop, also if the test fails.
#[derive(Debug)]
pub(crate) struct ProcessGuard(Child);

impl ProcessGuard {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().expect("the program is there"))
    }

    /// A shell in an endless loop.
    pub(crate) fn busy() -> Self {
        Self::spawn(
            Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .stdout(Stdio::null()),
        )
    }

    /// Waits until the process exits.
    pub(crate) fn wait_for_exit(&mut self) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.0.try_wait().expect("it is this process's child").is_none() {
            assert!(Instant::now() < end, "the process doesn't exit");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Takes the pipe of its output.
    pub(crate) fn take_stdout(&mut self) -> std::process::ChildStdout {
        self.0.stdout.take().expect("its output is piped")
    }

    /// Kills and reaps the process.
    pub(crate) fn end(&mut self) {
        // It may already have exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Deref for ProcessGuard {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for ProcessGuard {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for ProcessGuard {
    /// Sends SIGTERM, so that a recorder also ends its command, and SIGKILL if the process is still
    /// alive after 5 s.
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_child(&self.0),
                rustix::process::Signal::TERM,
            );
        }
        for _ in 0..500 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.end();
    }
}

/// A process whose pid another process writes to a file; it is killed on drop, also if the test
/// fails.
#[derive(Debug)]
pub(crate) struct PidFileGuard(pub(crate) PathBuf);

impl PidFileGuard {
    /// The pid, once the line is complete.
    pub(crate) fn pid(&self) -> Option<u32> {
        std::fs::read_to_string(&self.0).ok()?.strip_suffix('\n')?.parse().ok()
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.pid().is_some_and(|pid| PathBuf::from(format!("/proc/{pid}")).exists())
    }
}

impl Drop for PidFileGuard {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}

/// An unprivileged user, and a copy of tare that it can execute.
pub(crate) struct Unprivileged {
    folder: tempfile::TempDir,
}

impl Unprivileged {
    /// If the tests can't become another user, prints the reason and returns `None`.
    pub(crate) fn new() -> Option<Self> {
        use std::os::unix::fs::PermissionsExt;
        if !is_root() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))
            .expect("the folder is ours");
        std::fs::copy(env!("CARGO_BIN_EXE_tare"), folder.path().join("tare"))
            .expect("tare was built");
        Some(Self { folder })
    }

    /// The copy of tare.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("tare")
    }

    /// Runs `tare stat` as the user `nobody`.
    pub(crate) fn stat(&self, args: &[&str]) -> Output {
        self.tare("stat", args)
    }

    /// Runs one of tare's commands as the user `nobody`.
    pub(crate) fn tare(&self, name: &str, args: &[&str]) -> Output {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(self.folder.path().join("tare"))
            .arg(name)
            .args(args);
        command.env("LC_ALL", "C").output().expect("setpriv of util-linux is there")
    }
}

/// A tmpfs of `bytes`, unmounted on drop.
pub(crate) struct Tmpfs(pub(crate) tempfile::TempDir);

impl Tmpfs {
    pub(crate) fn mount(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(folder.path())
            .output();
        if !mount.is_ok_and(|output| output.status.success()) {
            println!("skipped: a tmpfs can't be mounted, which takes root");
            return None;
        }
        Some(Self(folder))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

//! What the tests of the binary share.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The path of a workload of `workloads/`, compiled if need be. A machine without a C compiler can't build tare either.
pub(crate) fn workload(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("workloads");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/build.sh");
    let built = Command::new(script).arg(&folder).status().expect("bash is there");
    assert!(built.success(), "{script} failed");
    folder.join(name)
}

/// tare, with the C locale's messages.
pub(crate) fn tare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.env("LC_ALL", "C");
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

/// Whether the tests run as root; says that the rest of the test is skipped if not.
pub(crate) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: only root counts whole machines");
    }
    root
}

/// A user without any privilege, and a copy of tare that it can execute.
pub(crate) struct Unprivileged {
    folder: tempfile::TempDir,
}

impl Unprivileged {
    /// `None`, with the reason on stdout, where the tests can't become another user.
    pub(crate) fn new() -> Option<Self> {
        use std::os::unix::fs::PermissionsExt;
        if !is_root() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("the folder is ours");
        std::fs::copy(env!("CARGO_BIN_EXE_tare"), folder.path().join("tare")).expect("tare was built");
        Some(Self { folder })
    }

    /// Runs `tare stat` as nobody.
    pub(crate) fn stat(&self, args: &[&str]) -> Output {
        self.tare("stat", args)
    }

    /// Runs one of tare's commands as nobody.
    pub(crate) fn tare(&self, name: &str, args: &[&str]) -> Output {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(self.folder.path().join("tare")).arg(name).args(args);
        command.env("LC_ALL", "C").output().expect("setpriv of util-linux is there")
    }
}

//! A terminal for tests: types into tmux and reads its screen.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::Pid;

/// A shell in its own tmux server, which is killed on drop.
pub(crate) struct Terminal {
    folder: tempfile::TempDir,
    /// Number of marks waited for so far.
    marks: Cell<u32>,
}

impl Terminal {
    /// A terminal of this size. Without tmux, prints the reason and returns `None`.
    pub(crate) fn new(width: u16, height: u16) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("skipped: tmux isn't installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let terminal = Self { folder, marks: Cell::new(0) };
        let width = width.to_string();
        let height = height.to_string();
        let started = terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
            "env PS1='$ ' LC_ALL=C.UTF-8 TERM=screen-256color bash --norc --noprofile",
        ]);
        assert!(started.status.success(), "{started:?}");
        terminal.tmux(&["set-option", "-g", "escape-time", "0"]);
        terminal.wait_for("$");
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.folder.path().join("socket")).args(args);
        tmux.env("LC_ALL", "C.UTF-8").env_remove("TMUX").env_remove("NO_COLOR");
        tmux.output().unwrap()
    }

    /// The terminal's temporary folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Presses keys, by their names in tmux.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types text.
    pub(crate) fn type_in(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Types a shell command and Enter.
    pub(crate) fn run(&self, line: &str) {
        self.type_in(line);
        self.press(&["Enter"]);
    }

    pub(crate) fn resize(&self, width: u16, height: u16) {
        let width = width.to_string();
        let height = height.to_string();
        self.tmux(&["resize-window", "-x", &width, "-y", &height]);
    }

    /// The screen's text without trailing spaces.
    pub(crate) fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// The screen's text with colour sequences.
    pub(crate) fn colored(&self) -> Vec<u8> {
        self.tmux(&["capture-pane", "-p", "-e"]).stdout
    }

    /// Waits until the screen meets a condition and returns it.
    pub(crate) fn wait(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let screen = self.screen();
            if is_there(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "{what}: waited in vain before\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen contains this text.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }

    /// Waits until a report is complete and returns the screen.
    pub(crate) fn wait_loaded(&self) -> String {
        self.wait("a report", |screen| screen.contains("Missing: ") && !screen.contains("loading"))
    }

    /// Waits until the screen no longer contains this text.
    pub(crate) fn wait_without(&self, text: &str) -> String {
        self.wait(text, |screen| !screen.contains(text))
    }

    /// Asserts that the terminal is sane again in the shell (line editing, echo, screen, cursor,
    /// mouse), and returns the last exit status.
    pub(crate) fn assert_sane(&self) -> u32 {
        self.wait_for_shell();
        let mark = self.marks.get() + 1;
        self.marks.set(mark);
        self.run(&format!("echo st''atus{mark} $?; clear -x"));
        self.run(&format!("stty -a >{0}/stty; echo re''ady{mark}", self.folder().display()));
        self.wait_for(&format!("ready{mark}"));
        let stty = std::fs::read_to_string(self.folder().join("stty")).unwrap();
        let words: Vec<_> = stty.split_whitespace().collect();
        for wanted in ["icanon", "echo", "isig", "icrnl", "opost"] {
            assert!(words.contains(&wanted), "{wanted}: {stty}");
        }
        let state = self.tmux(&[
            "display-message",
            "-p",
            "#{alternate_on}#{mouse_any_flag}#{mouse_button_flag} #{cursor_flag}",
        ]);
        assert_eq!(String::from_utf8_lossy(&state.stdout).trim(), "000 1");
        let history = self.tmux(&["capture-pane", "-p", "-S", "-"]).stdout;
        let history = String::from_utf8_lossy(&history).into_owned();
        let wanted = format!("status{mark} ");
        let status = history.lines().rev().find_map(|line| line.strip_prefix(&wanted));
        status.unwrap_or_else(|| panic!("no status in\n{history}")).trim().parse().unwrap()
    }

    /// Waits until the program has exited or stopped; the shell gets the next input.
    pub(crate) fn wait_for_shell(&self) {
        self.wait("the shell", |_| self.foreground() == self.shell());
    }

    fn shell(&self) -> Pid {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let shell = String::from_utf8_lossy(&shell.stdout).trim().parse().unwrap();
        Pid::from_raw(shell).unwrap()
    }

    /// The terminal's foreground process group.
    pub(crate) fn foreground(&self) -> Pid {
        let shell = self.shell().as_raw_nonzero();
        let stat = std::fs::read_to_string(format!("/proc/{shell}/stat")).unwrap();
        let fields = stat.rsplit(')').next().unwrap();
        let group = fields.split_whitespace().nth(5).unwrap().parse().unwrap();
        Pid::from_raw(group).unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// The binary under test.
pub(crate) fn tare() -> PathBuf {
    env!("CARGO_BIN_EXE_tare").into()
}

//! `tare report` on a terminal.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::process::{Signal, kill_process};
use tare_tui::{BINDINGS, Binding};

use crate::recorded::RecordingFolder;
use crate::support::{tare, workload};
use crate::tmux::{Terminal, tare as binary};

/// A recording with call chains of a program whose calls the test chooses.
fn recorded() -> RecordingFolder {
    let folder = RecordingFolder::new();
    let mix = workload("mix");
    let output =
        folder.run(&["-q", "-g", "-F", "999", "--", mix.to_str().unwrap(), "0.5", "100", "2"]);
    assert!(output.status.success(), "{output:?}");
    folder
}

fn open(terminal: &Terminal, folder: &RecordingFolder, options: &str) {
    let tare = binary();
    let file = folder.file();
    terminal.run(&format!("{} report -i {} {options}", tare.display(), file.display()));
}

#[test]
fn signals_panics_and_sizes_leave_the_terminal_as_it_was() {
    let Some(terminal) = Terminal::new(100, 24) else { return };
    let folder = recorded();
    open(&terminal, &folder, "");
    terminal.wait_loaded();
    for (width, height) in [(40, 10), (1, 1), (10, 3), (200, 50), (40, 12)] {
        terminal.resize(width, height);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let narrow = terminal.wait_loaded();
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    assert!(narrow.contains('%') && narrow.contains("[.] "), "{narrow}");
    terminal.resize(100, 24);
    terminal.wait_for("Shared Object");
    // Ctrl-Z, and a signal from another process.
    terminal.press(&["C-z"]);
    terminal.wait_for("Stopped");
    terminal.assert_sane();
    terminal.run("fg");
    terminal.wait_loaded();
    kill_process(terminal.foreground(), Signal::TSTP).unwrap();
    terminal.wait_for("Stopped");
    terminal.assert_sane();
    terminal.run("fg");
    terminal.wait_loaded();
    terminal.press(&["q"]);
    assert_eq!(terminal.assert_sane(), 0);
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        open(&terminal, &folder, "");
        terminal.wait_loaded();
        kill_process(terminal.foreground(), signal).unwrap();
        assert_eq!(terminal.assert_sane(), status, "{signal:?}");
    }
    open(&terminal, &folder, "--tui-panic");
    terminal.wait_for("this panic was asked for");
    terminal.wait_for("Aborted");
    assert_eq!(terminal.assert_sane(), 134);
}

/// As the text report does.
#[test]
fn keys_without_data_are_refused_or_show_that_it_is_absent() {
    let Some(terminal) = Terminal::new(100, 24) else { return };
    let folder = recorded();
    open(&terminal, &folder, "-s comm,mem");
    terminal.wait_for("the samples have no data sources");
    assert_eq!(terminal.assert_sane(), 2);
    open(&terminal, &folder, "-s comm,cgroup_id");
    terminal.wait_for("0/0x0");
    terminal.press(&["q"]);
    assert_eq!(terminal.assert_sane(), 0);
}

#[test]
fn names_in_a_recording_do_nothing_to_the_terminal() {
    let Some(terminal) = Terminal::new(120, 24) else { return };
    let folder = RecordingFolder::new();
    // Characters that clear the screen, set the title, reverse the text, combine, and take two
    // cells.
    let name = "a\u{1b}[2J\u{1b}]0;x\u{7}\u{202e}e\u{301}漢";
    let program: PathBuf = folder.folder.path().join(name);
    std::fs::copy(workload("mix"), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let output =
        folder.run(&["-q", "-F", "999", "--", program.to_str().unwrap(), "0.3", "100", "1"]);
    assert!(output.status.success(), "{output:?}");
    open(&terminal, &folder, "--sort comm,dso,sym");
    let screen = terminal.wait_loaded();
    let row = screen
        .lines()
        .find(|line| line.contains("\\u{1b}[2J"))
        .unwrap_or_else(|| panic!("{screen}"));
    assert!(
        row.contains('%') && !screen.contains('\u{202e}') && !screen.contains('\u{301}'),
        "{screen}"
    );
    terminal.press(&["d"]);
    terminal.wait_for("Filter: dso=");
    terminal.press(&["m"]);
    terminal.wait_for("Zoom into file");
    terminal.press(&["q"]);
    assert_eq!(terminal.assert_sane(), 0);
}

#[test]
fn text_is_for_pipes_old_terminals_and_whoever_asks() {
    let folder = recorded();
    let file = folder.file();
    let report = |options: &[&str]| {
        let output = tare().args(["report", "-i"]).arg(&file).args(options).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (_, piped, _) = report(&[]);
    assert!(piped.contains("# Samples: "), "{piped}");
    assert_eq!(report(&["--stdio"]).1, piped);
    assert_eq!(report(&["--tui", "--stdio"]).1, piped, "the last one counts");
    let (status, _, message) = report(&["--stdio", "--tui"]);
    assert_eq!((status, message.lines().count()), (Some(2), 1), "{message}");
    assert!(message.contains("stdout is not a terminal"), "{message}");
    let Some(terminal) = Terminal::new(100, 24) else { return };
    let tare = binary();
    let file = folder.file();
    let tare = tare.display();
    let file = file.display();
    terminal.run(&format!(
        "TERM=dumb {tare} report -i {file} | cat; TERM=dumb {tare} report -i {file} | head -1"
    ));
    terminal.run(&format!("clear; TERM=dumb {tare} report -i {file} --sort comm -g none"));
    terminal.wait_for("# Samples: ");
    terminal.run(&format!(
        "clear; PAGER='sed s/^/paged:/' {tare} report -i {file} --pager --sort comm -g none"
    ));
    terminal.wait_for("paged:# Samples: ");
    terminal.run(&format!("clear; NO_COLOR=1 {tare} report -i {file}"));
    terminal.wait_loaded();
    let colored = String::from_utf8(terminal.colored()).unwrap();
    let has = |ground: char| (0..8).any(|color| colored.contains(&format!("\x1b[{ground}{color}")));
    assert!(!has('3') && !has('4') && !has('9'), "{colored:?}");
}

#[test]
fn the_manual_lists_the_keys_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tui.md");
    let manual = std::fs::read_to_string(path).unwrap();
    let line = |binding: &Binding| {
        let keys: Vec<_> = binding.keys.iter().map(|key| format!("`{key}`")).collect();
        format!("| {} | {} |", keys.join(" "), binding.help)
    };
    let wanted: Vec<_> = BINDINGS.iter().map(line).collect();
    let found: Vec<_> = manual.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(found.join("\n"), wanted.join("\n"));
}

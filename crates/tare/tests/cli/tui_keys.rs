//! Every key of the interactive report does what its help says.

use std::cell::Cell;
use std::process::Command;

use tare_tui::{Action, BINDINGS, Binding, View};

use crate::recorded::RecordingFolder;
use crate::support::tare;
use crate::tmux::{Terminal, tare as binary};

/// A program `main -> outer -> hot, warm` with debug info, page faults and frame pointers.
const SOURCE: &str = "\
#include <stdlib.h>
#include <time.h>
volatile unsigned long sum;
__attribute__((noinline)) void hot(unsigned n) { while (n--) {
    sum += n * n % 7;
} }
__attribute__((noinline)) void warm(unsigned n) { while (n--) sum ^= n / 3; }
__attribute__((noinline)) void outer(void) { hot(30000); warm(15000); sum++; }
int main(void) {
    volatile char *room = malloc(1 << 24);
    for (int at = 0; at < 1 << 24; at += 4096) room[at] = 1;
    clock_t begin = clock();
    while (clock() - begin < CLOCKS_PER_SEC / 2) outer();
    return 0;
}
";

/// The visible effect of a key.
enum Response {
    /// The screen newly shows a text.
    Has(&'static str),
    /// The screen no longer shows a text.
    Lacks(&'static str),
    /// The screen differs, including colours.
    Changes,
    /// The cursor is on another line.
    Moves,
    /// The program exits.
    Ends,
    /// The program stops (SIGTSTP).
    Stops,
}

use Response::{Changes, Ends, Has, Lacks, Moves, Stops};

/// A trial of a key: keys to press before, and after it to undo it.
struct Trial {
    before: &'static [&'static str],
    wanted: Response,
    after: &'static [&'static str],
}

const ON_HOT: &[&str] = &["C-f", "h", "o", "t", "Enter"];
const OPEN_ON_HOT: &[&str] = &["E", "C-f", "h", "o", "t", "Enter"];
const ON_WARM: &[&str] = &["C-f", "w", "a", "r", "m", "Enter"];
const ON_OUTER: &[&str] = &["C-f", "o", "u", "t", "e", "r", "Enter"];

fn trial(action: Action, view: View) -> Trial {
    let (before, wanted, after): (&[_], _, &[_]) = match action {
        Action::Help => (&[], Has("this help"), &[]),
        Action::Quit => (&[], Ends, &[]),
        Action::Back => (&["2"], Lacks("Callers of"), &[]),
        Action::Suspend => (&[], Stops, &[]),
        Action::Show(View::Callers) => (ON_HOT, Has("Callers of hot"), &[]),
        Action::Show(View::Tree) => (&[], Has("Self    Function"), &[]),
        Action::Show(View::Flame) => (&[], Has("(self "), &[]),
        Action::Show(View::Timeline) => (&[], Has(" s of "), &[]),
        Action::Show(_) => (&["3"], Has("Shared Object"), &[]),
        Action::Annotate => (ON_HOT, Has(" samples)"), &[]),
        Action::Left if view == View::Flame => (ON_WARM, Has(") hot"), &[]),
        Action::Right if view == View::Flame => (ON_HOT, Has(") warm"), &[]),
        Action::Up if view == View::Flame => (ON_HOT, Has(") outer"), &[]),
        Action::Down if view == View::Flame => (ON_OUTER, Has(") hot"), &[]),
        Action::Enter if view == View::Flame => (ON_HOT, Lacks("warm"), &["Escape"]),
        Action::Left => (&["Right", "Right"], Changes, &[]),
        Action::Range => (&["Right"], Has("Filter: time="), &[]),
        Action::ByThread => (&[], Lacks("CPU "), &["b"]),
        Action::Begin | Action::End => (&["Right"], Changes, &["Enter"]),
        Action::Right => (&[], Changes, &[]),
        Action::Invert => (&[], Changes, &["I"]),
        Action::Search => (&[], Has("Search: "), &["C-c"]),
        Action::NextEvent | Action::PreviousEvent => (&[], Has("'page-faults'"), &["Tab"]),
        Action::ZoomThread if view == View::Timeline => {
            (&["b", "Down"], Has("Filter: tid="), &["b"])
        }
        Action::ZoomProcess if view == View::Timeline => {
            (&["b", "Down"], Has("Filter: pid="), &["b"])
        }
        Action::ZoomThread => (&["Down"], Has("Filter: tid="), &[]),
        Action::ZoomProcess => (&["Down"], Has("Filter: pid="), &[]),
        Action::ZoomComm => (&[], Has("Filter: comm=made"), &[]),
        Action::ZoomCpu => (&["Down"], Has("Filter: cpu="), &[]),
        Action::ZoomDso => (OPEN_ON_HOT, Has("Filter: dso="), &[]),
        Action::ZoomStack => (OPEN_ON_HOT, Has(";hot ("), &[]),
        Action::ZoomKernel => (&[], Has("Filter: dso=[kernel.kallsyms]"), &[]),
        Action::FilterSymbol => (&[], Has("Only functions whose"), &["C-c"]),
        Action::Filter => (&[], Has("Only comm="), &["C-c"]),
        Action::Unfilter | Action::UnfilterAll => (&["k"], Has("No filter"), &[]),
        _ => return trial_of_lines(action, view),
    };
    Trial { before, wanted, after }
}

/// Trials of keys that move between lines, open them or reorder them.
fn trial_of_lines(action: Action, view: View) -> Trial {
    let on_page = view == View::Text;
    let moves = if view == View::Timeline { Changes } else { Moves };
    let (before, wanted, after): (&[_], _, &[_]) = match action {
        Action::Up | Action::PageUp | Action::First => (&["End"], moves, &[]),
        Action::Down | Action::PageDown | Action::Last => (&["Home"], moves, &[]),
        Action::Enter | Action::Expand | Action::ExpandRow => (ON_OUTER, Changes, &[]),
        Action::Collapse | Action::CollapseAll => (&["E"], Changes, &[]),
        Action::ExpandAll => (&[], Changes, &[]),
        Action::SearchNext | Action::SearchPrevious if on_page => {
            (&["/", "l", "i", "n", "e", "Enter"], Moves, &[])
        }
        Action::SearchNext | Action::SearchPrevious => (&["C-f", "m", "Enter"], Moves, &[]),
        Action::Sort => (&[], Has("sorted by"), &[]),
        Action::Reverse => (&[], Changes, &["r"]),
        Action::Relative => (&["k"], Has("percentages of these"), &["F"]),
        Action::Titles => (&[], Lacks("Shared Object"), &["H"]),
        Action::Limit => (&[], Has("Hide rows below"), &["C-c"]),
        Action::Print if view == View::Annotate => (&[], Has("written to tare.annotate."), &[]),
        Action::Print => (&[], Has("written to tare.report."), &[]),
        Action::Verbose => (&["E"], Changes, &["V"]),
        Action::ScrollLeft => (&[">"], Changes, &[]),
        Action::ScrollRight => (&[], Changes, &["<"]),
        Action::Menu => (&[], Has("Ledger and losses"), &["m"]),
        Action::Header => (&[], Has("Header of the recording"), &[]),
        Action::Ledger => (&[], Has("Ledger and losses"), &[]),
        _ => return trial_of_code(action),
    };
    Trial { before, wanted, after }
}

/// Trials of keys in the view of a function's instructions.
fn trial_of_code(action: Action) -> Trial {
    let (before, wanted, after): (&[_], _, &[_]) = match action {
        Action::Jump => (&["/", "j", "Enter"], Moves, &[]),
        Action::Source => (&[], Lacks("sum +="), &["s"]),
        Action::LineNumbers => (&[], Changes, &["k"]),
        Action::Files => (&[], Changes, &["L"]),
        Action::Distances => (&[], Has("offsets from the function's start"), &["o"]),
        Action::Level => (&[], Has("at jump targets and calls"), &["O", "O", "o"]),
        Action::WholeAddresses => (&[], Has("addresses instead of offsets"), &["f", "o"]),
        Action::Jumps => (&[], Changes, &["J"]),
        Action::Arrow => (&[], Has("line from a jump to its target: hidden"), &["j"]),
        Action::OfAll => (&[], Has("percentages of all samples"), &["p"]),
        Action::BySamples => (&[], Has("percentages of sample counts"), &["b"]),
        Action::NextFunction => (&[], Changes, &[]),
        Action::PreviousFunction => (&["Right"], Changes, &[]),
        Action::Figure => (&[], Has("figure: period"), &["t", "t"]),
        // The view may scroll instead, with the cursor on the same screen line.
        Action::Hottest => (&["End"], Changes, &[]),
        Action::NextHottest | Action::PreviousHottest => (&["H"], Changes, &[]),
        _ => panic!("{action:?} has no trial"),
    };
    Trial { before, wanted, after }
}

/// tmux's name for a key of the table.
fn typed(key: &str) -> String {
    match key {
        "UNTAB" => "BTab".to_owned(),
        "PGUP" => "PPage".to_owned(),
        "PGDN" => "NPage".to_owned(),
        "ESC" => "Escape".to_owned(),
        "BACKSPACE" => "BSpace".to_owned(),
        "DELETE" => "DC".to_owned(),
        "UP" | "DOWN" | "LEFT" | "RIGHT" | "HOME" | "END" | "ENTER" | "TAB" | "SPACE" => {
            format!("{}{}", &key[..1], key[1..].to_lowercase())
        }
        _ => key.strip_prefix("CTRL-").map_or_else(|| key.to_owned(), |key| format!("C-{key}")),
    }
}

struct Walk {
    terminal: Terminal,
    line: String,
    presses: Cell<u32>,
}

impl Walk {
    fn open(&self) {
        self.terminal.run(&self.line);
        self.terminal.wait_loaded();
    }

    /// Presses keys and waits until all are handled; an unknown key at the end causes a message.
    fn press(&self, keys: &[&str]) {
        for part in keys.split_inclusive(|key| *key == "Escape") {
            self.terminal.press(part);
            if part.ends_with(&["Escape"]) {
                // A key directly after Escape would be Alt with that key.
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }
        // Alternate two keys, because the last message may still be visible.
        let unbound = if self.presses.replace(self.presses.get() + 1).is_multiple_of(2) {
            "F11"
        } else {
            "F12"
        };
        self.terminal.press(&[unbound]);
        let message = format!("{unbound} does nothing");
        let what = format!("{message}, after {keys:?}");
        self.terminal.wait(&what, |screen| screen.contains(&message));
    }

    /// The screen with its colours, without the last line.
    fn above(&self) -> String {
        let screen = String::from_utf8_lossy(&self.terminal.colored()).into_owned();
        let lines: Vec<_> = screen.lines().collect();
        lines[..lines.len().saturating_sub(1)].join("\n")
    }

    fn show(&self, view: View) {
        let key = match view {
            View::Functions => "Home",
            View::Callers => "2",
            View::Tree => "3",
            View::Flame => "4",
            View::Timeline => "5",
            View::Annotate => "a",
            View::Text => "?",
        };
        self.press(&["1", "R", "C", "Home"]);
        if matches!(view, View::Callers | View::Annotate) {
            self.press(ON_HOT);
        }
        if view == View::Callers {
            self.press(ON_OUTER);
        }
        self.press(&[key]);
        if view == View::Tree {
            // The view keeps its cursor and open rows; the last line may be a function without
            // callers.
            self.press(&["C", "Home"]);
        }
        if view == View::Flame {
            // A search continues from the last match, and only one function is called main.
            self.press(&["C-f", "m", "a", "i", "n", "Enter"]);
        }
    }

    fn try_out(&self, view: View, binding: &Binding, key: &str) {
        let Trial { before, wanted, after } = trial(binding.action, view);
        self.show(view);
        if !before.is_empty() {
            self.press(before);
        }
        let shown = self.above();
        let was = self.terminal.screen();
        let what = format!("{key} in {view:?} ({})", binding.help);
        self.terminal.press(&[&typed(key)]);
        match wanted {
            Has(text) => {
                assert!(!was.contains(text), "{what}: '{text}' was there before in\n{was}");
                self.terminal.wait(&what, |screen| screen.contains(text));
            }
            Lacks(text) => {
                assert!(was.contains(text), "{what}: '{text}' was not there before in\n{was}");
                self.terminal.wait(&what, |screen| !screen.contains(text));
            }
            Changes => {
                self.terminal.wait(&what, |_| self.above() != shown);
            }
            Moves => {
                let line = cursor(&shown);
                assert!(line.is_some(), "{what}: there is no cursor in\n{was}");
                self.terminal
                    .wait(&what, |_| cursor(&self.above()).is_some_and(|now| Some(now) != line));
            }
            Ends => {
                self.terminal.wait(&what, |screen| !screen.contains("Missing: "));
                return self.open();
            }
            Stops => {
                self.terminal.wait(&what, |screen| screen.contains("Stopped"));
                self.terminal.run("fg");
                self.terminal.wait_loaded();
            }
        }
        self.press(after);
    }
}

/// The first line in reverse video.
fn cursor(colored: &str) -> Option<usize> {
    let is_reversed = |line: &str| {
        let codes = line.split("\x1b[").skip(1).filter_map(|part| part.split_once('m'));
        codes.flat_map(|(codes, _)| codes.split(';')).any(|code| code == "7")
    };
    colored.lines().position(is_reversed)
}

fn recorded() -> Option<RecordingFolder> {
    let folder = RecordingFolder::new();
    let path = folder.folder.path();
    let source = path.join("made.c");
    let program = path.join("made");
    std::fs::write(&source, SOURCE).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-g", "-O0", "-o"]).arg(&program).arg(&source);
    assert!(cc.status().unwrap().success());
    let words = ["-q", "-g", "-F", "999", "-e", "cpu-clock,page-faults", "--sample-cpu", "--"];
    let output = folder.run(&[&words[..], &[program.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    let report = tare().args(["report", "--stdio", "-g", "none", "-i"]).arg(folder.file()).output();
    let text = String::from_utf8(report.unwrap().stdout).unwrap();
    assert!(text.contains("hot") && text.contains("outer"), "{text}");
    Some(folder)
}

#[test]
fn each_key_does_what_its_help_says() {
    let Some(terminal) = Terminal::new(120, 30) else { return };
    let Some(folder) = recorded() else { return };
    let line = format!(
        "cd {}; {} report -i {} --sort comm,pid,cpu,dso,sym",
        terminal.folder().display(),
        binary().display(),
        folder.file().display()
    );
    let walk = Walk { terminal, line, presses: Cell::new(0) };
    walk.open();
    for binding in BINDINGS {
        let views = if binding.views.is_empty() { &[View::Functions] } else { binding.views };
        for (at, view) in views.iter().enumerate() {
            // Try each key once and each view once.
            let keys = if at == 0 { binding.keys } else { &binding.keys[..1] };
            for key in keys {
                let first = BINDINGS.iter().find(|one| {
                    one.keys.contains(key) && (one.views.is_empty() || one.views.contains(view))
                });
                let first = first.map(|one| one.action);
                assert_eq!(first, Some(binding.action), "{key} in {view:?} does something else");
                walk.try_out(*view, binding, key);
            }
        }
    }
    walk.terminal.press(&["q"]);
    assert_eq!(walk.terminal.assert_sane(), 0);
}

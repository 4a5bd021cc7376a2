//! Source lines and inlined functions in reports, scripts, flame graphs and exports, for several
//! kinds of debug info.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::support::{document, stderr, tare};
use crate::symbols::compile;
use crate::tmux::{self, Terminal};

/// Two nested inlined functions; line 4 takes nearly all the time.
const NESTED: &str = r"
volatile unsigned long n;
static inline __attribute__((always_inline)) void innermost(void) {
    for (long i = 0; i < 150000000; i++) n++;
}
static inline __attribute__((always_inline)) void between(void) {
    innermost();
    n = 0;
}
__attribute__((noinline)) void outer(void) { between(); n = 1; }
int main(void) { outer(); return 0; }
";

/// A recording of [`NESTED`] with frame-pointer call chains.
struct Nested {
    folder: tempfile::TempDir,
    file: PathBuf,
}

impl Nested {
    /// Builds with these flags and records. If that isn't possible, prints the reason and returns
    /// `None`.
    fn record(flags: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        // With DWARF 4 and statement frontiers, gcc emits empty ranges for inlined functions.
        let usual = ["-fno-omit-frame-pointer", "-gno-statement-frontiers"];
        let flags = [&usual[..], flags].concat();
        let binary = compile(path, NESTED, "nested", &flags)?;
        let file = path.join("perf.data");
        let mut command = tare();
        command.args(["record", "-q", "-g", "-e", "cpu-clock", "-o"]).arg(&file).arg("--");
        let output = command.arg(&binary).output().unwrap();
        if !output.status.success() {
            println!("skipped: can't record here: {}", stderr(&output));
            return None;
        }
        Some(Self { folder, file })
    }

    fn run(&self, line: &str) -> Output {
        let mut tare = tare();
        let mut words = line.split(' ');
        tare.arg(words.next().unwrap()).arg("-i").arg(&self.file).args(words);
        tare.env_remove("HOME").env("XDG_CACHE_HOME", self.folder.path());
        let output = tare.output().unwrap();
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        output
    }

    fn text(&self, line: &str) -> String {
        String::from_utf8(self.run(line).stdout).unwrap()
    }
}

#[test]
fn report_and_script_show_lines_and_inlined_functions_of_each_kind_of_debug_info() {
    for flags in [
        &["-g", "-gdwarf-4"][..],
        &["-g", "-gdwarf-5"],
        &["-g", "-gz=zlib"],
        &["-g", "-gdwarf-4", "-gz=zlib"],
    ] {
        let Some(nested) = Nested::record(flags) else { return };
        let graph = "report --stdio --sort sym -g caller";
        for shown in ["", " --inline", " --no-inline --inline"] {
            let text = nested.text(&format!("{graph}{shown}"));
            for name in ["innermost (inlined)", "between (inlined)"] {
                assert!(text.contains(name), "{flags:?}{shown} {name}: {text}");
            }
        }
        for none in [" --no-inline", " --inline --no-inline"] {
            let text = nested.text(&format!("{graph}{none}"));
            assert!(text.contains("outer") && !text.contains("inlined"), "{flags:?}{none}: {text}");
        }
        for (line, wanted) in [
            ("report --stdio --no-children -g none --sort srcline", "nested.c:4"),
            ("report --stdio --no-children -g none -F overhead,srcline", "nested.c:4"),
            ("report --stdio --no-children -g none --sort srcfile", "nested.c"),
            ("report --stdio --no-children -g none -F overhead,srcfile", "nested.c"),
        ] {
            let text = nested.text(line);
            let row = text.lines().find(|line| !line.starts_with('#') && line.contains('%'));
            let row: Vec<&str> = row.expect("a row").split_whitespace().collect();
            let share: f64 = row[0].trim_end_matches('%').parse().unwrap();
            assert!(share > 50.0 && row[1].ends_with(wanted), "{flags:?} {line}: {text}");
        }
        let text = nested.text("script -F ip,sym,srcline");
        let chain: Vec<&str> = text.lines().map(str::trim).collect();
        let at = chain.iter().position(|line| line.ends_with(" innermost")).expect("it is there");
        assert_eq!(chain[at + 1], "nested.c:4 (inlined)", "{flags:?} {text}");
        assert!(chain[at + 2].ends_with(" between") && chain[at + 3] == "nested.c:7 (inlined)");
        assert!(chain[at + 4].ends_with(" outer") && chain[at + 5] == "nested.c:10", "{text}");
        let text = nested.text("script -F ip,sym --no-inline");
        assert!(text.contains("outer") && !text.contains("innermost"), "{flags:?} {text}");
    }
}

#[test]
fn flame_graphs_and_exports_have_inlined_functions_as_frames() {
    let Some(nested) = Nested::record(&["-g"]) else { return };
    let folded = nested.text("export -f folded -o - --inline");
    assert!(folded.contains(";outer;between;innermost "), "{folded}");
    let plain = nested.text("export -f folded -o -");
    assert!(plain.contains(";outer ") && !plain.contains("innermost"), "{plain}");
    let sum = |text: &str| -> u64 {
        text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    assert_eq!(sum(&folded), sum(&plain), "no sample is lost or doubled");
    for line in ["flame -o -", "flame -o - --format svg"] {
        let page = nested.text(&format!("{line} --inline"));
        assert!(page.contains("innermost") && page.contains("inlined"), "{line}");
        assert!(!nested.text(line).contains("innermost"), "{line}");
    }
    firefox(&nested);
    pprof(&nested);
    let lines = nested.text("export -f jsonl -o - --inline");
    assert!(lines.contains("innermost"), "{lines}");
}

/// Inlined functions are frames of greater depth, with their lines.
fn firefox(nested: &Nested) {
    let profile = document(&nested.run("export -f firefox -o - --inline"));
    let thread = &profile["threads"][0];
    let frames = &thread["frameTable"];
    let functions = &thread["funcTable"];
    let number = |of: &serde_json::Value| usize::try_from(of.as_u64().unwrap()).unwrap();
    let text = |of: &serde_json::Value| thread["stringArray"][number(of)].as_str().unwrap();
    let function = |at: usize| number(&frames["func"][at]);
    let find = |name: &str| {
        let count = frames["func"].as_array().unwrap().len();
        (0..count).find(|at| text(&functions["name"][function(*at)]) == name).expect(name)
    };
    for (name, depth) in [("innermost", 2), ("between", 1), ("outer", 0)] {
        assert_eq!(frames["inlineDepth"][find(name)], depth, "{name}");
    }
    let innermost = find("innermost");
    assert_eq!(frames["line"][innermost], 4);
    assert!(text(&functions["fileName"][function(innermost)]).ends_with("/nested.c"));
}

/// Inlined functions have their names and files.
fn pprof(nested: &Nested) {
    let file = nested.file.with_extension("pb.gz");
    nested.run(&format!("export -f pprof -o {} --inline", file.display()));
    let unpacked = Command::new("gzip").arg("-dc").arg(&file).output().unwrap();
    let has = |text: &str| unpacked.stdout.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("innermost") && has("between") && has("/nested.c"));
}

#[test]
fn the_interactive_report_has_lines_and_inlined_functions_too() {
    let Some(terminal) = Terminal::new(100, 24) else { return };
    let Some(nested) = Nested::record(&["-g"]) else { return };
    let tare = tmux::tare();
    let file = nested.file.display().to_string();
    let report = format!("{} report -i {file} --no-children", tare.display());
    // The key opens all call graphs.
    for (option, is_there) in [("", true), (" --no-inline", false)] {
        terminal.run(&format!("clear; {report}{option}"));
        terminal.wait_loaded();
        terminal.press(&["E"]);
        let screen = terminal.wait_for("main");
        assert_eq!(screen.contains("innermost (inlined)"), is_there, "{option}: {screen}");
        terminal.press(&["q"]);
        terminal.assert_sane();
    }
    terminal.run(&format!("clear; {report} --sort srcline"));
    let screen = terminal.wait_loaded();
    let row = screen.lines().find(|line| line.contains("nested.c:4"));
    assert!(row.is_some_and(|row| row.contains('%')), "{screen}");
}

//! `tare annotate`: percentages compared with perf's, text, JSON, and the terminal.

use std::path::Path;
use std::process::{Command, Output};

use crate::recorded::RecordingFolder;
use crate::support::{document, stderr, tare, workload};
use crate::tmux::{Terminal, tare as binary};

/// Records a busy program.
fn recorded(words: &[&str]) -> RecordingFolder {
    let folder = RecordingFolder::new();
    let output = folder.run(&[&["-q", "-F", "1999", "--"], words].concat());
    assert!(output.status.success(), "{output:?}");
    folder
}

fn annotate(file: &Path, options: &[&str]) -> Output {
    tare().args(["annotate", "-i"]).arg(file).args(options).output().unwrap()
}

/// The ten hottest addresses of the first function in a text, with their percentages.
fn hottest(text: &str) -> Vec<(String, String)> {
    let first = text.match_indices(" Percent |").nth(1).map_or(text, |(at, _)| &text[..at]);
    let line = |line: &str| {
        let (percent, rest) = line.split_once(" :")?;
        let percent = percent.trim().parse::<f64>().ok().filter(|percent| *percent > 0.0)?;
        let address = rest.trim_start_matches(['>', ' ']).split_once(':')?.0;
        Some((address.to_owned(), percent))
    };
    let mut found: Vec<_> = first.lines().filter_map(line).collect();
    found.sort_by(|left, right| right.1.total_cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    found
        .into_iter()
        .take(10)
        .map(|(address, percent)| (address, format!("{percent:.2}")))
        .collect()
}

#[test]
fn the_hottest_instructions_have_perfs_percentages() {
    let is_here = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !is_here("objdump") || !is_here("perf") {
        println!("skipped: perf annotate, which takes objdump, isn't installed");
        return;
    }
    let mix = workload("mix");
    let sum = "s=0\nfor i in range(900000): s+=i*i%7";
    let words = "while ($i++ < 400000) { $n{$i % 97} .= 'x' if $i % 3 } print scalar %n";
    let programs: [&[&str]; 3] = [
        &[mix.to_str().unwrap(), "0.6", "100", "1"],
        &["perl", "-e", words],
        &["python3", "-c", sum],
    ];
    let mut compared = 0;
    for program in programs {
        let folder = recorded(program);
        let Some(name) = heaviest(&folder.file()) else { continue };
        let one = |command: &mut Command| {
            String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
        };
        let of_perf = one(Command::new("perf")
            .args(["annotate", "--stdio", "-s", &name, "-i"])
            .arg(folder.file())
            .env("PERF_BUILDID_DIR", folder.folder.path()));
        let ours = one(tare().args(["annotate", "-s", &name, "-i"]).arg(folder.file()));
        assert_eq!(hottest(&ours), hottest(&of_perf), "{program:?}: {name}\n{ours}\n{of_perf}");
        compared += 1;
    }
    assert_eq!(compared, 3);
}

/// The heaviest function of a program outside of the kernel.
fn heaviest(file: &Path) -> Option<String> {
    let output = tare()
        .args(["report", "--stdio", "--sort", "sym", "--no-children", "-g", "none", "-i"])
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| Some(line.split_once("% ")?.1.trim()));
    names.filter_map(|line| line.strip_prefix("[.] ")).map(str::to_owned).next()
}

#[test]
fn functions_are_shown_in_both_syntaxes_and_as_a_document() {
    let mix = workload("mix");
    let folder = recorded(&[mix.to_str().unwrap(), "0.3", "100", "1"]);
    let file = folder.file();
    let text = |options: &[&str]| String::from_utf8(annotate(&file, options).stdout).unwrap();
    let all = text(&["-d", "mix"]);
    assert!(
        all.contains(" Percent |\tSource code & Disassembly of ") && all.contains("local period"),
        "{all}"
    );
    let document = document(&annotate(&file, &["--json", "-d", "mix"]));
    assert_eq!(document["version"], 1);
    let first = &document["functions"][0];
    let lines = first["instructions"].as_array().unwrap();
    let samples: u64 = lines.iter().map(|line| line["samples"].as_u64().unwrap()).sum();
    assert_eq!(samples, first["samples"].as_u64().unwrap(), "{first}");
    let name = first["name"].as_str().unwrap();
    if cfg!(target_arch = "x86_64") {
        assert!(text(&[name]).contains('%') && !text(&["-M", "intel", name]).contains('%'));
    }
    let raw = text(&["--asm-raw", "--percent-type", "global-hits", name]);
    assert!(raw.contains("percent: global hits"), "{raw}");
    let unknown = annotate(&file, &["no_such_function"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).starts_with("tare: no sample is in a function called"), "{unknown:?}");
}

#[test]
fn a_terminal_shows_the_function_with_perfs_keys() {
    let Some(terminal) = Terminal::new(100, 30) else { return };
    let mix = workload("mix");
    let folder = recorded(&[mix.to_str().unwrap(), "0.3", "100", "1"]);
    let found = document(&annotate(&folder.file(), &["--json"]));
    let functions = found["functions"].as_array().unwrap();
    let has_code = |function: &&serde_json::Value| function["instructions"].is_array();
    let names: Vec<_> = functions
        .iter()
        .filter(has_code)
        .map(|function| function["name"].as_str().unwrap())
        .collect();
    let open = |words: &str| {
        let tare = binary();
        let file = folder.file();
        let folder = terminal.folder().display();
        terminal.run(&format!(
            "cd {folder}; {} annotate -i {} {words}",
            tare.display(),
            file.display()
        ));
    };
    let title = |name: &str| format!("{name}  ");
    open("");
    let screen = terminal.wait_for(" samples)");
    assert!(screen.contains(&title(names[0])), "{screen}");
    terminal.press(&["Right"]);
    terminal.wait("another function", |screen| {
        !screen.contains(&title(names[0])) || screen.contains("no instructions")
    });
    terminal.press(&["p"]);
    terminal.wait_for("percentages of all samples");
    terminal.press(&["P"]);
    terminal.wait_for("written to tare.annotate.1");
    let printed = std::fs::read_to_string(terminal.folder().join("tare.annotate.1")).unwrap();
    assert!(printed.contains(" samples)") && printed.contains('│'), "{printed}");
    terminal.press(&["Escape"]);
    assert_eq!(terminal.assert_sane(), 0);
    open(&format!("-M intel --no-source {}", names[0]));
    terminal.wait_for(&title(names[0]));
    terminal.press(&["1"]);
    terminal.wait_for("Shared Object");
    terminal.press(&["q"]);
    assert_eq!(terminal.assert_sane(), 0);
    open("no_such_function");
    terminal.wait_for("no sample is in a function called 'no_such_function'");
    assert_eq!(terminal.assert_sane(), 1);
    open(&format!("--stdio {} | head -2", names[0]));
    terminal.wait_for("Source code & Disassembly of");
    let refused = annotate(&folder.file(), &["--tui"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("stdout is not a terminal"), "{refused:?}");
}

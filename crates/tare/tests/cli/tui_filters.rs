//! Filters of the interactive report: from the command line and typed.

use std::path::Path;

use crate::recorded::RecordingFolder;
use crate::support::{tare, workload};
use crate::tmux::{Terminal, tare as binary};

const USUAL: &[&str] = &["--no-children", "-g", "none", "-s", "comm,dso,sym"];

fn recorded() -> RecordingFolder {
    let folder = RecordingFolder::new();
    let mix = workload("mix");
    let mix = mix.to_str().unwrap();
    let line = format!("{mix} 0.3 100 2; exec perl -e 'for (1..2000000) {{ $n{{$_ % 97}}++ }}'");
    let words = ["-q", "-g", "-F", "999", "--sample-cpu", "--", "sh", "-c", &line];
    let output = folder.run(&words);
    assert!(output.status.success(), "{output:?}");
    folder
}

/// Share and function of a text report's first rows.
fn rows(text: &str) -> Vec<(String, String)> {
    let row = |line: &str| {
        let share = line.split_whitespace().next()?.strip_suffix('%')?;
        share.parse::<f64>().ok()?;
        let (_, function) = line.split_once(" [.] ").or_else(|| line.split_once(" [k] "))?;
        Some((share.to_owned(), function.trim().to_owned()))
    };
    text.lines().filter_map(row).take(12).collect()
}

fn text(file: &Path, options: &[&str]) -> Vec<(String, String)> {
    let output = tare()
        .args(["report", "--stdio", "-i"])
        .arg(file)
        .args(USUAL)
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{options:?}: {output:?}");
    rows(&String::from_utf8(output.stdout).unwrap())
}

/// The distinct first numbers of the lines that `tare script` prints for a field.
fn ids(file: &Path, field: &str) -> Vec<String> {
    let output = tare().args(["script", "-G", "-F", field, "-i"]).arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let number = |line: &str| {
        let digits = line.trim().trim_matches(['[', ']']).trim_start_matches('0');
        if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }
    };
    let mut ids: Vec<_> = text.lines().filter(|line| !line.is_empty()).map(number).collect();
    ids.sort();
    ids.dedup();
    ids
}

#[test]
fn filters_of_the_command_line_have_the_texts_rows() {
    let Some(terminal) = Terminal::new(160, 40) else { return };
    let folder = recorded();
    let file = folder.file();
    let pids = ids(&file, "pid");
    let tids = ids(&file, "tid");
    let cpus = ids(&file, "cpu");
    let all_cpus = cpus.join(",");
    let cases: Vec<Vec<&str>> = vec![
        vec!["--pid", &pids[0]],
        vec!["--tid", &tids[tids.len() - 1]],
        vec!["-C", &cpus[0]],
        vec!["-C", "0,1"],
        vec!["--comms", "mix,sh"],
        vec!["--dsos", "mix"],
        vec!["-S", "sixty,thirty"],
        vec!["--symbol-filter", "ty"],
        vec!["-U"],
        vec!["--time", "10%-60%"],
        vec!["--comms", "perl,mix", "--dsos", "mix", "--time", "0%-90%", "-C", &all_cpus],
    ];
    let all = text(&file, &[]);
    for case in cases {
        let wanted = text(&file, &case);
        assert!(!wanted.is_empty(), "{case:?}");
        let line = [USUAL, &case].concat().join(" ");
        terminal.run(&format!("{} report --tui -i {} {line}", binary().display(), file.display()));
        let is_it = |screen: &str| screen.contains("Filter: ") && rows(screen) == wanted;
        terminal.wait(&format!("{case:?}: {wanted:?}"), is_it);
        terminal.press(&["R"]);
        let is_all = |screen: &str| screen.contains("No filter") && rows(screen) == all;
        terminal.wait(&format!("{case:?}: {all:?}"), is_all);
        terminal.press(&["q"]);
        terminal.wait_for_shell();
    }
}

#[test]
fn filters_that_are_typed_stack_and_are_shown() {
    let Some(terminal) = Terminal::new(160, 40) else { return };
    let folder = recorded();
    let file = folder.file();
    let pids = ids(&file, "pid");
    let cpus = ids(&file, "cpu");
    let usual = USUAL.join(" ");
    terminal.run(&format!("{} report -i {} {usual}", binary().display(), file.display()));
    terminal.wait_loaded();
    let pid = format!("pid={}", pids[0]);
    let cpu = format!("cpu={}", cpus[0]);
    let mut shown = Vec::new();
    for filter in [&pid, "comm=mix,perl", "dso=mix", "symbol=ty", "time=0,", &cpu] {
        terminal.press(&["f"]);
        terminal.type_in(filter);
        terminal.press(&["Enter"]);
        let filter = if filter == "time=0," { "time=0.000000," } else { filter };
        shown.push(filter.to_owned());
        let wanted = format!("Filter: {}: ", shown.join("  "));
        let line = terminal.wait_for(&wanted);
        assert!(line.contains("% of all"), "{line}");
    }
    for _ in 0..3 {
        shown.pop();
        terminal.press(&["BSpace"]);
        let last = shown.last().unwrap().clone();
        terminal.wait(&last, |screen| screen.contains(&format!("{last}:")));
    }
    let wanted = text(&file, &["--pid", &pids[0], "--comms", "mix,perl", "--dsos", "mix"]);
    terminal.wait(&format!("{wanted:?}"), |screen| rows(screen) == wanted);
    terminal.press(&["f"]);
    terminal.type_in("colour=red");
    terminal.press(&["Enter"]);
    terminal.wait_for("there is no condition 'colour'");
    terminal.press(&["f"]);
    terminal.type_in("event=no-such");
    terminal.press(&["Enter"]);
    terminal.wait_for("no sample of an event 'no-such'");
    terminal.press(&["q"]);
    assert_eq!(terminal.assert_sane(), 0);
}

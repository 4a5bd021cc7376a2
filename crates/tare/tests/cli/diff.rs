//! `tare diff`: comparing two sets of recordings.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::made::SampleStream;
use crate::support::{status, stderr, tare, workload};
use crate::tmux::{Terminal, tare as binary};

fn diff(args: &[&str], folder: &Path) -> Output {
    tare().arg("diff").args(args).current_dir(folder).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Records 30 rounds of the workload `steps`, with its first function `percent`% longer.
fn record(folder: &Path, name: &str, percent: &str) {
    record_rounds(folder, name, percent, "30");
}

fn record_rounds(folder: &Path, name: &str, percent: &str, rounds: &str) {
    let steps = workload("steps");
    let words = ["record", "-q", "-g", "-F", "4999", "-e", "cpu-clock", "-o", name, "--"];
    let mut command = tare();
    command.args(words).arg(steps).args([rounds, percent]).current_dir(folder);
    let recorded = command.output().unwrap();
    assert_eq!(status(&recorded), 0, "{}", stderr(&recorded));
}

/// A folder with five recordings per side: a1 to a5, and b1 to b5, whose function `parse` takes
/// twice as long.
fn ten_recordings() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for number in 1..=5 {
        record(folder.path(), &format!("a{number}.data"), "0");
        record(folder.path(), &format!("b{number}.data"), "100");
    }
    folder
}

const SIDES: [&str; 11] = [
    "a1.data", "a2.data", "a3.data", "a4.data", "a5.data", "--", "b1.data", "b2.data", "b3.data",
    "b4.data", "b5.data",
];

fn with_sides<'a>(options: &[&'a str]) -> Vec<&'a str> {
    options.iter().copied().chain(SIDES).collect()
}

#[test]
fn several_recordings_a_side_show_what_got_slower() {
    let folder = ten_recordings();
    let folder = folder.path();
    let shown = diff(&with_sides(&[]), folder);
    assert_eq!(status(&shown), 0, "{}", stderr(&shown));
    let text = stdout(&shown);
    for part in ["5 against 5 recordings; their sides permuted 252 times", "# Event 'cpu-clock': "]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let parse = text.lines().find(|line| line.ends_with(" [.] parse")).unwrap();
    assert!(parse.contains(" more ") || parse.contains(" larger share "), "{text}");
    document(folder);
    gates(folder);
}

/// The JSON document and the page are written although some of the gates fail.
fn document(folder: &Path) {
    let gates = ["parse>+5pp", "parse>+90pp", "*>+5pp", "lookup>+5pp", "not_there>+1%"];
    let mut options = vec!["--json", "--per", "time", "-s", "dso,symbol", "--flame", "diff.html"];
    options.extend(gates.iter().flat_map(|gate| ["--fail-if", gate]));
    let shown = diff(&with_sides(&options), folder);
    assert_eq!(status(&shown), 3, "{}", stderr(&shown));
    let document: Value = serde_json::from_str(&stdout(&shown)).unwrap();
    assert_eq!((&document["version"], &document["per"]), (&1.into(), &"s".into()));
    assert_eq!(document["a"].as_array().unwrap().len(), 5);
    let met = document["fail_if"].as_array().unwrap();
    let failed: Vec<_> = met.iter().map(|gate| gate["failed"].as_bool().unwrap()).collect();
    assert_eq!(failed, [true, false, true, false, true], "{met:?}");
    let event = &document["events"][0];
    assert_eq!(event["unit"], "nanoseconds");
    let rows = event["rows"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["symbol"] == name).unwrap();
    assert_eq!(row("parse")["dso"], "steps");
    let share = &row("parse")["share"];
    let [a, b] = ["a", "b"].map(|side| share[side].as_f64().unwrap());
    // 40 of 100, 80 of 140.
    assert!((0.3..0.5).contains(&a) && (0.47..0.67).contains(&b), "{share}");
    let [low, high] = ["low", "high"].map(|end| share["difference"][end].as_f64().unwrap());
    assert!(low < b - a && b - a < high && low > 0.0, "{share}");
    assert!(share["p"].as_f64().unwrap() <= 0.01, "{share}");
    // At most about a second of CPU time each second.
    let all = event["all"]["a"].as_f64().unwrap() / 1e9;
    assert!((0.05..1.5).contains(&all), "{all}");
    let page = std::fs::read_to_string(folder.join("diff.html")).unwrap();
    assert!(page.contains("5 recordings, b1.data to b5.data against"), "{}", page.len());
}

/// Gates that pass, and the SVG.
fn gates(folder: &Path) {
    let options = ["--fail-if", "parse>+90pp", "--fail-if", "*<-99pp", "--flame", "diff.svg"];
    let shown = diff(&with_sides(&options), folder);
    assert_eq!(status(&shown), 0, "{}", stdout(&shown));
    assert!(stdout(&shown).contains("# --fail-if 'parse>+90pp' passed"), "{}", stdout(&shown));
    let picture = std::fs::read_to_string(folder.join("diff.svg")).unwrap();
    let parse = picture.lines().find(|line| line.contains("<title>parse ")).unwrap();
    // Red, since its share grew.
    assert!(parse.contains("fill:rgb(232,") && parse.contains("% from "), "{parse}");
}

#[test]
fn one_recording_a_side_is_judged_by_shares_alone_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    record_rounds(folder, "perf.data.old", "0", "80");
    record_rounds(folder, "perf.data", "400", "80");
    let shown = diff(&[], folder);
    assert_eq!(status(&shown), 0, "{}", stderr(&shown));
    let text = stdout(&shown);
    for part in [
        "# A: perf.data.old, ",
        "# B: perf.data, ",
        "weights are not judged: one recording a side",
        "another run may differ by more",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let parse = text.lines().find(|line| line.ends_with(" [.] parse")).unwrap();
    assert!(parse.contains(" larger share "), "{text}");
    // Of weights there is no interval: a gate on them can't pass.
    let judged = diff(&["--fail-if", "parse>+1000%"], folder);
    assert_eq!(status(&judged), 3, "{}", stdout(&judged));
    let stacks = diff(&["--stacks", "-q"], folder);
    assert!(stdout(&stacks).contains("main;once;parse"), "{}", stdout(&stacks));
    let filtered = diff(&["-S", "sort", "--percentage", "relative", "-q"], folder);
    assert!(stdout(&filtered).starts_with("   100.00%"), "{}", stdout(&filtered));
    let separated = diff(&["-t", ",", "-o", "0", "-p", "--percent-limit", "0"], folder);
    let rows = stdout(&separated);
    let rows = rows.lines().filter(|line| !line.starts_with('#'));
    assert!(rows.map(|row| row.split(',').count()).all(|count| count == 11), "{separated:?}");
}

#[test]
fn on_a_terminal_the_table_is_interactive() {
    let Some(terminal) = Terminal::new(90, 20) else { return };
    let folder = terminal.folder();
    record_rounds(folder, "perf.data.old", "0", "80");
    record_rounds(folder, "perf.data", "400", "80");
    terminal.run(&format!("cd {}; {} diff", folder.display(), binary().display()));
    let screen = terminal.wait_for("? keys");
    for part in ["cpu-clock: ", "Missing: ", "Baseline", "larger share", "[.] parse", "Finds"] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    terminal.press(&["/"]);
    terminal.type_in("lookup");
    terminal.press(&["Enter", "s"]);
    terminal.wait_for("Sorted by the signed change of the share");
    terminal.press(&["?"]);
    terminal.wait_for("recordings, method, verdicts");
    terminal.press(&["Escape"]);
    terminal.wait_for("Baseline");
    terminal.press(&["i"]);
    terminal.wait_for("weights are not judged");
    terminal.press(&["Escape"]);
    terminal.resize(40, 6);
    terminal.wait_for("cpu-clock");
    terminal.resize(90, 20);
    terminal.press(&["C-z"]);
    terminal.wait_for("Stopped");
    terminal.run("fg");
    terminal.wait_for("? keys");
    terminal.press(&["q"]);
    assert_eq!(terminal.assert_sane(), 0);
}

#[test]
fn call_chains_of_both_sides_are_a_graph_of_cells() {
    let Some(terminal) = Terminal::new(100, 20) else { return };
    for (name, parsed) in [("before.data", 20), ("now.data", 60)] {
        let mut made = SampleStream::new(&[10]);
        for (number, name) in ["main", "parse", "send"].into_iter().enumerate() {
            made.name(number as u64 + 1, name);
        }
        for number in 0..100 {
            let chain = if number < parsed { [2, 1] } else { [3, 1] };
            made.sample(10, 1_000_000_000 + number * 1_000_000, &chain);
        }
        made.write(terminal.folder(), name);
    }
    let line = "diff --symfs . before.data now.data";
    terminal.run(&format!("cd {}; {} {line}", terminal.folder().display(), binary().display()));
    terminal.wait_for("? keys");
    terminal.press(&["f", "Down", "Down"]);
    terminal.wait_for("100.00% -> 100.00% (+0.00) main");
    terminal.press(&["Down"]);
    let screen = terminal.wait_for("80.00% -> 40.00% (-40.00) send");
    let drawn = screen.lines().any(|line| line.starts_with("-send ") && line.contains("▕+parse "));
    assert!(drawn, "{screen}");
    terminal.press(&["Right"]);
    terminal.wait_for("20.00% -> 60.00% (+40.00) parse");
    terminal.press(&["Enter"]);
    terminal.wait_without("-send");
    terminal.press(&["x", "Escape"]);
    terminal.wait_for("-send");
    terminal.press(&["f"]);
    terminal.wait_for("Baseline");
    terminal.press(&["q"]);
    assert_eq!(terminal.assert_sane(), 0);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    for (args, told, code) in [
        (&["-D"][..], "tare script", 2),
        (&["--stream"], "--stacks", 2),
        (&["-c", "cycles"], "perf diff -c cycles", 2),
        (&["-c", "nonsense"], "wdiff:", 2),
        (&["-s", "pid"], "choose from comm, dso, sym", 2),
        (&["--fail-if", "malloc"], "malloc>+1%", 2),
        (&["--json", "a", "b", "c"], "separate A and B by --", 2),
        (&["-", "--", "-"], "one recording", 2),
        (&["a", "--", "b", "--json"], "put options before it", 2),
        (&["--tui"], "not a terminal", 2),
        (&["a.data", "b.data"], "a.data", 1),
    ] {
        let output = diff(args, folder.path());
        assert_eq!(status(&output), code, "{args:?}");
        let told_so = stderr(&output).starts_with("tare: ") && stderr(&output).contains(told);
        assert!(told_so, "{args:?}: {}", stderr(&output));
    }
}

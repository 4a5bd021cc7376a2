//! `tare top` as text, as JSON, and on a terminal.

use std::process::{Command, Output, Stdio};

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tare_tui::{Binding, LIVE_BINDINGS};

use crate::support::{ProcessGuard, is_root, stderr, tare, wait_until, workload};
use crate::tmux::{Terminal, tare as binary};

/// A program that computes in its own functions for `seconds`.
fn busy(seconds: &str) -> ProcessGuard {
    ProcessGuard::spawn(
        Command::new(workload("mix")).args([seconds, "100", "2"]).stdout(Stdio::null()),
    )
}

fn top(args: &[&str]) -> Output {
    tare().arg("top").args(args).output().unwrap()
}

/// The documents of `--json`, one per line.
fn documents(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let documents = text.lines().map(|line| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{output:?}"))
    });
    documents.collect()
}

fn pid(process: &ProcessGuard) -> String {
    process.id().to_string()
}

#[test]
fn a_pipe_gets_a_screen_of_text_at_each_refresh() {
    let program = busy("30");
    let output = top(&["-p", &pid(&program), "-d", "0.4", "--timeout", "4000", "-E", "3"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let screens: Vec<_> = text.split("# last 10 s at ").skip(1).collect();
    assert!(screens.len() >= 2, "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    let last = screens.last().unwrap();
    assert!(last.contains(" Hz, tare takes ") && last.contains("# Samples: "), "{last}");
    let rows: Vec<_> = last.lines().filter(|line| line.trim_end().contains("%  ")).collect();
    assert!((1..=3).contains(&rows.len()) && rows[0].contains("mix"), "{last}");
    assert!(rows[0].contains("[.] "), "the function has no name: {last}");
}

#[test]
fn a_signal_before_the_first_refresh_prints_one_table() {
    let program = busy("30");
    let mut command = tare();
    command.args(["top", "--stdio", "-d", "50", "-p", &pid(&program)]);
    let top = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let descriptors = format!("/proc/{}/fd", top.id());
    let samples = || {
        let links = std::fs::read_dir(&descriptors).into_iter().flatten().flatten();
        let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
        targets.map(|target| target.display().to_string()).any(|name| name.contains("perf_event"))
    };
    wait_until("it samples", samples);
    // Enough for a sample beside others that compute.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let own = rustix::process::Pid::from_raw(i32::try_from(top.id()).unwrap()).unwrap();
    kill_process(own, Signal::INT).unwrap();
    let output = top.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.matches("# last 10 s at ").count(), 1, "{output:?}");
    assert!(text.contains("mix"), "{text}");
}

#[test]
fn json_has_a_document_a_line_with_what_watching_costs() {
    let program = busy("30");
    let output = top(&["--json", "-p", &pid(&program), "-g", "-d", "0.5", "--timeout", "2000"]);
    let documents = documents(&output);
    assert!(documents.len() >= 2, "{output:?}");
    let last = documents.last().unwrap();
    assert_eq!((&last["version"], &last["tool"]), (&Value::from(1), &Value::from("tare top")));
    assert_eq!(last["live"]["window_s"], 10.0);
    assert!(last["live"]["own_cpu_percent"].as_f64().unwrap() > 0.0, "{last}");
    assert_eq!(last["loss"]["lost_records"], 0);
    let rows = last["events"][0]["entries"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["symbol"] == "sixty"), "{last}");
    let has_graph = |row: &Value| row["graph"].as_array().is_some_and(|graph| !graph.is_empty());
    assert!(rows.iter().any(has_graph), "{last}");
}

#[test]
fn processes_of_several_options_add_up() {
    let programs = [busy("30"), busy("30")];
    let [first, second] = programs.each_ref().map(pid);
    let options = ["--sort", "pid", "--no-children", "-d", "0.5", "--timeout", "3000"];
    let output = top(&[&["--json", "-p", &first, "-p", &second][..], &options].concat());
    let documents = documents(&output);
    let rows = documents.last().unwrap()["events"][0]["entries"].as_array().unwrap();
    for pid in [first, second] {
        let has_thread = |row: &Value| {
            std::path::Path::new(&format!("/proc/{pid}/task/{}", row["tid"])).exists()
        };
        assert!(rows.iter().any(has_thread), "{pid}: {rows:?}");
    }
}

#[test]
fn copied_stacks_are_unwound_while_they_are_recorded() {
    let program = busy("30");
    // Longer than one window, so that old samples leave.
    let options = ["-d", "0.3", "--window", "0.8", "--timeout", "3000", "--call-graph", "dwarf"];
    let output = top(&[&["--json", "-F", "300", "-p", &pid(&program)], &options[..]].concat());
    let documents = documents(&output);
    let last = documents.last().unwrap();
    let rows = last["events"][0]["entries"].as_array().unwrap();
    let row = rows.iter().find(|row| row["symbol"] == "sixty");
    let graph = row.unwrap_or_else(|| panic!("{last}"))["graph"].to_string();
    // Frame pointers end at the C library's thread start function.
    assert!(graph.contains("start_thread") && graph.contains("clone3"), "{graph}");
    let unwound = &last["loss"]["copied_stacks"];
    assert!(unwound["whole"].as_u64().unwrap() > 10, "{last}");
}

#[test]
fn what_is_sampled_ends_it_and_what_is_older_than_the_window_is_gone() {
    let mut program = busy("30");
    let id = pid(&program);
    // The program is killed after 1.5 s.
    let mut watching = tare();
    watching.args(["top", "--json", "-p", &id, "-d", "0.5"]);
    let watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    program.kill().unwrap();
    program.wait().unwrap();
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stderr(&output).contains("all sampled processes have exited"), "{output:?}");
    let with_samples = |documents: &[Value]| {
        documents.iter().filter(|one| !one["events"].as_array().unwrap().is_empty()).count()
    };
    assert!(with_samples(&documents(&output)) > 0, "{output:?}");

    // A stopped process gets no samples; its old samples leave the window.
    let mut program = busy("30");
    let id = pid(&program);
    let mut watching = tare();
    watching.args(["top", "--json", "-p", &id, "-d", "0.5", "--window", "1"]);
    let watching = watching.args(["--timeout", "5000"]).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    crate::support::signal(&program, Signal::STOP);
    let documents = documents(&watching.wait_with_output().unwrap());
    program.kill().unwrap();
    assert!(with_samples(&documents) > 0, "{documents:?}");
    let last = documents.last().unwrap();
    assert!(last["events"].as_array().unwrap().is_empty(), "{last}");
}

#[test]
fn the_recorder_itself_is_left_out_unless_it_is_asked_for() {
    if !is_root() {
        return;
    }
    let own = |args: &[&str]| {
        let args =
            [&["--json", "-a", "-s", "pid", "-d", "0.5", "--timeout", "4000"], args].concat();
        let mut watching = tare();
        let watching = watching.arg("top").args(args).stdout(Stdio::piped()).spawn().unwrap();
        let id = i64::from(watching.id());
        let documents = documents(&watching.wait_with_output().unwrap());
        let events = documents.iter().flat_map(|one| one["events"].as_array().unwrap().clone());
        let mut rows = events.flat_map(|event| event["entries"].as_array().unwrap().clone());
        let is_there = rows.any(|row| row["tid"] == id);
        (is_there, documents.last().unwrap()["loss"]["own_samples_left_out"].as_u64().unwrap())
    };
    assert_eq!(own(&["--include-self"]), (true, 0));
    let (is_there, left_out) = own(&[]);
    assert!(!is_there && left_out > 0);
}

#[test]
fn a_budget_is_kept_by_lower_rates() {
    if !is_root() {
        return;
    }
    let _program = busy("30");
    let output = top(&[
        "-a",
        "--json",
        "-F",
        "20000",
        "--max-overhead",
        "0.5%",
        "-d",
        "1",
        "--timeout",
        "8000",
    ]);
    let hz: Vec<_> =
        documents(&output).iter().filter_map(|one| one["live"]["hz"].as_u64()).collect();
    assert!(!hz.is_empty() && hz.iter().all(|hz| *hz < 20_000), "{output:?}");
    // The cost of a tracepoint's sample is unknown, so `top` drops its default budget.
    let output =
        top(&["-a", "-e", "sched:sched_switch", "--stdio", "-d", "0.3", "--timeout", "900"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let refused = top(&["-p", "1", "--max-overhead", "1%", "--timeout", "100"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr(&refused).contains("--max-overhead"), "{refused:?}");
}

#[test]
fn wrong_usage_and_missing_rights_are_one_line_with_a_remedy() {
    let cases: [(&[&str], i32, &str); 6] = [
        (&["-d", "0"], 2, "-d 0: give seconds"),
        (&["--window", "x"], 2, "--window x: give seconds"),
        (&["-p", "999999999"], 2, "999999999"),
        (&["--tui", "-p", "1"], 2, "stdout is not a terminal"),
        (&["--call-graph", "dwarf,1"], 2, "dwarf"),
        (&["-s", "nothing"], 2, "no column or sort key 'nothing'"),
    ];
    for (args, status, words) in cases {
        let output = top(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        let lines: Vec<_> = said.lines().filter(|line| !line.contains("no CPU PMU")).collect();
        assert!(lines.len() == 1 && lines[0].contains(words), "{args:?}: {said}");
    }
    if !is_root() {
        return;
    }
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if paranoid.trim().parse::<i32>().unwrap() < 1 {
        return println!("skipped: everybody may sample the whole machine here");
    }
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("tare");
    std::fs::copy(binary(), &copy).unwrap();
    let mut nobody = Command::new("setpriv");
    nobody
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args(["top", "-a"]);
    std::os::unix::fs::chown(folder.path(), Some(65534), None).unwrap();
    let output = nobody.env("HOME", "/nonexistent").output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("perf_event_paranoid") && said.contains("sysctl"), "{said}");
    assert!(said.contains("tare top -p"), "{said}");
}

#[test]
fn on_a_terminal_it_is_shown_typed_into_and_ended() {
    let Some(terminal) = Terminal::new(110, 24) else { return };
    let program = busy("100");
    let line = format!("{} top -g -d 0.3 -p {}", binary().display(), pid(&program));
    terminal.run(&line);
    let screen = terminal.wait("rows", |screen| {
        ["mix", "sixty", "last 10 s at 999 Hz"].iter().all(|text| screen.contains(text))
    });
    assert!(screen.contains("Samples: "), "{screen}");
    // Views of the report.
    terminal.press(&["4"]);
    terminal.wait("a flame graph", |screen| {
        screen.contains("sixty") && !screen.contains("Shared Object")
    });
    terminal.press(&["5"]);
    terminal.wait_for("CPU 0");
    terminal.press(&["1"]);
    terminal.wait_for("Shared Object");
    terminal.press(&["?"]);
    terminal.wait_for("pause or resume recording");
    // A key that arrives together with Escape would be read as Alt and that key.
    terminal.press(&["Escape"]);
    terminal.wait_without("pause or resume recording");
    // Keys of perf top.
    terminal.press(&["K"]);
    terminal.wait_for("Filter: without the kernel");
    terminal.press(&["K"]);
    terminal.wait_for("No filter");
    terminal.press(&["z"]);
    terminal.wait_for("last 0.3 s at");
    terminal.press(&["z"]);
    terminal.wait_for("last 10 s at 999 Hz");
    terminal.press(&["D"]);
    terminal.type_in("0.5");
    terminal.press(&["Enter"]);
    terminal.press(&["Space"]);
    let paused = terminal.wait_for(", paused");
    let first = |screen: &str| screen.lines().next().unwrap_or_default().to_owned();
    wait_until("the last samples to come", || {
        let before = first(&terminal.screen());
        std::thread::sleep(std::time::Duration::from_millis(1500));
        before == first(&terminal.screen())
    });
    assert!(paused.contains("Samples: "), "{paused}");
    terminal.press(&["Space"]);
    terminal.wait_without(", paused");
    // The instructions of the hottest function.
    terminal.press(&["/"]);
    terminal.type_in("sixty");
    terminal.press(&["Enter", "a"]);
    terminal.wait("instructions", |screen| screen.contains("ret") || screen.contains("mov"));
    terminal.press(&["Escape"]);
    terminal.wait_for("Shared Object");
    terminal.resize(40, 10);
    terminal
        .wait("a narrow screen", |screen| screen.lines().all(|line| line.chars().count() <= 40));
    terminal.resize(110, 24);
    terminal.press(&["q"]);
    assert_eq!(terminal.assert_sane(), 0);
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    let Some(terminal) = Terminal::new(100, 24) else { return };
    let program = busy("100");
    let line = format!("{} top -d 0.3 -p {}", binary().display(), pid(&program));
    // The rate that follows is lower than 999 Hz where tare's work uses up its budget.
    let table = "last 10 s at ";
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        terminal.run(&line);
        terminal.wait_for(table);
        kill_process(terminal.foreground(), signal).unwrap();
        terminal.wait_without("last 10 s at");
        assert_eq!(terminal.assert_sane(), status, "{signal:?}");
    }
    terminal.run(&line);
    terminal.wait_for(table);
    terminal.press(&["C-z"]);
    terminal.wait_for("Stopped");
    terminal.assert_sane();
    terminal.run("fg");
    terminal.wait_for(table);
    drop(program);
    terminal.wait_for("all sampled processes have exited");
    assert_eq!(terminal.assert_sane(), 0);
}

#[test]
fn the_manual_lists_the_keys_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/top.md");
    let manual = std::fs::read_to_string(path).unwrap();
    let line = |binding: &Binding| {
        let keys: Vec<_> = binding.keys.iter().map(|key| format!("`{key}`")).collect();
        format!("| {} | {} |", keys.join(" "), binding.help)
    };
    let wanted: Vec<_> = LIVE_BINDINGS.iter().map(line).collect();
    let found: Vec<_> = manual.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(found.join("\n"), wanted.join("\n"));
}

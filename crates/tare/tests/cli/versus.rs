//! `tare stat --vs`.

use std::process::{Command, Output, Stdio};

fn stat(options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(["stat", "--null", "-o", "-"])
        .args(options)
        .output()
        .expect("tare runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_large_difference_is_found_and_gates() {
    let few = [
        "--max-runs",
        "16",
        "--seed",
        "1",
        "--fail-if",
        "time>+50%",
        "--vs",
        "sleep 0.05",
        "--",
        "true",
    ];
    let output = stat(&few);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(
        stdout(&output).lines().any(|line| line.starts_with(" time") && line.ends_with("slower")),
        "{}",
        stdout(&output)
    );
    assert_eq!(
        stderr(&output),
        "tare: --fail-if 'time>+50%': B is beyond it, with all of the 95% interval\n"
    );
    let output = stat(&[
        "--max-runs",
        "16",
        "--fail-if",
        "time>+50%",
        "--vs",
        "true",
        "--",
        "sleep",
        "0.05",
    ]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    assert!(stdout(&output).contains("faster"), "{}", stdout(&output));
}

#[test]
fn the_document_holds_every_pair_and_the_same_figures() {
    let output = stat(&[
        "--json",
        "--max-runs",
        "8",
        "--seed",
        "5",
        "--vs",
        "true 'b c'",
        "--",
        "true",
        "a",
    ]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["version"], 1);
    assert_eq!(
        (&document["a"], &document["b"]),
        (&serde_json::json!(["true", "a"]), &serde_json::json!(["true", "b c"]))
    );
    assert_eq!(
        (&document["seed"], &document["stop"]),
        (&serde_json::json!(5), &serde_json::json!("max-runs"))
    );
    let pairs = document["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 8);
    let time = &document["metrics"][0];
    assert_eq!(
        (&time["metric"], &time["pairs"], &time["scale"]),
        (&"time".into(), &8.into(), &"ratio".into())
    );
    let mut times: Vec<f64> =
        pairs.iter().map(|pair| pair["a"]["time"].as_f64().unwrap()).collect();
    times.sort_by(f64::total_cmp);
    assert!(
        (time["median_a"].as_f64().unwrap() - f64::midpoint(times[3], times[4])).abs() < 1e-12,
        "{document}"
    );
    assert!(
        pairs.iter().any(|pair| pair["first"] == "A")
            && pairs.iter().any(|pair| pair["first"] == "B"),
        "{document}"
    );
}

#[test]
fn csv_has_a_line_a_metric() {
    let text = stdout(&stat(&["-x;", "--max-runs", "5", "--vs", "true", "--", "true"]));
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(';').collect()).collect();
    assert_eq!(
        lines.iter().map(|line| line[0]).collect::<Vec<_>>(),
        ["metric", "time", "cpu-time", "peak-memory"]
    );
    assert!(lines.iter().all(|line| line.len() == 13), "{text}");
}

#[test]
fn b_runs_without_a_shell_and_with_one_where_wanted() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let said = |options: &[&str]| {
        let file = folder.path().join("said");
        let where_to = file.to_str().unwrap();
        let output = stat(
            &[&["--max-runs", "1", "--warmup", "0", "--command-output", where_to], options]
                .concat(),
        );
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let mut lines: Vec<String> =
            std::fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        said(&["--vs", "echo '$HOME' '|' cat", "--", "echo", "a b"]),
        ["$HOME | cat", "a b"]
    );
    assert_eq!(said(&["--shell", "--vs", "echo b | tr b c", "--", "echo a | tr a d"]), ["c", "d"]);
}

#[test]
fn a_command_that_fails_stops_it_unless_ignored() {
    let output = stat(&["--vs", "sh -c 'exit 4'", "--", "true"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(4), String::new()));
    let said = "tare: command B exited with status 4: --command-output inherit shows its output, --ignore-failure compares failed runs too\n";
    assert_eq!(stderr(&output), said);
    let output =
        stat(&["--ignore-failure", "--max-runs", "5", "--vs", "sh -c 'exit 4'", "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = stat(&["--vs", "no-such-program-here", "--", "true"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(127), String::new()));
    assert_eq!(
        stat(&["--vs", "true"]).status.code(),
        Some(2),
        "--vs needs a command to compare with"
    );
    assert_eq!(stat(&["--vs", "true", "-r", "3", "--", "true"]).status.code(), Some(2));
}

#[test]
fn commands_read_nothing_and_print_nothing() {
    let output =
        stat(&["--max-runs", "2", "--vs", "sh -c 'cat; echo out; echo err >&2'", "--", "cat"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    assert!(!stdout(&output).contains("\nout"), "{}", stdout(&output));
}

#[test]
fn an_interrupt_shows_what_was_measured() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tare"));
    child.args([
        "stat",
        "--null",
        "-o",
        "-",
        "--min-runs",
        "5",
        "--vs",
        "sleep 0.01",
        "--",
        "sh",
        "-c",
        "echo >> $COUNT; sleep 0.01",
    ]);
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let mut child =
        child.env("COUNT", &count).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // After eight runs of A at least six pairs are complete.
    while std::fs::read_to_string(&count).map_or(0, |text| text.len()) < 8 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stdout(&output).contains("then ended by signal 2"), "{}", stdout(&output));
    assert!(stdout(&output).lines().any(|line| line.starts_with(" time")), "{}", stdout(&output));
}

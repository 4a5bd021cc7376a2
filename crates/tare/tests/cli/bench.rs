//! `tare bench`: hyperfine's command line, exports, hooks and gates.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn tare_bench(folder: &Path) -> Command {
    let mut command = crate::support::tare();
    command.arg("bench").current_dir(folder).env_remove("COLUMNS");
    command
}

fn bench_in(folder: &Path, options: &[&str]) -> Output {
    tare_bench(folder).args(options).output().expect("tare was built")
}

fn bench(options: &[&str]) -> Output {
    bench_in(Path::new("/"), options)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn exported(folder: &Path, options: &[&str]) -> Value {
    let output =
        bench_in(folder, &[&["--export-json", "out.json", "--style=none"], options].concat());
    assert!(output.status.success(), "{options:?}: {}", stderr(&output));
    assert_eq!(stdout(&output), "", "--style=none prints nothing");
    serde_json::from_slice(&std::fs::read(folder.join("out.json")).unwrap()).unwrap()
}

#[test]
fn a_slower_command_is_found_and_gates() {
    let gate = ["-M", "24", "--fail-if", "time>+50%", "true", "sleep 0.1"];
    let output = bench(&gate);
    assert_eq!(output.status.code(), Some(3), "{}{}", stdout(&output), stderr(&output));
    assert!(stderr(&output).contains("--fail-if 'time>+50%': 'sleep 0.1' is beyond it"));
    let text = stdout(&output);
    let time = text.lines().find(|line| line.starts_with(" time ")).expect("a row for the time");
    assert!(time.ends_with("slower"), "{text}");
    for metric in ["user-time", "system-time", "peak-memory", "page-faults", "context-switches"] {
        assert!(text.contains(metric), "{metric}: {text}");
    }
    let output = bench(&["-M", "24", "--fail-if", "time>+50%", "sleep 0.1", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("faster"), "{}", stdout(&output));
}

#[test]
fn failures_end_with_status_1_unless_ignored() {
    let output = bench(&["-r", "3", "false"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("'false' exited with status 1: --show-output"));
    assert_eq!(bench(&["-r", "3", "-i", "false"]).status.code(), Some(0));
    assert_eq!(bench(&["-r", "3", "--ignore-failure=1,2", "false"]).status.code(), Some(0));
    assert_eq!(bench(&["-r", "3", "--ignore-failure=2", "false"]).status.code(), Some(1));
    assert_eq!(bench(&["-r", "3", "-p", "exit 9", "true"]).status.code(), Some(1));
    assert_eq!(bench(&["-N", "no-such-program-here"]).status.code(), Some(127));
    // Failed runs come before everything else.
    let text = stdout(&bench(&["-r", "3", "-i", "true", "exit 3"]));
    let first = text.lines().find(|line| !line.is_empty()).unwrap();
    assert_eq!(first, " 3 of 3 runs of 'exit 3' failed: run 1 exited with status 3.");
}

#[test]
fn json_has_hyperfines_fields_and_every_run() {
    let folder = tempfile::tempdir().unwrap();
    let document = exported(
        folder.path(),
        &["-r", "4", "-i", "-L", "status", "0,3", "-n", "exit {status}", "exit {status}"],
    );
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for (result, status) in results.iter().zip([0, 3]) {
        assert_eq!(result["command"], format!("exit {status}"));
        assert_eq!(result["exit_codes"], serde_json::json!([status, status, status, status]));
        assert_eq!(result["parameters"]["status"], status.to_string());
        assert_eq!(result["times"].as_array().unwrap().len(), 4);
        assert_eq!(result["memory_usage_byte"].as_array().unwrap().len(), 4);
        for field in ["mean", "stddev", "median", "user", "system", "min", "max"] {
            assert!(result[field].is_number(), "{field}: {result}");
        }
        // A shell ran it: its start-up is subtracted from `times` only.
        let sum = |times: &Value| {
            times.as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).sum::<f64>()
        };
        assert!(sum(&result["tare"]["whole_times"]) > sum(&result["times"]), "{result}");
    }
    assert_eq!(document["tare"]["version"], 1);
    assert_eq!(document["failed_runs"].as_array().unwrap().len(), 4);
    assert_eq!(document["failed_runs"][0]["status"], 3);
    assert!(document["tare"]["comparisons"][0]["metrics"][0]["verdict"].is_string());
}

#[test]
fn tables_have_hyperfines_columns() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench_in(
        folder.path(),
        &[
            "-r",
            "3",
            "--style",
            "basic",
            "-u",
            "millisecond",
            "--export-csv",
            "t.csv",
            "--export-markdown",
            "t.md",
            "--export-asciidoc",
            "t.adoc",
            "--export-orgmode",
            "t.org",
            "-L",
            "n",
            "1,2",
            "-n",
            "a|b,{n}",
            "true",
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let csv = read("t.csv");
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("command,mean,stddev,median,user,system,min,max,parameter_n"));
    let first = lines.next().unwrap();
    assert!(first.starts_with("\"a|b,1 (n = 1)\",") && first.ends_with(",1"), "{csv}");
    let markdown = read("t.md");
    assert!(markdown.starts_with("| Command | Mean [ms] | Min [ms] | Max [ms] | Relative |\n|:---|---:|---:|---:|---:|\n| `a\\|b,1 (n = 1)` | "), "{markdown}");
    assert!(markdown.contains(" 1.00 |") && markdown.contains(" ± "), "{markdown}");
    assert!(read("t.adoc").starts_with("[cols=\"<,>,>,>,>\"]\n|===\n| Command "));
    assert!(read("t.org").starts_with(
        "| Command  |  Mean [ms] |  Min [ms] |  Max [ms] |  Relative |\n|--+--+--+--+--|\n"
    ));
}

/// Each command's setup replaces the same file, and every block runs its own build.
#[test]
fn two_builds_made_in_one_folder_by_setup_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    for (name, line) in [("quick", "exit 0"), ("slow", "sleep 0.02")] {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
    }
    let document = exported(
        folder.path(),
        &[
            "-r",
            "24",
            "-L",
            "build",
            "quick,slow",
            "--setup",
            "cp {build} prog; echo {build} >> log",
            "--cleanup",
            "rm prog",
            "-n",
            "{build}",
            "./prog",
        ],
    );
    let time = &document["tare"]["comparisons"][0]["metrics"][0];
    assert_eq!(time["verdict"], "slower", "{time}");
    let minimum = |result: usize| document["results"][result]["min"].as_f64().unwrap();
    let maximum = |result: usize| document["results"][result]["max"].as_f64().unwrap();
    assert!(minimum(1) >= 0.02, "{}", minimum(1));
    let median = document["results"][0]["median"].as_f64().unwrap();
    assert!(median < minimum(1), "{median} {}", maximum(0));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(log.lines().count(), 48, "{log}");
    assert!(log.contains("quick\nslow") && log.contains("slow\nquick"), "{log}");
}

#[test]
fn hooks_surround_runs_and_iterations_are_numbered() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench_in(
        folder.path(),
        &[
            "-N",
            "--style=none",
            "-r",
            "2",
            "-w",
            "1",
            "-s",
            "echo setup >> log",
            "-p",
            "echo prepare $HYPERFINE_ITERATION >> log",
            "-C",
            "echo conclude >> log",
            "-c",
            "echo cleanup >> log",
            "sh -c 'echo run $HYPERFINE_ITERATION >> log'",
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let block = |number: usize| {
        format!(
            "setup\nprepare warmup\nrun warmup\nconclude\nprepare {number}\nrun {number}\nconclude\ncleanup\n"
        )
    };
    assert_eq!(log, block(0) + &block(1));
}

#[test]
fn every_run_reads_the_same_input() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("input"), "from a file\n").unwrap();
    let line = "cat >> log";
    let run = |input: &str, given: &str| {
        let mut child = tare_bench(folder.path())
            .args(["--style=none", "-r", "3", "--input", input, line])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(given.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        std::fs::remove_file(folder.path().join("log")).unwrap();
        log
    };
    assert_eq!(run("-", "typed\n"), "typed\n".repeat(3));
    assert_eq!(run("input", "other\n"), "from a file\n".repeat(3));
    assert_eq!(run("null", "other\n"), "");
}

#[test]
fn output_goes_where_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let run = |options: &[&str]| {
        let output = bench_in(folder.path(), &[&["-r", "2", "--style=none"], options].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(run(&["echo a"]), "");
    assert_eq!(run(&["--output", "pipe", "yes | head -c 300000"]), "");
    assert_eq!(run(&["--output", "inherit", "echo a"]), "a\na\n");
    assert_eq!(run(&["--show-output", "-p", "echo p", "echo a"]), "p\na\np\na\n");
    assert_eq!(run(&["--output", "one", "--output", "two", "echo 1", "echo 22"]), "");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!((read("one"), read("two")), ("1\n".to_owned(), "22\n".to_owned()));
}

#[test]
fn an_interrupted_run_is_left_out_and_the_others_are_shown() {
    let child = tare_bench(Path::new("/"))
        .args(["-r", "1000", "--export-json", "-", "--style=none", "sleep 0.05"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let times = document["results"][0]["times"].as_array().unwrap();
    assert!(!times.is_empty() && times.iter().all(|time| time.as_f64().unwrap() >= 0.05));
    assert!(document["tare"]["failure"].as_str().unwrap().contains("signal 2"));
}

/// Usage examples of hyperfine's README and manual page, with shorter waits and programs that are
/// there. Two need bash, as with hyperfine: Debian's sh has no `**`, and no shell expands an alias
/// on the line that defines it.
const EXAMPLES: &[&[&str]] = &[
    &["--runs", "5", "sleep 0.03"],
    &["-r", "3", "od file", "wc file"],
    &["--warmup", "3", "-r", "3", "grep -R TODO *"],
    &["-r", "3", "--prepare", "sync; echo 3 | cat > caches", "grep -R TODO *"],
    &[
        "-r",
        "3",
        "--prepare",
        "true clean",
        "--parameter-scan",
        "num_threads",
        "1",
        "3",
        "true -j {num_threads}",
    ],
    &["-r", "3", "--parameter-scan", "delay", "0.03", "0.07", "-D", "0.02", "sleep {delay}"],
    &["-r", "3", "-L", "compiler", "gcc,clang", "echo {compiler} -O2 main.cpp"],
    &["-r", "3", "--shell", "bash", "for i in {1..100}; do echo test; done"],
    &["-r", "3", "-N", "grep TODO file"],
    &["-r", "3", "my_function() { sleep 0.01; }; my_function"],
    &["-r", "3", "find . -name todo.txt"],
    &["--min-runs", "5", "-M", "5", "sleep 0.002", "sleep 0.032"],
    &[
        "-r",
        "3",
        "--export-markdown",
        "output.md",
        "--parameter-scan",
        "time",
        "1",
        "5",
        "sleep 0.0{time}",
    ],
    &["-r", "3", "--shell", "bash", "-P", "size", "0", "3", "sleep 0.0$((2**{size}))"],
    &["-r", "3", "-S", "bash --norc", "echo hello > output-${HYPERFINE_ITERATION}.log"],
    &[
        "-L",
        "n",
        "1,2",
        "-r",
        "2",
        "--show-output",
        "--setup",
        "echo setup n={n}",
        "--prepare",
        "echo prepare={n}",
        "--conclude",
        "echo conclude={n}",
        "--cleanup",
        "echo cleanup n={n}",
        "echo command n={n}",
    ],
];

#[test]
fn hyperfines_usage_examples_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("file"), "TODO\n".repeat(50)).unwrap();
    let shorter = ["--style=basic", "--max-time=1"];
    for example in EXAMPLES {
        let output = bench_in(path, &[&shorter, *example].concat());
        assert!(output.status.success(), "{example:?}: {}{}", stdout(&output), stderr(&output));
    }
    for number in 0..3 {
        assert!(path.join(format!("output-{number}.log")).exists());
    }
    // An exported function of bash.
    let output = tare_bench(path)
        .args(["-r", "2", "--shell=bash", "my_function"])
        .env("BASH_FUNC_my_function%%", "() { sleep 0.01; }")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn parameters_and_plots_are_shown() {
    let output =
        bench(&["-r", "8", "--plot", "-L", "t", "0.01,0.02", "sleep {t}", "--sort", "command"]);
    let text = stdout(&output);
    assert!(text.contains(" 1: sleep 0.01\n") && text.contains(" 2: sleep 0.02\n"), "{text}");
    assert!(text.contains('█'), "{text}");
    assert!(text.contains("compared with 1: sleep 0.01"), "{text}");
}

/// A git checkout with a C program: its revisions are a first one, one that changes a document,
/// and one that makes the program slower.
fn checkout(folder: &Path) {
    let git = |args: &[&str]| {
        let status = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-C"])
            .arg(folder)
            .args(args)
            .status()
            .expect("git is there");
        assert!(status.success(), "{args:?}");
    };
    let program = |rounds: u32| {
        let text = format!(
            "int main(void) {{ volatile unsigned i = 0; while (i < {rounds}u) i++; return 0; }}\n"
        );
        std::fs::write(folder.join("prog.c"), text).unwrap();
    };
    program(500_000);
    std::fs::write(folder.join("README"), "one\n").unwrap();
    git(&["init", "--quiet"]);
    for (message, tag) in [("first", "first"), ("document", "document"), ("slower", "slower")] {
        match tag {
            "document" => std::fs::write(folder.join("README"), "two\n").unwrap(),
            "slower" => program(30_000_000),
            _ => {}
        }
        git(&["add", "-A"]);
        git(&["commit", "--quiet", "-m", message]);
        git(&["tag", tag]);
    }
}

#[test]
fn two_revisions_are_built_and_compared_and_the_same_programs_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    checkout(path);
    let compare = |revision: &str| {
        bench_in(
            path,
            &[
                "--compare",
                revision,
                "--build",
                "cc -g -O0 -o prog prog.c",
                "--fail-if",
                "time>+20%",
                "-r",
                "24",
                "./prog",
            ],
        )
    };
    let output = compare("document");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{text}{}", stderr(&output));
    assert!(text.contains(" 1: document (") && text.contains(" 2: HEAD ("), "{text}");
    assert!(text.contains("slower"), "{text}");
    let checked_out = |tag: &str| {
        let git = Command::new("git").args(["checkout", "--quiet", tag]).current_dir(path).status();
        assert!(git.unwrap().success());
    };
    checked_out("document");
    let output = compare("first");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("the same programs, byte by byte"), "{}", stdout(&output));
    assert_eq!(compare("no-such-revision").status.code(), Some(2));
    let output = bench_in(path, &["--compare", "first", "--build", "echo why; exit 4", "./prog"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("failed for first") && stderr(&output).contains("why"));
    let worktrees = Command::new("git").args(["worktree", "list"]).current_dir(path).output();
    assert_eq!(stdout(&worktrees.unwrap()).lines().count(), 1, "no worktree is left behind");
}

#[test]
fn a_baseline_gates_on_its_own_machine_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    exported(path, &["-r", "20", "-n", "prog", "true"]);
    let gate = |more: &[&str]| {
        let options =
            ["-r", "20", "--baseline", "out.json", "--fail-if", "time>+50%", "-n", "prog"];
        bench_in(path, &[&options, more].concat())
    };
    let output = gate(&["sleep 0.3"]);
    assert_eq!(output.status.code(), Some(3), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("compared with the baseline"), "{}", stdout(&output));
    let text = std::fs::read_to_string(path.join("out.json")).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    document["tare"]["host"] = "elsewhere".into();
    std::fs::write(path.join("out.json"), document.to_string()).unwrap();
    let output = gate(&["sleep 0.3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("another machine (elsewhere;"), "{}", stderr(&output));
    assert_eq!(gate(&["--allow-other-host", "sleep 0.3"]).status.code(), Some(3));
}

#[test]
fn formats_of_ci_name_failures() {
    let folder = tempfile::tempdir().unwrap();
    let run = |format: &str| {
        let output = tare_bench(folder.path())
            .args([
                "-M",
                "16",
                "-i",
                "--format",
                format,
                "--fail-if",
                "time>+50%",
                "exit 3",
                "sleep 0.1 <&-",
            ])
            .env("GITHUB_STEP_SUMMARY", folder.path().join("summary"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        stdout(&output)
    };
    let junit = run("junit");
    for part in [
        "<testsuite name=\"tare bench\" tests=\"2\" failures=\"1\" errors=\"1\"",
        " runs of 'exit 3' failed: run 1 exited with status 3\"/>",
        "name=\"sleep 0.1 &lt;&amp;- against exit 3\"",
        "<failure message=\"time&gt;+50%: ",
    ] {
        assert!(junit.contains(part), "{part}: {junit}");
    }
    let github = run("github");
    assert!(github.contains(" runs of 'exit 3' failed"), "{github}");
    assert!(github.contains("::error title=tare bench::time>+50%25: "), "{github}");
    let markdown = run("markdown");
    assert!(markdown.contains("| command | against | time | finds |"), "{markdown}");
    assert!(markdown.starts_with("- ❌ `"), "{markdown}");
    let summary = std::fs::read_to_string(folder.path().join("summary")).unwrap();
    assert!(summary.contains("| command | against |"), "{summary}");
}

#[test]
fn plots_have_a_dot_for_each_run() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench_in(
        folder.path(),
        &[
            "-r",
            "5",
            "--style=none",
            "--export-svg",
            "p.svg",
            "--export-html",
            "p.html",
            "true",
            "echo '<b>'",
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let svg = read("p.svg");
    // Ten runs and two entries of the legend.
    assert_eq!(svg.matches("<circle").count(), 12, "{svg}");
    let html = read("p.html");
    assert!(html.contains("<svg") && html.contains("&lt;b&gt;") && !html.contains("<b>"), "{html}");
}

//! Command lines that people type from habit: perf's spelling, and mistakes that deserve an answer.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::support::{ProcessGuard, status, stderr, tare, workload};

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A small recording of CPU time.
fn recording(folder: &tempfile::TempDir) -> PathBuf {
    let file = folder.path().join("perf.data");
    let mut record = tare();
    record.args(["record", "-q", "-e", "cpu-clock", "-o"]).arg(&file).arg(workload("spin"));
    let output = record.arg("30000000").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    file
}

/// Asserts that tare refuses the words with status 2, in one line that contains `answer`.
fn refuses(words: &[&str], answer: &str) {
    let output = tare().args(words).output().unwrap();
    let said = stderr(&output);
    assert_eq!(status(&output), 2, "{words:?}: {output:?}");
    assert!(said.starts_with("tare: ") && said.contains(answer), "{words:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
}

#[test]
fn mistakes_are_answered_in_one_line() {
    for command in ["trace", "sched", "lock"] {
        refuses(&[command, "-j", "true"], "there is no option '-j' here");
        refuses(&[command, "--outptu", "x", "true"], "a similar one is '--output'");
    }
    refuses(&["report", "--sort", "coom"], "nearest: comm");
    refuses(&["script", "-F", "comn"], "nearest: comm");
    refuses(&["export", "--format", "foldd"], "a similar one is 'folded'");
    refuses(&["report", "--sort"], "a value is required");
    refuses(&["report", "--json", "--stats"], "cannot be used with");
    refuses(&["record", "-g-p", "1"], "write -g -p 1");
    refuses(&["flame", "-o", "x.pdf"], "HTML and SVG");
}

#[test]
fn a_command_may_have_options_of_its_own() {
    let output = tare().args(["trace", "-s", "sh", "-c", "exit 3"]).output().unwrap();
    if status(&output) != 3 {
        println!("skipped: {}", stderr(&output));
    }
    let output = tare().args(["trace", "--", "-c"]).output().unwrap();
    assert!(stderr(&output).contains("-c"), "{output:?}");
    assert_ne!(status(&output), 2, "after -- it is the command: {output:?}");
}

#[test]
fn a_recording_is_named_with_or_without_an_option() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(&folder);
    let report = |words: &[&str]| {
        let mut report = tare();
        report.args(["report", "--stdio"]).args(words);
        let output = report.current_dir(folder.path()).output().unwrap();
        assert_eq!(status(&output), 0, "{output:?}");
        stdout(&output)
    };
    let path = file.to_str().unwrap();
    assert_eq!(report(&[path]), report(&["-i", path]));
    assert_eq!(report(&["perf.data"]), report(&[]));
    refuses(&["report", "-i", path, path], "cannot be used with");
}

#[test]
fn the_header_comes_before_other_parts() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(&folder);
    let part = |words: &[&str]| {
        let output = tare().arg("report").args(words).arg("-i").arg(&file).output().unwrap();
        assert_eq!(status(&output), 0, "{output:?}");
        stdout(&output)
    };
    for words in ["--stats", "--tasks", "--mmaps"] {
        let both = part(&["--header", words]);
        assert!(both.starts_with("# ========"), "{words}: {both}");
        assert!(both.contains("# os release"), "{words}: {both}");
        assert!(both.ends_with(&part(&[words])), "{words}: {both}");
    }
}

#[test]
fn options_before_the_command_and_times_with_blanks_are_perfs() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(&folder);
    let path = file.to_str().unwrap();
    let lines = |words: &[&str]| {
        let output = tare().args(words).output().unwrap();
        assert_eq!(status(&output), 0, "{words:?}: {output:?}");
        stdout(&output)
    };
    let plain = lines(&["script", "-i", path]);
    assert!(!plain.is_empty());
    let global =
        ["--no-pager", "--debug", "verbose=1", "--buildid-dir", path, "script", "-i", path];
    assert_eq!(lines(&global), plain);
    assert_eq!(lines(&["script", "--time", "0, ", "-i", path]), plain);
    assert!(lines(&["-v"]).starts_with("tare "));
    assert_eq!(lines(&["help", "--help"]), lines(&["--help"]));
}

#[test]
fn tasks_win_over_the_whole_machine() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let pid = std::process::id().to_string();
    let mut record = tare();
    record.args(["record", "-a", "-e", "cpu-clock", "--timeout", "20", "-p", &pid, "-o"]);
    let output = record.arg(&file).output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    assert!(stderr(&output).contains("-a has no effect beside -p"), "{output:?}");
}

/// perf takes the clock if the machine has no hardware counter for cycles.
#[test]
fn cycles_are_recorded_by_a_timer_where_there_is_no_counter() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let mut record = tare();
    record.args(["record", "-e", "cycles:u", "-e", "page-faults", "-o"]).arg(&file).arg("true");
    let output = record.output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    if !stderr(&output).contains("takes the place of cycles") {
        println!("skipped: this machine counts cycles");
        return;
    }
    let events = tare().arg("evlist").arg("-i").arg(&file).output().unwrap();
    let names = stdout(&events);
    assert!(names.starts_with("cpu-clock:u\npage-faults\n"), "{names}");
}

#[test]
fn listings_have_the_columns_and_filters_of_perf() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(&folder);
    let annotate = |words: &[&str]| {
        let output = tare().arg("annotate").args(words).arg("-i").arg(&file).output().unwrap();
        assert_eq!(status(&output), 0, "{words:?}: {output:?}");
        stdout(&output)
    };
    let column = |text: &str| {
        let cell = |line: &str| line.split_once(" : ")?.0.trim().parse::<u64>().ok();
        text.lines().filter_map(cell).sum::<u64>()
    };
    let plain = annotate(&[]);
    assert!(plain.contains(" Percent |\t"), "{plain}");
    let samples = annotate(&["-n", "-s", "main"]);
    assert!(samples.contains(" Samples |\t"), "{samples}");
    let periods = annotate(&["--show-total-period", "-s", "main"]);
    assert!(periods.contains(" Period |\t") && column(&periods) > 1000 * column(&samples));
    assert!(column(&samples) > 0, "{samples}");
    let limited = annotate(&["--percent-limit", "50"]);
    assert!(limited.contains("Percent |") && limited.len() <= plain.len(), "{limited}");
    assert!(!annotate(&["--percent-limit", "100.1"]).contains("Percent |"));
    assert!(!annotate(&["--skip-missing", "-q"]).contains("no instructions"));
    for words in [&["-P", "-f", "-m", "--stdio2"][..], &["--group"], &["--objdump", "x"]] {
        assert_eq!(annotate(words), plain, "{words:?}");
    }
}

#[test]
fn listings_count_samples_of_these_cpus_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let mut record = tare();
    record.args(["record", "-q", "-e", "cpu-clock", "--sample-cpu", "-o"]).arg(&file);
    let output = record.args(["-C", "0", "--", "sleep", "0.1"]).output().unwrap();
    if status(&output) != 0 {
        println!("skipped: {}", stderr(&output));
        return;
    }
    let listed = |cpus: &str| {
        let mut annotate = tare();
        annotate.args(["annotate", "--stdio", "-q", "-C", cpus, "-i"]).arg(&file);
        let output = annotate.output().unwrap();
        assert_eq!(status(&output), 0, "{output:?}");
        stdout(&output)
    };
    assert_eq!(listed("1-3"), "");
    let mut all = tare();
    let all = all.args(["annotate", "--stdio", "-q", "-i"]).arg(&file).output().unwrap();
    assert_eq!(listed("0"), stdout(&all));
}

#[test]
fn lists_have_the_forms_of_perf() {
    let list = |words: &[&str]| {
        let output = tare().arg("list").args(words).output().unwrap();
        assert_eq!(status(&output), 0, "{words:?}: {output:?}");
        stdout(&output)
    };
    assert_eq!(list(&["-j", "sw"]), list(&["--json", "sw"]));
    assert_eq!(list(&["-d", "-v", "--details", "sw"]), list(&["sw"]));
    let names = list(&["--raw-dump", "sw"]);
    assert_eq!(names.lines().count(), 1, "{names}");
    assert!(names.split_whitespace().any(|name| name == "page-faults"), "{names}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events");
    assert_eq!(list(&["sw", "-o", file.to_str().unwrap()]), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), list(&["sw"]));
}

#[test]
fn a_recording_is_compared_with_each_of_several() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(&folder);
    let diff = |files: &[&PathBuf]| {
        let output = tare().arg("diff").args(files).output().unwrap();
        assert_eq!(status(&output), 0, "{output:?}");
        stdout(&output)
    };
    let pair = diff(&[&file, &file]);
    let title = format!("# {0} against {0}\n", file.display());
    assert_eq!(diff(&[&file, &file, &file]), format!("{title}{pair}{title}{pair}"));
    let path = file.to_str().unwrap();
    refuses(&["diff", "--json", path, path, path], "separate A and B by --");
}

#[test]
fn subcommands_of_perf_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| tare().args(words).current_dir(folder.path()).output().unwrap();
    let output = run(&["sched", "record", "--", "sh", "-c", "sleep 0.01; sleep 0.01"]);
    if status(&output) != 0 {
        println!("skipped: {}", stderr(&output));
        return;
    }
    for words in [
        &["sched", "latency", "-s", "max,avg"][..],
        &["sched", "timehist", "-MVw"],
        &["sched", "timehist", "--summary"],
        &["sched", "script"],
    ] {
        let output = run(words);
        assert_eq!(status(&output), 0, "{words:?}: {output:?}");
        assert!(stdout(&output).contains("sleep"), "{words:?}: {output:?}");
    }
    let map = stdout(&run(&["sched", "map"]));
    assert!(map.lines().any(|line| line.contains(" secs A0 => ")), "{map}");
    let sums = stdout(&run(&["sched", "latency", "-H"]));
    assert!(sums.contains("Latency Distribution Histogram"), "{sums}");
    assert_eq!(run(&["sched", "replay"]).status.code(), Some(2), "it has no counterpart");
    let output = run(&["data", "convert", "--to-json", "samples.json", "--force"]);
    assert_eq!(status(&output), 0, "{output:?}");
    let text = std::fs::read(folder.path().join("samples.json")).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(document["linux-perf-json-version"], 1);
    assert_eq!(document["headers"]["cmdline"][1], "sched");
    let samples = document["samples"].as_array().unwrap();
    assert!(samples.iter().any(|sample| sample["comm"] == "sleep" && sample["timestamp"].is_u64()));
    let output = run(&["trace", "record", "-o", "calls.data", "true"]);
    assert_eq!(status(&output), 0, "{output:?}");
    let output = run(&["trace", "-i", "calls.data"]);
    let lines = stdout(&output);
    assert!(lines.contains("exit_group(0)"), "{output:?}");
    assert!(lines.lines().any(|line| line.contains("mmap(") && line.contains(" = 0x")), "{lines}");
    let chosen = stdout(&run(&["trace", "-e", "exit_group", "-i", "calls.data"]));
    assert!(chosen.contains("exit_group(0)") && !chosen.contains("mmap("), "{chosen}");
    let none = run(&["trace", "-i", "perf.data"]);
    assert!(stderr(&none).contains("no samples of raw_syscalls"), "{none:?}");
    let output = run(&["script", "-i", "calls.data"]);
    assert!(stdout(&output).contains("raw_syscalls:sys_enter"), "{output:?}");
}

#[test]
fn calls_are_chosen_and_limited_as_by_perf() {
    let trace = |words: &[&str]| {
        let mut trace = tare();
        let output = trace.arg("trace").args(words).args(["--", "cat", "/dev/null"]).output();
        output.unwrap()
    };
    let output = trace(&["-e", "open*"]);
    if status(&output) != 0 {
        println!("skipped: {}", stderr(&output));
        return;
    }
    let lines = stderr(&output);
    let calls: Vec<_> = lines.lines().filter(|line| line.contains('(')).collect();
    assert!(calls.len() > 1 && calls.iter().all(|line| line.starts_with("open")), "{lines}");
    let output = trace(&["--max-events", "3"]);
    assert_eq!((status(&output), stderr(&output).lines().count()), (0, 3), "{output:?}");
    assert_eq!(stderr(&trace(&["--duration", "3600000"])).matches('(').count(), 0);
    let faults = stderr(&trace(&["--no-syscalls", "-F", "all"]));
    assert!(faults.contains("fault") && !faults.contains("openat("), "{faults}");
    let both = stderr(&trace(&["--syscalls", "-e", "page-faults"]));
    assert!(both.contains("--- minor-fault ") && both.contains("openat("), "{both}");
    refuses(&["trace", "-C", "0", "true"], "`tare trace -p PID` or `tare trace -a`");
    let faults = stderr(&trace(&["-e", "page-faults"]));
    assert!(faults.contains("fault") && !faults.contains("openat("), "{faults}");
    assert!(stderr(&trace(&["--no-comm"])).contains("openat("), "as without it");
    let both = stderr(&trace(&["-S", "-e", "openat"]));
    assert!(both.contains("openat(") && both.contains("total"), "{both}");
    refuses(&["trace", "--show-cpu", "true"], "then `tare script`");
}

#[test]
fn times_of_the_run_are_rows_as_in_perf() {
    let mut stat = tare();
    stat.args(["stat", "-x,", "-e", "duration_time,user_time,system_time,page-faults"]);
    let output = stat.arg(workload("spin")).arg("100000000").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    let said = stderr(&output);
    let value = |name: &str| {
        let row = said.lines().find(|line| line.split(',').nth(2) == Some(name)).unwrap();
        assert_eq!(row.split(',').nth(1), Some("ns"), "{row}");
        row.split(',').next().unwrap().parse::<f64>().unwrap()
    };
    let [elapsed, user, system] = ["duration_time", "user_time", "system_time"].map(value);
    // The kernel's times may be of clock ticks.
    assert!(user > 1e6 && user + system < elapsed + 2e7, "{said}");
    refuses(&["record", "-e", "duration_time", "true"], "isn't a kernel event");
    refuses(&["stat", "-e", "user_time", "--vs", "true", "--", "true"], "isn't a kernel event");
}

/// perf's scripts read such rows with the shell's `read`.
#[test]
fn blanks_separate_columns_without_padding() {
    let rows = |words: &[&str]| {
        let mut stat = tare();
        stat.args(["stat", "-x ", "-e", "page-faults", "-I", "1000", "--interval-count", "1"]);
        let output = stat.args(words).args(["--", "true"]).output().unwrap();
        stderr(&output)
    };
    let with = rows(&["--summary"]);
    assert!(with.lines().any(|line| line.starts_with("summary ")), "{with}");
    let time = with.split(' ').next().unwrap_or_default();
    assert!(time.parse::<f64>().is_ok(), "{with}");
    assert!(!rows(&["--summary", "--no-csv-summary"]).contains("summary"));
}

#[test]
fn a_copy_by_inject_is_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(&folder);
    let copy = folder.path().join("copy");
    let mut inject = tare();
    inject.args(["inject", "-b", "-j", "-i"]).arg(&file).arg("-o").arg(&copy);
    let output = inject.output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    assert!(stderr(&output).contains("copied as it is"), "{output:?}");
    assert_eq!(std::fs::read(&file).unwrap(), std::fs::read(&copy).unwrap());
    let input = std::fs::File::open(&file).unwrap();
    let output = tare().args(["inject", "-b"]).stdin(input).output().unwrap();
    assert_eq!(output.stdout, std::fs::read(&file).unwrap());
    let mut inject = tare();
    inject.args(["inject", "-i", "/dev/null", "-o"]).arg(&copy);
    let output = inject.output().unwrap();
    assert!(stderr(&output).contains("/dev/null: not a recording"), "{output:?}");
    assert_eq!(std::fs::read(&file).unwrap(), std::fs::read(&copy).unwrap(), "it stays");
}

#[test]
fn fields_of_tracepoints_are_a_column_by_both_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let mut record = tare();
    record.args(["record", "-q", "-e", "raw_syscalls:sys_enter", "-o"]).arg(&file).arg("true");
    let output = record.output().unwrap();
    if status(&output) != 0 {
        println!("skipped: {}", stderr(&output));
        return;
    }
    let sorted = |key: &str| {
        let output = tare().args(["report", "--stdio", "-s", key, "-i"]).arg(&file).output();
        let output = output.unwrap();
        assert_eq!(status(&output), 0, "{output:?}");
        stdout(&output)
    };
    let fields = sorted("trace_fields");
    assert!(fields.contains("NR "), "{fields}");
    assert_eq!(fields, sorted("trace"));
}

#[test]
fn numbers_in_names_are_folded_by_a_sort_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    for name in ["worker-1", "worker-22"] {
        std::fs::copy(workload("spin"), folder.path().join(name)).unwrap();
    }
    let mut record = tare();
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "999", "-o"]).arg(&file);
    record.args(["sh", "-c", "./worker-1 30000000; ./worker-22 30000000"]);
    let output = record.current_dir(folder.path()).output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    let sorted = |key: &str| {
        let output = tare().args(["report", "--stdio", "-q", "-s", key, "-i"]).arg(&file).output();
        let output = output.unwrap();
        assert_eq!(status(&output), 0, "{output:?}");
        stdout(&output)
    };
    let each = sorted("comm");
    assert!(each.contains("worker-1") && each.contains("worker-22"), "{each}");
    let folded = sorted("comm_nodigit");
    assert_eq!(folded.matches("worker-<N>").count(), 1, "{folded}");
    assert!(!folded.contains("worker-1"), "{folded}");
    refuses(&["top", "-s", "comm_nodigit"], "is for recordings");
    refuses(&["diff", "-s", "comm_nodigit"], "recordings are compared by");
}

#[test]
fn processes_of_several_options_add_up() {
    let processes = [(); 2].map(|()| ProcessGuard::spawn(Command::new("sleep").arg("1000")));
    let [first, second] = processes.each_ref().map(|process| process.id().to_string());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let both = format!("{first} {second}");
    for words in [&["-p", &first, "-p", &second][..], &["-p", &both]] {
        let mut stat = tare();
        let output = stat.args(["stat", "-e", "cs", "--timeout", "50"]).args(words).output();
        let text = stderr(&output.unwrap());
        assert!(text.contains(&format!("process id '{first},{second}'")), "{text}");
        let mut record = tare();
        record.args(["record", "-q", "-e", "dummy", "--timeout", "50", "-o"]).arg(&file);
        let output = record.args(words).output().unwrap();
        assert_eq!(status(&output), 0, "{output:?}");
        let tasks = tare().args(["report", "--tasks", "-i"]).arg(&file).output().unwrap();
        let tasks = String::from_utf8(tasks.stdout).unwrap();
        for pid in [&first, &second] {
            let is_listed = tasks.lines().any(|line| line.split_whitespace().next() == Some(pid));
            assert!(is_listed, "{words:?}: {tasks}");
        }
    }
}

//! Output of `tare stat`: missing events, repeated runs, files, hostile names.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{
    ProcessGuard, csv_values, document, is_root, stat, status, stderr, tare, wait_until,
};

#[test]
fn repeated_runs_have_a_mean_a_deviation_and_an_interval() {
    let document =
        document(&stat(&["-r8", "--json", "-o", "-", "-e", "page-faults:u,task-clock", "true"]));
    let clock = &document["events"][1];
    let runs: Vec<f64> =
        clock["runs"].as_array().unwrap().iter().map(|run| run.as_f64().unwrap()).collect();
    let mean = runs.iter().sum::<f64>() / 8.0;
    assert_eq!((runs.len(), document["runs"].as_u64()), (8, Some(8)));
    assert!((clock["value"].as_f64().unwrap() / mean - 1.0).abs() < 1e-9);
    let low = clock["interval_95"][0].as_f64().unwrap();
    let high = clock["interval_95"][1].as_f64().unwrap();
    assert!(
        low < mean && mean < high && clock["standard_deviation"].as_f64().unwrap() > 0.0,
        "{clock}"
    );
    assert_eq!(document["times"]["elapsed_seconds"].as_array().unwrap().len(), 8);
}

#[test]
fn repeated_runs_end_with_perfs_standard_error() {
    let output = stat(&["-r3", "-e", "task-clock", "true"]);
    let text = stderr(&output);
    for row in ["task-clock", "seconds time elapsed", "seconds user", "seconds sys"] {
        let line = text.lines().find(|line| line.contains(row)).unwrap();
        let percent = line.split_once("  ( +-").and_then(|parts| parts.1.strip_suffix("% )"));
        assert!(percent.is_some_and(|number| number.trim().parse::<f64>().is_ok()), "{line}");
    }
    let once = stderr(&stat(&["-e", "task-clock", "true"]));
    assert!(!once.contains("+-"), "{once}");
}

#[test]
fn named_metrics_count_their_events_and_show_no_other_figure() {
    let text = stderr(&stat(&["-M", "page_faults_per_second", "true"]));
    let with_figure: Vec<_> = text.lines().filter(|line| line.contains('#')).collect();
    assert!(with_figure.len() == 1 && with_figure[0].ends_with(" faults/sec"), "{text}");
    assert!(text.contains("task-clock") && !text.contains("cycles"), "{text}");
    let words = ["-x@", "--metric-only", "-M", "page_faults_per_second,CPUs_utilized", "true"];
    let rows = stderr(&stat(&words));
    let rows: Vec<_> = rows.lines().collect();
    assert_eq!(rows[0], "faults/sec  page_faults_per_second@CPUs  CPUs_utilized@", "{rows:?}");
    let values: Vec<f64> =
        rows[1].trim_end_matches('@').split('@').map(|v| v.parse().unwrap()).collect();
    assert!(rows.len() == 2 && values.len() == 2, "{rows:?}");
    let unknown = stat(&["-M", "page_faults_per_seconds", "true"]);
    assert_eq!(status(&unknown), 2);
    assert!(stderr(&unknown).contains("nearest: page_faults_per_second"), "{unknown:?}");
}

#[test]
fn only_the_time() {
    let output = stat(&["--null", "true"]);
    assert!(
        stderr(&output).contains("seconds time elapsed")
            && !stderr(&output).contains("page-faults"),
        "{output:?}"
    );
}

#[test]
fn a_missing_event_is_a_reason_and_a_verdict_only_if_wanted() {
    // No PMU has type 4242.
    let output = stat(&["-x,", "-e", "4242:1,page-faults:u", "true"]);
    assert_eq!(
        (status(&output), csv_values(&output)[0].as_str()),
        (0, "<not supported>"),
        "{output:?}"
    );
    let output = stat(&["-e", "4242:1,page-faults:u", "true"]);
    assert!(
        stderr(&output)
            .contains("tare: not counted: 4242:1 (the kernel or its PMU does not have this event)"),
        "{output:?}"
    );
    assert_eq!(status(&stat(&["--strict", "-e", "4242:1", "true"])), 3);
    assert_eq!(status(&stat(&["--strict", "-e", "4242:1", "false"])), 1);
    assert_eq!(status(&stat(&["--strict", "true"])), 0, "the default events are what there is");
    let repeated = stat(&["-r3", "-e", "4242:1", "true"]);
    assert_eq!(stderr(&repeated).matches("tare: not counted").count(), 1, "{repeated:?}");
    let document = document(&stat(&["--json", "-o", "-", "-e", "4242:1", "true"]));
    assert!(
        document["events"][0]["value"].is_null() && document["events"][0]["reason"].is_string(),
        "{document}"
    );
}

#[test]
fn why_default_events_are_missing_is_said_in_one_line() {
    let output = stat(&["true"]);
    let text = stderr(&output);
    assert!(text.contains("task-clock") && text.contains("page-faults"), "{text}");
    assert!(text.lines().filter(|line| line.starts_with("tare:")).count() <= 1, "{text}");
}

#[test]
fn files_are_the_owners_and_links_in_shared_folders_are_not_followed() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counts");
    let path = file.to_str().unwrap();
    stat(&["-x,", "-o", path, "-e", "page-faults:u", "true"]);
    stat(&["-x,", "-o", path, "--append", "-e", "page-faults:u", "true"]);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 2);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    stat(&["-x,", "-o", path, "-e", "page-faults:u", "true"]);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1);
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    std::os::unix::fs::symlink(&file, shared.join("link")).unwrap();
    let refused = stat(&["-o", shared.join("link").to_str().unwrap(), "true"]);
    assert_eq!(status(&refused), 125, "{refused:?}");
    assert!(stderr(&refused).contains("symbolic link"), "{refused:?}");
}

#[test]
fn names_from_outside_do_not_reach_the_terminal_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = folder.path().join("a\u{1b}[31m,\"b");
    fs::copy(which("sleep"), &hostile).unwrap();
    let mut child = ProcessGuard::spawn(Command::new(&hostile).arg("60"));
    wait_until("the program has its name", || {
        fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap().starts_with("a\u{1b}")
    });
    let id = child.id().to_string();
    let of = |form: &[&str]| {
        stderr(&stat(
            &[form, &["-p", &id, "--per-thread", "--timeout", "50", "-e", "page-faults:u"]]
                .concat(),
        ))
    };
    let text = of(&[]);
    let csv = of(&["-x,"]);
    let lines = of(&["-j"]);
    child.end();
    for form in [&text, &csv, &lines] {
        assert!(!form.contains('\u{1b}') && form.contains(&id), "{form}");
    }
    assert_eq!(csv.trim_end().split(',').count(), 8, "{csv}");
    let line: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(line["thread"], format!("a\u{1b}[31m,\"b-{id}"));
    let title = stderr(&stat(&["-e", "page-faults:u", "true", "\u{1b}]0;owned\u{7}"]));
    assert!(!title.contains('\u{1b}') && !title.contains('\u{7}'), "{title}");
}

fn which(program: &str) -> std::path::PathBuf {
    ["/bin", "/usr/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.exists())
        .expect("coreutils")
}

/// Machine-readable output contains no messages.
#[test]
fn machine_forms_on_stderr_are_data_and_nothing_else() {
    for events in [&[][..], &["-e", "4242:1,page-faults:u"]] {
        let of = |form: &str| stderr(&stat(&[&[form], events, &["true"]].concat()));
        for line in of("-x,").lines() {
            assert!(line.split(',').count() == 7, "{line}");
        }
        for line in of("-j").lines() {
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        }
        let text = of("--json");
        serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    }
    // With results on stdout, stderr has the reason.
    let output = stat(&["-x,", "-o", "-", "-e", "4242:1", "true"]);
    assert!(stderr(&output).starts_with("tare: not counted: 4242:1 ("), "{output:?}");
}

#[test]
fn an_event_that_was_never_counted_has_a_running_share_of_zero() {
    let document = document(&stat(&["--json", "-o", "-", "-e", "4242:1,page-faults:u", "true"]));
    let share = |event: usize| document["events"][event]["running_share"].as_f64();
    assert_eq!((share(0), share(1)), (Some(0.0), Some(1.0)), "{document}");
    assert_eq!(document["events"][0]["scaled"], false, "{document}");
}

/// perf has `stat record`; a user who types it doesn't mean a command called `record`.
#[test]
fn perfs_own_subcommands_are_not_run_as_commands() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    for name in ["record", "report"] {
        let program = folder.path().join(name);
        fs::write(&program, "#!/bin/sh\necho ran\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let run = |words: &[&str]| {
            tare().arg("stat").args(words).env("PATH", &path).output().expect("tare was built")
        };
        for words in [&[name][..], &["-e", "page-faults", name, "true"], &["-r", "2", name]] {
            let refused = run(words);
            assert_eq!(status(&refused), 2, "{refused:?}");
            assert!(refused.stdout.is_empty(), "{refused:?}");
            let text = stderr(&refused);
            let remedies = [format!("-- {name}"), "--json".to_owned()];
            assert!(remedies.iter().all(|remedy| text.contains(remedy)), "{text}");
        }
        for words in [&["--", name][..], &["-e", "page-faults", "--", name]] {
            assert_eq!(run(words).stdout, b"ran\n", "{words:?}");
        }
    }
}

#[test]
fn table_shows_each_run_and_quiet_shows_nothing() {
    let output = stat(&["-r", "3", "--table", "--sync", "-e", "task-clock", "true"]);
    let text = stderr(&output);
    let (_, runs) = text.split_once("# each run\n").unwrap_or_else(|| panic!("{text}"));
    let is_run = |line: &&str| line.contains(") #");
    assert_eq!(runs.lines().take_while(is_run).count(), 3, "{text}");
    let output = stat(&["--quiet", "-e", "task-clock", "true"]);
    assert_eq!((status(&output), stderr(&output)), (0, String::new()));
}

#[test]
fn levels_of_all_events_part_their_counts() {
    if !is_root() {
        return;
    }
    // The kernel's copy touches 256 pages first; a few more or less vary between runs.
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=1", "status=none"];
    let count = |more: &[&str]| {
        let output = stat(&[&["-x,", "-e", "page-faults"], more, &dd].concat());
        csv_values(&output)[0].parse::<u64>().unwrap()
    };
    let user = count(&["--all-user"]);
    let kernel = count(&["--all-kernel"]);
    let all = count(&[]);
    assert!(user > 0 && kernel > 100 && user + 100 < all, "{user} {kernel} {all}");
    assert!(kernel + 20 < all, "{user} {kernel} {all}");
}

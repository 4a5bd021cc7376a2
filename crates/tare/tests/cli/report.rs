//! `tare report` compared with `perf report --stdio` on the same recordings.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock};

use crate::support::{sh, stderr, tare};

pub(super) fn report(file: &Path, args: &[&str]) -> Output {
    tare()
        .arg("report")
        .arg("-i")
        .arg(file)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("tare was built")
}

pub(super) fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).expect("what tare prints is UTF-8")
}

pub(super) fn perf_report(file: &Path, args: &[&str]) -> String {
    let output = Command::new("perf")
        .args(["report", "--stdio", "-i"])
        .arg(file)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Recordings that perf makes once for all tests. If perf can't, `get` prints the reason.
pub(super) struct Recordings {
    folder: PathBuf,
}

impl Recordings {
    pub(super) fn get() -> Option<&'static Self> {
        static MADE: OnceLock<Result<Recordings, String>> = OnceLock::new();
        match MADE.get_or_init(Self::make) {
            Ok(made) => Some(made),
            Err(why) => {
                println!("skipped: {why}");
                None
            }
        }
    }

    /// Records once per test run; cargo-nextest gives its processes the run's id.
    fn make() -> Result<Self, String> {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report");
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| error.to_string())?;
        let run =
            std::env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| std::process::id().to_string());
        let made_by = folder.join("made-by");
        if std::fs::read_to_string(&made_by).is_ok_and(|made_by| made_by == run) {
            return Ok(Self { folder });
        }
        let work = "for i in 1 2 3 4; do sort /usr/lib/os-release >/dev/null; head -c 3000000 /dev/zero | gzip -c >/dev/null; done";
        for (name, options) in [
            ("plain", "-e cpu-clock,page-faults -F 1999 -s"),
            ("all", "-e cpu-clock -F 999 -a"),
            ("graph", "-e cpu-clock:k -F 1999 -g"),
        ] {
            let work = if name == "graph" {
                "exec dd if=/dev/zero of=/dev/null bs=64 count=1500000"
            } else {
                work
            };
            let file = folder.join(name);
            let made = sh(&format!(
                "perf record --no-bpf-event -q {options} -o {} -- sh -c '{work}'",
                file.display()
            ));
            if !made.status.success() {
                return Err(format!("perf can't record here: {}", stderr(&made)));
            }
        }
        std::fs::write(made_by, run).map_err(|error| error.to_string())?;
        Ok(Self { folder })
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The rows of a table with single spaces, sorted, because rows of equal weight have no fixed
/// order.
pub(super) fn rows(table: &str) -> Vec<String> {
    let lines = table.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let mut rows: Vec<_> =
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    rows.sort();
    rows
}

/// Leaves out rows with addresses, functions named by their addresses, unknown functions and PLT
/// entries.
fn comparable(rows: Vec<String>) -> Vec<String> {
    rows.into_iter()
        .filter(|row| {
            !row.contains("@plt")
                && !row.contains("] 0x")
                && !row.contains("] fun_")
                && !row.contains("[unknown]")
                && !row.contains("] 00000000")
        })
        .collect()
}

#[test]
fn figures_are_those_of_perf_for_each_combination_of_keys() {
    let Some(made) = Recordings::get() else { return };
    let keys = [
        "comm",
        "pid",
        "cpu",
        "comm,cpu",
        "pid,comm",
        "dso",
        "comm,dso",
        "sym,dso",
        "comm,dso,sym",
        "cpu,dso,comm,sym",
    ];
    for name in ["plain", "all"] {
        // The demanglers may differ for other programs' symbols. perf truncates names of renamed
        // threads to the width of earlier names.
        let of_others = ["dso", "sym", "comm", "pid"];
        let is_fit =
            |keys: &&str| name == "plain" || !of_others.iter().any(|key| keys.contains(key));
        for keys in keys.into_iter().filter(is_fit) {
            let args = ["-n", "--show-total-period", "--sort", keys];
            let ours = stdout(&report(&made.file(name), &args));
            let theirs = perf_report(&made.file(name), &args);
            assert_eq!(comparable(rows(&ours)), comparable(rows(&theirs)), "{name} {keys}");
            assert!(!rows(&ours).is_empty(), "{name} {keys}");
        }
    }
}

#[test]
fn columns_can_be_named_one_by_one() {
    let Some(made) = Recordings::get() else { return };
    for fields in ["overhead,sample,comm", "comm,period,overhead", "sample,pid"] {
        let args = ["-F", fields];
        assert_eq!(
            rows(&stdout(&report(&made.file("plain"), &args))),
            rows(&perf_report(&made.file("plain"), &args)),
            "{fields}"
        );
    }
}

#[test]
fn totals_and_titles_are_those_of_perf() {
    let Some(made) = Recordings::get() else { return };
    let titles = |text: &str| {
        let lines = text.lines().filter(|line| {
            line.starts_with("# Samples")
                || line.starts_with("# Event count")
                || line.starts_with("# Overhead")
        });
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let args = ["--sort", "comm,pid"];
    let ours = stdout(&report(&made.file("plain"), &args));
    let theirs = perf_report(&made.file("plain"), &args);
    assert_eq!(titles(&ours), titles(&theirs));
    assert_eq!(titles(&ours).len(), 6, "two events: {ours}");
}

#[test]
fn filters_hide_rows_and_leave_the_shares() {
    let Some(made) = Recordings::get() else { return };
    for args in [
        &["--comms", "gzip"][..],
        &["--comms", "gzip,head"],
        &["--dsos", "[kernel.kallsyms]"],
        &["--sort", "comm", "--percent-limit", "5"],
    ] {
        let ours = stdout(&report(&made.file("plain"), args));
        let theirs = perf_report(&made.file("plain"), args);
        assert_eq!(comparable(rows(&ours)), comparable(rows(&theirs)), "{args:?}");
    }
    let all = stdout(&report(&made.file("plain"), &["--sort", "comm"]));
    let gzip = stdout(&report(&made.file("plain"), &["--sort", "comm,dso", "--comms", "gzip"]));
    assert!(gzip.contains("# comm: gzip") && !gzip.contains("sort"), "{gzip}\n{all}");
}

/// The call graph below each row, as lines with their indentation.
fn graphs(table: &str) -> BTreeMap<String, Vec<String>> {
    let mut graphs = BTreeMap::new();
    let mut row = String::new();
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        if line.starts_with("            ") {
            graphs.entry(row.clone()).or_insert_with(Vec::new).push(line.trim_end().to_owned());
        } else {
            row = line.split_whitespace().collect::<Vec<_>>().join(" ");
        }
    }
    graphs
}

#[test]
fn call_graphs_are_those_of_perf() {
    let Some(made) = Recordings::get() else { return };
    let graph = made.file("graph");
    for args in [
        &["-g", "caller"][..],
        &["-g", "callee"],
        &["--no-children"],
        &["--no-children", "-g", "caller"],
        &["--no-children", "--sort", "sym"],
    ] {
        let args = [args, &["--percent-limit", "4"]].concat();
        let ours = graphs(&stdout(&report(&graph, &args)));
        let theirs = graphs(&perf_report(&graph, &args));
        let known = |lines: &Vec<String>| !lines.iter().any(|line| line.contains("0xffff"));
        let mut compared = 0;
        for (row, lines) in theirs.iter().filter(|(_, lines)| known(lines)) {
            let Some(own) = ours.get(row) else { continue };
            // Branches of equal weight have no fixed order: compare sorted lines that include the
            // name's column.
            let sorted = |lines: &[String]| {
                let mut lines: Vec<_> = lines
                    .iter()
                    .map(|line| line.replace('|', " ").trim_end().to_owned())
                    .filter(|line| !line.is_empty())
                    .collect();
                lines.sort();
                lines
            };
            if known(own) {
                assert_eq!(sorted(own), sorted(lines), "{args:?} {row}");
                compared += 1;
            }
        }
        assert!(compared > 0, "{args:?}: nothing to compare in\n{theirs:?}\nand\n{ours:?}");
    }
    let rows = stdout(&report(&graph, &["-g", "none"]));
    assert!(!rows.lines().any(|line| !line.starts_with('#') && line.contains("--")), "rows alone");
    let refused = report(&made.file("plain"), &["-g"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
}

#[test]
fn a_function_weighs_what_it_calls_as_in_perf() {
    let Some(made) = Recordings::get() else { return };
    let args = ["--children", "-g", "none", "--sort", "comm,sym", "--percent-limit", "1"];
    let ours = stdout(&report(&made.file("graph"), &args));
    let theirs = perf_report(&made.file("graph"), &args);
    let ours = comparable(rows(&ours));
    let theirs = comparable(rows(&theirs));
    let missing: Vec<_> = theirs.iter().filter(|row| !ours.contains(row)).collect();
    assert!(missing.is_empty() && !theirs.is_empty(), "{missing:?} in {ours:#?}");
}

#[test]
fn threads_have_the_counts_that_were_recorded() {
    let Some(made) = Recordings::get() else { return };
    let counts = |text: &str| {
        let lines = text
            .lines()
            .skip_while(|line| !line.contains("PID") || !line.contains("TID"))
            .take_while(|line| line.contains(|c: char| c.is_ascii_alphanumeric()));
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let args = ["-T", "--sort", "comm"];
    let ours = counts(&stdout(&report(&made.file("plain"), &args)));
    let theirs = counts(&perf_report(&made.file("plain"), &args));
    assert_eq!(ours, theirs);
    assert!(ours.len() > 4, "{ours:?}");
}

/// The READ record of an exited thread has the counts of all events of the group.
#[test]
fn counts_of_a_group_are_those_of_each_event() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report-group");
    let options = [
        "record",
        "-q",
        "--follow=inherit",
        "-s",
        "-c",
        "50",
        "-e",
        "{page-faults,context-switches}:S",
        "-o",
    ];
    let made = tare()
        .args(options)
        .arg(&file)
        .args(["--", "sh", "-c", "date; date; date; :"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if !made.status.success() {
        return println!(
            "skipped: this kernel lets no child inherit events that are read together: {}",
            stderr(&made)
        );
    }
    let text = stdout(&report(&file, &["-T", "--no-call-graph", "--sort", "comm"]));
    let rows = text
        .lines()
        .skip_while(|line| !line.contains(" TID "))
        .skip(1)
        .take_while(|line| !line.starts_with('#'));
    let rows: Vec<Vec<u64>> = rows
        .map(|line| line.split_whitespace().map(|count| count.parse().unwrap()).collect())
        .collect();
    assert!(rows.len() >= 3 && rows.iter().all(|row| row[2] > 2 * row[3]), "{text}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn records_are_counted_as_perf_counts_them() {
    let Some(made) = Recordings::get() else { return };
    let squeezed = |text: &str| {
        text.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    for name in ["plain", "graph"] {
        assert_eq!(
            squeezed(&stdout(&report(&made.file(name), &["--stats"]))),
            squeezed(&perf_report(&made.file(name), &["--stats"])),
            "{name}"
        );
    }
}

#[test]
fn the_header_says_what_perf_says() {
    let Some(made) = Recordings::get() else { return };
    let ours = stdout(&report(&made.file("plain"), &["--header-only"]));
    let theirs = perf_report(&made.file("plain"), &["--header-only"]);
    let same = [
        "hostname",
        "os release",
        "arch",
        "nrcpus",
        "cpudesc",
        "total memory",
        "cmdline",
        "pmu mappings",
        "time of",
        "sample duration",
        "captured on",
        "header version",
        "data ",
        "feat offset",
    ];
    let lines = |text: &str| {
        text.lines()
            .filter(|line| same.iter().any(|name| line.starts_with(&format!("# {name}"))))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(&ours), lines(&theirs));
    assert!(ours.contains("event : name = page-faults"), "{ours}");
    let both = stdout(&report(&made.file("plain"), &["--header", "--sort", "comm"]));
    assert!(both.contains("# hostname") && both.contains("# Overhead"), "{both}");
}

#[test]
fn time_selects_samples() {
    let Some(made) = Recordings::get() else { return };
    let file = made.file("all");
    let count = |args: &[&str]| {
        let document: serde_json::Value = serde_json::from_str(&stdout(&report(
            &file,
            &[args, &["--sort", "comm", "--json"]].concat(),
        )))
        .unwrap();
        assert_eq!(document["version"], 1);
        document["events"][0]["samples"].as_u64().unwrap()
    };
    let all = count(&[]);
    let first = count(&["--time", "0%-30%"]);
    let rest = count(&["--time", "30.0001%-100%"]);
    assert!(first > 0 && rest > 0 && all.abs_diff(first + rest) <= 1, "{all} = {first} + {rest}");
    let refused = report(&file, &["--time", "soon"]);
    assert_eq!((refused.status.code(), stderr(&refused).lines().count()), (Some(2), 1));
}

/// The shares of all branches in a document, in percent of its samples, and the limit that it
/// states.
fn branches(file: &Path, args: &[&str]) -> (Vec<f64>, serde_json::Value) {
    let args = [args, &["--sort", "comm", "--json"]].concat();
    let text = stdout(&report(file, &args));
    let event = serde_json::from_str::<serde_json::Value>(&text).unwrap()["events"][0].clone();
    let all = event["period"].as_f64().unwrap();
    let entries = event["entries"].as_array().unwrap();
    let branches = entries.iter().filter_map(|entry| entry["graph"].as_array()).flatten();
    let share =
        |branch: &serde_json::Value| 100.0 * branch["total"]["period"].as_f64().unwrap() / all;
    (branches.map(share).collect(), event["graph_percent_limit"].clone())
}

#[test]
fn documents_name_the_limit_of_their_graphs() {
    let Some(made) = Recordings::get() else { return };
    let graph = made.file("graph");
    let (all, none) = branches(&graph, &["-g", "caller,0"]);
    assert_eq!(none, 0.0);
    let (large, limit) = branches(&graph, &["-g", "caller,4"]);
    assert_eq!(limit, 4.0);
    assert!(!large.is_empty() && large.iter().all(|share| *share >= 4.0), "{large:?}");
    assert!(all.iter().any(|share| *share < 4.0), "{all:?}");
    assert!(branches(&graph, &["-g", "none"]).1.is_null());
}

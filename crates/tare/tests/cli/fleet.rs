//! `tare fleet`: questions about a store, by its own reader. `./x fleet-test` compares the engines.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tare_store::{Figures, LabelSet, SegmentBuilder, SegmentInfo, StackFrame, Store, StoreOptions};

use crate::support::{stderr, tare, wait_until};

/// 2026-11-26 10:00:00 UTC, in microseconds since 1970.
const TEN_US: i64 = 1_795_687_200_000_000;
const MINUTE_US: i64 = 60_000_000;

/// Writes a minute of a host: `parse` called by `main`, and `idle` without a name.
fn write_window(store: &Store, host: &str, minute: i64, figures: Figures) {
    let start_us = TEN_US + minute * MINUTE_US;
    let end_us = start_us + MINUTE_US;
    let info = SegmentInfo { host: host.to_owned(), start_us, end_us, ..SegmentInfo::default() };
    let mut window = SegmentBuilder::new(info);
    let mut frame = |name: Option<&str>, module: &str, build_id: &str, address| StackFrame {
        function: name.map(|name| window.text(name)),
        module: Some(window.text(module)),
        build_id: Some(window.text(build_id)),
        address,
        ..StackFrame::default()
    };
    let parse = frame(Some("json::parse"), "/opt/api", "aa01", 1);
    let main = frame(Some("main"), "/opt/api", "aa01", 2);
    let nameless = frame(None, "/opt/libidle.so", "bb02", 3);
    let [named, unnamed] = [[parse, main], [nameless, main]].map(|frames| window.stack(&frames));
    let event = window.text("cpu-clock");
    let labels = LabelSet { service: Some(window.text("api")), ..LabelSet::default() };
    window.add(&labels, event, None, named, 3, 3_000_000_000);
    window.add(&LabelSet::default(), event, None, unnamed, 1, 1_000_000_000);
    store.write(&window.finish(figures)).unwrap();
}

/// Three minutes of two hosts. One loses samples, and is silent in the last minutes.
pub(crate) fn written(folder: &Path) {
    let store = Store::open(folder, StoreOptions::default()).unwrap();
    let figures = Figures { samples: 4, cpus: 2, recorder_cpu_us: 12_000, ..Figures::default() };
    for minute in 0..10 {
        write_window(&store, "web-1", minute, figures);
    }
    write_window(&store, "web-2", 0, Figures { lost: 1, ..figures });
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn ask(store: &Path, args: &[&str]) -> Output {
    tare().arg("fleet").args(args).arg("--store").arg(store).output().unwrap()
}

fn rows(store: &Path, args: &[&str]) -> Vec<Value> {
    let output = ask(store, &[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(document["version"], 1);
    document["rows"].as_array().unwrap().clone()
}

#[test]
fn top_sums_by_labels_functions_and_modules() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let named = |rows: &[Value], column: &str| -> Vec<(Value, i64)> {
        rows.iter().map(|row| (row[column].clone(), row["self"].as_i64().unwrap())).collect()
    };
    let services = rows(folder.path(), &["top"]);
    assert_eq!(
        named(&services, "service"),
        [("api".into(), 33_000_000_000), (Value::Null, 11_000_000_000)]
    );
    assert_eq!(services[0]["self_share"], 0.75);
    let hosts = rows(folder.path(), &["top", "--by", "host", "-E", "1"]);
    assert_eq!(named(&hosts, "host"), [("web-1".into(), 40_000_000_000)]);
    let functions = rows(folder.path(), &["top", "--by", "function", "--total"]);
    assert_eq!(
        named(&functions, "function"),
        [("main".into(), 0), ("json::parse".into(), 33_000_000_000), (Value::Null, 11_000_000_000)]
    );
    assert_eq!(functions[0]["total_share"], 1.0);
    let modules = rows(folder.path(), &["top", "--by", "module"]);
    assert_eq!(
        named(&modules, "module"),
        [("/opt/api".into(), 33_000_000_000), ("/opt/libidle.so".into(), 11_000_000_000)]
    );
    let minute = ["top", "--since", "2026-11-26T10:00", "--until", "2026-11-26T10:01"];
    let minute = rows(folder.path(), &[&minute[..], &["--where", "host!=web-2"]].concat());
    assert_eq!(named(&minute, "service")[0].1, 3_000_000_000);
}

#[test]
fn losses_name_the_problems_of_a_host() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let hosts = rows(folder.path(), &["losses"]);
    assert_eq!(hosts.len(), 1);
    assert_eq!(
        (&hosts[0]["host"], &hosts[0]["problems"]),
        (&"web-2".into(), &"lost samples, silent".into())
    );
    assert_eq!((&hosts[0]["lost_share"], &hosts[0]["cost_share"]), (&0.2.into(), &0.0001.into()));
    assert_eq!(rows(folder.path(), &["losses", "--all-hosts"]).len(), 2);
    let frugal = rows(folder.path(), &["losses", "--budget", "0.005%"]);
    assert!(frugal.iter().all(|host| host["problems"].as_str().unwrap().contains("over budget")));
    let refused = ask(folder.path(), &["losses", "--where", "service=api"]);
    assert!(!refused.status.success() && stderr(&refused).contains("host=NAME"));
}

#[test]
fn two_sets_of_samples_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let before = ["diff", "--until", "2026-11-26T10:05", "--versus-since", "2026-11-26T10:05"];
    let services = rows(folder.path(), &before);
    assert_eq!(services.len(), 2);
    assert!(services.iter().all(|row| row["difference"] == 0.0), "{services:?}");
    assert_eq!(
        (&services[0]["before"], &services[0]["after"]),
        (&18_000_000_000_i64.into(), &15_000_000_000_i64.into())
    );
    let services = rows(folder.path(), &[&["regressions"], &before[1..]].concat());
    assert!(services.iter().all(|row| row["verdict"] == "too few hosts"), "{services:?}");
    let refused = ask(folder.path(), &["diff"]);
    assert!(stderr(&refused).contains("what to compare with"), "{}", stderr(&refused));
    let refused = ask(folder.path(), &["top", "--versus-since", "1h"]);
    assert!(stderr(&refused).contains("only diff and regressions"), "{}", stderr(&refused));
}

#[test]
fn nameless_binaries_and_functions_by_pattern_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let builds = rows(folder.path(), &["nameless"]);
    assert_eq!(builds.len(), 1);
    assert_eq!((&builds[0]["build_id"], &builds[0]["self_share"]), (&"bb02".into(), &0.25.into()));
    let found = rows(folder.path(), &["search", "^json::", "--cost-per-core-hour", "0.1"]);
    assert_eq!(found.len(), 2, "a function and its caller: {found:?}");
    assert_eq!(
        (&found[1]["function"], &found[1]["caller"]),
        (&"json::parse".into(), &"main".into())
    );
    // 33 s of CPU time in 10 minutes.
    assert_eq!(found[0]["cores"], 0.055);
    assert!((found[0]["cost_per_month"].as_f64().unwrap() - 0.055 * 730.0 * 0.1).abs() < 1e-9);
}

#[test]
fn call_chains_are_a_tree_folded_stacks_or_a_page() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let nodes = rows(folder.path(), &["flame"]);
    let shown: Vec<String> = nodes
        .iter()
        .map(|row| format!("{} {} {} {}", row["parent"], row["kind"], row["name"], row["total"]))
        .collect();
    assert_eq!(
        shown,
        [
            "null \"event\" \"cpu-clock\" 44000000000",
            "0 \"label\" \"api\" 33000000000",
            "1 \"frame\" \"main\" 33000000000",
            "2 \"frame\" \"json::parse\" 33000000000",
            "0 \"label\" null 11000000000",
            "4 \"frame\" \"main\" 11000000000",
            "5 \"frame\" null 11000000000",
        ]
    );
    let csv =
        stdout(&ask(folder.path(), &["flame", "--csv", "--by", "host", "--where", "host=web-2"]));
    let lines = "cpu-clock,web-2;main;json::parse,3,3000000000\ncpu-clock,web-2;main;[libidle.so],1,1000000000\n";
    assert_eq!(csv, format!("event,stack,samples,weight\n{lines}"));
    let text = stdout(&ask(folder.path(), &["flame"]));
    assert!(text.contains(" 75.00%     33.0 s    0.00%  api\n"), "{text}");
    let page = folder.path().join("x.html");
    let drawn = ask(folder.path(), &["flame", "-o", page.to_str().unwrap()]);
    assert!(drawn.status.success(), "{}", stderr(&drawn));
    let page_text = std::fs::read_to_string(&page).unwrap();
    assert!(page_text.contains("<html") && page_text.contains("json::parse"));
    for args in [&["flame", "--by", "function"][..], &["top", "-o", page.to_str().unwrap()]] {
        let refused = ask(folder.path(), args);
        assert!(!refused.status.success(), "{args:?}");
    }
    assert_eq!(std::fs::read_to_string(&page).unwrap(), page_text, "a refusal writes nothing");
}

#[test]
fn answers_are_tables_and_csv_and_mistakes_name_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let csv = stdout(&ask(folder.path(), &["top", "--csv"]));
    assert_eq!(csv.lines().next(), Some("event,service,self_share,self,samples"));
    let text = stdout(&ask(folder.path(), &["top"]));
    assert!(text.starts_with("# cpu-clock\n") && text.contains("75.00%"), "{text}");
    for (args, remedy) in [
        (&["search"][..], "give a PATTERN"),
        (&["search", "("], "regular expression"),
        (&["top", "--by", "colour"], "give one of service"),
        (&["top", "--engine", "oracle"], "built-in, duckdb[=PROGRAM]"),
        (&["top", "--engine", "datafusion"], "ddl and --show-sql"),
        (&["top", "--engine", "trino=http://a:b@host/c/d"], "without user, password"),
        (&["top", "--where", "service"], "no operator"),
        (&["sql"], "give a statement"),
        (&["sql", "select 1"], "add --engine duckdb"),
    ] {
        let refused = ask(folder.path(), args);
        assert!(!refused.status.success(), "{args:?}");
        assert!(stderr(&refused).contains(remedy), "{args:?}: {}", stderr(&refused));
    }
    let sql = ask(folder.path(), &["top", "--show-sql", "--where", "service=it's"]);
    assert!(stdout(&sql).contains("service = 'it''s'"), "{}", stdout(&sql));
    assert!(stdout(&sql).contains("from samples"), "{}", stdout(&sql));
}

/// An engine that doesn't answer is ended by the time limit, and with it its children.
#[test]
fn an_engine_that_hangs_is_ended() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let program = folder.path().join("engine");
    let note = folder.path().join("pid");
    let script = format!("#!/bin/sh\nsleep 1000 &\necho $! >{}\nwait\n", note.display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    let engine = format!("duckdb={}", program.display());
    let output = ask(folder.path(), &["top", "--engine", &engine, "--timeout", "1500"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no answer within 1.5 s"), "{}", stderr(&output));
    if let Ok(pid) = std::fs::read_to_string(&note) {
        let ended = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            stat.map_or(true, |stat| stat.contains(") Z"))
        };
        wait_until("the engine's child ends", ended);
    }
}

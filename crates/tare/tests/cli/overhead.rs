//! `tare overhead`: short studies on the real kernel.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Unprivileged, is_root, stderr, tare, workload};

/// Runs `tare overhead` with this state directory.
fn overhead(state: &Path, args: &[&str]) -> Output {
    tare().arg("overhead").args(args).env("XDG_STATE_HOME", state).output().unwrap()
}

fn state() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs a short study, which must succeed, and returns the first study of its document.
fn studied(state: &Path, args: &[&str]) -> Value {
    let mut all = vec!["--json", "-e", "cpu-clock"];
    all.extend(args);
    let output = overhead(state, &all);
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["studies"][0].clone()
}

fn rows(study: &Value) -> &[Value] {
    study["rows"].as_array().unwrap()
}

fn sysctl() -> String {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").unwrap()
}

#[test]
fn a_study_measures_keeps_and_shows() {
    let state = state();
    let before = sysctl();
    let study = studied(state.path(), &["--rates", "0,1000,4000", "--pairs", "10"]);
    assert_eq!(sysctl(), before);
    assert_eq!(
        rows(&study).iter().map(|row| row["asked_hz"].as_u64().unwrap()).collect::<Vec<_>>(),
        [0, 1000, 4000]
    );
    assert_eq!(rows(&study)[0]["samples"], 0);
    let delivered = rows(&study)[2]["delivered_hz"].as_f64().unwrap();
    assert!((2000.0..=4100.0).contains(&delivered), "{delivered}");
    for figure in ["stolen_us", "background"] {
        assert!(
            rows(&study)[2]["cost"][figure]["value"].as_f64().unwrap() > 0.0,
            "{figure}: {study}"
        );
    }
    assert_eq!(rows(&study)[2]["losses"].as_array().unwrap().len(), 3);
    assert_eq!(rows(&study)[2]["losses"][0]["rounds"].as_array().unwrap().len(), 10);

    let kept: Vec<_> = std::fs::read_dir(state.path().join("tare/overhead"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .collect();
    assert_eq!(kept.len(), 1, "the note on the limit is gone");
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&kept[0].metadata().unwrap().permissions()) & 0o777,
        0o600
    );
    let shown = overhead(state.path(), &["--show"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        text.contains("Cost of samples of cpu-clock, call graph none")
            && text.contains("us per sample"),
        "{text}"
    );
    let other = overhead(state.path(), &["--show", "-e", "cycles"]);
    assert_eq!(other.status.code(), Some(1));
    assert_eq!(
        stderr(&other),
        "tare: no study of cycles was made on this host: `tare overhead` makes one\n"
    );
}

#[test]
fn the_interrupts_are_those_of_the_samples() {
    if !is_root() {
        return;
    }
    let study = studied(
        state().path(),
        &["--rates", "4000", "--pairs", "20", "--loops", "counting", "--no-save"],
    );
    let cost = &rows(&study)[0]["cost"];
    let samples = cost["traced_samples"].as_u64().unwrap();
    let interrupts = cost["traced_interrupts"].as_u64().unwrap();
    // A late timer delivers two samples at once only if the hypervisor delayed the CPU.
    assert!(
        samples > 100 && interrupts <= samples && interrupts * 100 >= samples * 95,
        "{interrupts} interrupts, {samples} samples"
    );
    assert!(cost["handler_us"]["high"].as_f64() < cost["stolen_us"]["high"].as_f64(), "{cost}");
}

/// Without privileges a study measures stolen time and interference, and names the remedy for the
/// rest.
#[test]
fn as_an_unprivileged_user() {
    let Some(nobody) = Unprivileged::new() else { return };
    let output = nobody.tare(
        "overhead",
        &[
            "--json",
            "--no-save",
            "-e",
            "cpu-clock",
            "--rates",
            "0,2000",
            "--pairs",
            "10",
            "--loops",
            "counting",
        ],
    );
    if !output.status.success() && stderr(&output).contains("perf_event_paranoid") {
        println!("skipped: this kernel requires privileges to sample");
        return;
    }
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let study = &document["studies"][0];
    let last = &rows(study)[1];
    assert!(last["cost"]["stolen_us"]["value"].as_f64().unwrap() > 0.0, "{study}");
    assert!(last["losses"][0]["lost"]["value"].is_number(), "{study}");
    assert!(
        last["cost"]["handler_us"].is_null()
            && study["notes"].to_string().contains("no handler and interrupt figures"),
        "{study}"
    );
}

#[test]
fn throttling_is_told_and_never_fitted() {
    let study = studied(
        state().path(),
        &["--rates", "0,1000,2000,100000", "--pairs", "40", "--loops", "counting", "--no-save"],
    );
    let last = &rows(&study)[3];
    let delivered = last["delivered_hz"].as_f64().unwrap();
    if last["throttles"] == 0 && delivered > 90_000.0 {
        println!("skipped: this kernel delivers 100,000 samples a second unthrottled");
        return;
    }
    assert_eq!(study["throttled_hz"].as_array().unwrap().last().unwrap(), 100_000);
    let notes = study["notes"].to_string();
    assert!(
        notes.contains("throttled, not fitted: 100000 Hz") && notes.contains("a second delivered"),
        "{notes}"
    );
    for fitted in study["fits"].as_array().unwrap() {
        let residuals = fitted["fit"]["residuals"].as_array().unwrap();
        assert!(
            residuals.iter().all(|residual| residual["hz"].as_f64().unwrap() < 10_000.0),
            "{fitted}"
        );
    }
}

#[test]
fn call_graphs_are_studies_of_their_own() {
    let state = state();
    let output = overhead(
        state.path(),
        &[
            "--csv",
            "-e",
            "cpu-clock",
            "--call-graph",
            "fp,dwarf",
            "--rates",
            "500",
            "--pairs",
            "6",
            "--loops",
            "counting",
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for graph in ["fp", "dwarf"] {
        assert!(text.contains(&format!("\ncpu-clock,{graph},500,")), "{text}");
    }
    assert_eq!(std::fs::read_dir(state.path().join("tare/overhead")).unwrap().count(), 2);
}

#[test]
fn an_interrupted_study_leaves_the_limit_as_it_was() {
    let state = state();
    let before = sysctl();
    let mut child = tare()
        .args(["overhead", "-e", "cpu-clock", "--rates", "100000"])
        .env("XDG_STATE_HOME", state.path())
        .spawn()
        .unwrap();
    let note = state.path().join("tare/overhead/max-sample-rate");
    let began = Instant::now();
    while !note.exists() && is_writable() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!((sysctl(), note.exists()), (before, false));
}

fn is_writable() -> bool {
    rustix::fs::access("/proc/sys/kernel/perf_event_max_sample_rate", rustix::fs::Access::WRITE_OK)
        .is_ok()
}

#[test]
fn a_profiler_is_switched_and_weighed() {
    if !is_root() {
        return;
    }
    let burner = format!(
        "sh -c 'x={{control}}; x=${{x#fd:}}; exec {} {{cpu}} 20 ${{x%,*}} ${{x#*,}}'",
        workload("burner").display()
    );
    let study = studied(
        state().path(),
        &[
            "--profiler",
            &burner,
            "--rates",
            "500",
            "--pairs",
            "60",
            "--loops",
            "counting",
            "--no-save",
        ],
    );
    let losses = rows(&study)[0]["losses"].as_array().unwrap();
    assert_eq!(
        losses.iter().map(|loss| loss["profiler"].as_str().unwrap()).collect::<Vec<_>>(),
        ["events", "sh"]
    );
    let found = losses[1]["beyond_events"]["value"].as_f64().unwrap();
    assert!((0.15..0.30).contains(&found), "{}", losses[1]);
    let own = rows(&study)[0]["recorders"][0]["cpu_share"].as_f64().unwrap();
    assert!(own > 0.1, "{own}");
}

#[test]
fn a_profiler_that_is_none_is_told() {
    let output = overhead(
        state().path(),
        &[
            "-e",
            "cpu-clock",
            "--rates",
            "500",
            "--pairs",
            "6",
            "--profiler",
            "false {control}",
            "--no-save",
        ],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("profiler 'false'"), "{}", stderr(&output));
}

#[test]
fn a_program_is_weighed_under_a_profiler() {
    let state = state();
    let slower = "sh -c 'sleep 0.05; exec \"$@\"' --";
    let args = [
        "--json",
        "--with",
        slower,
        "--with",
        "env --",
        "--min-runs",
        "24",
        "--max-runs",
        "24",
        "--",
        "true",
    ];
    let output = overhead(state.path(), &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let time = &document["profilers"][0]["metrics"][0];
    assert_eq!(
        (time["metric"].as_str(), time["verdict"].as_str()),
        (Some("time"), Some("slower")),
        "{time}"
    );
    assert!(time["added"].as_f64().unwrap() > 0.02);
    let names: Vec<_> = document["profilers"][1]["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|metric| metric["metric"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["time", "cpu-time", "page-faults", "context-switches"]);
    assert_eq!(document["rounds"].as_array().unwrap().len(), 24);
    let text = overhead(
        state.path(),
        &["--with", slower, "--min-runs", "24", "--max-runs", "24", "--", "true"],
    );
    assert!(String::from_utf8(text.stdout).unwrap().contains("costs"));
    assert!(!state.path().join("tare").exists(), "nothing is kept of it");
}

#[test]
fn a_program_that_fails_is_told() {
    let output = overhead(state().path(), &["--with", "env --", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert!(stderr(&output).contains("ended with status 7"), "{}", stderr(&output));
}

#[test]
fn nonsense_is_refused_before_anything_is_measured() {
    for (args, says) in [
        (&["-e", "cycels"][..], "cycels"),
        (&["-C", "4000"], "may not run there"),
        (&["--report", "/nowhere/x.html"], "--report /nowhere/x.html"),
        (&["--", "true"], "--with"),
    ] {
        let output = overhead(state().path(), args);
        assert!(
            !output.status.success() && stderr(&output).contains(says),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

/// The page draws in a browser, logs no error and makes no network request.
#[test]
fn the_page_draws_in_a_browser() {
    let browser = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok());
    let Some(browser) = browser else {
        println!("skipped: there is no Chromium here (Debian's package: chromium)");
        return;
    };
    let folder = state();
    let page = folder.path().join("page.html");
    let path = page.display().to_string();
    let options = "--rates 0,500,1000 --pairs 6 --loops counting --no-save --overlay --report";
    let options: Vec<&str> = options.split(' ').chain([path.as_str()]).collect();
    studied(folder.path(), &options);
    let log = folder.path().join("net.json");
    let output = Command::new("timeout")
        .args(["120", browser, "--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-background-networking", "--disable-component-update"])
        .args(["--enable-logging=stderr", "--v=0", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--log-net-log={}", log.display()))
        .arg(format!("file://{path}"))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(dom.matches("<svg").count(), 3, "{dom}");
    assert!(dom.contains("<polyline") && dom.contains("What sampling costs"));
    // The page shows a readable date and rates with separators.
    assert!(dom.contains(" UTC, for ") && dom.contains("Hz (logarithmic)"), "{dom}");
    assert!(dom.contains("\n500\n") && dom.contains("\n1,000\n"), "{dom}");
    assert!(!stderr(&output).contains("CONSOLE"), "{}", stderr(&output));
    let net: String = std::fs::read_to_string(&log).unwrap_or_default();
    // Chromium itself requests updates, a dictionary and the time.
    let own = [".google.com/", ".googleapis.com/", ".gvt1.com/"];
    let urls = net.split("\"url\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let of_page = |url: &&str| {
        !["file:", "data:", "chrome"].iter().any(|start| url.starts_with(start))
            && !own.iter().any(|host| url.contains(host))
    };
    let asked: Vec<&str> = urls.filter(of_page).collect();
    assert!(asked.is_empty(), "{asked:?}");
}

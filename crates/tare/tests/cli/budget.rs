//! `tare record --max-overhead`: rates follow the budget, the recording notes every change, and
//! samples keep the right weight.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tare_format::file::Reader;
use tare_format::ledger::{Ledger, RateChange};

use crate::support::{is_root, stderr, tare};

const BURNER: &str = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
const FORKS: &str = "i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i+1)); done";

struct BudgetRecording {
    ledger: Ledger,
    changes: Vec<RateChange>,
    said: String,
    file: PathBuf,
}

/// Records `sh -c SCRIPT` on a host that has no calibration.
fn record(folder: &Path, options: &[&str], script: &str) -> BudgetRecording {
    let file = folder.join("perf.data");
    let mut record = tare();
    record
        .env("XDG_STATE_HOME", folder)
        .args(["record", "-v", "-e", "cpu-clock", "--follow=cgroup", "--no-calibrate", "-o"])
        .arg(&file)
        .args(options);
    let output = record.args(["--", "sh", "-c", script]).stdin(Stdio::null()).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{options:?}: {said}");
    let mut reader = Reader::open(File::open(&file).unwrap()).unwrap();
    while reader.next_record().unwrap().is_some() {}
    let notes = reader.description().notes();
    let ledger = notes.iter().filter_map(|note| Ledger::from_note(note)).next_back().unwrap();
    let changes = notes.iter().filter_map(|note| RateChange::from_note(note)).collect();
    BudgetRecording { ledger, changes, said, file }
}

/// The share of a busy CPU's time that the first rate costs, by the recording's cost per sample.
fn share_of_rate(recorded: &BudgetRecording) -> f64 {
    let us = recorded.ledger.events[0].sample_cost.as_ref().unwrap().us.value;
    recorded.changes[0].hz[0] as f64 * us * 1e-6
}

#[test]
fn a_busy_program_is_sampled_within_the_budget_and_its_samples_stand_for_all_of_it() {
    if !is_root() {
        return println!("skipped: events of cgroups need CAP_PERFMON");
    }
    let folder = tempfile::tempdir().unwrap();
    let recorded = record(folder.path(), &["-F", "20000", "--max-overhead", "2%"], BURNER);
    let budget = recorded.ledger.budget.as_ref().unwrap();
    assert!(
        recorded.changes[0].hz[0] < 20_000 && share_of_rate(&recorded) <= 0.02,
        "{:?}",
        recorded.changes
    );
    assert_eq!(
        budget.changes,
        recorded.changes.len() as u64 - 1,
        "the first note tells the first rate"
    );
    assert_eq!(recorded.changes.last().unwrap().hz[0], budget.hz);
    assert!(
        recorded.said.contains("budget: 2.00% of the recorded CPUs' time allowed, "),
        "{}",
        recorded.said
    );
    // Each sample carries the kernel's period for its own rate, so the weights add up to the CPU
    // time.
    let coverage = recorded.ledger.events[0].coverage.unwrap().percent().unwrap();
    assert!((75.0..150.0).contains(&coverage), "{coverage}: {}", recorded.said);
    let report =
        tare().args(["report", "-G", "--sort", "comm", "-i"]).arg(&recorded.file).output().unwrap();
    assert!(String::from_utf8(report.stdout).unwrap().contains("# budget: 2.00%"));
}

#[test]
fn forks_and_sleep_have_their_samples_and_the_floor_says_that_it_won() {
    if !is_root() {
        return println!("skipped: events of cgroups need CAP_PERFMON");
    }
    let folder = tempfile::tempdir().unwrap();
    let forks = record(folder.path(), &["--max-overhead", "10%"], FORKS);
    assert!(forks.ledger.budget.is_some() && forks.ledger.events[0].samples > 0, "{}", forks.said);
    let idle = record(folder.path(), &["--max-overhead", "5%", "-F", "999"], "sleep 1");
    assert_eq!(idle.changes[0].hz[0], 999, "all of it is within 5%: {}", idle.said);
    let floor = record(folder.path(), &["--max-overhead", "0.01%", "--min-rate", "99"], BURNER);
    assert!(floor.changes.iter().all(|change| change.hz[0] == 99), "{:?}", floor.changes);
    assert!(floor.said.contains("budget: exceeded for "), "{}", floor.said);
    // The ledger covers the time to the end, not only to the last check.
    let ledger = &floor.ledger;
    assert!(
        ledger.budget.as_ref().unwrap().floor_ns as f64 > 0.99 * ledger.recorded_ns as f64,
        "{ledger:?}"
    );
}

#[test]
fn samples_of_the_kernel_are_dearer_and_lower_the_rate() {
    if !is_root() {
        return println!("skipped: events of cgroups need CAP_PERFMON");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "timeout 2 cat /dev/zero >/dev/null; true";
    let recorded = record(folder.path(), &["-F", "20000", "--max-overhead", "2%"], script);
    let event = &recorded.ledger.events[0];
    assert!(event.in_kernel > event.samples / 2 && event.in_kernel <= event.samples, "{event:?}");
    assert!(
        recorded.changes.last().unwrap().hz[0] < recorded.changes[0].hz[0],
        "{:?}",
        recorded.changes
    );
    assert!(recorded.said.contains("times that for the "), "{}", recorded.said);
    let without =
        record(folder.path(), &["-F", "20000", "--max-overhead", "2%", "--no-call-graph"], script);
    assert_eq!(without.changes[0].hz, recorded.changes[0].hz);
    assert!(!without.said.contains("times that for the "), "{}", without.said);
}

#[test]
fn what_cannot_be_kept_is_refused_with_a_remedy() {
    let refused = |options: &[&str]| {
        let output =
            tare().args(["record", "--dry-run", "-e"]).args(options).arg("true").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(
        refused(&["cpu-clock", "--max-overhead", "1%", "--follow=inherit"])
            .contains("use -a, -G, --follow=cgroup or --follow=system")
    );
    assert!(refused(&["cpu-clock", "--max-overhead", "0%"]).contains("as in 1%"));
    assert!(refused(&["cpu-clock", "--max-overhead", "nan"]).contains("as in 1%"));
    if is_root() {
        assert!(
            refused(&["page-faults", "--max-overhead", "1%", "--follow=system"])
                .contains("leave the event out")
        );
        assert!(
            refused(&["cpu-clock/period=1000000/", "--max-overhead", "1%", "--follow=system"])
                .contains("give it a rate")
        );
    }
}

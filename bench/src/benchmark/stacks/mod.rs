//! Whole stacks while recording (`tare record -g`): known chains, Debian's own programs, sizes, and
//! what unwinding costs, beside frame pointers, copies of stacks, and perf.

mod chains;
mod cost;
mod equal;
mod many;
mod programs;
mod sizes;
mod tables;

use serde_json::{Value, json};

use crate::benchmark::unwind::known;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Programs whose chains are known.
const KNOWN: [(&str, &str); 12] = [
    ("known", "auto"),
    ("known-fp", "auto"),
    ("throws", "auto"),
    ("known-rust", "auto"),
    ("known-go", "auto"),
    ("known-static", "auto"),
    ("known-static-pie", "auto"),
    ("known-musl", "auto"),
    ("known-32", "auto"),
    ("known-debug-frame", "auto"),
    ("known-no-tables", "auto"),
    ("known-assembly", "auto"),
];

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let mut report = Report { table: Vec::new(), findings: Vec::new(), raw: json!(null) };
    let known = |report: &mut Report| {
        report.findings.extend(known::findings(&scratch, &KNOWN)?);
        Ok(json!(null))
    };
    part(&mut report, "known stacks", known);
    report.raw = json!({
        "programs": part(&mut report, "programs", |report| programs::measure(&scratch, report)),
        "sizes": part(&mut report, "sizes", |report| sizes::measure(&scratch, report)),
        "tables": part(&mut report, "tables", tables::measure),
        "processes": part(&mut report, "processes", |report| many::processes(&scratch, report)),
        "waits": part(&mut report, "waits", |report| many::waits(&scratch, report)),
        "stolen": part(&mut report, "stolen time", |report| cost::stolen(&scratch, report)),
        "recorder": part(&mut report, "recorder", |report| cost::recorder(&scratch, report)),
        "busy": part(&mut report, "busy machine", |report| cost::busy_machine(&scratch, report)),
        "perf": part(&mut report, "perf", |report| cost::beside_perf(&scratch, report)),
    });
    Ok(report)
}

/// Measures a part. One that fails is a finding that isn't met, so that the others' figures remain.
fn part(
    report: &mut Report,
    name: &str,
    measure: impl FnOnce(&mut Report) -> anyhow::Result<Value>,
) -> Value {
    measure(report).unwrap_or_else(|why| {
        let text = format!("{name}: not measured: {why:#}");
        let first_line = text.lines().next().unwrap_or_default().to_owned();
        report.findings.push(finding(first_line, f64::NAN, Bound::AtLeast(0.0)));
        json!(text)
    })
}

fn finding(what: String, measured: f64, bound: Bound) -> Finding {
    Finding { what, measured: Estimate::exact(measured), bound }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Records a command with `tare record -e cpu-clock` and these options; returns the report's
/// document.
fn record(scratch: &Scratch<'_>, options: &[&str], command: &[&str]) -> anyhow::Result<Value> {
    let file = scratch.path("recorded.data").display().to_string();
    let tare = scratch.setting.tare();
    let begin = [&tare, "record", "-q", "-e", "cpu-clock", "-o", &file];
    succeed(&words(&[&begin[..], options, &["--"], command].concat()))?;
    let report = [&tare, "report", "--json", "-g", "none", "--no-children", "-i", &file];
    Ok(serde_json::from_str(&succeed(&words(&report))?.stdout)?)
}

/// The ledger of a recording.
fn ledger(scratch: &Scratch<'_>, options: &[&str], command: &[&str]) -> anyhow::Result<Value> {
    Ok(record(scratch, options, command)?["ledger"].take())
}

/// The share of unwound chains that are whole.
fn whole_share(ledger: &Value) -> anyhow::Result<f64> {
    let unwound = &ledger["unwound"];
    let sum = |name: &str| -> f64 {
        let parts = unwound[name].as_array().into_iter().flatten();
        parts.filter_map(|part| part["stacks"].as_f64()).sum()
    };
    let whole = number(&unwound["whole"])?;
    let all = whole + sum("truncated") + sum("failed") + number(&unwound["behind"])?;
    anyhow::ensure!(all > 0.0, "no stack was unwound");
    Ok(whole / all)
}

fn number(value: &Value) -> anyhow::Result<f64> {
    value.as_f64().ok_or_else(|| anyhow::anyhow!("{value} is no number"))
}

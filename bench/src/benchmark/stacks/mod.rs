//! Whole stacks while recording (`tare record -g`): known chains, Debian's own programs, sizes, and
//! what unwinding costs, beside frame pointers, copies of stacks, and perf.

mod chains;
mod cost;
mod equal;
mod hotspot;
mod many;
mod programs;
mod readers;
mod sizes;
mod tables;

use std::time::Instant;

use serde_json::{Value, json};
use tare_symbols::UnwindOutcome;

use crate::benchmark::unwind::known;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Programs whose chains are known.
const KNOWN: [&str; 14] = [
    "known",
    "known-large",
    "known-short",
    "known-fp",
    "throws",
    "known-rust",
    "known-go",
    "known-static",
    "known-static-pie",
    "known-musl",
    "known-32",
    "known-debug-frame",
    "known-no-tables",
    "known-assembly",
];

/// Why chains lack callers while execve(2) replaces a program.
const REPLACED: &str = UnwindOutcome::Replaced.reason();

/// Measures a part: adds to the report, and returns its raw figures.
type Measure = fn(&Scratch<'_>, &mut Report) -> anyhow::Result<Value>;

/// The parts with their names.
const PARTS: [(&str, Measure); 12] = [
    ("known", known),
    (PROGRAMS, programs::measure),
    ("sizes", sizes::measure),
    ("readers", readers::measure),
    ("tables", tables::measure),
    ("processes", many::processes),
    ("waits", many::waits),
    ("live", many::live),
    ("stolen", cost::stolen),
    ("recorder", cost::recorder),
    ("busy", cost::busy_machine),
    ("copies", cost::beside_perf),
];

/// The part with Debian's own programs, each of which can be measured alone.
const PROGRAMS: &str = "programs";

/// The names of the parts, and of the programs.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|(name, _)| *name).chain(programs::names())
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let mut report = Report { table: Vec::new(), findings: Vec::new(), raw: json!(null) };
    let mut raw = serde_json::Map::new();
    let has_programs = programs::names().any(|name| setting.has_case(name));
    for (name, measure) in PARTS {
        if setting.has_case(name) || name == PROGRAMS && has_programs {
            raw.insert(name.to_owned(), part(&scratch, &mut report, name, measure));
        }
    }
    report.raw = raw.into();
    Ok(report)
}

fn known(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let programs = KNOWN.map(|name| (name, "auto"));
    report.findings.extend(known::findings(scratch, &programs)?);
    Ok(json!(null))
}

/// Measures a part, and its time. One that fails is a finding that isn't met, so that the others'
/// figures remain.
fn part(scratch: &Scratch<'_>, report: &mut Report, name: &str, measure: Measure) -> Value {
    let began = Instant::now();
    let raw = measure(scratch, report).unwrap_or_else(|why| {
        let text = format!("{name}: not measured: {why:#}");
        report.table.extend(text.lines().map(str::to_owned));
        report.findings.push(finding(format!("{name}: measured"), 0.0, Bound::AtLeast(1.0)));
        json!(text)
    });
    report.table.push(format!("({name}: {:.0} s)", began.elapsed().as_secs_f64()));
    raw
}

fn finding(what: String, measured: f64, bound: Bound) -> Finding {
    Finding { what, measured: Estimate::exact(measured), bound }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Records a command with these options; returns the report's document.
fn record(scratch: &Scratch<'_>, options: &[&str], command: &[&str]) -> anyhow::Result<Value> {
    let file = scratch.path("recorded.data").display().to_string();
    let tare = scratch.setting.tare();
    let begin = [&tare, "record", "-q", "-o", &file];
    succeed(&words(&[&begin[..], options, &["--"], command].concat()))?;
    let report = [&tare, "report", "--json", "-g", "none", "--no-children", "-i", &file];
    Ok(serde_json::from_str(&succeed(&words(&report))?.stdout)?)
}

/// The ledger of a recording of cpu-clock.
fn ledger(scratch: &Scratch<'_>, options: &[&str], command: &[&str]) -> anyhow::Result<Value> {
    let options = [&["-e", "cpu-clock"], options].concat();
    Ok(record(scratch, &options, command)?["ledger"].take())
}

/// The share of unwound chains that are whole. While execve(2) replaces a program, there is no stack,
/// so these chains don't count.
fn whole_share(ledger: &Value) -> anyhow::Result<f64> {
    let unwound = &ledger["unwound"];
    let sum = |name: &str| -> f64 {
        let parts = unwound[name].as_array().into_iter().flatten();
        let parts = parts.filter(|part| part["reason"] != REPLACED);
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

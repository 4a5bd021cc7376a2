//! Whole stacks while recording (`tare record -g`): known chains, Debian's own programs, sizes, and
//! what unwinding costs, beside frame pointers, copies of stacks, and perf.

mod cost;
mod programs;

use serde_json::json;

use crate::benchmark::unwind::known;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Programs whose chains are known.
const KNOWN: [(&str, &str); 5] = [
    ("known", "auto"),
    ("known-fp", "auto"),
    ("throws", "auto"),
    ("known-rust", "auto"),
    ("known-go", "auto"),
];

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let mut report = Report { table: Vec::new(), findings: Vec::new(), raw: json!(null) };
    report.findings.extend(known::findings(&scratch, &KNOWN)?);
    let programs = programs::measure(&scratch, &mut report)?;
    let costs = cost::measure(&scratch, &mut report)?;
    report.raw = json!({ "programs": programs, "costs": costs });
    Ok(report)
}

fn finding(what: String, measured: f64, bound: Bound) -> Finding {
    Finding { what, measured: Estimate::exact(measured), bound }
}

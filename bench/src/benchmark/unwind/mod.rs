//! Unwinding of copied stacks: known chains, and those of a C++ compiler by the size of the copy.

mod known;
mod stacks;

use std::fmt::Write as _;
use std::process::Command;

use anyhow::ensure;
use serde_json::json;

use crate::report::{Bound, Estimate, Finding, Report};
use crate::scratch::Scratch;
use crate::setting::Setting;
use stacks::Stacks;

/// Sizes of copies.
const SIZES: [u32; 4] = [8192, 16_384, 32_768, 65_528];

/// Nanoseconds a frame on one thread, at most.
const FRAME_NS: f64 = 150.0;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let mut report =
        Report { table: Vec::new(), findings: known::findings(&scratch)?, raw: json!([]) };
    let source = scratch.path("large.cc");
    std::fs::write(&source, large_source())?;
    report.table.push(format!(
        "{:>6} {:>8} {:>12} {:>16} {:>12} {:>18} {:>10}",
        "copy",
        "stacks",
        "frames each",
        "whole, framehop",
        "whole, tare",
        "ns each, framehop",
        "tare"
    ));
    let mut raw = Vec::new();
    for size in SIZES {
        raw.push(of_size(&scratch, size, &mut report)?);
    }
    report.raw = json!(raw);
    Ok(report)
}

/// A compiler's stacks, recorded with copies of so many bytes.
fn of_size(
    scratch: &Scratch<'_>,
    size: u32,
    report: &mut Report,
) -> anyhow::Result<serde_json::Value> {
    let setting = scratch.setting;
    let (source, file) = (scratch.path("large.cc"), scratch.path("large.data"));
    let how = format!("dwarf,{size}");
    let mut record = Command::new(setting.tare());
    record.args(["record", "-q", "-F", "8000", "-e", "cpu-clock:u", "--call-graph", &how, "-o"]);
    record.arg(&file).args(["--", "c++", "-O2", "-c", "-o", "/dev/null"]).arg(&source);
    ensure!(record.status()?.success(), "recording c++ failed");
    let stacks = Stacks::read(&file)?;
    std::fs::remove_file(&file)?;
    let mut times = [Vec::new(), Vec::new()];
    // The first one meets cold memory.
    let mut last = [stacks.by_tare(), stacks.by_framehop()];
    for _ in 0..setting.rounds.unwrap_or(7) {
        last = [stacks.by_tare(), stacks.by_framehop()];
        for (times, unwinding) in times.iter_mut().zip(&last) {
            times.push(unwinding.ns as f64 / unwinding.frames as f64);
        }
    }
    let [ours, theirs] = times.map(Estimate::median);
    let shares = last.map(|unwinding| unwinding.whole as f64 / stacks.len() as f64);
    let each = last[0].frames as f64 / stacks.len() as f64;
    report.table.push(format!(
        "{size:>6} {:>8} {each:>12.1} {:>15.2}% {:>11.2}% {:>18.1} {:>10.1}",
        stacks.len(),
        shares[1] * 100.0,
        shares[0] * 100.0,
        theirs.value,
        ours.value
    ));
    report.findings.push(Finding {
        what: format!("{size} bytes: nanoseconds a frame on one thread"),
        measured: ours,
        bound: Bound::AtMost(FRAME_NS),
    });
    report.findings.push(Finding {
        what: format!("{size} bytes: whole stacks, tare/framehop"),
        measured: Estimate::exact(shares[0] / shares[1]),
        bound: Bound::AtLeast(1.0),
    });
    Ok(json!({
        "bytes": size, "stacks": stacks.len(), "frames": last[0].frames, "whole": shares,
        "ns_per_frame": [ours, theirs],
    }))
}

/// A file that takes a compiler some ten seconds: many instantiations.
fn large_source() -> String {
    let mut text = String::from(
        "#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n",
    );
    for n in 0..60 {
        let _ = write!(
            text,
            "struct K{n} {{ int a[{n} + 1]; std::string s; bool operator<(const K{n} &o) const {{ return s < o.s; }} }};\n\
             int use{n}(std::vector<K{n}> v, std::map<K{n}, std::vector<std::string>> m) {{\n\
             std::sort(v.begin(), v.end());\n\
             for (auto &k : v) m[k].push_back(k.s + std::to_string({n}));\n\
             std::stable_sort(v.begin(), v.end());\n\
             int sum = 0; for (auto &p : m) for (auto &s : p.second) sum += s.size() * {n}; return sum; }}\n"
        );
    }
    text
}

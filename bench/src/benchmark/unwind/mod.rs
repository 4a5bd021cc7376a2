//! Unwinding of copied stacks: known chains, and those of a C++ compiler by the size of the copy.

mod known;
mod stacks;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::ensure;
use serde_json::json;

use crate::report::{Bound, Estimate, Finding, Report};
use crate::scratch::Scratch;
use crate::setting::Setting;
use stacks::{Copied, End, Ends, Framehop, Process, Tare};

/// Sizes of copies, the largest last: the others are its beginnings.
const SIZES: [usize; 4] = [8192, 16_384, 32_768, 65_528];

/// As many stacks.
const STACKS: usize = 100_000;

/// Nanoseconds a frame on one thread, at most.
const FRAME_NS: f64 = 150.0;

/// Whole stacks, of as many as framehop has: in hand-written assembly without tables of call frames
/// (libgmp's) it takes what lies on top of the stack for the return address. Tare says that it
/// doesn't know.
const WHOLE: f64 = 0.999;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let mut report =
        Report { table: Vec::new(), findings: known::findings(&scratch)?, raw: json!([]) };
    let file = record(&scratch)?;
    let (pid, process) = Process::read(&file, b"cc1plus")?;
    let mut sizes = SIZES.map(|bytes| OfSize::new(bytes, &process));
    let mut rounds = 0_usize;
    let stacks = stacks::batches(&file, pid, STACKS, |batch| {
        sizes.iter_mut().for_each(|size| size.unwind(batch, rounds));
        rounds += 1;
    })?;
    ensure!(stacks >= STACKS / 2, "only {stacks} stacks of the compiler were recorded");
    report.table.push(format!("{stacks} stacks of a C++ compiler, in {rounds} rounds:"));
    report.table.push(format!(
        "{:>6} {:>7} {:>24} {:>24} {:>7} {:>17}",
        "", "frames", "whole truncated failed", "of framehop", "equal", "ns a frame"
    ));
    let said = sizes.into_iter().map(|size| size.findings(stacks, &mut report));
    let raw: Vec<_> = said.collect();
    report.raw = json!(raw);
    Ok(report)
}

/// A compiler's stacks.
fn record(scratch: &Scratch<'_>) -> anyhow::Result<PathBuf> {
    let source = scratch.path("large.cc");
    let file = scratch.path("large.data");
    std::fs::write(&source, large_source())?;
    let largest = SIZES[SIZES.len() - 1];
    let how = format!("dwarf,{largest}");
    let mut record = Command::new(scratch.setting.tare());
    record.args(["record", "-q", "-F", "4000", "-e", "cpu-clock:u", "--call-graph", &how, "-o"]);
    record.arg(&file).args(["--", "c++", "-O2", "-c", "-o", "/dev/null"]).arg(&source);
    ensure!(record.status()?.success(), "recording c++ failed");
    Ok(file)
}

/// What was found with copies of one size.
struct OfSize<'p> {
    bytes: usize,
    ours: (Tare<'p>, Ends),
    theirs: (Framehop, Ends),
    /// Nanoseconds a frame, by round: tare, framehop.
    times: [Vec<f64>; 2],
    frames: usize,
    equal: usize,
}

impl<'p> OfSize<'p> {
    fn new(bytes: usize, process: &'p Process) -> Self {
        Self {
            bytes,
            ours: (Tare::new(process), Ends::default()),
            theirs: (Framehop::new(process), Ends::default()),
            times: [Vec::new(), Vec::new()],
            frames: 0,
            equal: 0,
        }
    }

    /// Both by turns begin: the first one meets cold memory.
    fn unwind(&mut self, batch: &[Copied], round: usize) {
        let tare = &mut self.ours.0;
        let framehop = &mut self.theirs.0;
        let (ours, theirs) = if round.is_multiple_of(2) {
            let ours = tare.unwind(batch, self.bytes);
            (ours, framehop.unwind(batch, self.bytes))
        } else {
            let theirs = framehop.unwind(batch, self.bytes);
            (tare.unwind(batch, self.bytes), theirs)
        };
        self.times[0].push(ours.frame_ns());
        self.times[1].push(theirs.frame_ns());
        self.frames += ours.frames();
        self.equal += ours.equal(&theirs);
        self.ours.1.add(&ours);
        self.theirs.1.add(&theirs);
    }

    fn findings(self, stacks: usize, report: &mut Report) -> serde_json::Value {
        let Self { bytes, ours: (_, ours), theirs: (_, theirs), times, frames, equal } = self;
        // Both unwound each batch one right after the other.
        let pairs = times[0].iter().zip(&times[1]);
        let ratio = Estimate::of_ratios(pairs.map(|(ours, theirs)| ours / theirs));
        let [ours_ns, theirs_ns] = times.map(Estimate::median);
        let shares = |ends: &Ends| {
            [End::Whole, End::Truncated, End::Failed].map(|end| ends.share(end) * 100.0)
        };
        let [[whole, truncated, failed], others] = [shares(&ours), shares(&theirs)];
        report.table.push(format!(
            "{bytes:>6} {:>7.1} {whole:>7.2}% {truncated:>6.2}% {failed:>5.2}%  {:>8.2}% {:>6.2}% {:>5.2}% {:>6.2}% {:>7.1} of {:>6.1}",
            frames as f64 / stacks as f64,
            others[0],
            others[1],
            others[2],
            equal as f64 * 100.0 / stacks as f64,
            ours_ns.value,
            theirs_ns.value,
        ));
        for (name, ends) in [("tare", &ours), ("framehop", &theirs)] {
            report.table.push(format!("       {name}: {}", ends.reasons()));
        }
        report.findings.push(Finding {
            what: format!("{bytes} bytes: nanoseconds a frame on one thread"),
            measured: ours_ns,
            bound: Bound::AtMost(FRAME_NS),
        });
        report.findings.push(Finding {
            what: format!("{bytes} bytes: nanoseconds a frame, tare/framehop"),
            measured: ratio,
            bound: Bound::AtMost(1.0),
        });
        report.findings.push(Finding {
            what: format!("{bytes} bytes: whole stacks, tare/framehop"),
            measured: Estimate::exact(whole / others[0]),
            bound: Bound::AtLeast(WHOLE),
        });
        json!({
            "bytes": bytes, "stacks": stacks, "frames": frames, "equal": equal,
            "percent": [[whole, truncated, failed], others],
            "reasons": [ours.reasons(), theirs.reasons()],
            "ns_per_frame": [ours_ns, theirs_ns],
        })
    }
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

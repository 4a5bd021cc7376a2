//! tare's unwinder and line tables beside the libraries `framehop` and `addr2line`, on three
//! recordings; and programs whose call chains are known.

pub(super) mod known;
pub(super) mod lines;
mod recordings;
mod stacks;

use serde_json::json;

use crate::report::{Bound, Estimate, Finding, Report};
use crate::scratch::Scratch;
use crate::setting::Setting;
use recordings::{RecordedStacks, record_all};
use stacks::{End, Unwinding, unwind_with_framehop, unwind_with_tare};

/// Default number of pairs of measurements of each recording.
const PAIRS: usize = 21;

/// Programs whose chains are known, and how they are recorded.
const KNOWN: [(&str, &str); 5] = [
    ("known", "dwarf,16384"),
    ("throws", "dwarf"),
    ("known-rust", "dwarf"),
    ("known-go", "dwarf"),
    ("known-fp", "fp"),
];

/// Lower bound of tare's whole stacks over framehop's. It is below 1 because in assembly without
/// unwind tables framehop takes the top of the stack for a return address, where tare gives up.
const WHOLE: f64 = 0.999;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let findings = known::findings(&scratch, &KNOWN)?;
    let mut report = Report { table: Vec::new(), findings, raw: json!(null) };
    let mut raw = Vec::new();
    for recording in record_all(&scratch)? {
        let recorded = RecordedStacks::read(&recording)?;
        let pairs = setting.rounds.unwrap_or(PAIRS);
        raw.push(compare(recording.name, &recorded, pairs, &mut report));
    }
    report.raw = json!(raw);
    Ok(report)
}

/// Unwinds all stacks of a recording with both libraries, in pairs.
fn compare(
    name: &str,
    recorded: &RecordedStacks,
    pairs: usize,
    report: &mut Report,
) -> serde_json::Value {
    let mut times_ms = [Vec::new(), Vec::new()];
    let mut found = [Unwinding::default(), Unwinding::default()];
    // The first pair warms the page cache.
    for pair in 0..=pairs {
        // Each library is the first in every second pair.
        let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
        for library in order {
            found[library] = match library {
                0 => unwind_with_tare(recorded, |_, _, _| ()),
                _ => unwind_with_framehop(recorded),
            };
            if pair > 0 {
                times_ms[library].push(found[library].ns as f64 / 1e6);
            }
        }
    }
    report_pairs(name, recorded, &found, &times_ms, report)
}

fn report_pairs(
    name: &str,
    recorded: &RecordedStacks,
    found: &[Unwinding; 2],
    times_ms: &[Vec<f64>; 2],
    report: &mut Report,
) -> serde_json::Value {
    let [ours, theirs] = found;
    let ratios = times_ms[0].iter().zip(&times_ms[1]).map(|(ours, theirs)| ours / theirs);
    let ratio = Estimate::median(ratios.collect());
    let [ours_ms, theirs_ms] = times_ms.clone().map(Estimate::median);
    let stacks = recorded.stacks as f64;
    let equal = ours.count_equal(theirs);
    let contradictions = ours.count_contradictions(theirs);
    report.table.push(format!(
        "{name}: {stacks} stacks, {:.1} frames each; equal {:.3}%, both whole but different {:.3}%",
        ours.addresses.len() as f64 / stacks,
        equal as f64 * 100.0 / stacks,
        contradictions as f64 * 100.0 / stacks
    ));
    report.table.push(format!("  ms: tare {ours_ms}, framehop {theirs_ms}, ratio {ratio}"));
    for (library, unwinding) in [("tare", ours), ("framehop", theirs)] {
        let [whole, truncated, failed] =
            [End::Whole, End::Truncated, End::Failed].map(|end| unwinding.share(end) * 100.0);
        report.table.push(format!(
            "  {library}: {whole:.2}% whole, {truncated:.2}% truncated, {failed:.2}% failed: {}",
            unwinding.list_reasons()
        ));
    }
    report.findings.push(Finding {
        what: format!("{name}: time to unwind {stacks} stacks, tare/framehop"),
        measured: ratio,
        bound: Bound::AtMost(1.0),
    });
    report.findings.push(Finding {
        what: format!("{name}: whole stacks, tare/framehop"),
        measured: Estimate::exact(ours.share(End::Whole) / theirs.share(End::Whole)),
        bound: Bound::AtLeast(WHOLE),
    });
    json!({
        "recording": name, "stacks": recorded.stacks,
        "frames": [ours.addresses.len(), theirs.addresses.len()],
        "equal": equal, "contradictions": contradictions,
        "whole": [ours.share(End::Whole), theirs.share(End::Whole)],
        "reasons": [ours.list_reasons(), theirs.list_reasons()], "ms": times_ms,
    })
}

//! `tare trace --probe` and `--usdt`: the cost of a call beside bpftrace's, and whether counts and
//! times are right.

use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};

use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Variant, in_random_order};
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Calls of the timed function per run; one further run makes a million.
const CALLS: u64 = 50_000;
const MILLION: u64 = 1_000_000;
/// Calls of the function that sleeps: each of its twenty durations ten times.
const SLEEPS: usize = 200;
const PASSES: &str = "50000";
const DOCUMENT: &str = "calls.json";

/// A loop of calls.
#[derive(Clone, Copy, Debug, Serialize)]
struct Loop {
    /// Nanoseconds per call, by the program's own clock.
    ns: f64,
    /// Difference between counted and actual calls.
    off: u64,
}

/// The command line of `tare trace --json` into the file that [`document`] reads, with `words`
/// appended.
fn trace(setting: &Setting, scratch: &Scratch<'_>, words: &[&str]) -> Vec<String> {
    let tare = setting.tare();
    let path = scratch.path(DOCUMENT).display().to_string();
    let front = [tare.as_str(), "trace", "--json", "-o", &path];
    front.iter().chain(words).map(|word| (*word).to_owned()).collect()
}

/// Reads the document of [`trace`].
fn document(scratch: &Scratch<'_>) -> anyhow::Result<Value> {
    let file = scratch.path(DOCUMENT);
    let text = std::fs::read_to_string(&file)?;
    std::fs::remove_file(file)?;
    serde_json::from_str(&text).context("what tare wrote is no JSON")
}

fn number(of: &Value) -> anyhow::Result<f64> {
    of.as_f64().with_context(|| format!("'{of}' is no number"))
}

/// Sums the counts of a bpftrace histogram, whose lines look like `[1K, 2K)  123 |@@|`.
fn in_histogram(text: &str) -> u64 {
    let bucket = |line: &str| {
        let rest = line.split_once(')')?.1;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    text.lines().filter(|line| line.starts_with('[')).filter_map(bucket).sum()
}

fn run_variant(variant: &Variant, scratch: &Scratch<'_>) -> anyhow::Result<Loop> {
    let outcome = succeed(&variant.words)?;
    // bpftrace mixes the program's output with its own.
    let said = outcome.stdout.lines().find_map(|line| line.trim().parse::<f64>().ok());
    let ns = said.with_context(|| format!("latency said '{}'", outcome.stdout))?;
    let counted = match variant.name.as_str() {
        "bare" => CALLS,
        "bpftrace" => in_histogram(&outcome.stdout),
        _ => document(scratch)?["probes"][0]["returned"].as_u64().unwrap_or(0),
    };
    Ok(Loop { ns, off: counted.abs_diff(CALLS) })
}

/// The larger error of p50 and p99 relative to the program's own measurement, in percent.
fn durations(setting: &Setting, scratch: &Scratch<'_>) -> anyhow::Result<f64> {
    let latency = setting.workload("latency");
    let probe = format!("{latency}:work");
    let count = SLEEPS.to_string();
    let outcome = succeed(&trace(
        setting,
        scratch,
        &["--probe-returns", "--probe", &probe, "--", &latency, &count],
    ))?;
    let own: Result<Vec<f64>, _> = outcome.stdout.lines().map(str::parse).collect();
    let mut own = own.context("latency's own times")?;
    own.sort_by(f64::total_cmp);
    let seen = document(scratch)?["probes"][0].take();
    anyhow::ensure!(own.len() == SLEEPS && seen["calls"] == SLEEPS, "not all calls are there");
    let mut most: f64 = 0.0;
    for (name, percent) in [("p50_ns", 50), ("p99_ns", 99)] {
        // The percentile lies between the duration of rank `at` and the next.
        let at = percent * SLEEPS / 100;
        let low = own[at - 1];
        let high = own[at.min(SLEEPS - 1)];
        let got = number(&seen[name])?;
        most = most.max(100.0 * (low / got - 1.0)).max(100.0 * (got / high - 1.0));
    }
    Ok(most)
}

/// Differences between counted and actual hits of a program's two USDT probes, summed.
fn places(setting: &Setting, scratch: &Scratch<'_>) -> anyhow::Result<u64> {
    let usdt = setting.workload("usdt");
    let probes = ["--usdt", "tare:turn", "--usdt", "tare:watched", "--", &usdt, PASSES];
    succeed(&trace(setting, scratch, &probes))?;
    let document = document(scratch)?;
    let passed = |at: usize| document["probes"][at]["calls"].as_u64().unwrap_or(0);
    let wanted: u64 = PASSES.parse()?;
    Ok(passed(0).abs_diff(wanted) + passed(1).abs_diff(wanted))
}

/// Differences of the counted calls and returns from a million, summed.
fn million(setting: &Setting, scratch: &Scratch<'_>) -> anyhow::Result<u64> {
    let latency = setting.workload("latency");
    let probe = format!("{latency}:quick");
    let calls = MILLION.to_string();
    succeed(&trace(
        setting,
        scratch,
        &["--probe-returns", "--probe", &probe, "--", &latency, &calls, "quick"],
    ))?;
    let seen = document(scratch)?["probes"][0].take();
    let counted = |name: &str| seen[name].as_u64().unwrap_or(0).abs_diff(MILLION);
    Ok(counted("calls") + counted("returned"))
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let latency = setting.workload("latency");
    let probe = format!("{latency}:quick");
    let calls = CALLS.to_string();
    let program = format!(
        "uprobe:{latency}:quick {{ @start[tid] = nsecs; }} \
         uretprobe:{latency}:quick /@start[tid]/ {{ @ns = hist(nsecs - @start[tid]); delete(@start[tid]); }}"
    );
    let command = format!("{latency} {calls} quick");
    let variants = vec![
        Variant::new("bare", [latency.as_str(), &calls, "quick"]),
        Variant::new(
            "tare trace --probe",
            trace(
                setting,
                &scratch,
                &["--probe-returns", "--probe", &probe, "--", &latency, &calls, "quick"],
            ),
        ),
        Variant::new("bpftrace", ["bpftrace", "-e", &program, "-c", &command]),
    ];
    let count = setting.rounds.unwrap_or(10);
    let mut measured = Vec::new();
    let mut off_by = Vec::new();
    let mut passes_off = 0;
    for _ in 0..count {
        let (_, loops) = in_random_order(&variants, |variant| run_variant(variant, &scratch))?;
        measured.push(loops);
        off_by.push(durations(setting, &scratch)?);
        passes_off += places(setting, &scratch)?;
    }
    let added = |loops: &[Loop], at: usize| loops[at].ns - loops[0].ns;
    let ratio = Estimate::of_ratios(measured.iter().map(|loops| added(loops, 1) / added(loops, 2)));
    let most_off =
        |at: usize| measured.iter().map(|loops: &Vec<Loop>| loops[at].off).max().unwrap_or(0);
    let worst = off_by.iter().copied().fold(0.0, f64::max);
    let exact = |value: u64| Estimate::exact(value as f64);
    let finding = |what: &str, measured, most| Finding {
        what: what.into(),
        measured,
        bound: Bound::AtMost(most),
    };
    let findings = vec![
        finding("added by tare/added by bpftrace, a call", ratio, 1.0),
        finding("calls not counted, the most of any run", exact(most_off(1)), 0.0),
        finding("calls of a million not counted", exact(million(setting, &scratch)?), 0.0),
        finding("p50 and p99 off, percent, the most of any run", Estimate::exact(worst), 5.0),
        finding("passes of USDT probes not counted", exact(passes_off), 0.0),
    ];
    let table = variants.iter().enumerate().map(|(at, variant)| {
        let ns = Estimate::median(measured.iter().map(|loops| loops[at].ns).collect()).value;
        format!("{:<20} {ns:>9.1} ns a call, {} off at most", variant.name, most_off(at))
    });
    Ok(Report {
        table: table.collect(),
        findings,
        raw: json!({ "variants": variants, "loops": measured, "percent_off": off_by, "passes_off": passes_off }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_of_bpftrace_are_summed_up() {
        let text = "Attaching 2 probes...\n12.5\n\n@ns: \n[512, 1K)    7 |@@|\n[1K, 2K)    999993 |@@@@|\n";
        assert_eq!(in_histogram(text), 1_000_000);
    }
}

//! The cost of `tare trace` for a loop of system calls, at start-up and for a probed function, and
//! what a killed tracer leaves.

mod kill;
mod probe;

use std::path::Path;

use anyhow::Context;
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf};

use serde_json::json;

use super::record::summary::summarize;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, in_random_order, rounds};
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

pub(crate) use kill::run as kill;
pub(crate) use probe::run as probe;

/// Duration of each loop, in seconds.
const SECONDS: &str = "0.5";

/// Attaches two empty BPF programs until the result is dropped.
fn attach_empty() -> anyhow::Result<Ebpf> {
    let btf = Btf::from_sys_fs()?;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/kernel/bpf");
    let mut ebpf = Ebpf::load_file(format!("{folder}/empty.{}.o", std::env::consts::ARCH))?;
    for name in ["sys_enter", "sys_exit"] {
        let program: &mut BtfTracePoint =
            ebpf.program_mut(name).context("no such program")?.try_into()?;
        program.load(name, &btf)?;
        program.attach()?;
    }
    Ok(ebpf)
}

/// Nanoseconds per call of the loop under this command.
fn ns_per_call(words: &[String]) -> anyhow::Result<f64> {
    let stdout = succeed(words)?.stdout;
    let calls: f64 = stdout.trim().parse().with_context(|| format!("flood said '{stdout}'"))?;
    Ok(SECONDS.parse::<f64>()? * 1e9 / calls)
}

/// Runs a loop of getppid(2) bare, with empty BPF programs, and under tare, perf and strace.
pub(crate) fn flood(setting: &Setting) -> anyhow::Result<Report> {
    let tare = setting.tare();
    let flood = setting.workload("flood");
    let with = |words: &[&str]| {
        let all = words.iter().copied().chain([flood.as_str(), SECONDS]);
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    let variants = vec![
        Variant::new("bare", with(&[])),
        Variant::new("empty", with(&[])),
        Variant::new("tare trace -s", with(&[&tare, "trace", "-s", "-o", "/dev/null"])),
        Variant::new("perf trace -s", with(&["perf", "trace", "-s", "-o", "/dev/null"])),
        Variant::new("strace -c", with(&["strace", "-f", "-c", "-o", "/dev/null"])),
    ];
    let count = setting.rounds.unwrap_or(15);
    let mut measured: Vec<Vec<f64>> = Vec::new();
    for _ in 0..count {
        let (_, ns) = in_random_order(&variants, |variant| {
            let empty = (variant.name == "empty").then(attach_empty).transpose()?;
            let ns = ns_per_call(&variant.words)?;
            drop(empty);
            Ok(ns)
        })?;
        measured.push(ns);
    }
    let ratios =
        |ratio: fn(&[f64]) -> f64| Estimate::of_ratios(measured.iter().map(|ns| ratio(ns)));
    let finding = |what: &str, measured, bound| Finding { what: what.into(), measured, bound };
    let findings = vec![
        finding("tare/empty programs", ratios(|ns| ns[2] / ns[1]), Bound::AtMost(1.6)),
        finding(
            "added by tare/added by perf",
            ratios(|ns| (ns[2] - ns[0]) / (ns[3] - ns[0])),
            Bound::AtMost(0.05),
        ),
        finding(
            "added by tare/added by strace",
            ratios(|ns| (ns[2] - ns[0]) / (ns[4] - ns[0])),
            Bound::AtMost(1.0),
        ),
    ];
    let table = variants.iter().enumerate().map(|(at, variant)| {
        let ns = Estimate::median(measured.iter().map(|ns| ns[at]).collect()).value;
        format!("{:<24} {ns:>10.1} ns a call (median of {count})", variant.name)
    });
    Ok(Report {
        table: table.collect(),
        findings,
        raw: json!({ "variants": variants, "ns_per_call": measured }),
    })
}

/// Runs the same loop bare, under `tare trace --data` and under `perf trace record`, each with its
/// default rings. Each call is two samples.
pub(crate) fn data(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let tare = setting.tare();
    let flood = setting.workload("flood");
    let file = |name: &str| scratch.path(name).display().to_string();
    let with = |words: &[&str]| {
        let all = words.iter().copied().chain([flood.as_str(), SECONDS]);
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    let variants = vec![
        Variant::new("bare", with(&[])),
        Variant::new("tare trace --data", with(&[&tare, "trace", "--data", &file("tare.data")])),
        Variant::new(
            "perf trace record",
            with(&["perf", "trace", "record", "-o", &file("perf.data")]),
        ),
    ];
    let files = [None, Some(scratch.path("tare.data")), Some(scratch.path("perf.data"))];
    let count = setting.rounds.unwrap_or(15);
    let mut measured: Vec<Vec<RecordedLoop>> = Vec::new();
    for _ in 0..count {
        let at = |variant: &Variant| variants.iter().position(|other| other.name == variant.name);
        let (_, runs) = in_random_order(&variants, |variant| {
            recorded(variant, files.get(at(variant).unwrap_or(0)).cloned().flatten().as_deref())
        })?;
        measured.push(runs);
    }
    let ratio = |at: usize, to: usize| {
        Estimate::of_ratios(measured.iter().map(|runs| runs[at].ns / runs[to].ns))
    };
    let most = |at: usize, of: fn(&RecordedLoop) -> u64| {
        let most = measured.iter().map(|runs| of(&runs[at])).max();
        Estimate::exact(most.unwrap_or(0) as f64)
    };
    let finding = |what: &str, measured, bound| Finding { what: what.into(), measured, bound };
    let findings = vec![
        finding("tare/bare", ratio(1, 0), Bound::AtMost(4.0)),
        finding(
            "records lost, tare, the most of any run",
            most(1, |run| run.lost),
            Bound::AtMost(0.0),
        ),
        finding(
            "calls without both samples, tare, the most of any run",
            most(1, |run| run.missing),
            Bound::AtMost(0.0),
        ),
        finding("tare/perf", ratio(1, 2), Bound::AtMost(1.0)),
    ];
    let table = variants.iter().enumerate().map(|(at, variant)| {
        let ns = Estimate::median(measured.iter().map(|runs| runs[at].ns).collect()).value;
        let lost = measured.iter().map(|runs| runs[at].lost).max().unwrap_or(0);
        format!("{:<24} {ns:>10.1} ns a call, {lost} lost at most", variant.name)
    });
    Ok(Report {
        table: table.collect(),
        findings,
        raw: json!({ "variants": variants, "runs": measured }),
    })
}

/// A recorded loop.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct RecordedLoop {
    /// Nanoseconds per call.
    ns: f64,
    /// Lost records.
    lost: u64,
    /// Missing samples of the loop's calls.
    missing: u64,
}

fn recorded(variant: &Variant, file: Option<&Path>) -> anyhow::Result<RecordedLoop> {
    let stdout = succeed(&variant.words)?.stdout;
    let calls: u64 = stdout.trim().parse().with_context(|| format!("flood said '{stdout}'"))?;
    let ns = SECONDS.parse::<f64>()? * 1e9 / calls as f64;
    let Some(file) = file else { return Ok(RecordedLoop { ns, lost: 0, missing: 0 }) };
    let summary = summarize(file, None)?;
    std::fs::remove_file(file)?;
    Ok(RecordedLoop {
        ns,
        lost: summary.lost,
        missing: (2 * calls).saturating_sub(summary.samples),
    })
}

/// Runs `true` bare and under `trace -s` of tare and of perf.
pub(crate) fn start_up(setting: &Setting) -> anyhow::Result<Report> {
    let variants = vec![
        Variant::new("bare", ["true"]),
        Variant::new("tare", [&setting.tare(), "trace", "-s", "-o", "/dev/null", "true"]),
        Variant::new("perf", ["perf", "trace", "-s", "-o", "/dev/null", "true"]),
    ];
    let rounds = rounds(&variants, setting.rounds.unwrap_or(40))?;
    let added = |round: &Round| {
        round.usage[1].elapsed_ns.saturating_sub(round.usage[0].elapsed_ns) as f64 / 1e6
    };
    let measured = Estimate::median(rounds.iter().map(added).collect());
    let finding =
        Finding { what: "elapsed, added by tare, ms".into(), measured, bound: Bound::AtMost(60.0) };
    Ok(Report::of_rounds(&variants, &rounds, vec![finding]))
}

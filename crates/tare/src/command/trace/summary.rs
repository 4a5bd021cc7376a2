//! `tare trace -s`: a table of system calls.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Context;
use serde_json::json;
use tare_format::printable;
use tare_kernel::bpf::{By, Sums};
use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;
use tare_kernel::procfs;
use tare_render::count;
use tare_trace::{Chosen, Row, Subject, SumTracer, Summary};

use super::live::{Over, Session};
use super::{explain, open};
use crate::Outcome;
use crate::cli::resolved::trace::{RING_BYTES, Trace};
use crate::exit::say;

/// The version of the JSON document: it changes when a field changes its meaning or goes.
const VERSION: u32 = 1;
/// How wide the bars of histograms are.
const BAR: usize = 40;

/// What is shown.
pub(super) struct View<'a> {
    pub(super) calls: &'a Chosen,
    pub(super) by: By,
    pub(super) histograms: bool,
}

pub(super) fn run(mut session: Session<'_>, view: &View<'_>) -> Outcome {
    let trace = session.trace;
    let mut out = open(trace)?;
    let follow = session.follow();
    let (tracer, step_back) =
        SumTracer::start(view.by, &follow, RING_BYTES, &session.host).map_err(explain)?;
    if let Some(step_back) = step_back {
        say(&step_back.to_string());
    }
    let files = tracer.files().map(|file| file.try_clone_to_owned());
    let files = files.collect::<Result<Vec<_>, _>>().context("no file descriptor is left")?;
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let tracer = RefCell::new(tracer);
    let over = session.wait(&files, |is_over| {
        tracer.borrow_mut().drain(is_over);
        Ok(())
    })?;
    let sums = tracer.borrow_mut().read().map_err(explain)?;
    let subject = subjects(view.by, &session.host, &sums);
    let summary = Summary::new(&sums, view.calls, subject);
    let written = if trace.json {
        document(&mut out, trace, &over, &summary)
    } else {
        text(&mut out, view.histograms, &summary)
    };
    written.and_then(|()| out.flush()).context("cannot write the summary")?;
    Ok(over.exit(trace))
}

/// Says whose a scope's sums are.
fn subjects<'a>(by: By, host: &'a Host, sums: &'a Sums) -> impl Fn(u64) -> Subject + 'a {
    let mut cgroups = BTreeMap::new();
    if let (By::Cgroup, Some(top)) = (by, Cgroups::of(host).v2) {
        find_cgroups(&host.path(&top.mount.to_string_lossy()), "/", &mut cgroups);
    }
    move |scope| match by {
        By::Call => Subject::All,
        By::Cgroup => {
            Subject::Cgroup(cgroups.get(&scope).cloned().unwrap_or_else(|| format!("({scope})")))
        }
        By::Thread => {
            let tid = u32::try_from(scope).unwrap_or_default();
            let ended = sums.ended.get(&tid).map(|thread| {
                let length = thread.comm.iter().position(|&byte| byte == 0);
                String::from_utf8_lossy(&thread.comm[..length.unwrap_or(16)]).into_owned()
            });
            let living = || procfs::name(host, i32::try_from(tid).ok()?);
            Subject::Thread { tid, comm: ended.or_else(living).unwrap_or_default() }
        }
    }
}

/// The ids of cgroups, which are the inodes of their folders.
fn find_cgroups(folder: &Path, name: &str, into: &mut BTreeMap<u64, String>) {
    if let Ok(status) = folder.symlink_metadata() {
        into.insert(status.ino(), name.to_owned());
    }
    let entries = folder.read_dir().into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let below =
            format!("{}/{}", name.trim_end_matches('/'), entry.file_name().to_string_lossy());
        find_cgroups(&entry.path(), &below, into);
    }
}

fn text(out: &mut impl Write, histograms: bool, summary: &Summary) -> io::Result<()> {
    for (at, (subject, rows)) in summary.subjects.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        match subject {
            Subject::All => {}
            Subject::Thread { tid, comm } => writeln!(out, "{} ({tid}):", printable(comm))?,
            Subject::Cgroup(path) => writeln!(out, "{}:", printable(path))?,
        }
        table(out, histograms, rows)?;
    }
    if summary.subjects.is_empty() {
        writeln!(out, "no system call returned")?;
    }
    for (number, noun) in
        [(summary.missing_calls, "system call"), (summary.missing_errors, "error")]
    {
        if number > 0 {
            writeln!(out, "tare: {} found no room in the kernel's table", count(number, noun))?;
        }
    }
    Ok(())
}

fn table(out: &mut impl Write, histograms: bool, rows: &[Row]) -> io::Result<()> {
    let total: u64 = rows.iter().map(|row| row.total_ns).sum();
    writeln!(
        out,
        "% time     total ms     calls  errors    mean us     p50 us     p99 us     max us  call"
    )?;
    for row in rows {
        let micro = |ns: f64| ns / 1e3;
        let percent = if total == 0 { 0.0 } else { 100.0 * row.total_ns as f64 / total as f64 };
        let failed = row.failed();
        let failed = if failed == 0 { String::new() } else { failed.to_string() };
        write!(
            out,
            "{percent:6.2} {:12.3} {:9} {failed:>7} {:10.2} {:10.2} {:10.2} {:10.2}  {}",
            row.total_ns as f64 / 1e6,
            row.calls,
            micro(row.mean_ns()),
            micro(row.quantile_ns(0.5)),
            micro(row.quantile_ns(0.99)),
            micro(row.max_ns as f64),
            row.call,
        )?;
        let errors: Vec<_> =
            row.errors.iter().map(|(error, times)| format!("{error} {times}")).collect();
        writeln!(out, "{}{}", if errors.is_empty() { "" } else { ": " }, errors.join(", "))?;
        if histograms {
            histogram(out, row)?;
        }
    }
    let calls: u64 = rows.iter().map(|row| row.calls).sum();
    let failed: u64 = rows.iter().map(Row::failed).sum();
    writeln!(out, "{:6.2} {:12.3} {calls:9} {failed:7}{:46}total", 100.0, total as f64 / 1e6, "")
}

/// A line for each power of two, from the shortest to the longest.
fn histogram(out: &mut impl Write, row: &Row) -> io::Result<()> {
    let mut powers: BTreeMap<u32, u64> = BTreeMap::new();
    for (from, _, calls) in row.histogram.buckets() {
        *powers.entry(from.checked_ilog2().unwrap_or(0)).or_default() += calls;
    }
    let most = powers.values().copied().max().unwrap_or(1);
    let (Some(&first), Some(&last)) = (powers.keys().next(), powers.keys().next_back()) else {
        return Ok(());
    };
    for power in first..=last {
        let calls = powers.get(&power).copied().unwrap_or(0);
        if calls == 0 && power > 0 && power < 5 {
            continue; // all that took less than 32 ns is in the first
        }
        let from = if power == 0 { 0 } else { 1u64 << power };
        let to = if power == 0 { 1u64 << 5 } else { 2u64 << power };
        let filled =
            usize::try_from(u128::from(calls) * BAR as u128 / u128::from(most)).unwrap_or(BAR);
        let bar = "#".repeat(filled.max(usize::from(calls > 0)));
        writeln!(out, "{:>20} {:>10} {calls:10} |{bar:BAR$}|", duration(from), duration(to))?;
    }
    Ok(())
}

/// A bound of a histogram, with its unit.
fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => (ns as f64, "ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    if ns < 1_000 { format!("{value} {unit}") } else { format!("{value:.2} {unit}") }
}

fn document(out: &mut impl Write, trace: &Trace, over: &Over, summary: &Summary) -> io::Result<()> {
    let mut calls = Vec::new();
    for (subject, rows) in &summary.subjects {
        calls.extend(rows.iter().map(|row| call(subject, row)));
    }
    let words: Vec<_> = trace.command.iter().map(|word| word.to_string_lossy()).collect();
    let document = json!({
        "version": VERSION,
        "command": words,
        "elapsed_ns": u64::try_from(over.elapsed.as_nanos()).unwrap_or(u64::MAX),
        "calls": calls,
        "missing_calls": summary.missing_calls,
        "missing_errors": summary.missing_errors,
    });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

fn call(subject: &Subject, row: &Row) -> serde_json::Value {
    let buckets: Vec<_> = row.histogram.buckets().collect();
    let mut value = json!({
        "call": row.call,
        "number": row.number,
        "abi": row.abi.to_string(),
        "calls": row.calls,
        "errors": row.errors,
        "total_ns": row.total_ns,
        "mean_ns": row.mean_ns(),
        "p50_ns": row.quantile_ns(0.5),
        "p99_ns": row.quantile_ns(0.99),
        "max_ns": row.max_ns,
        "histogram": buckets,
    });
    match subject {
        Subject::All => {}
        Subject::Thread { tid, comm } => {
            value["tid"] = json!(tid);
            value["comm"] = json!(comm);
        }
        Subject::Cgroup(path) => value["cgroup"] = json!(path),
    }
    value
}

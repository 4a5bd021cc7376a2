//! Sums of system calls as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};
use tare_format::printable;
use tare_kernel::bpf::{SumKey, Sums};
use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::Host;
use tare_kernel::procfs;

use crate::names::Abi;
use crate::sched::histogram_lines;
use crate::summary::{CallRow, Subject, Summary, UnfinishedCall};

impl Summary {
    /// Formats one table per subject, with a histogram below each row if `histograms`.
    #[must_use]
    pub fn text(&self, histograms: bool) -> String {
        let mut out = String::new();
        let _ = text(&mut out, histograms, self); // writing to a String can't fail
        out
    }

    /// Returns one object per row.
    #[must_use]
    pub fn json(&self) -> Vec<Value> {
        let rows = |(subject, rows): &(Subject, Vec<CallRow>)| {
            rows.iter().map(|row| call(subject, row)).collect::<Vec<_>>()
        };
        self.subjects.iter().flat_map(rows).collect()
    }

    /// Returns one object per call in progress at the end.
    #[must_use]
    pub fn in_progress_json(&self) -> Vec<Value> {
        let object = |unfinished: &UnfinishedCall| {
            let UnfinishedCall { call, tid, is_begun_before } = unfinished;
            json!({ "call": call, "tid": tid, "begun_before": is_begun_before })
        };
        self.in_progress.iter().map(object).collect()
    }
}

/// Returns a function from a scope to its tasks.
pub fn subjects<'a>(by: SumKey, host: &'a Host, sums: &'a Sums) -> impl Fn(u64) -> Subject + 'a {
    let mut cgroups = BTreeMap::new();
    if let (SumKey::Cgroup, Some(top)) = (by, Cgroups::read(host).v2) {
        find_cgroups(&host.path(&top.mount.to_string_lossy()), "/", &mut cgroups);
    }
    move |scope| match by {
        SumKey::Call => Subject::All,
        SumKey::Cgroup => {
            Subject::Cgroup(cgroups.get(&scope).cloned().unwrap_or_else(|| format!("({scope})")))
        }
        SumKey::Thread => {
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

/// Collects the ids of cgroups, which are the inode numbers of their directories.
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

fn text(out: &mut String, histograms: bool, summary: &Summary) -> fmt::Result {
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
    if !summary.begun_before.is_empty() {
        let calls: Vec<_> =
            summary.begun_before.iter().map(|(name, number)| format!("{name} {number}")).collect();
        writeln!(out, "begun before the trace, not in the table: {}", calls.join(", "))?;
    }
    for unfinished in &summary.in_progress {
        let UnfinishedCall { call, tid, is_begun_before } = unfinished;
        let since = if *is_begun_before { ", begun before the trace" } else { "" };
        writeln!(out, "still in progress: {call} of thread {tid}{since}")?;
    }
    for (number, noun) in
        [(summary.missing_calls, "system call"), (summary.missing_errors, "error")]
    {
        if number > 0 {
            writeln!(
                out,
                "tare: {} did not fit into the kernel's table",
                if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
            )?;
        }
    }
    Ok(())
}

fn table(out: &mut String, histograms: bool, rows: &[CallRow]) -> fmt::Result {
    let total: u64 = rows.iter().map(|row| row.total_ns).sum();
    // One name may have a row for each ABI.
    let has_several = rows.iter().any(|row| row.abi != Abi::NATIVE);
    let abi = |text: &str| if has_several { format!("{text:7}  ") } else { String::new() };
    writeln!(
        out,
        "% time     total ms     calls  errors    mean us     p50 us     p99 us     max us  {}call",
        abi("abi")
    )?;
    for row in rows {
        let micro = |ns: f64| ns / 1e3;
        let percent = if total == 0 { 0.0 } else { 100.0 * row.total_ns as f64 / total as f64 };
        let failed = row.failed_calls();
        let failed = if failed == 0 { String::new() } else { failed.to_string() };
        write!(
            out,
            "{percent:6.2} {:12.3} {:9} {failed:>7} {:10.2} {:10.2} {:10.2} {:10.2}  {}{}",
            row.total_ns as f64 / 1e6,
            row.calls,
            micro(row.mean_ns()),
            micro(row.quantile_ns(0.5)),
            micro(row.quantile_ns(0.99)),
            micro(row.max_ns as f64),
            abi(&row.abi.to_string()),
            row.call,
        )?;
        let errors: Vec<_> =
            row.errors.iter().map(|(error, times)| format!("{error} {times}")).collect();
        writeln!(out, "{}{}", if errors.is_empty() { "" } else { ": " }, errors.join(", "))?;
        if histograms {
            out.push_str(&histogram_lines(row.histogram.buckets()));
        }
    }
    let calls: u64 = rows.iter().map(|row| row.calls).sum();
    let failed: u64 = rows.iter().map(CallRow::failed_calls).sum();
    writeln!(
        out,
        "{:6.2} {:12.3} {calls:9} {failed:7}{:46}{}total",
        100.0,
        total as f64 / 1e6,
        "",
        abi("")
    )
}

fn call(subject: &Subject, row: &CallRow) -> Value {
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

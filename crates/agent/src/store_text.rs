//! What `tare store` prints: a store's contents, names, compaction and problems, as text or JSON.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};
use tare_format::printable;
use tare_kernel::calendar_time::CalendarTime;
use tare_render::{count, grouped, json_line};
use tare_store::{
    Compaction, FileTotals, HostOverview, StoreOverview, Symbolization, Verification,
};

use crate::naming::NamelessFile;

/// Version of the documents.
const VERSION: u32 = 1;

/// Files without names that the text lists.
const SHOWN_FILES: usize = 20;

/// Writes hosts, times, sizes, gaps and losses.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn write_overview(out: &mut dyn Write, overview: &StoreOverview, json: bool) -> io::Result<()> {
    if json {
        let hosts = overview.hosts.iter().map(|(name, host)| host_value(name, host));
        let document = json!({
            "version": VERSION,
            "hosts": hosts.collect::<Vec<_>>(),
            "raw": totals_value(overview.raw),
            "compacted": totals_value(overview.compacted),
        });
        return json_line(out, &document);
    }
    for (name, host) in &overview.hosts {
        write_host(out, name, host)?;
    }
    let sum = |value: fn(&HostOverview) -> u64| overview.hosts.values().map(value).sum();
    writeln!(
        out,
        "all        {}, {}, {}",
        count(overview.hosts.len() as u64, "host"),
        count(sum(|host| host.windows), "window"),
        count(sum(|host| host.samples), "sample")
    )?;
    for (kind, totals) in [("raw", overview.raw), ("compacted", overview.compacted)] {
        let FileTotals { files, bytes } = totals;
        writeln!(out, "{kind:<10} {}, {} bytes", count(files, "file"), grouped(bytes))?;
    }
    Ok(())
}

fn write_host(out: &mut dyn Write, name: &str, host: &HostOverview) -> io::Result<()> {
    writeln!(out, "{}", printable(name))?;
    writeln!(out, "  time     {} to {} UTC", time(host.start_us), time(host.end_us))?;
    let [windows, samples] = [(host.windows, "window"), (host.samples, "sample")]
        .map(|(number, noun)| count(number, noun));
    writeln!(out, "  windows  {windows}, {samples}")?;
    if host.gaps.count > 0 {
        writeln!(
            out,
            "  gaps     {}, {} s, at least {}",
            grouped(host.gaps.count),
            grouped(u64::try_from(host.gaps.length_us / 1_000_000).unwrap_or(0)),
            count(host.gaps.samples, "sample")
        )?;
    }
    let losses = [
        (host.lost, "lost"),
        (host.truncated, "with an incomplete stack"),
        (host.unnamed, "without a name when recorded"),
        (host.omitted, "without a stack"),
    ];
    for (number, what) in losses.into_iter().filter(|(number, _)| *number > 0) {
        let percent = 100.0 * number as f64 / (host.samples + host.lost).max(1) as f64;
        writeln!(out, "  losses   {} {what} ({percent:.1}%)", count(number, "sample"))?;
    }
    Ok(())
}

/// Returns a date as `--since` takes it.
fn time(us: i64) -> String {
    let Some(time) = CalendarTime::utc(us.div_euclid(1_000_000)) else { return us.to_string() };
    let CalendarTime { year, month, day, hour, minute, second } = time;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

fn host_value(name: &str, host: &HostOverview) -> Value {
    json!({
        "host": name,
        "start_us": host.start_us,
        "end_us": host.end_us,
        "windows": host.windows,
        "samples": host.samples,
        "lost_samples": host.lost,
        "truncated_samples": host.truncated,
        "unnamed_samples": host.unnamed,
        "omitted_samples": host.omitted,
        "gaps": host.gaps.count,
        "gap_us": host.gaps.length_us,
        "gap_samples": host.gaps.samples,
    })
}

fn totals_value(FileTotals { files, bytes }: FileTotals) -> Value {
    json!({ "files": files, "bytes": bytes })
}

/// Writes what was named, and the files of frames that still have no name.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn write_symbolization(
    out: &mut dyn Write,
    named: &Symbolization,
    nameless: &[NamelessFile],
    json: bool,
) -> io::Result<()> {
    if json {
        let document = json!({
            "version": VERSION,
            "segments": named.segments,
            "frames": named.frames,
            "samples": named.samples,
            "unnamed_frames": named.unnamed,
            "nameless": nameless.iter().map(nameless_value).collect::<Vec<_>>(),
        });
        return json_line(out, &document);
    }
    writeln!(
        out,
        "named      {} frames, the innermost of {} samples, in {}",
        grouped(named.frames),
        grouped(named.samples),
        count(named.segments, "segment")
    )?;
    writeln!(
        out,
        "nameless   {} frames of {}",
        grouped(named.unnamed),
        count(nameless.len() as u64, "file")
    )?;
    for file in nameless.iter().take(SHOWN_FILES) {
        write_nameless(out, file)?;
    }
    if let Some(more) = nameless.len().checked_sub(SHOWN_FILES).filter(|more| *more > 0) {
        writeln!(out, "           {more} more files: --json lists all")?;
    }
    Ok(())
}

fn reason(file: &NamelessFile) -> String {
    let none = || "it has no build id".to_owned();
    file.reason.map_or_else(none, |reason| reason.to_string())
}

fn nameless_value(file: &NamelessFile) -> Value {
    json!({
        "build_id": file.build_id,
        "module": file.module,
        "addresses": file.addresses,
        "reason": reason(file),
    })
}

fn write_nameless(out: &mut dyn Write, file: &NamelessFile) -> io::Result<()> {
    let text = |text: &Option<String>| printable(text.as_deref().unwrap_or("-")).into_owned();
    writeln!(
        out,
        "           {:>7} addresses  {}  {}: {}",
        grouped(file.addresses),
        text(&file.build_id),
        text(&file.module),
        reason(file)
    )
}

/// Writes what was compacted.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn write_compaction(out: &mut dyn Write, done: &Compaction, json: bool) -> io::Result<()> {
    if json {
        let document = json!({
            "version": VERSION,
            "inputs": done.inputs,
            "outputs": done.outputs,
            "bytes_read": done.bytes_read,
            "bytes_written": done.bytes_written,
        });
        return json_line(out, &document);
    }
    match done.inputs {
        0 => writeln!(out, "nothing to compact: no hour or day has ended, or all are compacted")?,
        inputs => writeln!(
            out,
            "{} of {} bytes became {} of {} bytes",
            count(inputs, "segment"),
            grouped(done.bytes_read),
            grouped(done.outputs),
            grouped(done.bytes_written)
        )?,
    }
    Ok(())
}

/// Writes the problems of a store in a folder.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn write_verification(
    out: &mut dyn Write,
    found: &Verification,
    folder: &Path,
    json: bool,
) -> io::Result<()> {
    if json {
        return json_line(out, &verification_value(found));
    }
    for problem in &found.problems {
        let file = problem.path.strip_prefix(folder).unwrap_or(&problem.path);
        let line = format!("{}: {}", file.display(), problem.kind);
        writeln!(out, "{}", printable(&line))?;
    }
    let verdict = match found.problems.len() {
        0 => "ok".to_owned(),
        problems => count(problems as u64, "problem"),
    };
    writeln!(
        out,
        "{verdict}: {}, {}, {}",
        count(found.segments, "segment"),
        count(found.files, "file"),
        count(found.samples, "sample")
    )?;
    if found.unfinished > 0 {
        writeln!(
            out,
            "{} that the next agent removes",
            count(found.unfinished, "unfinished file")
        )?;
    }
    Ok(())
}

fn verification_value(found: &Verification) -> Value {
    let problems = found.problems.iter().map(|problem| {
        json!({ "file": problem.path.to_string_lossy(), "problem": problem.kind.to_string() })
    });
    json!({
        "version": VERSION,
        "segments": found.segments,
        "files": found.files,
        "samples": found.samples,
        "unfinished_files": found.unfinished,
        "problems": problems.collect::<Vec<_>>(),
    })
}

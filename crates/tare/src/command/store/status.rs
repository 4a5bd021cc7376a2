//! `tare store status`: hosts, times, sizes, gaps and losses.

use std::io::{Write, stdout};

use serde_json::{Value, json};
use tare_format::printable;
use tare_kernel::calendar_time::CalendarTime;
use tare_render::{count, grouped, json_line};
use tare_store::{FileTotals, HostOverview, StoreReader};

use super::VERSION;
use crate::Outcome;
use crate::cli::resolved::store::StoreCommand;
use crate::exit::Exit;

pub(super) fn print(store: &StoreReader, command: &StoreCommand) -> Outcome {
    let overview = store.overview(&command.stored.query)?;
    let mut out = stdout().lock();
    if command.json {
        let hosts = overview.hosts.iter().map(|(name, host)| host_value(name, host));
        let document = json!({
            "version": VERSION,
            "hosts": hosts.collect::<Vec<_>>(),
            "raw": totals_value(overview.raw),
            "compacted": totals_value(overview.compacted),
        });
        json_line(&mut out, &document)?;
        return Ok(Exit::Success);
    }
    for (name, host) in &overview.hosts {
        write_host(&mut out, name, host)?;
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
    Ok(Exit::Success)
}

fn write_host(out: &mut impl Write, name: &str, host: &HostOverview) -> std::io::Result<()> {
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

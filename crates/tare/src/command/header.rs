//! `--header` of `tare report` and `tare script`: the recording's machine, session and events.

use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::resolved::Extent;
use tare_format::file::{Description, Header};
use tare_format::record::kind;
use tare_kernel::calendar_time::CalendarTime;
use tare_replay::{Recording, Tracepoints};

/// `--header-only`. A stream is read up to the kernel's first record. `captured` is the time of the
/// file.
pub(crate) fn write_only(
    out: &mut dyn Write,
    mut recording: Recording,
    captured: Option<SystemTime>,
    extent: Extent,
) -> anyhow::Result<()> {
    writeln!(out, "# ========")?;
    if let Some(time) = captured.and_then(local_time) {
        writeln!(out, "# captured on    : {time}")?;
    }
    if let Header::File(header) = recording.header() {
        let data = header.data;
        let end = data.offset.saturating_add(data.size);
        writeln!(out, "# header version : 1")?;
        writeln!(out, "# data offset    : {}", data.offset)?;
        writeln!(out, "# data size      : {}\n# feat offset    : {end}", data.size)?;
    }
    if recording.description().events().is_empty() {
        while recording
            .next_record()?
            .is_some_and(|entry| entry.record.kind >= kind::USER_TYPE_START)
        {}
    }
    features(out, recording.description(), extent)?;
    writeln!(out, "# ========\n#")?;
    Ok(())
}

/// Returns when a file was written, or the time of standard input.
pub(crate) fn file_time(path: &Path) -> Option<SystemTime> {
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    path.metadata().and_then(|meta| meta.modified()).ok()
}

/// Formats a time like `Thu Nov 26 03:53:19 2026`, in local time.
fn local_time(time: SystemTime) -> Option<String> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let seconds = i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()?;
    let local = CalendarTime::local(seconds)?;
    let CalendarTime { year, month, day, hour, minute, second } = local;
    let month = MONTHS.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    // 1970 began on a Thursday. The local day may differ from that of UTC by one.
    let utc = CalendarTime::utc(seconds)?;
    let shift = match (local.day == utc.day, (local.hour, utc.hour)) {
        (true, _) => 0,
        (false, (here, there)) if here < there => 1,
        (false, _) => -1,
    };
    let weekday = DAYS[usize::try_from((seconds / 86_400 + shift).rem_euclid(7)).ok()?];
    Some(format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}"))
}

/// `--header`.
pub(crate) fn write(
    out: &mut dyn Write,
    description: &Description,
    extent: Extent,
) -> io::Result<()> {
    writeln!(out, "# ========")?;
    features(out, description, extent)?;
    writeln!(out, "# ========\n#")
}

fn features(out: &mut dyn Write, description: &Description, extent: Extent) -> io::Result<()> {
    let mut tracepoints = Tracepoints::default();
    tracepoints.learn(description);
    let names = description.events().iter().map(|event| tracepoints.event_name(event));
    let names: Vec<_> = names.collect();
    tare_render::header(out, description, &names, extent == Extent::Full)
}

/// The header as lines without `#`.
pub(crate) fn lines(description: &Description) -> Vec<String> {
    let mut text = Vec::new();
    // Writing to memory can't fail.
    let _ = write(&mut text, description, Extent::Usual);
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().map(|line| line.trim_start_matches(['#', ' ']).to_owned());
    lines.filter(|line| !line.is_empty() && line != "========").collect()
}

//! `--header` of `tare report` and `tare script`: the recording's machine, session and events.

use std::io::{self, Write};

use crate::cli::resolved::Extent;
use tare_format::file::{Description, Header};
use tare_format::record::kind;
use tare_replay::{Recording, Tracepoints};

/// `--header-only`. A stream is read up to the kernel's first record.
pub(crate) fn write_only(
    out: &mut dyn Write,
    mut recording: Recording,
    extent: Extent,
) -> anyhow::Result<()> {
    writeln!(out, "# ========")?;
    if let Header::File(header) = recording.header() {
        writeln!(
            out,
            "# data offset    : {}\n# data size      : {}",
            header.data.offset, header.data.size
        )?;
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

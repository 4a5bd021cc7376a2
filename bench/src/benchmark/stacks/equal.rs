//! The recorder's chains beside those of the same copies that are unwound at report time.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use tare_format::file::Reader;
use tare_format::file::writer::{Description, EventDescription};
use tare_format::record::{RecordHeader, kind};
use tare_replay::{LiveUnwinder, UnwoundEvent};
use tare_symbols::SymbolOptions;

use super::chains;
use crate::scratch::Scratch;

/// Samples of a recording with copied stacks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EqualChains {
    pub(super) samples: u64,
    /// Samples whose chains have the same frames either way.
    pub(super) equal: u64,
}

/// Compares the chains of a recording with copied stacks with those that the recorder's unwinder
/// makes of it.
pub(super) fn compare(
    scratch: &Scratch<'_>,
    copies: &Path,
    comm: &str,
) -> anyhow::Result<EqualChains> {
    let file = scratch.path("as-recorder.data");
    unwind_as_recorder(copies, &file)?;
    let [live, later] = [chains::read(scratch, &file)?, chains::read(scratch, copies)?];
    std::fs::remove_file(&file)?;
    anyhow::ensure!(live.len() == later.len(), "{} samples of {}", live.len(), later.len());
    let mut counts = EqualChains::default();
    for (one, two) in live.iter().zip(&later).filter(|(one, _)| one.comm == comm) {
        anyhow::ensure!(one.key == two.key, "samples in another order: {}, {}", one.key, two.key);
        counts.samples += 1;
        counts.equal += u64::from(one.is_same(two));
    }
    Ok(counts)
}

/// Passes a recording with copied stacks through the recorder's unwinder, in the rounds in which
/// the rings were read.
fn unwind_as_recorder(copies: &Path, into: &Path) -> anyhow::Result<()> {
    let mut reader = Reader::open(File::open(copies)?)?;
    let events = reader.description().events().iter().map(|event| EventDescription {
        attr: event.attr.clone(),
        ids: event.ids.clone(),
        name: String::from_utf8_lossy(event.name.as_deref().unwrap_or_default()).into_owned(),
    });
    let description = Description { events: events.collect(), ..Description::default() };
    let unwound = (0..description.events.len())
        .map(|event| UnwoundEvent { event, keeps_registers: false })
        .collect();
    let mut unwinder = LiveUnwinder::new(SymbolOptions::default(), unwound, false);
    unwinder.describe(&description.stream_beginning()?)?;
    let mut file = File::create(into)?;
    file.write_all(&unwinder.written(&description).stream_beginning()?)?;
    let mut round = Vec::new();
    let mut unwound = Vec::new();
    while let Some(entry) = reader.next_record()? {
        let record = entry.record;
        let header = RecordHeader::new(record.kind, record.misc, record.body.len());
        round.extend(header.ok().context("a record that fits in its own size")?.encode());
        round.extend_from_slice(record.body);
        if record.kind == kind::FINISHED_ROUND {
            unwinder.unwind(&round, false, &mut unwound);
            file.write_all(&unwound)?;
            round.clear();
            unwound.clear();
        }
    }
    unwinder.unwind(&round, false, &mut unwound);
    file.write_all(&unwound)?;
    Ok(())
}

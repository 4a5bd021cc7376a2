//! `--stats`: how many records of each kind there are, as `perf report --stats` shows them.

use std::fs::File;
use std::io::Write;

use tare_format::file::{Description, Losses, Reader};
use tare_format::printable;
use tare_format::record::kind;
use tare_replay::event_name;

#[derive(Default)]
struct Counts {
    /// By kind; those beyond the last known kind together.
    kinds: Vec<u64>,
    unknown: u64,
    samples: Vec<u64>,
}

pub(super) fn write(out: &mut dyn Write, mut reader: Reader<File>) -> anyhow::Result<()> {
    let mut counts = Counts { kinds: vec![0; 1 + kind::COMPRESSED2 as usize], ..Counts::default() };
    while let Some(entry) = reader.next_record()? {
        let number = usize::try_from(entry.record.kind).unwrap_or(usize::MAX);
        match counts.kinds.get_mut(number) {
            Some(count) => *count += 1,
            None => counts.unknown += 1,
        }
        if entry.record.kind == kind::PERF_RECORD_SAMPLE
            && let Some(place) = entry.description.lookup().of(&entry.record)
        {
            if counts.samples.len() <= place {
                counts.samples.resize(place + 1, 0);
            }
            counts.samples[place] += 1;
        }
    }
    counts.write(out, reader.description(), reader.losses())
}

impl Counts {
    fn write(
        &self,
        out: &mut dyn Write,
        description: &Description,
        losses: &Losses,
    ) -> anyhow::Result<()> {
        let total = self.unknown + self.kinds.iter().sum::<u64>();
        let percent =
            |count: u64| if total == 0 { 0.0 } else { 100.0 * count as f64 / total as f64 };
        writeln!(out, "\nAggregated stats:\n{:>16} events: {total:>10}", "TOTAL")?;
        for (number, count) in (0_u32..).zip(&self.kinds).filter(|(_, count)| **count > 0) {
            let name = kind::name(number).map_or_else(|| format!("kind {number}"), str::to_owned);
            writeln!(out, "{name:>16} events: {count:>10}  ({:4.1}%)", percent(*count))?;
        }
        if self.unknown > 0 {
            writeln!(
                out,
                "{:>16} events: {:>10}  ({:4.1}%)",
                "of unknown kind",
                self.unknown,
                percent(self.unknown)
            )?;
        }
        for (place, event) in description.events().iter().enumerate() {
            let count = self.samples.get(place).copied().unwrap_or(0);
            if count > 0 {
                writeln!(
                    out,
                    "{} stats:\n{:>16} events: {count:>10}",
                    printable(&event_name(event, place)),
                    "SAMPLE"
                )?;
            }
        }
        for gap in losses.gaps() {
            writeln!(out, "not read: {} bytes at byte {}: {}", gap.bytes, gap.offset, gap.why)?;
        }
        Ok(())
    }
}

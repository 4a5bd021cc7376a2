//! `--stats`: counts records by kind, as `perf report --stats` does.

use std::io::Write;

use tare_format::file::{Description, Entry, Losses};
use tare_format::printable;
use tare_format::record::{Sample, kind};
use tare_replay::{GroupCounts, Recording, Tracepoints};

#[derive(Default)]
struct Counts {
    /// Records by kind, up to the last known kind.
    kinds: Vec<u64>,
    unknown: u64,
    samples: Vec<u64>,
    groups: GroupCounts,
}

pub(super) fn write(out: &mut dyn Write, mut recording: Recording) -> anyhow::Result<()> {
    let mut counts = Counts { kinds: vec![0; 1 + kind::COMPRESSED2 as usize], ..Counts::default() };
    while let Some(entry) = recording.next_record()? {
        let number = usize::try_from(entry.record.kind).unwrap_or(usize::MAX);
        match counts.kinds.get_mut(number) {
            Some(count) => *count += 1,
            None => counts.unknown += 1,
        }
        if entry.record.kind == kind::PERF_RECORD_SAMPLE {
            counts.add_sample(&entry);
        }
    }
    counts.write(out, recording.description(), &recording.losses())
}

impl Counts {
    /// Counts a sample. One with the counts of its group stands for a sample of each member that
    /// counted anything.
    fn add_sample(&mut self, entry: &Entry<'_>) {
        let lookup = entry.description.lookup();
        let Some(event) = lookup.index_of(&entry.record) else { return };
        let layout = lookup.layouts().get(event);
        let front = layout.and_then(|layout| Sample::decode_front(&entry.record, layout).ok());
        let Self { samples, groups, .. } = self;
        samples.resize(entry.description.events().len(), 0);
        let tid = front.as_ref().and_then(|sample| sample.head.tid);
        match front.and_then(|sample| sample.read) {
            Some(read) => {
                let members = groups.members(&read, tid, lookup);
                members.for_each(|member| samples[member.event] += 1);
            }
            None => samples[event] += 1,
        }
    }

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
        let mut tracepoints = Tracepoints::default();
        tracepoints.learn(description);
        for (index, event) in description.events().iter().enumerate() {
            let count = self.samples.get(index).copied().unwrap_or(0);
            if count > 0 {
                writeln!(
                    out,
                    "{} stats:\n{:>16} events: {count:>10}",
                    printable(&tracepoints.event_name(event)),
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

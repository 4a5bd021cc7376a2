//! Folded stacks: a line per call chain, as stackcollapse-perf.pl writes them.
//!
//! ```text
//! python3;main;run;read;do_syscall_64 250000
//! ```

use std::collections::BTreeMap;
use std::io;

use tare_profile::Profile;

use super::sums::{Sums, event_name};
use super::{ExportFormat, ExportWriter, Exporter};
use crate::samples::{FrameText, LocatedSample, RecordingSummary, SampleSink};

/// Writes folded stacks. The format holds one event, and no losses.
pub struct Folded {
    out: ExportWriter,
    sums: Sums,
}

impl ExportFormat for Folded {
    const NAME: &'static str = "folded";
    const HELP: &'static str = "call chains with their weights, one per line";
    const READERS: &'static str = "flamegraph.pl, inferno, speedscope";
    const EXTENSION: &'static str = "folded";

    fn create(out: ExportWriter) -> io::Result<Self> {
        Ok(Self { out, sums: Sums::default() })
    }
}

impl SampleSink for Folded {
    fn sample(&mut self, _profile: &Profile, sample: &LocatedSample) -> io::Result<()> {
        self.sums.add(sample, false);
        Ok(())
    }
}

impl Exporter for Folded {
    fn finish(mut self: Box<Self>, whole: &RecordingSummary<'_>) -> io::Result<()> {
        let profile = whole.profile;
        let events = self.sums.events();
        if let [_, _, ..] = events[..] {
            let names: Vec<_> = events.iter().map(|(id, _)| event_name(profile, *id)).collect();
            return Err(io::Error::other(format!(
                "folded stacks hold one event: choose one of {} with -e",
                names.join(", ")
            )));
        }
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        let mut frames = Vec::new();
        for (key, weight) in &self.sums.rows {
            let comm = key.comm.map(|comm| profile.string(comm)).unwrap_or_default();
            let mut line = without_separators(&String::from_utf8_lossy(comm));
            key.frames(profile, &mut frames);
            for frame in frames.iter().rev() {
                line.push(';');
                line.push_str(&without_separators(&FrameText::new(profile, *frame).name));
            }
            let sum = lines.entry(line).or_default();
            *sum = sum.saturating_add(weight.period);
        }
        lines.iter().try_for_each(|(line, period)| writeln!(self.out, "{line} {period}"))?;
        self.out.flush()
    }
}

/// Replaces `;`, which separates names, by `:`, and escapes control characters, such as line ends.
fn without_separators(name: &str) -> String {
    tare_format::printable(name).replace(';', ":")
}

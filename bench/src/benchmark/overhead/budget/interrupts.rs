//! The time of sampling interrupts according to the kernel's trace events, which perf records
//! around the recorder.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use tare_format::abi::bindings::{PERF_RECORD_MISC_CPUMODE_MASK, PERF_RECORD_MISC_KERNEL};
use tare_format::file::{Description, Reader};
use tare_format::record::kind::PERF_RECORD_SAMPLE;
use tare_format::record::{RawRecord, Record, Sample};

/// The function of the timer that samples a clock: `kernel/events/core.c`.
const SAMPLER: &str = "perf_swevent_hrtimer";
/// An interrupt that takes at least this many nanoseconds was delayed by something else, such as
/// the hypervisor. `tare overhead` uses the same limit.
const STALL_NS: u64 = 100_000;

/// Timer interrupts in which sampling timers expired. Tracing lengthens each by the time to record
/// two trace events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Interrupts {
    pub(super) number: u64,
    pub(super) ns: u64,
    /// Delayed interrupts; `ns` excludes them.
    pub(super) stalled: u64,
    /// Interrupts for events of other recordings.
    pub(super) foreign: u64,
    /// The interrupts in `ns` whose sample was of user mode; one without a sample is in neither
    /// part.
    pub(super) of_user: Part,
    /// The interrupts in `ns` that interrupted the kernel.
    pub(super) of_kernel: Part,
}

/// Some of the interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Part {
    pub(super) number: u64,
    pub(super) ns: u64,
}

/// The beginning of a command line that records timer interrupts to a file while the command behind
/// it runs.
pub(super) fn tracer(into: &Path) -> anyhow::Result<Vec<String>> {
    let symbols = std::fs::read_to_string("/proc/kallsyms")?;
    let address = symbols
        .lines()
        .find(|line| line.split(' ').nth(2) == Some(SAMPLER))
        .and_then(|line| line.split(' ').next());
    let filter = format!(
        "function == 0x{}",
        address.with_context(|| format!("/proc/kallsyms has no {SAMPLER}"))?
    );
    let events = "-e irq_vectors:local_timer_entry -e irq_vectors:local_timer_exit -e timer:hrtimer_expire_entry --filter";
    let mut words: Vec<String> = "perf record --no-bpf-event -q -a -k mono -m 1024"
        .split(' ')
        .chain(events.split(' '))
        .map(str::to_owned)
        .collect();
    words.extend([filter, "-o".to_owned(), into.display().to_string(), "--".to_owned()]);
    Ok(words)
}

/// A step of a CPU through an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begins,
    /// The sampling timer at this address expires.
    Expires(u64),
    Ends,
}

impl Step {
    fn from_record(description: &Description, event: usize, raw: &[u8]) -> Option<Self> {
        match description.events().get(event)?.name.as_deref()? {
            b"irq_vectors:local_timer_entry" => Some(Self::Begins),
            // The fields follow the eight bytes that all trace events begin with.
            b"timer:hrtimer_expire_entry" => {
                Some(Self::Expires(u64::from_ne_bytes(raw.get(8..16)?.try_into().ok()?)))
            }
            b"irq_vectors:local_timer_exit" => Some(Self::Ends),
            _ => None,
        }
    }
}

/// Whether each sample interrupted the kernel, by CPU and monotonic time in nanoseconds.
pub(super) type Samples = BTreeMap<(u32, u64), bool>;

/// The samples of a recording.
///
/// # Errors
/// The file can't be read or is incomplete.
pub(super) fn samples(path: &Path) -> anyhow::Result<Samples> {
    let mut samples = Samples::new();
    read(path, |_, _, record, sample| {
        let in_kernel =
            u32::from(record.misc) & PERF_RECORD_MISC_CPUMODE_MASK == PERF_RECORD_MISC_KERNEL;
        samples.insert(
            (sample.head.cpu.context("no CPU")?, sample.head.time_ns.context("no time")?),
            in_kernel,
        );
        Ok(())
    })?;
    Ok(samples)
}

/// Sums up the interrupts in a trace: those of the samples' events, and the number of others.
///
/// # Errors
/// The file can't be read or is incomplete.
pub(super) fn sum_up(path: &Path, samples: &Samples) -> anyhow::Result<Interrupts> {
    let mut spans = Spans::default();
    read(path, |description, event, _, sample| {
        let step = Step::from_record(description, event, sample.raw.unwrap_or_default())
            .context("another event")?;
        spans.step(
            sample.head.cpu.context("no CPU")?,
            sample.head.time_ns.context("no time")?,
            step,
        );
        Ok(())
    })?;
    Ok(spans.interrupts_of_samples(samples))
}

/// Calls `take` for every sample of a file, with the file's description, the event's index, the
/// record and the decoded sample.
fn read(
    path: &Path,
    mut take: impl FnMut(&Description, usize, &RawRecord<'_>, &Sample<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut reader = Reader::open(File::open(path)?).with_context(|| path.display().to_string())?;
    while let Some(entry) = reader.next_record()? {
        let lookup = entry.description.lookup();
        if entry.record.kind == PERF_RECORD_SAMPLE {
            let event = lookup.index_of(&entry.record).context("a sample of no event")?;
            take(
                entry.description,
                event,
                &entry.record,
                &Sample::from_record(&entry.record, lookup)?,
            )?;
        } else if let Ok(Record::Lost(lost)) = entry.record.decode() {
            anyhow::bail!("{} records were lost", lost.lost);
        }
    }
    anyhow::ensure!(reader.losses().is_empty(), "not all of it can be read: {:?}", reader.losses());
    Ok(())
}

/// An interrupt, and the sampling timers that expired in it.
#[derive(Clone, Debug, Default)]
struct Span {
    cpu: u32,
    begin_ns: u64,
    end_ns: u64,
    timers: Vec<u64>,
}

/// The current interrupt of each CPU, and the finished ones in which sampling timers expired. A
/// CPU's trace events arrive in time order.
#[derive(Debug, Default)]
struct Spans {
    open: HashMap<u32, Span>,
    done: Vec<Span>,
}

impl Spans {
    fn step(&mut self, cpu: u32, time_ns: u64, step: Step) {
        match step {
            Step::Begins => {
                self.open.insert(cpu, Span { cpu, begin_ns: time_ns, ..Span::default() });
            }
            Step::Expires(timer) => {
                if let Some(span) = self.open.get_mut(&cpu) {
                    span.timers.push(timer);
                }
            }
            Step::Ends => {
                let ended = self.open.remove(&cpu).filter(|span| !span.timers.is_empty());
                self.done.extend(ended.map(|span| Span { end_ns: time_ns, ..span }));
            }
        }
    }

    /// Sums up the interrupts whose timers belong to the samples' events.
    fn interrupts_of_samples(&self, samples: &Samples) -> Interrupts {
        let sample = |span: &Span| {
            samples
                .range((span.cpu, span.begin_ns)..=(span.cpu, span.end_ns))
                .next()
                .map(|(_, in_kernel)| *in_kernel)
        };
        // If two timers expire in one interrupt, its sample may belong to either.
        let own: HashSet<u64> = self
            .done
            .iter()
            .filter(|span| span.timers.len() == 1 && sample(span).is_some())
            .map(|span| span.timers[0])
            .collect();
        let mut all = Interrupts::default();
        for span in &self.done {
            let ns = span.end_ns.saturating_sub(span.begin_ns);
            if !span.timers.iter().any(|timer| own.contains(timer)) {
                all.foreign += 1;
                continue;
            }
            all.number += 1;
            if ns >= STALL_NS {
                all.stalled += 1;
                continue;
            }
            all.ns += ns;
            if let Some(in_kernel) = sample(span) {
                let part = if in_kernel { &mut all.of_kernel } else { &mut all.of_user };
                *part = Part { number: part.number + 1, ns: part.ns + ns };
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_of_the_events_that_were_sampled_count() {
        let mut spans = Spans::default();
        let mut interrupt = |cpu, begin_ns, end_ns, timers: &[u64]| {
            spans.step(cpu, begin_ns, Step::Begins);
            timers.iter().for_each(|timer| spans.step(cpu, begin_ns + 100, Step::Expires(*timer)));
            spans.step(cpu, end_ns, Step::Ends);
        };
        interrupt(0, 1000, 4000, &[7]);
        interrupt(1, 1000, 2000, &[8]);
        interrupt(0, 5000, 5500, &[]);
        interrupt(0, 6000, 6000 + STALL_NS, &[7]);
        interrupt(1, 200_000, 202_000, &[8, 7]);
        let samples = Samples::from([((0, 1500), true), ((0, 5100), false), ((1, 200_500), false)]);
        let of_kernel = Part { number: 1, ns: 3000 };
        let of_user = Part { number: 1, ns: 2000 };
        assert_eq!(
            spans.interrupts_of_samples(&samples),
            Interrupts { number: 3, ns: 5000, stalled: 1, foreign: 1, of_user, of_kernel }
        );
        assert_eq!(
            spans.interrupts_of_samples(&Samples::new()),
            Interrupts { foreign: 4, ..Interrupts::default() }
        );
    }
}

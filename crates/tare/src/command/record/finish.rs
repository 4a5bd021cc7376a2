//! The end of a recording: what is left in the rings, the ledger, the description of what is known only now.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tare_format::file::note;
use tare_format::file::writer::{Description, Feature};
use tare_kernel::child::Ended;

use super::live::{Counts, End, Live, cpu_ns};
use super::session::Session;
use crate::command::interrupt::end_child;
use crate::pipeline::capture::meter::{Meter, Tally};
use crate::pipeline::capture::reader::{CpuRing, Reader};
use crate::pipeline::ledger::{Command, Cost, Event, Ledger, Loss, Output, Rings};
use crate::pipeline::output::{Account, Closing};

/// What a recording leaves behind.
pub(super) struct Recorded {
    pub(super) ledger: Ledger,
    pub(super) account: Account,
    pub(super) ended: Option<Ended>,
    pub(super) signal: Option<i32>,
}

impl Live<'_> {
    /// Ends the recording. `ledger` names the recorder, `description` is what the recording began with.
    pub(super) fn finish(mut self, end: End, mut ledger: Ledger, mut description: Description) -> anyhow::Result<Recorded> {
        let until_now_ns = cpu_ns();
        if self.stopped.is_none() {
            self.disable_all()?;
        }
        // Before the rings are emptied for the last time: a command that is told to end may still take a while.
        let ended = if end.ended.is_none() { self.child.as_mut().map_or(Ok(None), end_child)? } else { end.ended };
        let mut readers = vec![self.reader];
        for helper in self.helpers {
            let finished = helper.stop().context("a thread that read rings is gone, with what was in them")?;
            self.counts.wake_ups += finished.wake_ups;
            self.counts.system_calls += finished.wake_ups;
            readers.push(finished.reader);
        }
        let shared = Arc::into_inner(self.shared).context("somebody still writes")?;
        let drained = readers.iter_mut().try_for_each(|reader| reader.pass(&shared).map(drop));
        let stopped = self.stopped.or(drained.err());
        self.counts.system_calls += shared.calls();
        let output = shared.into_output();

        let rings: Vec<&CpuRing> = readers.iter().flat_map(|reader: &Reader| &reader.rings).collect();
        ledger.finished = true;
        ledger.events = events(&description, &rings, &self.events.lost());
        ledger.losses = losses(&rings);
        ledger.throttled = rings.iter().map(|ring| ring.meter.throttled).sum();
        ledger.recorded_ns = nanos(self.clock.recorded());
        let account = output.so_far();
        ledger.output = Output {
            path: account.path.name().to_owned(),
            fallback: account.fallback,
            record_bytes: rings.iter().map(|ring| ring.meter.bytes).sum(),
            written_bytes: output.written(),
            queue_high_water_bytes: account.queue_high_water,
            queue_bytes: account.queue_bytes,
        };
        ledger.rings = of_rings(&rings, self.session.record.rings.flush_interval);
        ledger.command = ended.map(|ended| Command { user_ns: nanos(ended.user), system_ns: nanos(ended.system) });
        ledger.stopped = stopped.as_ref().map(ToString::to_string);
        ledger.cost = cost(self.session, self.counts, self.clock.started_cpu_ns, until_now_ns);
        ledger.cost.readers = readers.len();
        description.features.extend(sample_time(&rings));
        let account = output.finish(&Closing { description: &description, records: &note::encode(&ledger.to_note())? });
        ledger.output.written_bytes = account.bytes;
        Ok(Recorded { ledger, account, ended, signal: end.signal })
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn events(description: &Description, rings: &[&CpuRing], lost: &[Option<u64>]) -> Vec<Event> {
    let sum = |event: usize, of: fn(&Tally) -> u64| rings.iter().filter_map(|ring| ring.meter.tallies.get(event)).map(of).sum();
    let described = description.events.iter().zip(lost).enumerate();
    let of = |(number, (event, &lost)): (usize, (&tare_format::file::writer::EventDescription, &Option<u64>))| Event {
        name: event.name.clone(),
        samples: sum(number, |tally| tally.samples),
        own: sum(number, |tally| tally.own),
        lost,
    };
    described.map(of).collect()
}

fn losses(rings: &[&CpuRing]) -> Vec<Loss> {
    let of = |ring: &&CpuRing| {
        let lost = ring.meter.lost?;
        Some(Loss { cpu: ring.cpu, records: lost.records, from_ns: lost.after_ns, to_ns: lost.until_ns })
    };
    rings.iter().filter_map(of).collect()
}

fn of_rings(rings: &[&CpuRing], flush_interval: Duration) -> Rings {
    Rings {
        number: rings.len(),
        bytes: rings.iter().map(|ring| ring.ring.size()).min().unwrap_or(0),
        fullest_bytes: rings.iter().map(|ring| ring.meter.fullest).max().unwrap_or(0),
        flush_interval_ms: u64::try_from(flush_interval.as_millis()).unwrap_or(u64::MAX),
    }
}

/// When the first and the last sample were made.
fn sample_time(rings: &[&CpuRing]) -> Option<Feature> {
    let meters = || rings.iter().map(|ring| &ring.meter);
    let first_ns = meters().filter_map(|meter: &Meter| meter.first_ns).min()?;
    Some(Feature::SampleTime { first_ns, last_ns: meters().filter_map(|meter| meter.last_ns).max()? })
}

fn cost(session: &Session<'_>, counts: Counts, started_ns: u64, ended_ns: u64) -> Cost {
    Cost {
        start_cpu_ns: started_ns,
        recording_cpu_ns: ended_ns.saturating_sub(started_ns),
        end_cpu_ns: cpu_ns().saturating_sub(ended_ns),
        wake_ups: counts.wake_ups,
        system_calls: counts.system_calls,
        peak_memory_bytes: peak_memory(session),
        readers: 1,
    }
}

/// The most memory that this process had (`VmHWM`), in bytes.
fn peak_memory(session: &Session<'_>) -> Option<u64> {
    let status = session.host.read("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?;
    kib.parse::<u64>().ok().map(|kib| kib * 1024)
}

//! The parts of the ledger.

use std::time::Duration;

use tare_format::file::writer::{Description, Feature};
use tare_kernel::child::Ended;

use super::live::{Counts, cpu_ns};
use super::session::Session;
use crate::pipeline::capture::meter::{Meter, Tally};
use crate::pipeline::ledger::{Command, Cost, Event, Loss, Output, Rings};
use crate::pipeline::output::Account;

/// The ring of a CPU.
pub(super) struct RingAccount<'a> {
    pub(super) cpu: u32,
    /// Its size.
    pub(super) bytes: usize,
    pub(super) meter: &'a Meter,
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Samples that are in the recording: those that were seen and not forgotten.
pub(super) fn events(description: &Description, rings: &[RingAccount<'_>], lost: &[Option<u64>], forgotten: &Meter) -> Vec<Event> {
    let kept = |number: usize, of: fn(&Tally) -> u64| {
        let sum = |meter: &Meter| meter.tallies.get(number).map_or(0, of);
        rings.iter().map(|ring| sum(ring.meter)).sum::<u64>().saturating_sub(sum(forgotten))
    };
    let event = |(number, name): (usize, &String)| Event {
        name: name.clone(),
        samples: kept(number, |tally| tally.samples),
        own: kept(number, |tally| tally.own),
        lost: lost.get(number).copied().flatten(),
        coverage: None,
    };
    description.events.iter().map(|event| &event.name).enumerate().map(event).collect()
}

pub(super) fn losses(rings: &[RingAccount<'_>]) -> Vec<Loss> {
    let of = |ring: &RingAccount<'_>| {
        let lost = ring.meter.lost?;
        Some(Loss { cpu: ring.cpu, records: lost.records, from_ns: lost.after_ns, to_ns: lost.until_ns })
    };
    rings.iter().filter_map(of).collect()
}

pub(super) fn rings(rings: &[RingAccount<'_>], flush_interval: Duration) -> Rings {
    Rings {
        number: rings.len(),
        bytes: rings.iter().map(|ring| ring.bytes).min().unwrap_or(0),
        fullest_bytes: rings.iter().map(|ring| ring.meter.fullest).max().unwrap_or(0),
        flush_interval_ms: u64::try_from(flush_interval.as_millis()).unwrap_or(u64::MAX),
    }
}

/// When the first and the last sample were made.
pub(super) fn sample_time(rings: &[RingAccount<'_>]) -> Option<Feature> {
    let first_ns = rings.iter().filter_map(|ring| ring.meter.first_ns).min()?;
    let last_ns = rings.iter().filter_map(|ring| ring.meter.last_ns).max()?;
    Some(Feature::SampleTime { first_ns, last_ns })
}

pub(super) fn command(ended: Ended) -> Command {
    Command { user_ns: nanos(ended.user), system_ns: nanos(ended.system) }
}

/// What the recorder used until events were enabled, until they were disabled, and since.
pub(super) fn cost(session: &Session<'_>, counts: Counts, started_ns: u64, ended_ns: u64) -> Cost {
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

/// Adds what is known once the recording is closed.
pub(super) fn complete(output: &mut Output, account: &Account) {
    account.path.name().clone_into(&mut output.path);
    output.fallback.clone_from(&account.fallback);
    output.written_bytes = account.bytes;
    output.queue_bytes = account.queue_bytes;
    output.queue_high_water_bytes = account.queue_high_water;
}

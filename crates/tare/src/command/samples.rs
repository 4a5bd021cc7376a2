//! Reads the samples of a recording one by one, for flame graphs, comparisons and exports.

use std::ops::ControlFlow;

use tare_format::ledger::Ledger;
use tare_format::printable;
use tare_format::record::{Record, Sample};
use tare_profile::{EventId, Profile, RowId, Weight};
use tare_render::{CpuSwitch, RecordingOrigin, RecordingSummary, SampleSink};
use tare_replay::{
    CodeDetail, LiveSink, Machine, OwnThreads, ProfileOptions, ProfileSink, ProfileSummary, Replay,
    ReplayOptions, Replayed, SampleFilter, Sink,
};
use tare_trace::sched::{SchedAction, Task, Tracepoints};
use tare_tui::ProgressLine;

use crate::cli::resolved::samples::SampleSelection;
use crate::cli::resolved::stored::StoredSamples;
use crate::command::recording::{self, open};
use crate::command::stored::{OFF_CPU, StoredRows, TimedRow, read};
use crate::exit::{Exit, Refusal};

/// A recording that was read to its end.
pub(crate) struct Read {
    pub(crate) profile: Profile,
    pub(crate) ledger: Option<Ledger>,
    pub(crate) session: RecordingOrigin,
    /// How long was recorded, if it is known.
    pub(crate) recorded_ns: Option<u64>,
}

impl Read {
    pub(crate) fn whole(&self) -> RecordingSummary<'_> {
        let Self { profile, ledger, session, .. } = self;
        RecordingSummary { profile, ledger: ledger.as_ref(), session }
    }
}

/// Parts of samples that not every sink needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NeededParts {
    /// The fields of tracepoints, as text.
    pub(crate) traces: bool,
    /// Each address, with its lines and inlined functions and the mapping of its file.
    pub(crate) addresses: bool,
    /// The times of a store's windows, whose samples are then not summed up.
    pub(crate) windows: bool,
}

/// What takes the samples of a recording.
pub(crate) enum SampleTaker<'a> {
    /// Samples whose code is in a profile.
    Located(&'a mut dyn SampleSink),
    /// Samples as the replay has them.
    Windows(&'a mut dyn LiveSink),
}

/// Hands the selected samples to `sink`.
pub(crate) fn replay(
    samples: &SampleSelection,
    needed: NeededParts,
    sink: &mut dyn SampleSink,
    progress: &ProgressLine,
) -> anyhow::Result<Read> {
    if let Some(stored) = &samples.stored {
        return replay_stored(samples, stored, needed.windows, sink);
    }
    replay_recording(samples, needed, SampleTaker::Located(sink), progress)
}

/// Hands the selected samples of a recording over.
pub(crate) fn replay_recording<'a>(
    samples: &'a SampleSelection,
    needed: NeededParts,
    taker: SampleTaker<'a>,
    progress: &ProgressLine,
) -> anyhow::Result<Read> {
    let mut symbols = samples.symbols.clone();
    let mut recording = open(&samples.input, &mut symbols, progress)?;
    let inline = samples.inline || needed.addresses;
    let options = ProfileOptions {
        time: samples.time.clone(),
        by_cpu: true,
        code: match taker {
            SampleTaker::Located(_) => CodeDetail::Stack,
            SampleTaker::Windows(_) => CodeDetail::None,
        },
        inline,
        lines: inline,
        keeps_addresses: needed.addresses,
        marks_truncated: true,
        trace: needed.traces,
        include_self: true,
        symbols: symbols.clone(),
        ..ProfileOptions::default()
    };
    let inner = ProfileSink::new(&options, recording.description()).map_err(recording::refusal)?;
    let filter = SampleFilter::new(samples.filter.clone(), recording.description())
        .map_err(recording::refusal)?;
    let own = OwnThreads::new(samples.include_self);
    let mut routing = Routing {
        inner,
        filter,
        events: &samples.events,
        wall_clock: samples.wall_clock,
        own,
        own_samples: 0,
        taken: 0,
        waiting: inline.then(Vec::new),
        switches: Switches(needed.traces.then(Tracepoints::default)),
        taker,
    };
    let options = ReplayOptions { symbols, ..ReplayOptions::default() };
    let losses = Replay::new(options).run(&mut recording, &mut routing)?;
    let Routing { inner, own_samples, taken, .. } = routing;
    let summary = inner.finish(recording.description(), losses);
    let mut profile = summary.profile;
    let ledger = summary.ledger;
    profile.losses.own_samples = own_samples;
    refuse_unknown(samples, &profile)?;
    if taken == 0 {
        return Err(no_samples(samples, &profile).into());
    }
    let recorded_ns = ledger.as_ref().map(|ledger| ledger.recorded_ns);
    Ok(Read { profile, ledger, session: RecordingOrigin::new(&summary.description), recorded_ns })
}

/// Hands the selected samples of a store to `sink`: one for all that are alike, in the whole store
/// without a time, or in each window.
fn replay_stored(
    samples: &SampleSelection,
    stored: &StoredSamples,
    by_window: bool,
    sink: &mut dyn SampleSink,
) -> anyhow::Result<Read> {
    let StoredRows { summary, rows, recorded_ns } = read(stored, by_window)?;
    let ProfileSummary { profile, description, ledger, .. } = summary;
    refuse_unknown(samples, &profile)?;
    let mut taken = 0;
    for TimedRow { time_ns, mut row, weight } in rows {
        if samples.wall_clock && is_called(&profile, row.event, OFF_CPU) {
            row.event = clock(&profile).unwrap_or(row.event);
        }
        if is_wanted(&profile, &samples.events, row.event) {
            taken += 1;
            let sample = tare_render::LocatedSample { row, weight, time_ns, switch: None };
            sink.sample(&profile, &sample)?;
        }
    }
    if taken == 0 {
        return Err(no_samples(samples, &profile).into());
    }
    let recorded_ns = by_window.then_some(recorded_ns);
    Ok(Read { profile, ledger, session: RecordingOrigin::new(&description), recorded_ns })
}

/// Filters samples, locates their code, and hands them on.
struct Routing<'a> {
    inner: ProfileSink,
    filter: SampleFilter,
    events: &'a [String],
    wall_clock: bool,
    own: OwnThreads,
    own_samples: u64,
    taken: u64,
    /// Samples held back until the end, when their lines and inlined functions are known; `None`
    /// if neither is needed.
    waiting: Option<Vec<Waiting>>,
    switches: Switches,
    taker: SampleTaker<'a>,
}

/// The scheduler's tracepoints; `None` if the format shows no traces.
struct Switches(Option<Tracepoints>);

impl Switches {
    /// Returns the task that a CPU switches to at this sample.
    fn decode(&mut self, sample: &Replayed<'_, Sample<'_>>) -> Option<CpuSwitch> {
        let tracepoints = self.0.as_mut()?;
        tracepoints.learn(sample.description);
        let cpu = sample.fields.head.cpu?;
        let decoded =
            tracepoints.decode(sample.event?, sample.fields.raw?, Task::default(), cpu)?;
        let SchedAction::Switch { next, .. } = decoded else { return None };
        let mut comm = [0; 16];
        comm.iter_mut().zip(next.comm).for_each(|(to, from)| *to = *from);
        Some(CpuSwitch { cpu, tid: next.tid, comm })
    }
}

/// A sample that waits for the end of the recording.
struct Waiting {
    row: RowId,
    weight: Weight,
    time_ns: Option<u64>,
}

impl Sink for Routing<'_> {
    type Error = anyhow::Error;

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> anyhow::Result<ControlFlow<()>> {
        if !self.filter.passes(machine, sample) {
            return Ok(ControlFlow::Continue(()));
        }
        self.own.learn(sample.description);
        if sample.fields.head.tid.is_some_and(|tid| self.own.contains(tid)) {
            self.own_samples += 1;
            return Ok(ControlFlow::Continue(()));
        }
        let Some((mut row, weight)) = self.inner.locate(machine, sample) else {
            return Ok(ControlFlow::Continue(()));
        };
        let profile = self.inner.profile();
        if self.wall_clock && is_called(profile, row.event, OFF_CPU) {
            row.event = clock(profile).unwrap_or(row.event);
        }
        if is_wanted(profile, self.events, row.event) {
            self.taken += 1;
            let time_ns = sample.time_ns;
            let sink = match &mut self.taker {
                SampleTaker::Located(sink) => sink,
                SampleTaker::Windows(windows) => {
                    windows.take(machine, sample);
                    return Ok(ControlFlow::Continue(()));
                }
            };
            if let Some(waiting) = &mut self.waiting {
                let row = self.inner.add_located(row, weight);
                waiting.push(Waiting { row, weight, time_ns });
                return Ok(ControlFlow::Continue(()));
            }
            let switch = self.switches.decode(sample);
            sink.sample(profile, &tare_render::LocatedSample { row, weight, time_ns, switch })?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn record(
        &mut self,
        machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> anyhow::Result<ControlFlow<()>> {
        Ok(self.inner.record(machine, record)?)
    }

    fn end(&mut self, machine: &mut Machine) -> anyhow::Result<()> {
        self.inner.end(machine)?;
        let SampleTaker::Located(sink) = &mut self.taker else { return Ok(()) };
        for Waiting { row, weight, time_ns } in self.waiting.take().into_iter().flatten() {
            let Some(row) = self.inner.row_with_lines(row) else { continue };
            let sample = tare_render::LocatedSample { row, weight, time_ns, switch: None };
            sink.sample(self.inner.profile(), &sample)?;
        }
        Ok(())
    }
}

/// The first clock among the events.
fn clock(profile: &Profile) -> Option<EventId> {
    let is_clock = |id: EventId| {
        ["cpu-clock", "task-clock"].into_iter().any(|name| is_called(profile, id, name))
    };
    profile.events().map(|(id, _)| id).find(|id| is_clock(*id))
}

/// Whether an event is among those that were named, with or without its modifiers, or no event was
/// named.
fn is_wanted(profile: &Profile, wanted: &[String], event: EventId) -> bool {
    wanted.is_empty() || wanted.iter().any(|wanted| is_called(profile, event, wanted))
}

fn is_called(profile: &Profile, event: EventId, wanted: &str) -> bool {
    let name = profile.event(event).map(|event| profile.string(event.name)).unwrap_or_default();
    let rest = name.strip_prefix(wanted.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b":"))
}

fn refuse_unknown(samples: &SampleSelection, profile: &Profile) -> Result<(), Refusal> {
    let is_there =
        |wanted: &&String| profile.events().any(|(id, _)| is_called(profile, id, wanted));
    let Some(unknown) = samples.events.iter().find(|wanted| !is_there(wanted)) else {
        return Ok(());
    };
    let names = profile.events().map(|(_, event)| printable(profile.string(event.name)));
    let names: Vec<_> = names.collect();
    let names = names.join(", ");
    Err(Refusal::usage(format!("-e {unknown}: the recording has no such event; it has {names}")))
}

fn no_samples(samples: &SampleSelection, profile: &Profile) -> Refusal {
    let name = samples.input.display();
    let message = if profile.losses.is_empty() {
        format!(
            "{name}: there are no samples, or none that was asked for (tare report --stats tells what is there)"
        )
    } else {
        let losses = tare_render::loss_lines(&profile.losses).join("; ");
        format!("{name}: there are no samples, or none that was asked for; {losses}")
    };
    Refusal { exit: Exit::Failure, message }
}

//! Passes the shares and weights of entries with enough samples to the statistics.

use anyhow::bail;
use tare_measure::compare::runs::{
    Change, Method, Series, SlicedSeries, Slices, judge_runs, judge_slices,
};
use tare_profile::{Runs, SliceSubject, Weight};

use crate::cli::resolved::diff::{Diff, WorkUnit};
use crate::exit::{Exit, Refusal};

use super::LoadedRecording;

/// Samples in all recordings together below which an entry is not judged, unless `--fail-if` names
/// it.
const FEWEST_SAMPLES: u64 = 10;

/// Mean samples per recording below which an entry is not judged, unless `--fail-if` names it.
const FEWEST_A_RUN: u64 = 2;

/// The judged changes of all compared events and their entries.
pub(super) struct JudgedSeries {
    pub(super) method: Method,
    /// Number of judged changes of shares and weights.
    pub(super) figures: usize,
    /// Index of each compared event, and the change of its total weight.
    pub(super) events: Vec<(usize, Change)>,
    /// The entries of these events.
    pub(super) entries: Vec<JudgedEntry>,
}

/// The changes of one entry.
pub(super) struct JudgedEntry {
    /// Index of the entry in [`Runs`].
    pub(super) at: usize,
    pub(super) share: Change,
    pub(super) weight: Change,
    /// Whether the entry has too few samples to be judged.
    pub(super) is_rare: bool,
}

/// Amount of work that each recording did, by side.
pub(super) struct Work([Vec<f64>; 2]);

impl Work {
    /// Measures the work in the unit of `--per`.
    ///
    /// # Errors
    /// Fails if a recording did no work in that unit.
    pub(super) fn measure(
        diff: &Diff,
        runs: &Runs,
        taken: &[Vec<LoadedRecording>; 2],
    ) -> anyhow::Result<Self> {
        let mut work: [Vec<f64>; 2] = Default::default();
        for (side, work) in work.iter_mut().enumerate() {
            for (at, taken) in taken[side].iter().enumerate() {
                let amount = match &diff.per {
                    WorkUnit::Run => 1.0,
                    WorkUnit::Second => taken.lasted_ns as f64 / 1e9,
                    WorkUnit::Event(name) => {
                        let event = runs.events().iter().position(|event| is_called(event, name));
                        let total = event.and_then(|event| runs.totals(side, event).nth(at));
                        total.unwrap_or_default().period as f64
                    }
                };
                if amount <= 0.0 {
                    bail!(nothing_done(diff, runs, taken));
                }
                work.push(amount);
            }
        }
        Ok(Self(work))
    }
}

fn nothing_done(diff: &Diff, runs: &Runs, taken: &LoadedRecording) -> Refusal {
    let message = match &diff.per {
        WorkUnit::Event(name) => {
            let names: Vec<_> =
                runs.events().iter().map(|name| tare_format::printable(name)).collect();
            format!(
                "--per {name}: {} has no samples of this event; the recordings have {}",
                taken.name,
                names.join(", ")
            )
        }
        _ => format!(
            "--per time: {} has neither a duration nor sample times; use --per run",
            taken.name
        ),
    };
    Refusal { exit: Exit::Failure, message }
}

/// Whether an event has this name, with or without modifiers.
pub(super) fn is_called(event: &[u8], name: &str) -> bool {
    let rest = event.strip_prefix(name.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b":"))
}

/// Judges the totals of these events and their entries in one family. Rare entries aren't judged.
pub(super) fn judge(diff: &Diff, runs: &Runs, work: &Work, events: &[usize]) -> JudgedSeries {
    let recordings = (runs.count(0) + runs.count(1)) as u64;
    let fewest = FEWEST_SAMPLES.max(FEWEST_A_RUN * recordings);
    let is_gated = |at: usize| {
        let name = runs.entries().nth(at).and_then(|entry| entry.symbol);
        let name = name.map(|name| String::from_utf8_lossy(runs.name(name)));
        diff.gates.iter().any(|gate| name.as_deref() == Some(gate.condition.metric.as_str()))
    };
    let mut entries: Vec<(usize, usize, bool)> = runs
        .entries()
        .enumerate()
        .filter(|(_, entry)| events.contains(&entry.event))
        .map(|(at, entry)| (at, entry.event, samples(runs, at).iter().sum::<u64>() < fewest))
        .collect();
    if !diff.gates.is_empty() {
        entries.iter_mut().for_each(|(at, _, is_rare)| *is_rare &= !is_gated(*at));
    }
    entries.sort_by_key(|(.., is_rare)| *is_rare);
    let judged = entries.iter().filter(|(.., is_rare)| !is_rare).count();
    // Judged series come first: the totals of the events, then a share and a weight per entry.
    let mut series: Vec<Series> = Vec::new();
    series.extend(events.iter().map(|event| total(runs, work, *event)));
    for (at, event, _) in &entries[..judged] {
        series.push(share(runs, *at, *event));
        series.push(weight(runs, work, *at, *event));
    }
    let (mut method, mut changes) = judge_runs(&series, diff.seed);
    for (at, event, _) in &entries[judged..] {
        let alone = [share(runs, *at, *event), weight(runs, work, *at, *event)];
        changes.extend(alone.iter().map(unjudged));
    }
    if recordings == 2 {
        let sliced = judge_sliced(diff, runs, events, &entries[..judged]);
        method = sliced.0;
        for (at, change) in sliced.1.into_iter().enumerate() {
            changes[events.len() + 2 * at] = change;
        }
    }
    let (event_changes, entry_changes) = changes.split_at(events.len());
    let figures = if recordings == 2 { judged } else { series.len() };
    let entry_changes = entry_changes.chunks_exact(2).zip(&entries);
    JudgedSeries {
        method,
        figures,
        events: events.iter().copied().zip(event_changes.iter().copied()).collect(),
        entries: entry_changes
            .map(|(pair, (at, _, is_rare))| JudgedEntry {
                at: *at,
                share: pair[0],
                weight: pair[1],
                is_rare: *is_rare,
            })
            .collect(),
    }
}

/// Judges shares in two recordings by their variance over slices of time.
fn judge_sliced(
    diff: &Diff,
    runs: &Runs,
    events: &[usize],
    entries: &[(usize, usize, bool)],
) -> (Method, Vec<Change>) {
    let both = |of| Slices { a: runs.slices(0, of), b: runs.slices(1, of) };
    let all: Vec<Slices> = events.iter().map(|event| both(SliceSubject::Event(*event))).collect();
    let sliced: Vec<SlicedSeries<'_>> = entries
        .iter()
        .filter_map(|(at, event, _)| {
            let place = events.iter().position(|listed| listed == event)?;
            let step = |side| {
                let total: Weight = runs.totals(side, *event).next().unwrap_or_default();
                total.period as f64 / total.samples.max(1) as f64
            };
            let weights = both(SliceSubject::Entry(*at));
            Some(SlicedSeries { weights, all: &all[place], steps: [step(0), step(1)] })
        })
        .collect();
    judge_slices(&sliced, diff.seed)
}

/// Samples of an entry, by side.
pub(super) fn samples(runs: &Runs, at: usize) -> [u64; 2] {
    [0, 1].map(|side| runs.weights(side, at).map(|weight| weight.samples).sum())
}

/// The total weight of an event, per unit of work.
fn total(runs: &Runs, work: &Work, event: usize) -> Series {
    let [a, b] = [0, 1].map(|side| per_work(runs.totals(side, event), &work.0[side]));
    Series { a, b, step: 0.0 }
}

fn share(runs: &Runs, at: usize, event: usize) -> Series {
    let side = |side| {
        let pairs = runs.weights(side, at).zip(runs.totals(side, event));
        let share = |(part, all): (Weight, Weight)| part.period as f64 / all.period.max(1) as f64;
        pairs.map(share).collect()
    };
    let samples: u64 =
        [0, 1].into_iter().flat_map(|side| runs.totals(side, event)).map(|all| all.samples).sum();
    let recordings = (runs.count(0) + runs.count(1)) as f64;
    Series { a: side(0), b: side(1), step: recordings / samples.max(1) as f64 }
}

fn weight(runs: &Runs, work: &Work, at: usize, event: usize) -> Series {
    let [a, b] = [0, 1].map(|side| per_work(runs.weights(side, at), &work.0[side]));
    let all = [0, 1].into_iter().flat_map(|side| runs.totals(side, event));
    let mut period = 0.0;
    let mut samples = 0;
    all.for_each(|all| {
        period += all.period as f64;
        samples += all.samples;
    });
    let mean_work =
        work.0.iter().flatten().sum::<f64>() / work.0.iter().flatten().count().max(1) as f64;
    Series { a, b, step: period / samples.max(1) as f64 / mean_work }
}

fn per_work(weights: impl Iterator<Item = Weight>, work: &[f64]) -> Vec<f64> {
    weights.zip(work).map(|(weight, work)| weight.period as f64 / work).collect()
}

fn unjudged(series: &Series) -> Change {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let mean_a = mean(&series.a);
    let mean_b = mean(&series.b);
    Change { mean_a, mean_b, interval: None, ratio: None, p: None, detectable: None }
}

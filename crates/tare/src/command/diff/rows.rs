//! Turns judged changes into the rows, notes and gates that are shown.

use tare_format::ledger::Estimate;
use tare_format::printable;
use tare_measure::compare::Judgement;
use tare_measure::compare::runs::{Change, FAMILYWISE, Gate as Condition, Method};
use tare_profile::{NameId, Runs, Space};
use tare_render::diff::{ComparedRecording, Diff as Shown, DiffFigure, DiffRow, EventDiff, Gate};

use crate::cli::resolved::diff::{Diff, WorkUnit};
use crate::exit::{Exit, Refusal};

use super::LoadedRecording;
use super::judge::{JudgedSeries, Work, is_called, judge, samples};

pub(super) fn compare(
    diff: &Diff,
    runs: &Runs,
    taken: &[Vec<LoadedRecording>; 2],
) -> anyhow::Result<Shown> {
    let work = Work::measure(diff, runs, taken)?;
    let (events, mut notes) = events(diff, runs)?;
    let judged = judge(diff, runs, &work, &events);
    let is_stored = diff.sides.iter().flatten().any(|samples| samples.stored.is_some());
    notes.extend(why_not(&judged.method, runs, is_stored));
    let event = |(event, all): &(usize, Change)| {
        let unit = taken.iter().flatten().find_map(|taken| {
            let profile = &taken.read.profile;
            let session = &taken.read.session;
            let id =
                profile.events().find(|(_, of)| profile.string(of.name) == &*runs.events()[*event]);
            id.map(|(id, _)| session.unit(profile, id))
        });
        EventDiff {
            name: printable(&*runs.events()[*event]).into_owned(),
            unit: unit.unwrap_or_default(),
            all: figure(all),
            rows: rows(runs, &judged, *event),
        }
    };
    let recording = |taken: &LoadedRecording| ComparedRecording {
        name: taken.name.clone(),
        samples: taken.samples,
        losses: tare_render::loss_lines(&taken.read.profile.losses),
    };
    Ok(Shown {
        recordings: taken.each_ref().map(|side| side.iter().map(recording).collect()),
        per: match &diff.per {
            WorkUnit::Run => "run".to_owned(),
            WorkUnit::Second => "s".to_owned(),
            WorkUnit::Event(name) => printable(name.as_bytes()).into_owned(),
        },
        method: method(&judged, runs),
        level: FAMILYWISE,
        notes,
        events: judged.events.iter().map(event).collect(),
        gates: diff.gates.iter().map(|gate| met(gate, runs, &judged)).collect(),
    })
}

/// Returns the compared events: the requested ones, by default all but the unit of work, that have
/// samples on both sides; and notes on those with samples on one side.
fn events(diff: &Diff, runs: &Runs) -> anyhow::Result<(Vec<usize>, Vec<String>)> {
    let has = |side: usize, event: usize| runs.totals(side, event).any(|all| all.samples > 0);
    let name = |event: usize| printable(&*runs.events()[event]).into_owned();
    let is_work = |event: usize| matches!(&diff.per, WorkUnit::Event(name) if is_called(&runs.events()[event], name));
    let all = 0..runs.events().len();
    for wanted in &diff.events {
        if !all.clone().any(|event| is_called(&runs.events()[event], wanted)) {
            let names: Vec<_> = all.clone().map(name).collect();
            let names = names.join(", ");
            return Err(Refusal::usage(format!(
                "-e {wanted}: no recording has this event; the recordings have {names}"
            ))
            .into());
        }
    }
    let is_wanted = |event: &usize| {
        let is_named = |wanted: &String| is_called(&runs.events()[*event], wanted);
        diff.events.is_empty() && !is_work(*event) || diff.events.iter().any(is_named)
    };
    let wanted: Vec<usize> = all.filter(is_wanted).collect();
    let (both, one): (Vec<usize>, Vec<usize>) =
        wanted.into_iter().partition(|event| has(0, *event) && has(1, *event));
    if both.is_empty() {
        let message = "no event has samples on both sides, so there is nothing to compare; tare report --stats lists the samples of each event";
        return Err(Refusal { exit: Exit::Failure, message: message.to_owned() }.into());
    }
    let note = |event: usize| {
        let side = if has(0, event) { "A" } else { "B" };
        format!("event '{}' has samples in {side} only", name(event))
    };
    // A filter may leave an event without samples on either side.
    let one = one.into_iter().filter(|event| has(0, *event) || has(1, *event));
    Ok((both, one.map(note).collect()))
}

fn method(judged: &JudgedSeries, runs: &Runs) -> String {
    let figures = tare_render::count(judged.figures as u64, "figure");
    let runs = format!("{} against {} recordings", runs.count(0), runs.count(1));
    let alarm = format!("a false alarm among {figures} in at most 1% of comparisons");
    match judged.method {
        Method::Permutations(count) => {
            let count = tare_render::grouped(count as u64);
            format!("{runs}; their sides permuted {count} times: {alarm}")
        }
        Method::StudentsT => {
            format!("{runs}; Student's t with Holm's correction: {alarm} (five a side see more)")
        }
        Method::Blocks(a, b) => {
            format!("1 against 1 recording; {a} and {b} blocks of time in them: {alarm}")
        }
        Method::Nothing => "1 against 1 recording: nothing is judged".to_owned(),
    }
}

/// Notes on the limits of comparing only two recordings.
fn why_not(method: &Method, runs: &Runs, is_stored: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if let Method::Blocks(..) | Method::Nothing = method
        && runs.count(0) + runs.count(1) == 2
    {
        notes.push("weights are not judged: one recording a side doesn't show how they vary from run to run".to_owned());
        notes.push(match method {
            Method::Nothing if is_stored => "shares are not judged: a side has fewer than 20 windows".to_owned(),
            Method::Nothing => "shares are not judged: the recordings are too short, or their samples have no times".to_owned(),
            _ => "shares are judged for these two recordings only; another run may differ by more".to_owned(),
        });
        notes.extend((!is_stored).then_some(
            "for a full comparison, give several recordings a side: tare diff a*.data -- b*.data"
                .to_owned(),
        ));
    }
    notes
}

fn rows(runs: &Runs, judged: &JudgedSeries, event: usize) -> Vec<DiffRow> {
    let all: Vec<_> = runs.entries().collect();
    let text = |id: NameId| printable(runs.name(id)).into_owned();
    let row = |of: &super::judge::JudgedEntry| {
        let entry = all.get(of.at).filter(|entry| entry.event == event)?;
        Some(DiffRow {
            comm: entry.comm.map(text),
            dso: entry.dso.map(text),
            symbol: entry.symbol.map(text),
            space: entry.space.map(Space::letter),
            stack: (!entry.stack.is_empty())
                .then(|| entry.stack.iter().copied().map(text).collect()),
            samples: samples(runs, of.at),
            share: figure(&of.share),
            weight: figure(&of.weight),
            is_rare: of.is_rare,
        })
    };
    judged.entries.iter().filter_map(row).collect()
}

fn figure(change: &Change) -> DiffFigure {
    let estimate = |value, interval: Option<tare_measure::statistics::Interval>| {
        interval.map(|interval| Estimate { value, low: interval.low, high: interval.high })
    };
    DiffFigure {
        a: change.mean_a,
        b: change.mean_b,
        difference: estimate(change.difference(), change.interval),
        ratio: estimate(change.mean_b / change.mean_a, change.ratio),
        p: change.p,
        detectable: change.detectable,
        is_significant: change.shown().is_some(),
    }
}

/// Judges a condition by the functions with its name; `*` by all functions that aren't rare.
fn met(gate: &Condition, runs: &Runs, judged: &JudgedSeries) -> Gate {
    use tare_measure::compare::runs::GateOf;
    let entries: Vec<_> = runs.entries().collect();
    let name = |at: usize| {
        let symbol = entries.get(at).and_then(|entry| entry.symbol);
        symbol.map(|symbol| String::from_utf8_lossy(runs.name(symbol)).into_owned())
    };
    let is_meant =
        |at: usize| gate.is_any() || name(at).as_deref() == Some(gate.condition.metric.as_str());
    let change = |of: &super::judge::JudgedEntry| match gate.of {
        GateOf::Weight => of.weight,
        GateOf::Share => of.share,
    };
    let meant =
        judged.entries.iter().filter(|of| is_meant(of.at) && !(gate.is_any() && of.is_rare));
    let mut failing = Vec::new();
    let mut unknown = 0;
    let mut count = 0;
    for of in meant {
        count += 1;
        match gate.judge(&change(of)) {
            Judgement::Fails => failing.extend(name(of.at)),
            Judgement::Unknown => unknown += 1,
            Judgement::Passes => {}
        }
    }
    let metric = printable(gate.condition.metric.as_bytes());
    let (failed, why) = match (failing.is_empty(), unknown, count) {
        (false, ..) => {
            let names: Vec<_> = failing.iter().map(|name| printable(name.as_bytes())).collect();
            (true, format!("the whole interval of {} lies beyond it", names.join(", ")))
        }
        (true, _, 0) => (true, format!("no recording has samples of {metric}, so the condition can't be judged")),
        (true, 0, _) => (false, "no whole interval lies beyond it".to_owned()),
        _ => (true, "there is no interval: weights need three recordings or more in all; 'pp' compares shares instead".to_owned()),
    };
    Gate { condition: printable(gate.to_string().as_bytes()).into_owned(), failed, why }
}

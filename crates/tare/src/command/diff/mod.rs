//! `tare diff`: compares recordings of two sides.

mod judge;
mod rows;

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tare_format::printable;
use tare_profile::{DiffOptions, Order, Profile, Runs};
use tare_render::diff::{diff_json, diff_text};
use tare_render::flame::{
    Collector, FlameInput, FlameRoot, Graph, PAGE_BYTES, RecordingInfo, Style, page, svg,
};
use tare_render::{LocatedSample, SampleSink};

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::diff::{Diff, DiffForm};
use crate::cli::resolved::flame::is_svg;
use crate::cli::resolved::samples::SampleSelection;
use crate::command::output::write_to;
use crate::command::recording::exists;
use crate::command::samples::{NeededParts, Read, replay};
use crate::exit::{Exit, Refusal};
use crate::terminal;
use tare_tui::{ProgressLine, UiExit};

/// A recording that was read, with its call chains if they are drawn.
struct LoadedRecording {
    name: String,
    read: Read,
    samples: u64,
    /// Duration from the ledger if all times are read and there is one, otherwise from the first to
    /// the last sample.
    lasted_ns: u64,
    collector: Option<Collector>,
}

impl LoadedRecording {
    /// Takes the call chains for a flame graph. `None` if they aren't drawn or were taken.
    fn recorded(&mut self) -> Option<FlameInput<'_>> {
        let samples = self.collector.take()?;
        Some(FlameInput { whole: self.read.whole(), samples })
    }
}

pub(crate) fn run(raw: raw::DiffArgs) -> Outcome {
    if raw.after.is_empty() && raw.files.len() > 2 {
        return compare_each(&raw);
    }
    compare(raw)
}

/// Compares the first recording with each of the others, as perf does with more than two. The worst
/// status is returned.
fn compare_each(raw: &raw::DiffArgs) -> Outcome {
    if raw.json.json || raw.interface.tui || raw.flame.is_some() {
        return Err(Refusal::usage(
            "more than two recordings: for --json, --tui and --flame separate A and B by --, as in tare diff a1 a2 -- b1 b2",
        )
        .into());
    }
    let Some((baseline, others)) = raw.files.split_first() else { return Ok(Exit::Success) };
    let mut worst = Exit::Success;
    for other in others {
        if !raw.text.quiet {
            let mut out = io::stdout().lock();
            writeln!(out, "# {} against {}", shown(baseline), shown(other))?;
        }
        let mut pair = raw.clone();
        pair.files = vec![baseline.clone(), other.clone()];
        pair.interface.stdio = true;
        let exit = compare(pair)?;
        worst = if exit.status() > worst.status() { exit } else { worst };
    }
    Ok(worst)
}

fn shown(path: &Path) -> Cow<'_, str> {
    printable(path.as_os_str().as_encoded_bytes())
}

fn compare(raw: raw::DiffArgs) -> Outcome {
    let diff = Diff::resolve(raw)?;
    let is_interactive = is_interactive(&diff)?;
    let recordings = diff.sides.iter().flatten().filter(|samples| samples.stored.is_none());
    recordings.into_iter().try_for_each(|samples| exists(&samples.input))?;
    let slices = diff.sides.iter().all(|side| side.len() == 1);
    let mut runs = Runs::new(DiffOptions { slices, ..diff.options.clone() });
    let mut taken: [Vec<LoadedRecording>; 2] = Default::default();
    let progress = ProgressLine::begin();
    for (side, recordings) in diff.sides.iter().enumerate() {
        for samples in recordings {
            let is_drawn = diff.flame.is_some() || is_interactive;
            taken[side].push(take(samples, &mut runs, side, is_drawn, &progress)?);
        }
    }
    progress.show_step("comparing");
    let compared = rows::compare(&diff, &runs, &taken)?;
    let failed = compared.gates.iter().any(|gate| gate.failed);
    let chains = chains(&mut taken);
    if let Some(output) = &diff.flame {
        draw(output, chains.clone(), &taken)?;
    }
    drop(progress);
    if is_interactive {
        let ended = tare_tui::diff::run(compared, chains, diff.view, terminal::is_plain())?;
        if let UiExit::Signal(number) = ended {
            return Ok(Exit::from_signal(number));
        }
    } else {
        let mut out = BufWriter::new(io::stdout().lock());
        match diff.form {
            DiffForm::Json => diff_json(&mut out, &compared, &diff.view)?,
            _ => diff_text(&mut out, &compared, &diff.view)?,
        }
        out.flush()?;
    }
    Ok(if failed { Exit::Verdict } else { Exit::Success })
}

/// Whether the comparison is shown by the interactive interface.
fn is_interactive(diff: &Diff) -> Result<bool, Refusal> {
    match diff.form {
        DiffForm::Terminal => terminal::need_screen("the comparison").map(|()| true),
        DiffForm::Text | DiffForm::Json => Ok(false),
        DiffForm::Fitting => Ok(terminal::has_screen() && diff.gates.is_empty()),
    }
}

/// Reads a recording and adds it to `runs`.
fn take(
    samples: &SampleSelection,
    runs: &mut Runs,
    side: usize,
    is_drawn: bool,
    progress: &ProgressLine,
) -> anyhow::Result<LoadedRecording> {
    let mut taking = Taking::default();
    let needed = NeededParts { windows: true, ..NeededParts::default() };
    let read = replay(samples, needed, &mut taking, progress)?;
    runs.add(side, &read.profile, taking.collector.sliced());
    let all = samples.time == tare_replay::TimeRanges::All;
    let recorded_ns = read.recorded_ns.filter(|_| all);
    let name = match &samples.stored {
        Some(stored) => printable(&stored.name()).into_owned(),
        None if samples.input == Path::new("-") => "standard input".to_owned(),
        None => shown(&samples.input).into_owned(),
    };
    Ok(LoadedRecording {
        name,
        read,
        samples: taking.samples,
        lasted_ns: recorded_ns
            .unwrap_or(taking.last_ns.saturating_sub(taking.first_ns.unwrap_or(0))),
        collector: is_drawn.then_some(taking.collector),
    })
}

#[derive(Default)]
struct Taking {
    collector: Collector,
    samples: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl SampleSink for Taking {
    fn sample(&mut self, profile: &Profile, sample: &LocatedSample) -> io::Result<()> {
        self.samples += 1;
        if let Some(time_ns) = sample.time_ns {
            self.first_ns.get_or_insert(time_ns);
            self.last_ns = self.last_ns.max(time_ns);
        }
        self.collector.sample(profile, sample)
    }
}

/// The call chains of B, compared with A's.
fn chains(taken: &mut [Vec<LoadedRecording>; 2]) -> Graph {
    let [a, b] = taken
        .each_mut()
        .map(|side| side.iter_mut().filter_map(LoadedRecording::recorded).collect());
    Graph::new(vec![b, a], Order::Caller, FlameRoot::Comm)
}

/// Draws the differential flame graph: B, coloured by the difference from A.
fn draw(output: &Path, mut graph: Graph, taken: &[Vec<LoadedRecording>; 2]) -> anyhow::Result<()> {
    let of_side = |side: &Vec<LoadedRecording>| {
        let accounts: Vec<RecordingInfo> =
            side.iter().map(|taken| RecordingInfo::new(&taken.name, &taken.read.whole())).collect();
        RecordingInfo::joined(accounts)
    };
    let [a, b] = taken.each_ref().map(of_side);
    let title = format!("{} against {}", b.name, a.name);
    let style = Style { title, icicle: false, callee: false };
    let accounts = [b, a];
    write_to(output, |out| {
        if is_svg(output) {
            svg(out, &mut graph, &accounts, &style)
        } else {
            page(out, &mut graph, &accounts, &style, PAGE_BYTES)
        }
    })
}

//! Options of `tare diff`.

use std::path::{Path, PathBuf};

use tare_measure::compare::BadCondition;
use tare_measure::compare::runs::Gate;
use tare_profile::{DiffOptions, Filter};
use tare_render::comparable_key;
use tare_render::diff::{DiffOrder, DiffView};
use tare_replay::SampleFilterOptions;

use crate::cli::raw;
use crate::cli::resolved::samples::SampleSelection;
use crate::cli::resolved::stored::StoredSamples;
use crate::cli::resolved::{script, symbols};
use crate::exit::Refusal;

/// What `tare diff` compares, and how it shows it.
#[derive(Debug)]
pub(crate) struct Diff {
    /// Samples of the recordings of A and of B.
    pub(crate) sides: [Vec<SampleSelection>; 2],
    /// Names of events; empty: all events of both sides.
    pub(crate) events: Vec<String>,
    pub(crate) per: WorkUnit,
    pub(crate) options: DiffOptions,
    pub(crate) view: DiffView,
    pub(crate) gates: Vec<Gate>,
    pub(crate) seed: u64,
    pub(crate) form: DiffForm,
    /// Path of the differential flame graph.
    pub(crate) flame: Option<PathBuf>,
}

/// The unit of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkUnit {
    Run,
    Second,
    Event(String),
}

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiffForm {
    /// Interactive if stdout is a terminal that can move its cursor and there is no `--fail-if`,
    /// otherwise text.
    Fitting,
    Text,
    Terminal,
    Json,
}

impl Diff {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a usage message if an option is invalid.
    pub(crate) fn resolve(raw: raw::DiffArgs) -> Result<Self, Refusal> {
        refuse_what_makes_no_sense(&raw)?;
        let stored = StoredSamples::both(&raw.stored, &raw.versus)?;
        let default = if stored.is_some() { "time" } else { "run" };
        let per = match raw.per.as_deref().unwrap_or(default) {
            "run" => WorkUnit::Run,
            "time" => WorkUnit::Second,
            event => WorkUnit::Event(event.to_owned()),
        };
        let gates = raw.fail_if.iter().map(|text| {
            text.parse().map_err(|BadCondition { position, problem, .. }| {
                Refusal::usage(format!("--fail-if '{text}', position {position}: {problem}; write it like 'malloc>+1%', or 'malloc>+0.5pp' for its share"))
            })
        });
        let gates = gates.collect::<Result<Vec<Gate>, Refusal>>()?;
        if raw.stacks && !gates.is_empty() {
            return Err(Refusal::usage("--fail-if names functions: leave --stacks out"));
        }
        let is_separated = raw.text.field_separator.is_some();
        let view = DiffView {
            order: if raw.order == 0 { DiffOrder::Baseline } else { order(&raw.compute)? },
            percent_limit: raw.percent_limit,
            baseline_only: raw.baseline_only,
            period: raw.period,
            verbose: raw.verbose > 0,
            quiet: raw.text.quiet,
            separator: raw.text.field_separator.clone(),
        };
        let form = match () {
            () if raw.json.json => DiffForm::Json,
            () if raw.interface.tui => DiffForm::Terminal,
            () if raw.interface.stdio || is_separated || raw.text.quiet => DiffForm::Text,
            () => DiffForm::Fitting,
        };
        let options = options(&raw)?;
        let seed = raw.seed;
        let flame = raw.flame.clone();
        let events = raw.events.events.clone();
        Ok(Self {
            sides: sides(raw, stored)?,
            events,
            per,
            options,
            view,
            gates,
            seed,
            form,
            flame,
        })
    }
}

/// Refuses perf's options that have no meaning or another name here, and wrong values of
/// `--percent-limit` and `-t`.
fn refuse_what_makes_no_sense(raw: &raw::DiffArgs) -> Result<(), Refusal> {
    let refused = [
        (raw.dump_raw_trace, "-D: use tare script to print records"),
        (raw.formula, "-F: tare-diff(1) has the formulas"),
        (raw.stream, "--stream: use --stacks to compare call chains"),
        (raw.cycles_hist, "--cycles-hist belongs to perf's -c cycles, which tare doesn't support"),
        (
            !(0.0..=100.0).contains(&raw.percent_limit),
            "--percent-limit: a percentage is from 0 to 100",
        ),
        (raw.text.field_separator.as_deref() == Some("."), "-t .: numbers contain dots"),
    ];
    match refused.into_iter().find(|(is_typed, _)| *is_typed) {
        Some((_, why)) => Err(Refusal::usage(why)),
        None => Ok(()),
    }
}

fn options(raw: &raw::DiffArgs) -> Result<DiffOptions, Refusal> {
    let words = raw.sort.split(',').map(str::trim).filter(|word| !word.is_empty());
    let keys = words.map(comparable_key).collect::<Result<Vec<_>, _>>();
    let keys = keys.map_err(|error| Refusal::usage(format!("-s {error}")))?;
    if keys.is_empty() {
        return Err(Refusal::usage("-s: name at least one of comm, dso and sym"));
    }
    let bytes = |names: &[String]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
    let filter = Filter {
        comms: bytes(&raw.names.comms),
        dsos: bytes(&raw.names.dsos),
        symbols: bytes(&raw.names.symbols),
        ..Filter::default()
    };
    Ok(DiffOptions {
        keys,
        stacks: raw.stacks,
        children: raw.children,
        filter,
        relative: raw.percentage.percentage == raw::Percentage::Relative,
        slices: false,
    })
}

/// Parses `-c`, the order of rows.
fn order(text: &str) -> Result<DiffOrder, Refusal> {
    let wrong = || {
        Refusal::usage(format!("-c {text}: use delta-abs, delta, ratio or wdiff:WEIGHT_A,WEIGHT_B"))
    };
    match text {
        "delta" => Ok(DiffOrder::Delta),
        "delta-abs" => Ok(DiffOrder::DeltaAbs),
        "ratio" => Ok(DiffOrder::Ratio),
        "cycles" => Err(Refusal::usage(
            "-c cycles compares basic blocks by branch records, which tare doesn't support; use perf diff -c cycles",
        )),
        _ => {
            let weights = text.strip_prefix("wdiff:").and_then(|weights| weights.split_once(','));
            let (a, b) = weights.ok_or_else(wrong)?;
            let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
            Ok(DiffOrder::Weighted(number(a).ok_or_else(wrong)?, number(b).ok_or_else(wrong)?))
        }
    }
}

/// Resolves the recordings of both sides.
fn sides(
    raw: raw::DiffArgs,
    stored: Option<[StoredSamples; 2]>,
) -> Result<[Vec<SampleSelection>; 2], Refusal> {
    if let Some(sides) = stored {
        let side = |stored| vec![SampleSelection::from_store(stored)];
        return Ok(sides.map(side));
    }
    let mut a = raw.files;
    let mut b = raw.after;
    let is_option = |path: &&PathBuf| path.as_os_str().as_encoded_bytes().starts_with(b"-");
    let typed = b.iter().filter(is_option).find(|path| *path != Path::new("-") && !path.exists());
    if let Some(option) = typed {
        let option = option.display();
        return Err(Refusal::usage(format!(
            "{option}: only recordings may follow --; put options before it"
        )));
    }
    if b.is_empty() {
        match a.len() {
            0 => b.push(PathBuf::from(raw::DEFAULT_RECORDING)),
            1 => b.append(&mut a),
            _ => b.extend(a.pop()),
        }
    }
    if a.is_empty() {
        a.push(PathBuf::from("perf.data.old"));
    }
    if a.iter().chain(&b).filter(|path| *path == Path::new("-")).count() > 1 {
        return Err(Refusal::usage("-: standard input can be one recording only"));
    }
    let filter = SampleFilterOptions {
        pids: raw::TaskList::ids(&raw.tasks.pid),
        tids: raw::TaskList::ids(&raw.tasks.tid),
        cpus: script::cpus(raw.tasks.range.cpu.as_deref())?,
        ..SampleFilterOptions::default()
    };
    let time = script::times(raw.tasks.range.time.as_deref())?;
    let symbols = symbols::resolve(raw.symbol_search);
    let samples = |input: PathBuf| SampleSelection {
        stored: None,
        wall_clock: false,
        input,
        events: Vec::new(),
        filter: filter.clone(),
        time: time.clone(),
        include_self: raw.own.include_self,
        inline: false,
        symbols: symbols.clone(),
    };
    Ok([a, b].map(|files| files.into_iter().map(samples).collect()))
}

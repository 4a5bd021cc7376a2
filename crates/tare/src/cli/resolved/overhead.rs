//! Options of `tare overhead`.

use std::ffi::OsString;

use tare_events::{Event, Sources, parse};
use tare_measure::compare::pairs;
use tare_measure::overhead::load::LoadKind;
use tare_measure::overhead::plan::{CallGraph, RATES};
use tare_measure::overhead::rounds;

use super::rounds::Rounds;
use super::versus::words;
use crate::cli::raw;
use crate::exit::Refusal;

/// Length of a time slice in nanoseconds: one sample at 100 Hz, and short enough that other load on
/// the machine changes little.
const SLICE_NS: u64 = 10_000_000;
/// Most pairs of slices for each rate and loop.
const MOST_PAIRS: usize = 100_000;
/// Metrics that `--with` tests together.
const COMPARED_METRICS: usize = 4;
/// Most rates of one study.
const MOST_RATES: usize = 100;

/// Task of `tare overhead`, without its output.
#[derive(Debug)]
pub enum Overhead {
    /// Measure this machine.
    Study(Box<Study>),
    /// Measure profilers on a program.
    With(ProfilerComparison),
    /// Show saved results of these events; empty: of all.
    Show(Vec<String>),
}

/// Studies to run.
#[derive(Debug)]
pub struct Study {
    /// Events; empty: cycles, or cpu-clock without hardware counters.
    pub events: Vec<Event>,
    /// Kinds of call chains; each event is studied with each kind.
    pub call_graphs: Vec<CallGraph>,
    /// Rates in Hz, ascending and unique.
    pub rates: Vec<u64>,
    /// Profilers to measure too.
    pub profilers: Vec<Profiler>,
    /// CPU to run on, if typed.
    pub cpu: Option<u32>,
    /// Length of a time slice in nanoseconds.
    pub slice_ns: u64,
    /// Rounds for each rate and loop: a slice without sampling, one with the event alone, and one
    /// with each profiler.
    pub pairs: usize,
    /// Loops to run.
    pub loads: Vec<LoadKind>,
    /// Seed of the order of measurements.
    pub seed: u64,
    /// Whether the result is saved.
    pub save: bool,
}

/// A profiler that attaches to the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Profiler {
    /// `perf record`.
    Perf,
    /// `tare record`, of this binary.
    Tare,
    /// The words of another profiler's command, with placeholders.
    Other(Vec<OsString>),
}

/// Profilers on a program.
#[derive(Debug)]
pub struct ProfilerComparison {
    /// The bare command.
    pub command: Vec<OsString>,
    /// Words before the command, per profiler.
    pub profilers: Vec<Vec<OsString>>,
    /// When the comparison ends, and the seed of the order of runs.
    pub plan: rounds::RoundPlan,
    /// Smallest relevant difference, as a share.
    pub min_effect: f64,
    /// Whether failed runs count.
    pub ignore_failure: bool,
}

impl Overhead {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] that names the remedy.
    pub fn resolve(raw: &raw::OverheadArgs, sources: &Sources) -> Result<Self, Refusal> {
        if raw.show {
            return Ok(Self::Show(raw.events.clone()));
        }
        if !raw.with.with.is_empty() {
            return with(&raw.with, &raw.command).map(Self::With);
        }
        let events =
            raw.events.iter().map(|text| event(text, sources)).collect::<Result<_, _>>()?;
        let pairs = raw.pairs;
        if !(5..=MOST_PAIRS).contains(&pairs) {
            return Err(Refusal::usage(format!(
                "--pairs {pairs}: an interval takes 5 pairs, and {MOST_PAIRS} are hours"
            )));
        }
        Ok(Self::Study(Box::new(Study {
            events,
            call_graphs: call_graphs(&raw.call_graph)?,
            rates: rates(&raw.rates)?,
            profilers: raw.profiler.iter().map(profiler).collect::<Result<_, _>>()?,
            cpu: raw.cpu,
            slice_ns: SLICE_NS,
            pairs,
            loads: loops(&raw.loops)?,
            seed: raw.with.rounds.seed.unwrap_or_else(|| fastrand::u64(..)),
            save: !raw.no_save,
        })))
    }
}

/// Parses one event.
fn event(text: &str, sources: &Sources) -> Result<Event, Refusal> {
    let groups = parse(text, sources).map_err(|error| Refusal::usage(format!("-e {error}")))?;
    let mut events: Vec<Event> = groups.into_iter().flat_map(|group| group.events).collect();
    match events.len() {
        1 => Ok(events.remove(0)),
        n => Err(Refusal::usage(format!(
            "-e {text}: a study takes one event, not {n}: give each its own -e"
        ))),
    }
}

fn call_graphs(typed: &[String]) -> Result<Vec<CallGraph>, Refusal> {
    let all = CallGraph::ALL;
    let one = |text: &String| {
        let call_graph = all.into_iter().find(|known| known.name() == text);
        call_graph.ok_or_else(|| {
            Refusal::usage(format!("--call-graph: '{text}' is not none, fp, dwarf or auto"))
        })
    };
    if typed.is_empty() { Ok(vec![CallGraph::None]) } else { typed.iter().map(one).collect() }
}

fn loops(typed: &[String]) -> Result<Vec<LoadKind>, Refusal> {
    let one = |text: &String| {
        let kind = LoadKind::ALL.into_iter().find(|kind| kind.name() == text);
        kind.ok_or_else(|| {
            Refusal::usage(format!("--loops: '{text}' is not counting, memory or branchy"))
        })
    };
    if typed.is_empty() { Ok(LoadKind::ALL.to_vec()) } else { typed.iter().map(one).collect() }
}

fn rates(typed: &[u64]) -> Result<Vec<u64>, Refusal> {
    let mut rates = if typed.is_empty() { RATES.to_vec() } else { typed.to_vec() };
    rates.sort_unstable();
    rates.dedup();
    if rates.len() > MOST_RATES {
        return Err(Refusal::usage(format!(
            "--rates: {} are too many, a study takes {MOST_RATES}",
            rates.len()
        )));
    }
    Ok(rates)
}

fn profiler(text: &OsString) -> Result<Profiler, Refusal> {
    match text.to_str() {
        Some("perf") => Ok(Profiler::Perf),
        Some("tare") => Ok(Profiler::Tare),
        _ => {
            let words = words("--profiler", text)?;
            let heeds = words.iter().any(|word| word.to_string_lossy().contains("{control}"));
            if heeds {
                return Ok(Profiler::Other(words));
            }
            let remedy = "its command needs {control} where it takes what perf record's --control takes, to be switched on and off";
            Err(Refusal::usage(format!("--profiler '{}': {remedy}", text.to_string_lossy())))
        }
    }
}

fn with(raw: &raw::ProfilerArgs, command: &[OsString]) -> Result<ProfilerComparison, Refusal> {
    let profilers = raw.with.iter().map(|text| words("--with", text)).collect::<Result<_, _>>()?;
    let rounds = Rounds::resolve(&raw.rounds, COMPARED_METRICS)?;
    let plan = rounds::RoundPlan {
        warmup: rounds.warmup,
        min_rounds: rounds.min,
        max_rounds: rounds.max,
        max_time: rounds.max_time,
        precision: pairs::ComparisonPlan::precision_for(rounds.min_effect),
        seed: rounds.seed,
    };
    Ok(ProfilerComparison {
        command: command.to_vec(),
        profilers,
        plan,
        min_effect: rounds.min_effect,
        ignore_failure: raw.rounds.ignore_failure,
    })
}

#[cfg(test)]
mod tests {
    use tare_kernel::host::Host;

    use std::time::Duration;

    use super::*;
    use crate::cli::raw::{Tare, TareCommand};

    fn resolved(options: &[&str]) -> Result<Overhead, Refusal> {
        let words = ["tare", "overhead"].iter().chain(options).map(OsString::from);
        let TareCommand::Overhead(raw) = Tare::parse_typed(words).unwrap().command else {
            unreachable!("overhead was asked for")
        };
        Overhead::resolve(&raw, &Sources::new(Host::at("/nowhere")))
    }

    fn study(options: &[&str]) -> Study {
        match resolved(options).unwrap() {
            Overhead::Study(study) => *study,
            other => panic!("{other:?}"),
        }
    }

    fn message(options: &[&str]) -> String {
        resolved(options).unwrap_err().message
    }

    #[test]
    fn defaults_are_the_articles_rates() {
        let study = study(&[]);
        assert_eq!(
            (study.rates, study.pairs, study.call_graphs),
            (RATES.to_vec(), 200, vec![CallGraph::None])
        );
        assert!(study.events.is_empty() && study.save && study.loads.len() == 3);
    }

    #[test]
    fn what_is_typed_is_taken_and_sorted() {
        let study = study(&[
            "-e",
            "cpu-clock",
            "--rates",
            "99,0,99",
            "--call-graph",
            "fp,dwarf",
            "--profiler",
            "perf",
            "--loops",
            "branchy",
        ]);
        assert_eq!(
            (study.rates, study.call_graphs),
            (vec![0, 99], vec![CallGraph::Fp, CallGraph::Dwarf])
        );
        assert_eq!(
            (study.events[0].name.as_str(), study.profilers, study.loads),
            ("cpu-clock", vec![Profiler::Perf], vec![LoadKind::Branchy])
        );
    }

    #[test]
    fn nonsense_is_refused_with_a_remedy() {
        assert_eq!(
            message(&["--call-graph", "lbr"]),
            "--call-graph: 'lbr' is not none, fp, dwarf or auto"
        );
        assert!(message(&["--profiler", "perf record -t {tid}"]).contains("needs {control}"));
        assert!(message(&["-e", "cpu-clock,task-clock"]).contains("give each its own -e"));
        assert!(message(&["--pairs", "3"]).contains("takes 5 pairs"));
        assert!(message(&["--loops", "x"]).contains("not counting, memory or branchy"));
        assert_eq!(
            message(&["--with", "a 'b", "--", "c"]),
            "--with: a quote is not closed, or a backslash ends it"
        );
        assert!(
            message(&["--with", "a", "--min-runs", "5", "--max-runs", "2", "--", "c"])
                .contains("is more than")
        );
    }

    #[test]
    fn a_program_under_profilers() {
        let Overhead::With(with) =
            resolved(&["--with", "a -b --", "--with", "c", "--max-time", "2", "--", "d", "e f"])
                .unwrap()
        else {
            panic!("--with was typed")
        };
        assert_eq!(
            (with.profilers, with.command),
            (
                vec![vec!["a".into(), "-b".into(), "--".into()], vec!["c".into()]],
                vec!["d".into(), "e f".into()]
            )
        );
        assert_eq!((with.plan.min_rounds, with.plan.max_time), (14, Duration::from_secs(2)));
    }
}

//! `tare overhead --with`: a program bare and under profilers, in rounds.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use serde_json::json;
use tare_kernel::child::{Command, FileLimit, WaitingChild};
use tare_kernel::signals::Signals;
use tare_measure::compare::{Judged, Measurement, Metric, Pair, Rules, Scale, Verdict, judge};
use tare_measure::overhead::rounds::{self, Round, Stop};

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::overhead::With;
use crate::command::interrupt;
use crate::exit::{Exit, Refusal};
use tare_format::printable;

/// Raised when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// Why a run can't be used.
enum Failure {
    /// It ended with this status.
    Status { variant: usize, status: u8 },
    /// The user ended it with this signal.
    Interrupted(i32),
    /// Anything else.
    Other(anyhow::Error),
}

/// What one profiler costs the command.
struct Found {
    profiler: String,
    judged: Vec<Judged>,
}

/// All that was found.
struct Results<'a> {
    with: &'a With,
    rounds: Vec<Round>,
    stop: &'static str,
    seconds: f64,
    found: Vec<Found>,
}

pub(super) fn run(with: &With, raw: &raw::Overhead) -> Outcome {
    let began = Instant::now();
    let (rounds, stop) = {
        let signals = Signals::block().context("cannot wait for signals")?;
        let commands = commands(with)?;
        let mut run = |variant: usize| one_run(&commands[variant], variant, with, &signals);
        rounds::make(&with.plan, commands.len(), &mut run, &mut || began.elapsed())
    };
    let (stop, failure) = match stop {
        Stop::Precise => ("precise", None),
        Stop::MaxRounds => ("max-runs", None),
        Stop::MaxTime => ("max-time", None),
        Stop::Failed(failure) => ("failed", Some(failure)),
    };
    match failure {
        Some(Failure::Interrupted(signal)) if rounds.is_empty() => {
            return Ok(Exit::Command(u8::try_from(128 + signal).unwrap_or(255)));
        }
        Some(Failure::Status { variant, status }) => {
            return Err(refusal(with, variant, status).into());
        }
        Some(Failure::Other(error)) => return Err(error),
        _ => {}
    }
    let found = with.profilers.iter().enumerate().map(|(at, words)| {
        let pairs: Vec<Pair> = rounds.iter().filter_map(|round| round.pair(at)).collect();
        let rules = Rules { min_effect: with.min_effect, seed: with.plan.seed };
        Found { profiler: line(words), judged: judge(&pairs, &metrics(), &rules) }
    });
    let found = found.collect();
    let results = Results { with, rounds, stop, seconds: began.elapsed().as_secs_f64(), found };
    let mut out = io::stdout().lock();
    match (raw.json, raw.csv) {
        (true, _) => write_json(&mut out, &results)?,
        (_, true) => write_csv(&mut out, &results)?,
        _ => write_text(&mut out, &results)?,
    }
    Ok(match failure {
        Some(Failure::Interrupted(signal)) => {
            Exit::Command(u8::try_from(128 + signal).unwrap_or(255))
        }
        _ => Exit::Success,
    })
}

fn refusal(with: &With, variant: usize, status: u8) -> Refusal {
    let what = variant.checked_sub(1).and_then(|at| with.profilers.get(at)).map_or_else(
        || "the bare command".to_owned(),
        |words| format!("the command under '{}'", line(words)),
    );
    let message = format!(
        "{what} ended with status {status}: run it by hand to see why, or use --ignore-failure"
    );
    Refusal { exit: Exit::Command(status), message }
}

fn line(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Time, CPU time, page faults, context switches: of the profiler, the command, and all that they
/// waited for.
fn metrics() -> [Metric; 4] {
    let event = |index, name: &str| Metric::Event {
        index,
        name: name.to_owned(),
        unit: String::new(),
        step: 1.0,
    };
    [Metric::Time, Metric::CpuTime, event(0, "page-faults"), event(1, "context-switches")]
}

fn commands(with: &With) -> anyhow::Result<Vec<Command>> {
    let path = std::env::var_os("PATH");
    let bare: &[OsString] = &[];
    let prefixes = std::iter::once(bare).chain(with.profilers.iter().map(Vec::as_slice));
    let null = || {
        File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map(OwnedFd::from)
            .context("/dev/null")
    };
    let command = |prefix: &[OsString]| -> anyhow::Result<Command> {
        let words = [prefix, &with.command].concat();
        Ok(Command::find(&words, path.as_deref())?.with_standard_files([
            Some(null()?),
            Some(null()?),
            Some(null()?),
        ]))
    };
    prefixes.map(command).collect()
}

fn one_run(
    command: &Command,
    variant: usize,
    with: &With,
    signals: &Signals,
) -> Result<Measurement, Failure> {
    let other = |error: anyhow::Error| Failure::Other(error);
    let child = WaitingChild::fork(command, signals, &FileLimit::now())
        .map_err(|error| other(error.into()))?;
    let child = child.start().context("cannot start the command").map_err(other)?;
    let (ended, interrupted) = interrupt::wait(child, signals).map_err(other)?;
    if let Some(signal) = interrupted {
        return Err(Failure::Interrupted(signal));
    }
    if ended.status != 0 && !with.ignore_failure {
        return Err(Failure::Status { variant, status: ended.status });
    }
    let counts =
        [ended.page_faults, ended.context_switches].map(|count| Some(count as f64)).to_vec();
    Ok(Measurement {
        elapsed: ended.elapsed,
        cpu: ended.user + ended.system,
        peak_memory: ended.peak_memory,
        counts,
    })
}

/// One metric of one profiler: what it adds to the bare command.
#[derive(Serialize)]
struct Added {
    metric: String,
    unit: String,
    rounds: usize,
    bare: f64,
    profiled: f64,
    added: f64,
    added_low: Option<f64>,
    added_high: Option<f64>,
    /// Added, as a share of the bare command's; absent where that has a zero.
    share: Option<f64>,
    share_low: Option<f64>,
    share_high: Option<f64>,
    p_holm: f64,
    verdict: &'static str,
}

impl Added {
    fn of(judged: &Judged) -> Self {
        let (effect, bare) = (&judged.effect, judged.median_a);
        let is_ratio = effect.scale == Scale::Ratio;
        let added = |x: f64| if is_ratio { (x - 1.0) * bare } else { x };
        let share = |x: f64| is_ratio.then_some(x - 1.0);
        Self {
            metric: judged.metric.name().to_owned(),
            unit: judged.metric.unit().to_owned(),
            rounds: judged.pairs,
            bare,
            profiled: judged.median_b,
            added: added(effect.estimate),
            added_low: effect.interval.map(|interval| added(interval.low)),
            added_high: effect.interval.map(|interval| added(interval.high)),
            share: share(effect.estimate),
            share_low: effect.interval.and_then(|interval| share(interval.low)),
            share_high: effect.interval.and_then(|interval| share(interval.high)),
            p_holm: judged.p_holm,
            verdict: judged.verdict.words(&judged.metric),
        }
    }
}

fn write_json(out: &mut dyn Write, results: &Results<'_>) -> io::Result<()> {
    let run = |run: &Measurement| json!({ "time": run.elapsed.as_secs_f64(), "cpu-time": run.cpu.as_secs_f64(), "page-faults": run.counts[0], "context-switches": run.counts[1] });
    let found = |found: &Found| json!({ "profiler": found.profiler, "metrics": found.judged.iter().map(Added::of).collect::<Vec<_>>() });
    let document = json!({
        "version": VERSION,
        "tool": "tare overhead --with",
        "command": line(&results.with.command),
        "stop": results.stop,
        "seconds": results.seconds,
        "seed": results.with.plan.seed,
        "min_effect": results.with.min_effect,
        "profilers": results.found.iter().map(found).collect::<Vec<_>>(),
        "rounds": results.rounds.iter().map(|round| json!({ "order": round.order, "runs": round.runs.iter().map(run).collect::<Vec<_>>() })).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

fn write_csv(out: &mut dyn Write, results: &Results<'_>) -> io::Result<()> {
    writeln!(
        out,
        "profiler,metric,unit,rounds,bare,profiled,added,added_low,added_high,share,share_low,share_high,p_holm,verdict"
    )?;
    let number = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
    for Found { profiler, judged } in &results.found {
        let profiler = printable(profiler).replace([',', '"'], " ");
        for added in judged.iter().map(Added::of) {
            let numbers =
                [added.added_low, added.added_high, added.share, added.share_low, added.share_high]
                    .map(number)
                    .join(",");
            let Added { metric, unit, rounds, bare, profiled, added, p_holm, verdict, .. } = added;
            writeln!(
                out,
                "{profiler},{metric},{unit},{rounds},{bare},{profiled},{added},{numbers},{p_holm},{verdict}"
            )?;
        }
    }
    Ok(())
}

fn write_text(out: &mut dyn Write, results: &Results<'_>) -> io::Result<()> {
    let shown = |text: &str| printable(text).into_owned();
    writeln!(out, "\n What profilers add to '{}'", shown(&line(&results.with.command)))?;
    writeln!(
        out,
        " {} rounds of {} runs in {:.1} s\n",
        results.rounds.len(),
        results.with.profilers.len() + 1,
        results.seconds
    )?;
    for Found { profiler, judged } in &results.found {
        writeln!(out, " {}", shown(profiler))?;
        writeln!(
            out,
            "   {:<17}{:>12}{:>12}{:>12}  {:<24}{:>9}  verdict",
            "", "bare", "profiled", "added", "95% interval", "share"
        )?;
        for judged in judged {
            let added = Added::of(judged);
            let amount = |x: f64| amount(x, &judged.metric);
            let interval = match (added.added_low, added.added_high) {
                (Some(low), Some(high)) => format!("[{}, {}]", amount(low), amount(high)),
                _ => "-".to_owned(),
            };
            let share = added
                .share
                .map_or_else(|| "-".to_owned(), |share| format!("{:+.2}%", share * 100.0));
            let (bare, profiled, more) =
                (amount(added.bare), amount(added.profiled), amount(added.added));
            writeln!(
                out,
                "   {:<17}{bare:>12}{profiled:>12}{more:>12}  {interval:<24}{share:>9}  {}",
                added.metric,
                verdict(judged)
            )?;
        }
        writeln!(out)?;
    }
    writeln!(
        out,
        " bare, profiled: medians. added: trimmed mean over the rounds, the profiler's own start and end included."
    )?;
    writeln!(
        out,
        " Differences below {}% or one count don't matter (--min-effect).\n",
        results.with.min_effect * 100.0
    )
}

/// What a profiler does to a metric, in a word or two.
fn verdict(judged: &Judged) -> &'static str {
    match judged.verdict {
        Verdict::More => "costs",
        Verdict::Less => "takes less than bare: look for what differs",
        Verdict::NoDifference => "no cost seen",
        Verdict::Undecided => "undecided: more runs, or a quieter machine",
    }
}

fn amount(value: f64, metric: &Metric) -> String {
    match (metric, value.abs()) {
        (Metric::Time | Metric::CpuTime, size) if size < 1.0 => format!("{:.2} ms", value * 1e3),
        (Metric::Time | Metric::CpuTime, _) => format!("{value:.3} s"),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn shares_become_amounts_of_the_bare_run() {
        let run = |seconds: f64, faults: f64| Measurement {
            elapsed: Duration::from_secs_f64(seconds),
            counts: vec![Some(faults), Some(0.0)],
            ..Measurement::default()
        };
        let pairs: Vec<Pair> = (0..12)
            .map(|_| Pair {
                first: tare_measure::compare::Side::A,
                a: run(2.0, 100.0),
                b: run(2.2, 150.0),
            })
            .collect();
        let judged = judge(&pairs, &metrics(), &Rules { min_effect: 0.01, seed: 1 });
        let added: Vec<Added> = judged.iter().map(Added::of).collect();
        assert!(
            (added[0].added - 0.2).abs() < 1e-9 && (added[0].share.unwrap() - 0.1).abs() < 1e-9
        );
        assert_eq!(added[2].added.round(), 50.0);
        assert_eq!((verdict(&judged[0]), verdict(&judged[3])), ("costs", "no cost seen"));
    }
}

//! Whether `tare record --max-overhead` keeps its budget as measured from outside, and whether its
//! profiles agree with those at the full rate.

mod interrupts;
mod recording;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tare_kernel::host::Host;

use self::interrupts::Part;
use self::recording::{BudgetRecording, StateFolder, Weight};
use super::{at_least, at_most};
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::in_random_order;
use crate::setting::Setting;

/// Default number of rounds: the fewest that yield an interval.
const ROUNDS: usize = 5;
/// The budgets, in percent of the CPUs' time.
const BUDGETS: [&str; 3] = ["0.5", "1", "2"];
/// The cost may exceed the budget by a quarter.
const OF_BUDGET: f64 = 1.25;
/// Sampling frequency without a budget, and the highest frequency with one.
const FULL_HZ: &str = "4000";
/// Samples needed to compare shares.
const SAMPLES: f64 = 5000.0;
/// Rows whose shares are both smaller aren't compared.
const ROW: f64 = 0.005;

/// A program to record.
struct BudgetProgram {
    name: &'static str,
    mode: &'static str,
    /// The command; the amount of work replaces `{}`.
    command: &'static str,
    /// Amounts of work: at the full rate, then by budget.
    amounts: [&'static str; 4],
    sort: &'static str,
}

const PROGRAMS: [BudgetProgram; 4] = [
    BudgetProgram {
        name: "busy",
        mode: "--follow=cgroup",
        command: "mix {} 100 2",
        amounts: ["1.5", "2.5", "1.5", "1.5"],
        sort: "sym",
    },
    BudgetProgram {
        name: "forks",
        mode: "--follow=cgroup",
        command: "commands.sh {}",
        amounts: ["500", "1400", "900", "700"],
        sort: "comm",
    },
    BudgetProgram {
        name: "idle",
        mode: "--follow=cgroup",
        command: "mix {} 10 2",
        amounts: ["3", "13", "6.5", "3.5"],
        sort: "sym",
    },
    BudgetProgram {
        name: "idle -a",
        mode: "-a",
        command: "mix {} 10 2",
        amounts: ["1", "2", "1.5", "1.5"],
        sort: "comm",
    },
];

impl BudgetProgram {
    /// Records the program. `way` is 0 for the full rate, otherwise 1 plus an index of [`BUDGETS`].
    fn record(&self, place: &StateFolder<'_>, way: usize) -> anyhow::Result<BudgetRecording> {
        let budget = way
            .checked_sub(1)
            .map_or_else(String::new, |at| format!("--max-overhead {}%", BUDGETS[at]));
        place.record(
            &format!("-F {FULL_HZ} {} {budget}", self.mode),
            &self.command.replace("{}", self.amounts[way]),
            self.sort,
        )
    }

    /// Records with a budget that no rate meets: tare keeps the lowest rate and the ledger says so.
    fn floor(&self, place: &StateFolder<'_>) -> anyhow::Result<BudgetRecording> {
        let options = format!("-F {FULL_HZ} {} --max-overhead 0.01% --min-rate 19", self.mode);
        place.record(&options, &self.command.replace("{}", self.amounts[3]), self.sort)
    }

    /// Whether the recording holds only samples of the command.
    fn is_followed(&self) -> bool {
        self.mode != "-a"
    }
}

/// All recordings of a program, by way.
type Variants = [Vec<BudgetRecording>; 4];

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let place = StateFolder::new(setting)?;
    let cpus = Host::default().online_cpus()?.as_slice().len();
    let without = place.count_without_recording()?;
    let all: Vec<(usize, usize)> =
        (0..PROGRAMS.len()).flat_map(|program| (0..4).map(move |way| (program, way))).collect();
    let mut recordings: [Variants; PROGRAMS.len()] = Default::default();
    let rounds = setting.rounds.unwrap_or(ROUNDS);
    for _ in 0..rounds {
        let (_, round) =
            in_random_order(&all, |&(program, way)| PROGRAMS[program].record(&place, way))?;
        for (&(program, way), recording) in all.iter().zip(round) {
            recordings[program][way].push(recording);
        }
    }
    top_up(&place, rounds, &mut recordings)?;
    let floors: Vec<BudgetRecording> =
        PROGRAMS.iter().map(|program| program.floor(&place)).collect::<Result<_, _>>()?;
    let mut table = vec![format!(
        "{} sampling interrupts per second before any recording: if above 0, other programs sample too",
        without.foreign
    )];
    let mut findings = Vec::new();
    for (program, ways) in PROGRAMS.iter().zip(&recordings) {
        for (budget, way) in BUDGETS.iter().zip(1..) {
            let name = format!("{}, {budget}%", program.name);
            let percent = budget.parse::<f64>()?;
            findings.extend(costs(program, &name, &ways[way], percent, cpus));
            findings.extend(shares(program, &name, &ways[way], &ways[0]));
            table.push(line(&name, &ways[way], cpus));
        }
        table.push(line(&format!("{}, full rate", program.name), &ways[0], cpus));
    }
    let sampled = |run: &BudgetRecording| {
        run.interrupts.number as f64 / run.ledger["samples"].as_f64().unwrap_or(f64::NAN)
    };
    let apart = recordings
        .iter()
        .flatten()
        .flatten()
        .map(|run| (sampled(run) - 1.0).abs())
        .fold(0.0, f64::max);
    findings.push(at_most("interrupts a sample, furthest from 1 of any run, by", apart, 0.02));
    let least = floors.iter().map(|floor| floor.floor).fold(f64::INFINITY, f64::min);
    findings.push(at_least("share of the time for which the ledger says that the floor won, where it must, least of the programs", least, 0.95));
    let programs = PROGRAMS.iter().zip(&recordings).zip(&floors).map(|((program, ways), floor)| {
        json!({ "program": program.name, "command": program.command, "full_rate": ways[0], "budgets": BUDGETS, "within": ways[1..], "floor": floor })
    });
    Ok(Report {
        table,
        findings,
        raw: json!({ "cpus": cpus, "without": without, "programs": programs.collect::<Vec<_>>() }),
    })
}

/// Records more of a followed program where the rate was too low for enough samples. Adds at most
/// twice as many runs as there were rounds.
fn top_up(
    place: &StateFolder<'_>,
    rounds: usize,
    recordings: &mut [Variants],
) -> anyhow::Result<()> {
    for (program, ways) in
        PROGRAMS.iter().zip(recordings).filter(|(program, _)| program.is_followed())
    {
        for (way, runs) in ways.iter_mut().enumerate() {
            while samples(&pooled(runs)) < SAMPLES && runs.len() < 3 * rounds {
                runs.push(program.record(place, way)?);
            }
        }
    }
    Ok(())
}

/// One figure per run, in percent.
fn percent(runs: &[BudgetRecording], of: impl Fn(&BudgetRecording) -> f64) -> Vec<f64> {
    runs.iter().map(|run| 100.0 * of(run)).collect()
}

/// The recording's cost as a share of the recorded CPUs' time, which is what a budget limits.
fn spent(run: &BudgetRecording, cpus: usize) -> f64 {
    (run.interrupts.ns + run.recorder_ns) as f64 / (run.elapsed_ns as f64 * cpus as f64)
}

/// The samples' cost as a share of the command's CPU time, which the budget limits too.
fn of_command(run: &BudgetRecording) -> f64 {
    run.interrupts.ns as f64 / run.command_ns as f64
}

fn costs(
    program: &BudgetProgram,
    name: &str,
    runs: &[BudgetRecording],
    budget: f64,
    cpus: usize,
) -> Vec<Finding> {
    let finding = |what: &str, figures: Vec<f64>| {
        let what = format!("{name}: {what}");
        Finding {
            what,
            measured: Estimate::from_figures(figures),
            bound: Bound::AtMost(OF_BUDGET * budget),
        }
    };
    let mut findings = vec![finding(
        "interrupts and recorder, percent of the recorded CPUs' time",
        percent(runs, |run| spent(run, cpus)),
    )];
    if program.is_followed() {
        findings.push(finding(
            "interrupts alone, percent of the command's CPU time",
            percent(runs, of_command),
        ));
    }
    findings
}

/// Compares shares where the recording holds only the command: the load of other processes differs
/// from run to run.
fn shares(
    program: &BudgetProgram,
    name: &str,
    runs: &[BudgetRecording],
    full: &[BudgetRecording],
) -> Vec<Finding> {
    if !program.is_followed() {
        return Vec::new();
    }
    vec![
        at_most(
            &format!("{name}: a share's difference to full rate beyond 2 standard errors, points"),
            furthest(runs, full),
            2.0,
        ),
        at_least(
            &format!("{name}: samples"),
            samples(&pooled(runs)).min(samples(&pooled(full))),
            SAMPLES,
        ),
    ]
}

fn line(name: &str, runs: &[BudgetRecording], cpus: usize) -> String {
    let mean = |figures: Vec<f64>| Estimate::from_figures(figures).value;
    let us = |of: fn(&BudgetRecording) -> Part| {
        let sum =
            |of_part: fn(Part) -> u64| runs.iter().map(|run| of_part(of(run))).sum::<u64>() as f64;
        sum(|part| part.ns) / 1e3 / sum(|part| part.number)
    };
    // Without a budget the ledger has neither figure.
    let kept = |of: fn(&Value) -> &Value| {
        runs.iter()
            .map(|run| of(&run.ledger["budget"]).as_f64())
            .collect::<Option<Vec<f64>>>()
            .map(mean)
    };
    let said =
        kept(|budget| &budget["spent"]["value"]).map(|said| format!(", said {:.3}%", 100.0 * said));
    let hz = kept(|budget| &budget["hz"]).map(|hz| format!("{hz:.0} Hz at the end, "));
    format!(
        "{name:<18} spent {:.3}%{}; recorder {:.3}%; {:.2} us an interrupt of user mode, {:.2} of the kernel; {}{:.0} samples; all {:.2}% of the command's time",
        mean(percent(runs, |run| spent(run, cpus))),
        said.unwrap_or_default(),
        mean(percent(runs, |run| run.recorder_ns as f64 / (run.elapsed_ns as f64 * cpus as f64))),
        us(|run| run.interrupts.of_user),
        us(|run| run.interrupts.of_kernel),
        hz.unwrap_or_default(),
        samples(&pooled(runs)),
        mean(percent(runs, |run| (run.interrupts.ns + run.recorder_ns) as f64
            / run.command_ns as f64)),
    )
}

fn pooled(runs: &[BudgetRecording]) -> BTreeMap<String, Weight> {
    let mut all: BTreeMap<String, Weight> = BTreeMap::new();
    for (name, weight) in runs.iter().flat_map(|run| &run.rows) {
        let row = all.entry(name.clone()).or_default();
        *row = Weight { samples: row.samples + weight.samples, ns: row.ns + weight.ns };
    }
    all
}

fn samples(rows: &BTreeMap<String, Weight>) -> f64 {
    rows.values().map(|row| row.samples).sum()
}

/// The share of a row and its variance: the larger of the binomial variance and that of the runs'
/// mean.
fn share(runs: &[BudgetRecording], name: &str) -> (f64, f64) {
    let of = |rows: &BTreeMap<String, Weight>| {
        rows.get(name).map_or(0.0, |row| row.ns) / rows.values().map(|row| row.ns).sum::<f64>()
    };
    let all = pooled(runs);
    let share = of(&all);
    let n = runs.len() as f64;
    let squares: f64 = runs.iter().map(|run| (of(&run.rows) - share).powi(2)).sum();
    let of_runs = if runs.len() > 1 { squares / (n * (n - 1.0)) } else { 0.0 };
    (share, of_runs.max(share * (1.0 - share) / samples(&all)))
}

/// The largest difference of a row's share beyond two standard errors, in percentage points.
fn furthest(runs: &[BudgetRecording], full: &[BudgetRecording]) -> f64 {
    let names: BTreeSet<&String> =
        runs.iter().chain(full).flat_map(|run| run.rows.keys()).collect();
    let beyond = names.into_iter().filter_map(|name| {
        let (one, one_variance) = share(runs, name);
        let (other, other_variance) = share(full, name);
        (one.max(other) >= ROW).then(|| {
            100.0 * ((one - other).abs() - 2.0 * (one_variance + other_variance).sqrt()).max(0.0)
        })
    });
    beyond.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run with these shares.
    fn run(shares: [f64; 3], samples: f64) -> BudgetRecording {
        let weight = |share: f64| Weight { samples: share * samples, ns: share * 1e9 };
        let rows = ["a", "b", "c"]
            .into_iter()
            .zip(shares)
            .map(|(name, share)| (name.to_owned(), weight(share)))
            .collect();
        BudgetRecording { rows, ..BudgetRecording::default() }
    }

    #[test]
    fn a_difference_is_what_chance_does_not_explain() {
        let full = [run([0.5, 0.3, 0.2], 10_000.0)];
        assert!(furthest(&[run([0.505, 0.295, 0.2], 10_000.0)], &full) < 1e-9);
        // Of 5 points, 2 √(0.3 x 0.7 / 10,000 + 0.25 x 0.75 / 10,000) are chance.
        assert!((furthest(&[run([0.55, 0.25, 0.2], 10_000.0)], &full) - 3.738).abs() < 0.01);
        assert!(furthest(&[run([0.7, 0.3, 0.0], 1e12)], &full) > 19.0, "a row that is missing");
        // Two runs at 0.5 and 0.6: the standard error of their mean is 0.05.
        let apart = [run([0.5, 0.3, 0.2], 1e9), run([0.6, 0.2, 0.2], 1e9)];
        assert!(furthest(&apart, &[run([0.5, 0.3, 0.2], 1e9)]) < 1e-9);
    }
}

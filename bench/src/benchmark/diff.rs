//! Comparisons of recordings whose answer is known: of a program with itself, and with one whose
//! first function takes 5% longer.

use std::process::{Command, Stdio};

use anyhow::Context;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::report::{Bound, Estimate, Finding, Report};
use crate::run::run as run_command;
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;

/// Default number of recordings of each variant.
const RECORDINGS: usize = 40;

/// Recordings per side of a comparison.
const A_SIDE: usize = 10;

/// Rounds of the workload `steps` in each recording.
const ROUNDS: &str = "180";

/// By how much the first function's loop is longer, in percent.
const LONGER_PERCENT: f64 = 5.0;

/// Numbers of comparisons of the program with itself, and with the slower program.
const EQUAL: usize = 200;
const PLANTED: usize = 100;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    record_all(&scratch, setting.rounds.unwrap_or(RECORDINGS))?;
    let pool = setting.rounds.unwrap_or(RECORDINGS);
    anyhow::ensure!(pool >= 2 * A_SIDE, "--pairs: at least {} recordings", 2 * A_SIDE);
    let mut rng = Rng::with_seed(1);
    let mut draw = |count: usize| {
        let mut all: Vec<usize> = (0..pool).collect();
        rng.shuffle(&mut all);
        all.truncate(count);
        all
    };
    let equal: Vec<[Vec<String>; 2]> = (0..EQUAL)
        .map(|_| {
            let mut a = draw(2 * A_SIDE);
            let b = a.split_off(A_SIDE);
            [named("equal", &a), named("equal", &b)]
        })
        .collect();
    let planted: Vec<[Vec<String>; 2]> = (0..PLANTED)
        .map(|_| [named("equal", &draw(A_SIDE)), named("longer", &draw(A_SIDE))])
        .collect();
    let equal = compare_all(&scratch, &equal)?;
    let planted = compare_all(&scratch, &planted)?;
    report(&equal, &planted)
}

fn named(variant: &str, numbers: &[usize]) -> Vec<String> {
    numbers.iter().map(|number| format!("{variant}-{number}.data")).collect()
}

/// Records both variants by turns, in random order within each turn.
fn record_all(scratch: &Scratch<'_>, count: usize) -> anyhow::Result<()> {
    let steps = scratch.setting.workload("steps");
    for number in 0..count {
        let longer = LONGER_PERCENT.to_string();
        let mut variants = [("equal", "0"), ("longer", &longer)];
        fastrand::shuffle(&mut variants);
        for (variant, percent) in variants {
            let into = scratch.path(&format!("{variant}-{number}.data"));
            let mut words = scratch.recorder(Tool::Tare, &into);
            let options = ["-q", "-g", "-F", "9999", "-e", "cpu-clock", "--"];
            words.extend(options.map(str::to_owned));
            words.extend([steps.clone(), ROUNDS.to_owned(), percent.to_owned()]);
            let _ = run_command(&words)?;
        }
    }
    Ok(())
}

/// Runs the comparisons on all CPUs, since nothing here is timed, and returns what [`kept`] keeps
/// of their documents.
fn compare_all(
    scratch: &Scratch<'_>,
    comparisons: &[[Vec<String>; 2]],
) -> anyhow::Result<Vec<Value>> {
    let tare = std::fs::canonicalize(&scratch.setting.tare).context("the binary to measure")?;
    let one = |seed: usize, sides: &[Vec<String>; 2]| {
        let mut command = Command::new(&tare);
        command.args(["diff", "--json", "--percent-limit", "0", "--seed", &seed.to_string()]);
        command.args(&sides[0]).arg("--").args(&sides[1]).current_dir(scratch.folder());
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        anyhow::ensure!(output.status.success(), "tare diff: {}", output.status);
        let document: Value = serde_json::from_slice(&output.stdout)?;
        Ok(kept(sides, &document["events"][0]))
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let indexed: Vec<_> = comparisons.iter().enumerate().collect();
    let one = &one;
    let done = std::thread::scope(|scope| {
        let chunks = indexed.chunks(indexed.len().div_ceil(threads).max(1));
        let workers: Vec<_> = chunks
            .map(|chunk| {
                let all = move || chunk.iter().map(|(seed, sides)| one(*seed, sides));
                scope.spawn(move || all().collect::<Vec<anyhow::Result<Value>>>())
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    anyhow::ensure!(done.len() == comparisons.len(), "a comparison panicked");
    done.into_iter().collect()
}

/// The files of a comparison, its total, the rows that changed, and the row of the function
/// `parse`.
fn kept(sides: &[Vec<String>; 2], event: &Value) -> Value {
    let is_change = |row: &&Value| {
        !matches!(row["change"].as_str(), Some("none_shown" | "too_few" | "not_judged"))
    };
    let rows = event["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    json!({
        "sides": sides,
        "all": event["all"],
        "changes": rows.iter().filter(is_change).collect::<Vec<_>>(),
        "parse": rows.iter().find(|row| row["symbol"] == "parse"),
    })
}

/// Whether the comparison reports any change.
fn has_change(comparison: &Value) -> bool {
    let changes = comparison["changes"].as_array();
    comparison["all"]["is_shown"] == true || changes.is_none_or(|changes| !changes.is_empty())
}

fn parse(comparison: &Value) -> &Value {
    &comparison["parse"]
}

fn is_named(comparison: &Value) -> bool {
    matches!(parse(comparison)["change"].as_str(), Some("more" | "larger_share"))
}

/// Whether the interval of an estimate for the function `parse` contains `truth`.
fn holds(comparison: &Value, figure: &str, estimate: &str, truth: f64) -> bool {
    let interval = &parse(comparison)[figure][estimate];
    let end = |name: &str| interval[name].as_f64();
    end("low").zip(end("high")).is_some_and(|(low, high)| (low..=high).contains(&truth))
}

/// The mean of a value of the function `parse` over the comparisons that have it.
fn mean_of(comparisons: &[Value], figure: &str, value: &str) -> f64 {
    let all: Vec<f64> =
        comparisons.iter().filter_map(|one| parse(one)[figure][value].as_f64()).collect();
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

fn report(equal: &[Value], planted: &[Value]) -> anyhow::Result<Report> {
    let alarms = equal.iter().filter(|comparison| has_change(comparison)).count();
    let found = planted.iter().filter(|comparison| is_named(comparison)).count();
    let longer = 1.0 + LONGER_PERCENT / 100.0;
    // The slower program takes `1 - share + share * longer` times as long. `moved` is how much the
    // function's share grows.
    let share = mean_of(planted, "share", "a");
    let moved = share * longer / (1.0 - share + share * longer) - share;
    let count = |held: &dyn Fn(&Value) -> bool| planted.iter().filter(|c| held(c)).count();
    let weight = count(&|comparison| holds(comparison, "weight", "ratio", longer));
    let of_share = count(&|comparison| holds(comparison, "share", "difference", moved));
    let finding = |what: String, number: usize, bound| Finding {
        what,
        measured: Estimate::exact(number as f64),
        bound,
    };
    let n = equal.len();
    let m = planted.len();
    let detectable = |figure: &str| mean_of(planted, figure, "detectable");
    let table = vec![
        format!(
            "parse: {:.2}% of the time, {LONGER_PERCENT}% longer: {:+.2} points",
            100.0 * share,
            100.0 * moved
        ),
        format!(
            "smallest change of its share that is found: {:.2} points",
            100.0 * detectable("share")
        ),
        format!(
            "smallest change of its weight that is found: {:.1} ms a run",
            detectable("weight") / 1e6
        ),
    ];
    let findings = vec![
        finding(
            format!("of {n} comparisons with itself, those that show a change"),
            alarms,
            Bound::AtMost(5.0 * n as f64 / 200.0),
        ),
        finding(
            format!("of {m} comparisons, those that name parse"),
            found,
            Bound::AtLeast(0.85 * m as f64),
        ),
        finding(
            format!("of {m}, those whose interval of B / A holds {longer}"),
            weight,
            Bound::AtLeast(0.9 * m as f64),
        ),
        finding(
            format!("of {m}, those whose interval of the share's change holds it"),
            of_share,
            Bound::AtLeast(0.9 * m as f64),
        ),
    ];
    Ok(Report { table, findings, raw: json!({ "equal": equal, "planted": planted }) })
}

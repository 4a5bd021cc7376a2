//! Checks of `tare overhead` with cpu-clock, each with its own studies: no cost at 0 Hz, a planted
//! cost, costs that contain each other, a prediction. Also a comparison of tare's recorder with
//! perf's.

pub(crate) mod budget;
pub(crate) mod calibrate;

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};
use tare_measure::overhead::load::LoadKind;
use tare_measure::overhead::rates::{CostFigure, RateRow, fit_figures};

use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, rounds};
use crate::run::run_for_output;
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;

/// Number of studies by default.
const STUDIES: usize = 10;

/// The share of a CPU that the fake profiler burns, in percent.
const PLANTED_PERCENT: f64 = 2.0;

/// Runs a study and returns its entry in the document.
fn study(setting: &Setting, args: &[&str]) -> anyhow::Result<Value> {
    let mut command = Command::new(&setting.tare);
    command
        .args(["overhead", "--json", "--no-save", "-e", "cpu-clock"])
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = command.output().context("cannot run tare overhead")?;
    anyhow::ensure!(output.status.success(), "tare overhead {args:?}: {}", output.status);
    let document: Value = serde_json::from_slice(&output.stdout)?;
    Ok(document["studies"][0].clone())
}

fn studies(setting: &Setting, args: &[&str]) -> anyhow::Result<Vec<Value>> {
    (0..setting.rounds.unwrap_or(STUDIES)).map(|_| study(setting, args)).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn rows(study: &Value) -> &[Value] {
    study["rows"].as_array().map_or(&[], Vec::as_slice)
}

fn at_least(what: &str, measured: f64, bound: f64) -> Finding {
    Finding { what: what.into(), measured: Estimate::exact(measured), bound: Bound::AtLeast(bound) }
}

fn at_most(what: &str, measured: f64, bound: f64) -> Finding {
    Finding { what: what.into(), measured: Estimate::exact(measured), bound: Bound::AtMost(bound) }
}

/// The share of figures for which something holds.
fn share(holds: impl Iterator<Item = bool>) -> f64 {
    let all: Vec<bool> = holds.collect();
    all.iter().filter(|holds| **holds).count() as f64 / all.len() as f64
}

fn highest(figures: impl Iterator<Item = f64>) -> f64 {
    figures.fold(f64::NAN, f64::max)
}

/// At 0 Hz no loop loses time: 80% of each loop's intervals must contain 0.
pub(crate) fn zero(setting: &Setting) -> anyhow::Result<Report> {
    let studies = studies(setting, &["--rates", "0"])?;
    let mut findings = Vec::new();
    let mut table = Vec::new();
    for load in LoadKind::ALL.map(LoadKind::name) {
        let losses = studies.iter().filter_map(|study| {
            rows(study)[0]["losses"].as_array()?.iter().find(|loss| loss["load"] == load)
        });
        let lost: Vec<&Value> = losses.map(|loss| &loss["lost"]).collect();
        let holds_zero = share(
            lost.iter().map(|lost| number(&lost["low"]) <= 0.0 && number(&lost["high"]) >= 0.0),
        );
        findings.push(at_least(
            &format!("share of studies whose interval of the {load} loop holds 0"),
            holds_zero,
            0.8,
        ));
        if load == LoadKind::Counting.name() {
            let half_widths =
                lost.iter().map(|lost| (number(&lost["high"]) - number(&lost["low"])) / 2.0);
            findings.push(at_most(
                "half width of the counting loop's interval, the most of any, points",
                100.0 * highest(half_widths),
                0.5,
            ));
        }
        table.extend(lost.iter().map(|lost| format!("{load}: {lost}")));
    }
    Ok(Report { table, findings, raw: json!(studies) })
}

/// A fake profiler burns CPU time: the median of the studies must be within 25% of it.
pub(crate) fn planted(setting: &Setting) -> anyhow::Result<Report> {
    let burner = setting.workload("burner");
    let profiler = format!(
        "sh -c 'x={{control}}; x=${{x#fd:}}; exec {burner} {{cpu}} {PLANTED_PERCENT} ${{x%,*}} ${{x#*,}}'"
    );
    let studies =
        studies(setting, &["--profiler", &profiler, "--rates", "500", "--loops", "counting"])?;
    let found: Vec<f64> = studies
        .iter()
        .map(|study| 100.0 * number(&rows(study)[0]["losses"][1]["beyond_events"]["value"]))
        .collect();
    let median = Estimate::median(found.clone()).value;
    let findings = vec![
        at_least("loss found where 2% are burnt, median, percent", median, 0.75 * PLANTED_PERCENT),
        at_most("loss found where 2% are burnt, median, percent", median, 1.25 * PLANTED_PERCENT),
    ];
    Ok(Report {
        table: found.iter().map(|percent| format!("{percent:.2}%")).collect(),
        findings,
        raw: json!(found),
    })
}

/// Handler time is at most interrupt time, and that at most stolen time, unless their intervals
/// overlap. 80% of the studies must be within 25% of their median.
pub(crate) fn nested(setting: &Setting) -> anyhow::Result<Report> {
    let studies = studies(setting, &["--rates", "2000,4000,10000", "--loops", "counting"])?;
    let costs = |row: usize| studies.iter().map(move |study| &rows(study)[row]["cost"]);
    let within = |inner: &Value, outer: &Value| number(&inner["low"]) <= number(&outer["high"]);
    let nests = |cost: &Value| {
        within(&cost["handler_us"], &cost["interrupt_us"])
            && within(&cost["interrupt_us"], &cost["stolen_us"])
    };
    let mut findings = vec![at_least(
        "share of rows in which handler <= interrupt <= stolen",
        share((0..3).flat_map(costs).map(nests)),
        1.0,
    )];
    let mut table = Vec::new();
    for (row, hz) in [2000, 4000, 10_000].into_iter().enumerate() {
        for figure in ["handler_us", "interrupt_us", "stolen_us"] {
            let us: Vec<f64> = costs(row).map(|cost| number(&cost[figure]["value"])).collect();
            let median = Estimate::median(us.clone()).value;
            let near = share(us.iter().map(|us| (us - median).abs() <= 0.25 * median));
            table.push(format!("{hz} Hz, {figure}: {us:.2?}"));
            findings.push(at_least(
                &format!("{hz} Hz, {figure}: share of studies within 25% of their median"),
                near,
                0.8,
            ));
        }
    }
    Ok(Report { table, findings, raw: json!(studies) })
}

/// The difference between handler and stolen time: most of it is the timer interrupt, as an
/// interrupt without a sample shows.
pub(crate) fn between(setting: &Setting) -> anyhow::Result<Report> {
    const NAMES: [&str; 6] = ["handler", "interrupt", "stolen", "timer", "exit", "call"];
    let mut rounds: Vec<[f64; 6]> = Vec::new();
    for _ in 0..setting.rounds.unwrap_or(STUDIES) {
        let study = study(setting, &["--rates", "4000", "--loops", "counting", "--pairs", "50"])?;
        let cost = &rows(&study)[0]["cost"];
        let bare = run_for_output(&[setting.workload("timer"), study["cpu"].to_string()])?.stdout;
        let ns = |name: &str| {
            bare.lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok())
                .unwrap_or(f64::NAN)
        };
        let sampled = |name: &str| number(&cost[name]["value"]);
        rounds.push([
            sampled("handler_us"),
            sampled("interrupt_us"),
            sampled("stolen_us"),
            1e-3 * ns("timer"),
            1e-3 * ns("exit"),
            1e-3 * ns("call"),
        ]);
    }
    let medians = std::array::from_fn::<_, 6, _>(|at| {
        Estimate::median(rounds.iter().map(|round| round[at]).collect())
    });
    let table = NAMES.iter().zip(&medians).map(|(name, us)| format!("{name}: {us} us")).collect();
    let unexplained = rounds
        .iter()
        .map(|[handler, _, stolen, timer, ..]| (stolen - timer - handler).abs() / stolen)
        .collect();
    let findings = vec![Finding {
        what: "stolen by a sample, less a timer's interrupt without one, less the handler: share of stolen".into(),
        measured: Estimate::median(unexplained),
        bound: Bound::EstimateAtMost(0.25),
    }];
    Ok(Report { table, findings, raw: json!({ "figures": NAMES, "rounds_us": rounds }) })
}

/// Predicts the handler's cost at 10,000 Hz by a line through lower rates. The measured cost comes
/// from the same study, because the machine's speed drifts between studies.
pub(crate) fn predict(setting: &Setting) -> anyhow::Result<Report> {
    const LEFT_OUT: u64 = 10_000;
    let mut ratios = Vec::new();
    for _ in 0..setting.rounds.unwrap_or(STUDIES) {
        let study = study(
            setting,
            &["--rates", "0,100,500,2000,4000,10000", "--loops", "counting", "--pairs", "100"],
        )?;
        let (left_out, fitted): (Vec<RateRow>, Vec<RateRow>) =
            Vec::<RateRow>::deserialize(&study["rows"])?
                .into_iter()
                .partition(|row| row.asked_hz == LEFT_OUT);
        let fits = fit_figures(&fitted);
        let line = fits
            .iter()
            .find(|fitted| fitted.figure == CostFigure::Handler)
            .context("no handler's cost: this needs root")?;
        let row = left_out.first().context("no row of the rate that is left out")?;
        let measured = row.share(CostFigure::Handler).context("no handler's cost")?;
        ratios.push(line.fit.predict(row.delivered_hz).value / measured.value);
    }
    let good = share(ratios.iter().map(|ratio| (0.8..=1.2).contains(ratio)));
    let findings = vec![at_least("share of predictions for 10,000 Hz within 20%", good, 0.8)];
    Ok(Report {
        table: ratios.iter().map(|ratio| format!("predicted / measured: {ratio:.3}")).collect(),
        findings,
        raw: json!(ratios),
    })
}

/// Runs one study with the default rates and loops, and measures its duration.
pub(crate) fn table(setting: &Setting) -> anyhow::Result<Report> {
    let start = Instant::now();
    let study = study(setting, &[])?;
    let seconds = start.elapsed().as_secs_f64();
    let findings = vec![at_most("one study of all rates and loops, seconds", seconds, 180.0)];
    Ok(Report {
        table: vec![format!("{} rates in {seconds:.1} s", rows(&study).len())],
        findings,
        raw: study,
    })
}

/// Default number of recordings by each recorder, in addition to the study.
const RECORDINGS: usize = 10;

/// Compares tare's recorder with perf's: the time that a loop loses, and the recorder's own CPU
/// time for recordings of a busy process.
pub(crate) fn peer(setting: &Setting) -> anyhow::Result<Report> {
    let profilers = ["--profiler", "perf", "--profiler", "tare"];
    let steps = ["--rates", "4000", "--call-graph", "fp", "--loops", "counting"];
    let study = study(setting, &[&profilers[..], &steps].concat())?;
    let row = &rows(&study)[0];
    let lost = |name: &str| {
        let rounds = &of_profiler(row, "losses", name)["rounds"];
        rounds.as_array().into_iter().flatten().map(number).collect::<Vec<f64>>()
    };
    let differences: Vec<f64> =
        lost("tare").iter().zip(lost("perf")).map(|(tare, perf)| 100.0 * (tare - perf)).collect();
    anyhow::ensure!(!differences.is_empty(), "a profiler did not run");

    let recordings = recordings(setting)?;
    let ratios =
        recordings.iter().map(|round| round.usage[0].cpu_ns as f64 / round.usage[1].cpu_ns as f64);
    let ms = |at: usize| {
        1e-6 * Estimate::median(
            recordings.iter().map(|round| round.usage[at].cpu_ns as f64).collect(),
        )
        .value
    };
    let steady = |name: &str| 100.0 * number(&of_profiler(row, "recorders", name)["cpu_share"]);
    let table = vec![
        format!(
            "CPU time of a recorder for 2 s at 4000 Hz with its start and end, median: tare {:.1} ms, perf {:.1} ms",
            ms(0),
            ms(1)
        ),
        format!(
            "CPU time while recording to /dev/null: tare {:.3}% of a CPU, perf {:.3}%",
            steady("tare"),
            steady("perf")
        ),
    ];
    let findings = vec![
        Finding {
            what: "loss with tare less that with perf, points".into(),
            measured: Estimate::from_figures(differences),
            bound: Bound::AtMost(0.3),
        },
        Finding {
            what: "CPU time of the recorder, whole recordings, tare/perf".into(),
            measured: Estimate::of_ratios(ratios),
            bound: Bound::AtMost(0.25),
        },
    ];
    Ok(Report { table, findings, raw: json!({ "study": study, "recordings": recordings }) })
}

/// The entry for a profiler in one of the lists of a study's row.
fn of_profiler(row: &Value, list: &str, name: &str) -> Value {
    let list = row[list].as_array();
    list.and_then(|list| list.iter().find(|one| one["profiler"] == name).cloned())
        .unwrap_or_default()
}

/// Records one busy process by each recorder. That process isn't the recorder's child, so its CPU
/// time doesn't count.
fn recordings(setting: &Setting) -> anyhow::Result<Vec<Round>> {
    let scratch = Scratch::new(setting)?;
    let spin = Spinning(
        Command::new(setting.workload("spin"))
            .arg(u64::MAX.to_string())
            .spawn()
            .context("cannot run spin")?,
    );
    let pid = spin.0.id().to_string();
    let variants = [("tare", Tool::Tare), ("perf", Tool::Perf)].map(|(name, tool)| {
        let options = ["-q", "-F", "4000", "-e", "cpu-clock", "-g", "-p", &pid, "--", "sleep", "2"]
            .map(str::to_owned);
        Variant::new(name, [scratch.recorder(tool, &scratch.path(name)), options.to_vec()].concat())
    });
    rounds(&variants, setting.rounds.unwrap_or(RECORDINGS))
}

/// A busy process that is killed on drop.
struct Spinning(Child);

impl Drop for Spinning {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

//! The cost of a sample that a recording measures at its end, compared with a study.

use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::{Value, json};

use super::{STUDIES, at_least, at_most, number, share, study};
use crate::report::{Estimate, Report};
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

/// The rates of the study. The highest default rate is left out because the kernel throttles it.
const RATES: &str = "0,100,500,2000,4000";
/// The largest accepted difference between calibration and study, as a share of the study's figure.
const WITHIN: f64 = 0.25;

/// A study and a calibration.
struct CalibrationPair {
    call_graph: &'static str,
    study_us: f64,
    calibrated_us: f64,
    /// CPU time of the calibration.
    cpu_ms: f64,
    /// Additional elapsed time of a recording with a calibration.
    longer_ms: f64,
}

/// Runs pairs, ten by default, alternating with and without call chains. Each records twice:
/// without a stored calibration, then with that of the first recording.
pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let rounds = setting.rounds.unwrap_or(STUDIES);
    let of_round =
        |round: usize| pair(setting, if round.is_multiple_of(2) { "fp" } else { "none" });
    let pairs = (0..rounds).map(of_round).collect::<anyhow::Result<Vec<CalibrationPair>>>()?;
    let ratio = |pair: &CalibrationPair| pair.calibrated_us / pair.study_us;
    let near = share(pairs.iter().map(|pair| (ratio(pair) - 1.0).abs() <= WITHIN));
    let longest = pairs.iter().map(|pair| pair.longer_ms).fold(0.0, f64::max);
    let findings = vec![
        at_least("share of calibrations within 25% of a study's stolen time", near, 0.9),
        at_most(
            "a recording's end with a measurement, longer than without, ms, median",
            median(&pairs),
            300.0,
        ),
    ];
    let line = |pair: &CalibrationPair| {
        format!(
            "call graph {:<4}  study {:.2} us, calibration {:.2} us ({:.2}), {:.0} ms of CPU, {:.0} ms longer",
            pair.call_graph,
            pair.study_us,
            pair.calibrated_us,
            ratio(pair),
            pair.cpu_ms,
            pair.longer_ms
        )
    };
    let table = pairs.iter().map(line).chain([format!("the longest: {longest:.0} ms")]).collect();
    let raw = |pair: &CalibrationPair| {
        json!({ "call_graph": pair.call_graph, "study_us": pair.study_us, "calibrated_us": pair.calibrated_us,
            "cpu_ms": pair.cpu_ms, "longer_ms": pair.longer_ms })
    };
    Ok(Report { table, findings, raw: json!(pairs.iter().map(raw).collect::<Vec<Value>>()) })
}

fn median(pairs: &[CalibrationPair]) -> f64 {
    Estimate::median(pairs.iter().map(|pair| pair.longer_ms).collect()).value
}

fn pair(setting: &Setting, call_graph: &'static str) -> anyhow::Result<CalibrationPair> {
    let options =
        ["--rates", RATES, "--loops", "counting", "--pairs", "50", "--call-graph", call_graph];
    let study = study(setting, &options)?;
    let fits = study["fits"].as_array().context("a study has fits")?;
    let stolen = fits.iter().find(|fitted| fitted["figure"] == "stolen");
    let study_us =
        number(&stolen.context("no line of the stolen time")?["fit"]["slope_us"]["value"]);
    let scratch = Scratch::new(setting)?;
    let (first, ledger) = recorded(&scratch, call_graph)?;
    let (second, _) = recorded(&scratch, call_graph)?;
    let cost = &ledger["events"][0]["sample_cost"];
    anyhow::ensure!(cost["origin"] == "calibration", "the recording measured nothing: {cost}");
    Ok(CalibrationPair {
        call_graph,
        study_us,
        calibrated_us: number(&cost["us"]["value"]),
        cpu_ms: number(&ledger["cost"]["calibration_cpu_ns"]) / 1e6,
        longer_ms: (first - second) / 1e6,
    })
}

/// Records a short command; returns its elapsed time in nanoseconds and its ledger.
fn recorded(scratch: &Scratch<'_>, call_graph: &str) -> anyhow::Result<(f64, Value)> {
    let state = scratch.folder().canonicalize()?;
    let file = scratch.path("perf.data");
    let tare = scratch.setting.tare();
    let chains = if call_graph == "none" { "--no-call-graph" } else { "-g" };
    let into = file.display().to_string();
    let state = format!("XDG_STATE_HOME={}", state.display());
    let options = ["-e", "cpu-clock", chains, "-o", &into, "--"];
    // The loop runs long enough for some samples.
    let command = ["sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"];
    let record = [&["env", &state, &tare, "record"][..], &options, &command].concat();
    let took = succeed(&record.into_iter().map(str::to_owned).collect::<Vec<_>>())?
        .ended
        .elapsed
        .as_nanos() as f64;
    let report = Command::new(&scratch.setting.tare)
        .args(["report", "--json", "-i", &into])
        .stdin(Stdio::null())
        .output()
        .context("cannot run tare report")?;
    let document: Value = serde_json::from_slice(&report.stdout)?;
    Ok((took, document["ledger"].clone()))
}

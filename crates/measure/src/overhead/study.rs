//! The result of a study, with its JSON, CSV and stored formats.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use tare_format::ledger::Estimate;
use tare_format::printable;
use tare_kernel::host::Host;

use super::calibration::{Calibration, Conditions};
use super::fit::{BUDGETS, Budget};
use super::published::{PublishedRate, XEON_E5530};
use super::rates::{CostFigure, EVENTS, FittedFigure, RateRow};

/// Version of the format. It rises if a field changes its meaning or is removed, not if one is
/// added.
pub const VERSION: u32 = 1;

/// The machine of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyHost {
    /// Its name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// The model of its CPUs, or the architecture if the kernel doesn't show the model.
    pub cpu_model: String,
    /// Number of online CPUs.
    pub cpus: usize,
    /// The hypervisor; `None` if none was detected.
    pub virtual_machine: Option<String>,
}

impl StudyHost {
    /// Describes this machine.
    #[must_use]
    pub fn detect(host: &Host) -> Self {
        Self {
            host: host.read("/proc/sys/kernel/hostname").unwrap_or_default(),
            kernel: host.read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            cpu_model: cpu_model(host),
            cpus: host.online_cpus().map_or(0, |cpus| cpus.as_slice().len()),
            virtual_machine: host.hypervisor().map(|hypervisor| format!("{hypervisor:?}")),
        }
    }
}

/// Returns the model of the CPUs, or the architecture if the kernel doesn't show the model.
#[must_use]
pub(super) fn cpu_model(host: &Host) -> String {
    let text = host.first_cpu();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or(std::env::consts::ARCH, |(_, name)| name).to_owned()
}

/// A study of an event with a call graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// See [`VERSION`].
    pub version: u32,
    /// The machine.
    pub machine: StudyHost,
    /// The conditions for which the figures are valid.
    #[serde(rename = "place")]
    pub conditions: Conditions,
    /// Time of the study, in seconds since 1970.
    pub time: u64,
    /// Duration of the study.
    pub seconds: f64,
    /// The CPU of the study.
    pub cpu: u32,
    /// Length of a slice in milliseconds.
    pub slice_ms: f64,
    /// Pairs of slices for each rate and loop.
    pub pairs: usize,
    /// Seed of the order of slices.
    pub seed: u64,
    /// Whether slices ran with real-time priority.
    pub uninterrupted: bool,
    /// `perf_event_max_sample_rate` at the start.
    pub max_sample_rate: Option<i64>,
    /// The costs by rate, ascending.
    pub rows: Vec<RateRow>,
    /// The lines through the rates.
    pub fits: Vec<FittedFigure>,
    /// Remarks on conditions that affected the study.
    pub notes: Vec<String>,
}

/// The stored form of a study or calibration.
#[derive(Debug, Serialize, Deserialize)]
pub struct StudyRecord {
    /// The calibration, for predictions; `None` if nothing could be fitted.
    pub calibration: Option<Calibration>,
    /// The study without its rounds; `None` if a recording made the calibration.
    pub study: Option<Study>,
}

impl Study {
    /// Finds the line of a figure; `None` if it couldn't be fitted.
    #[must_use]
    pub fn fit(&self, figure: CostFigure) -> Option<&FittedFigure> {
        self.fits.iter().find(|fitted| fitted.figure == figure)
    }

    /// Lists the profilers, without the event alone.
    #[must_use]
    pub fn profilers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for loss in
            self.rows.iter().flat_map(|row| &row.losses).filter(|loss| loss.profiler != EVENTS)
        {
            if !names.contains(&loss.profiler.as_str()) {
                names.push(&loss.profiler);
            }
        }
        names
    }

    /// Finds the highest rate in Hz, up to [`Study::max_sample_rate`], that costs a program at most
    /// this share of its CPU time: by the upper bound of the stolen time, the most precise figure,
    /// and lower if a loop significantly loses more. Without a line of the stolen time, by the
    /// upper bounds of the loops. `None` if there are no lines, or no rate from 1 Hz on is low
    /// enough.
    #[must_use]
    pub fn recommended_hz(&self, share: f64) -> Option<f64> {
        let by_upper = |fitted: &FittedFigure| {
            fitted.fit.find_budget(share).map_or(0.0, |budget| budget.safe_hz)
        };
        let loops = || {
            self.fits.iter().filter(|fitted| {
                matches!(
                    fitted.figure,
                    CostFigure::Counting | CostFigure::Memory | CostFigure::Branchy
                )
            })
        };
        let mut hz = match self.fit(CostFigure::Stolen) {
            Some(stolen) => by_upper(stolen),
            None => loops().map(by_upper).reduce(f64::min)?,
        };
        for fitted in loops() {
            if fitted.fit.predict(hz).low > share {
                hz = fitted.fit.find_budget(share).map_or(0.0, |budget| budget.hz.min(hz));
            }
        }
        let limit = self.max_sample_rate.map_or(f64::INFINITY, |limit| limit as f64);
        (hz >= 1.0).then(|| hz.min(limit))
    }

    /// Copies the study without the rounds of each loss.
    fn without_rounds(&self) -> Self {
        let mut short = self.clone();
        for loss in short.rows.iter_mut().flat_map(|row| &mut row.losses) {
            loss.rounds = Vec::new();
        }
        short
    }

    /// Converts the study to its stored form.
    #[must_use]
    pub fn to_record(&self) -> StudyRecord {
        let frames = self.rows.iter().rev().find_map(|row| row.frames);
        let calibration =
            Calibration::from_fits(self.conditions.clone(), self.time, &self.fits, frames);
        StudyRecord { calibration, study: Some(self.without_rounds()) }
    }
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    tool: &'static str,
    studies: Vec<Described<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<&'static [PublishedRate]>,
}

/// A study with the figures derived from it.
#[derive(Serialize)]
struct Described<'a> {
    #[serde(flatten)]
    study: &'a Study,
    /// Requested rates of the rows that were not fitted.
    throttled_hz: Vec<u64>,
    budgets: Vec<FigureBudgets>,
    recommended: Vec<Recommended>,
}

#[derive(Serialize)]
struct FigureBudgets {
    figure: CostFigure,
    budgets: Vec<Budget>,
}

#[derive(Serialize)]
struct Recommended {
    share: f64,
    hz: Option<f64>,
}

impl<'a> Described<'a> {
    fn new(study: &'a Study) -> Self {
        let budgets = |fitted: &FittedFigure| FigureBudgets {
            figure: fitted.figure,
            budgets: BUDGETS.iter().filter_map(|share| fitted.fit.find_budget(*share)).collect(),
        };
        Self {
            study,
            throttled_hz: study
                .rows
                .iter()
                .filter(|row| row.is_throttled())
                .map(|row| row.asked_hz)
                .collect(),
            budgets: study.fits.iter().map(budgets).collect(),
            recommended: BUDGETS
                .iter()
                .map(|&share| Recommended { share, hz: study.recommended_hz(share) })
                .collect(),
        }
    }
}

/// Writes studies as a versioned JSON document, with the published figures if `overlay`.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_json(out: &mut dyn Write, studies: &[Study], overlay: bool) -> io::Result<()> {
    let document = Document {
        version: VERSION,
        tool: "tare overhead",
        studies: studies.iter().map(Described::new).collect(),
        published: overlay.then_some(&XEON_E5530[..]),
    };
    tare_format::json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

/// Writes column names, then a CSV line for each figure at each rate. Shares are of CPU time;
/// absent figures have no line.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_csv(out: &mut dyn Write, studies: &[Study]) -> io::Result<()> {
    writeln!(
        out,
        "event,call_graph,asked_hz,delivered_hz,throttled,profiler,figure,unit,value,low,high"
    )?;
    for study in studies {
        for row in &study.rows {
            let mut line = |profiler: &str,
                            figure: &str,
                            unit: &str,
                            estimate: Option<Estimate>|
             -> io::Result<()> {
                let Some(Estimate { value, low, high }) = estimate else { return Ok(()) };
                let text = |text: &str| printable(text).replace([',', '"'], " ");
                let event = text(&study.conditions.event);
                let graph = study.conditions.call_graph.name();
                let asked = row.asked_hz;
                let delivered = row.delivered_hz;
                let throttled = row.is_throttled();
                writeln!(
                    out,
                    "{event},{graph},{asked},{delivered:.3},{throttled},{},{figure},{unit},{value},{low},{high}",
                    text(profiler)
                )
            };
            let cost = &row.cost;
            let per_sample = [
                (CostFigure::Handler, cost.handler_us),
                (CostFigure::Interrupt, cost.interrupt_us),
                (CostFigure::Stolen, cost.stolen_us),
            ];
            for (figure, us) in per_sample {
                line(EVENTS, figure.name(), "us", us)?;
                line(EVENTS, figure.name(), "share", row.share(figure))?;
            }
            line(EVENTS, "background", "share", cost.background)?;
            for loss in &row.losses {
                line(&loss.profiler, loss.load.name(), "share", Some(loss.lost))?;
                line(
                    &loss.profiler,
                    &format!("{}-beyond-events", loss.load.name()),
                    "share",
                    loss.beyond_events,
                )?;
            }
            for recorder in &row.recorders {
                line(
                    &recorder.profiler,
                    "recorder-cpu",
                    "share",
                    Some(Estimate::exact(recorder.cpu_share)),
                )?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::overhead::handler::{HandlerCost, SHARES};
    use crate::overhead::interference::Loss;
    use crate::overhead::load::LoadKind;
    use crate::overhead::plan::CallGraph;
    use crate::overhead::rates::fit_figures;

    use super::*;

    fn row(asked_hz: u64) -> RateRow {
        let hz = asked_hz as f64;
        let us = |us: f64| (asked_hz > 0).then(|| Estimate::with_error(us, 0.02));
        let loss = |load: LoadKind, us: f64| Loss {
            load,
            profiler: EVENTS.to_owned(),
            lost: Estimate::with_error(us * 1e-6 * hz, 2e-4),
            beyond_events: None,
            rounds: vec![0.01; 6],
        };
        let cost = HandlerCost {
            handler_us: us(0.4),
            interrupt_us: us(2.0),
            stolen_us: us(2.5),
            stolen_quantiles_us: if asked_hz > 0 {
                SHARES.iter().map(|share| 2.0 + share).collect()
            } else {
                vec![]
            },
            background: Some(Estimate::with_error(0.002, 1e-4)),
            ..HandlerCost::default()
        };
        let losses = vec![
            loss(LoadKind::Counting, 2.6),
            loss(LoadKind::Memory, 3.0),
            loss(LoadKind::Branchy, 2.8),
        ];
        let throttles = u64::from(asked_hz > 50_000);
        RateRow {
            asked_hz,
            delivered_hz: hz,
            samples: asked_hz,
            lost: 0,
            throttles,
            limit_lowered_to: None,
            frames: None,
            cost,
            losses,
            recorders: vec![],
        }
    }

    /// Creates a study with invented figures.
    pub(crate) fn study() -> Study {
        let machine = StudyHost {
            host: "h".into(),
            kernel: "6.1".into(),
            cpu_model: "c".into(),
            cpus: 2,
            virtual_machine: Some("Qemu".into()),
        };
        let conditions = Conditions {
            host: "h".into(),
            kernel: "6.1".into(),
            event: "cpu-clock".into(),
            call_graph: CallGraph::None,
            cpu_model: Some("c".into()),
        };
        let rows: Vec<RateRow> = [0, 100, 2000, 4000, 100_000].into_iter().map(row).collect();
        Study {
            version: VERSION,
            machine,
            conditions,
            time: 1,
            seconds: 2.0,
            cpu: 1,
            slice_ms: 10.0,
            pairs: 6,
            seed: 1,
            uninterrupted: true,
            max_sample_rate: Some(100_000),
            fits: fit_figures(&rows),
            rows,
            notes: vec!["a note".into()],
        }
    }

    #[test]
    fn a_stored_study_is_read_back_without_its_rounds() {
        let study = study();
        let text = serde_json::to_string(&study.to_record()).unwrap();
        let record: StudyRecord = serde_json::from_str(&text).unwrap();
        let read = record.study.unwrap();
        assert!(read.rows[1].losses[0].rounds.is_empty() && read.fits.len() == study.fits.len());
        let calibration = record.calibration.unwrap();
        assert!(
            (calibration.sample_us().value - 2.5).abs() < 0.05
                && calibration.conditions.event == "cpu-clock"
        );
    }

    #[test]
    fn recommends_by_the_stolen_time_unless_a_loop_significantly_loses_more() {
        let mut study = study();
        study
            .fits
            .retain(|fitted| !matches!(fitted.figure, CostFigure::Memory | CostFigure::Branchy));
        let budget = |figure| study.fit(figure).unwrap().fit.find_budget(0.01).unwrap();
        assert_eq!(
            study.recommended_hz(0.01),
            Some(budget(CostFigure::Stolen).safe_hz),
            "the loop's 2.6 us are not significantly more"
        );
        study.rows[2].losses[0].lost = Estimate::with_error(0.02, 1e-5);
        study.rows[3].losses[0].lost = Estimate::with_error(0.04, 1e-5);
        study.fits = fit_figures(&study.rows);
        let hz = study.recommended_hz(0.01).unwrap();
        assert!((900.0..1100.0).contains(&hz), "the loop loses 10 us a sample: {hz}");
        study.fits.clear();
        assert_eq!(study.recommended_hz(0.01), None);
    }

    #[test]
    fn csv_has_a_line_for_each_figure() {
        let mut out = Vec::new();
        write_csv(&mut out, &[study()]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let columns = text.lines().next().unwrap().split(',').count();
        assert!(text.lines().all(|line| line.split(',').count() == columns));
        assert!(
            text.contains("\ncpu-clock,none,4000,4000.000,false,events,stolen,us,2.5,"),
            "{text}"
        );
        assert!(text.contains("cpu-clock,none,100000,100000.000,true,"));
    }

    #[test]
    fn json_has_throttled_rates_and_recommendations() {
        let mut out = Vec::new();
        write_json(&mut out, &[study()], true).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            (document["version"].as_u64(), document["studies"][0]["throttled_hz"][0].as_u64()),
            (Some(1), Some(100_000))
        );
        assert_eq!(document["published"].as_array().unwrap().len(), 5);
        assert_eq!(document["studies"][0]["recommended"].as_array().unwrap().len(), 4);
    }
}

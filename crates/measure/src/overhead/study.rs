//! The result of a study, as JSON and CSV have it and as it is kept in a file.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use tare_format::ledger::Estimate;
use tare_format::printable;
use tare_kernel::host::Host;

use super::calibration::{Calibration, Conditions};
use super::fit::{BUDGETS, Budget};
use super::published::{PublishedRate, XEON_E5530};
use super::rates::{EVENTS, Figure, FittedFigure, Row};

/// Raised when a field changes its meaning or goes; new fields don't raise it.
pub const VERSION: u32 = 1;

/// The machine that a study was made on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyHost {
    /// Its name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// The model of its CPUs, or the architecture where the kernel doesn't tell.
    pub cpu_model: String,
    /// How many CPUs are online.
    pub cpus: usize,
    /// The hypervisor; `None` on bare metal.
    pub virtual_machine: Option<String>,
}

impl StudyHost {
    /// The machine that this is.
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

/// The model of the CPUs, or the architecture where the kernel doesn't tell.
#[must_use]
pub(super) fn cpu_model(host: &Host) -> String {
    let text = host.first_cpu();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or(std::env::consts::ARCH, |(_, name)| name).to_owned()
}

/// One study: of an event with a call graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// See [`VERSION`].
    pub version: u32,
    /// The machine.
    pub machine: StudyHost,
    /// What the figures hold for.
    #[serde(rename = "place")]
    pub conditions: Conditions,
    /// Seconds since 1970.
    pub time: u64,
    /// How long it took.
    pub seconds: f64,
    /// The CPU that it ran on.
    pub cpu: u32,
    /// Milliseconds of one slice.
    pub slice_ms: f64,
    /// Pairs of slices for each rate and loop.
    pub pairs: usize,
    /// Decided the orders.
    pub seed: u64,
    /// Whether slices came before all other programs.
    pub uninterrupted: bool,
    /// `perf_event_max_sample_rate` before and after.
    pub max_sample_rate: Option<i64>,
    /// What each rate cost, ascending.
    pub rows: Vec<Row>,
    /// The lines through the rates.
    pub fits: Vec<FittedFigure>,
    /// What was in the way.
    pub notes: Vec<String>,
}

/// What is kept of a study.
#[derive(Debug, Serialize, Deserialize)]
pub struct StudyRecord {
    /// For those who predict with it; none where nothing could be fitted.
    pub calibration: Option<Calibration>,
    /// Without its rounds; none where a recording measured.
    pub study: Option<Study>,
}

impl Study {
    /// The line of a figure, where it could be fitted.
    #[must_use]
    pub fn fit(&self, figure: Figure) -> Option<&FittedFigure> {
        self.fits.iter().find(|fitted| fitted.figure == figure)
    }

    /// The profilers, without the event alone.
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

    /// The highest rate that costs a program at most this share: by the upper bound of the stolen
    /// time, which is known best, and lower where a loop loses more for certain. None where no rate
    /// is low enough.
    #[must_use]
    pub fn recommended_hz(&self, share: f64) -> Option<f64> {
        let by_upper =
            |fitted: &FittedFigure| fitted.fit.budget(share).map_or(0.0, |budget| budget.safe_hz);
        let loops = || {
            self.fits.iter().filter(|fitted| {
                matches!(fitted.figure, Figure::Counting | Figure::Memory | Figure::Branchy)
            })
        };
        let mut hz = match self.fit(Figure::Stolen) {
            Some(stolen) => by_upper(stolen),
            None => loops().map(by_upper).reduce(f64::min)?,
        };
        for fitted in loops() {
            if fitted.fit.predict(hz).low > share {
                hz = fitted.fit.budget(share).map_or(0.0, |budget| budget.hz.min(hz));
            }
        }
        let limit = self.max_sample_rate.map_or(f64::INFINITY, |limit| limit as f64);
        (hz >= 1.0).then(|| hz.min(limit))
    }

    /// Without the rounds of each loss, which only plots need.
    fn without_rounds(&self) -> Self {
        let mut short = self.clone();
        for loss in short.rows.iter_mut().flat_map(|row| &mut row.losses) {
            loss.rounds = Vec::new();
        }
        short
    }

    /// What is kept of it.
    #[must_use]
    pub fn kept(&self) -> StudyRecord {
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

/// A study with what follows from it.
#[derive(Serialize)]
struct Described<'a> {
    #[serde(flatten)]
    study: &'a Study,
    /// Asked rates of the rows that were left out of the fits.
    throttled_hz: Vec<u64>,
    budgets: Vec<BudgetsOf>,
    recommended: Vec<Recommended>,
}

#[derive(Serialize)]
struct BudgetsOf {
    figure: Figure,
    budgets: Vec<Budget>,
}

#[derive(Serialize)]
struct Recommended {
    share: f64,
    hz: Option<f64>,
}

impl<'a> Described<'a> {
    fn new(study: &'a Study) -> Self {
        let of = |fitted: &FittedFigure| BudgetsOf {
            figure: fitted.figure,
            budgets: BUDGETS.iter().filter_map(|share| fitted.fit.budget(*share)).collect(),
        };
        Self {
            study,
            throttled_hz: study
                .rows
                .iter()
                .filter(|row| row.throttled())
                .map(|row| row.asked_hz)
                .collect(),
            budgets: study.fits.iter().map(of).collect(),
            recommended: BUDGETS
                .iter()
                .map(|&share| Recommended { share, hz: study.recommended_hz(share) })
                .collect(),
        }
    }
}

/// Writes studies as one versioned JSON document, with the published figures if `overlay`.
///
/// # Errors
/// The writer's own.
pub fn json(out: &mut dyn Write, studies: &[Study], overlay: bool) -> io::Result<()> {
    let document = Document {
        version: VERSION,
        tool: "tare overhead",
        studies: studies.iter().map(Described::new).collect(),
        published: overlay.then_some(&XEON_E5530[..]),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

/// Writes a CSV line for each figure; shares are of CPU time, absent figures have no line.
///
/// # Errors
/// The writer's own.
pub fn csv(out: &mut dyn Write, studies: &[Study]) -> io::Result<()> {
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
                let throttled = row.throttled();
                writeln!(
                    out,
                    "{event},{graph},{asked},{delivered:.3},{throttled},{},{figure},{unit},{value},{low},{high}",
                    text(profiler)
                )
            };
            let cost = &row.cost;
            let per_sample = [
                (Figure::Handler, cost.handler_us),
                (Figure::Interrupt, cost.interrupt_us),
                (Figure::Stolen, cost.stolen_us),
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
    use crate::overhead::load::Kind;
    use crate::overhead::plan::CallGraph;
    use crate::overhead::rates::fits;

    use super::*;

    fn row(asked_hz: u64) -> Row {
        let hz = asked_hz as f64;
        let us = |us: f64| (asked_hz > 0).then(|| Estimate::with_error(us, 0.02));
        let loss = |load: Kind, us: f64| Loss {
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
        let losses =
            vec![loss(Kind::Counting, 2.6), loss(Kind::Memory, 3.0), loss(Kind::Branchy, 2.8)];
        let throttles = u64::from(asked_hz > 50_000);
        Row {
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

    /// A made-up study.
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
        let rows: Vec<Row> = [0, 100, 2000, 4000, 100_000].into_iter().map(row).collect();
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
            fits: fits(&rows),
            rows,
            notes: vec!["a note".into()],
        }
    }

    #[test]
    fn what_is_kept_comes_back_without_its_rounds() {
        let study = study();
        let text = serde_json::to_string(&study.kept()).unwrap();
        let kept: StudyRecord = serde_json::from_str(&text).unwrap();
        let read = kept.study.unwrap();
        assert!(read.rows[1].losses[0].rounds.is_empty() && read.fits.len() == study.fits.len());
        let calibration = kept.calibration.unwrap();
        assert!(
            (calibration.sample_us().value - 2.5).abs() < 0.05
                && calibration.conditions.event == "cpu-clock"
        );
    }

    #[test]
    fn the_recommended_rate_is_that_of_the_stolen_time_unless_a_loop_loses_more_for_certain() {
        let mut study = study();
        study.fits.retain(|fitted| !matches!(fitted.figure, Figure::Memory | Figure::Branchy));
        let of = |figure| study.fit(figure).unwrap().fit.budget(0.01).unwrap();
        assert_eq!(
            study.recommended_hz(0.01),
            Some(of(Figure::Stolen).safe_hz),
            "2.6 us of the loop are not surely more"
        );
        study.rows[2].losses[0].lost = Estimate::with_error(0.02, 1e-5);
        study.rows[3].losses[0].lost = Estimate::with_error(0.04, 1e-5);
        study.fits = fits(&study.rows);
        let hz = study.recommended_hz(0.01).unwrap();
        assert!((900.0..1100.0).contains(&hz), "the loop loses 10 us a sample: {hz}");
        study.fits.clear();
        assert_eq!(study.recommended_hz(0.01), None);
    }

    #[test]
    fn csv_has_a_line_for_each_figure() {
        let mut out = Vec::new();
        csv(&mut out, &[study()]).unwrap();
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
    fn json_says_what_follows() {
        let mut out = Vec::new();
        json(&mut out, &[study()], true).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            (document["version"].as_u64(), document["studies"][0]["throttled_hz"][0].as_u64()),
            (Some(1), Some(100_000))
        );
        assert_eq!(document["published"].as_array().unwrap().len(), 5);
        assert_eq!(document["studies"][0]["recommended"].as_array().unwrap().len(), 4);
    }
}

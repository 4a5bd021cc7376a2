//! What a study leaves behind for later: the cost of a sample on one host.

use serde::{Deserialize, Serialize};

use super::fit::Fit;
use super::plan::CallGraph;
use super::rates::{Figure, FittedFigure};
use tare_format::ledger::Estimate;

/// Raised when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// The conditions that a calibration holds for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conditions {
    /// The host's name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// The event's name.
    pub event: String,
    /// How its samples get their call chains.
    pub call_graph: CallGraph,
}

/// The cost of a sample, as a study found it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// See [`VERSION`].
    pub version: u32,
    /// What it holds for.
    #[serde(rename = "place")]
    pub conditions: Conditions,
    /// When it was measured, in seconds since 1970.
    pub time: u64,
    /// The figure that it goes by: the time that a program does without, where that was seen.
    pub figure: Figure,
    /// The line.
    pub fit: Fit,
    /// Frames in the call chains that it was measured with.
    pub frames: Option<f64>,
}

impl Calibration {
    /// What fits say about a sample's cost under these conditions; none where nothing could be fitted.
    #[must_use]
    pub fn of(
        conditions: Conditions,
        time: u64,
        fits: &[FittedFigure],
        frames: Option<f64>,
    ) -> Option<Self> {
        let order = [Figure::Stolen, Figure::Counting, Figure::Interrupt];
        let FittedFigure { figure, fit } =
            order.iter().find_map(|figure| fits.iter().find(|fitted| fitted.figure == *figure))?;
        Some(Self { version: VERSION, conditions, time, figure: *figure, fit: fit.clone(), frames })
    }

    /// Microseconds that a sample costs.
    #[must_use]
    pub fn sample_us(&self) -> Estimate {
        self.fit.slope_us
    }

    /// The share of CPU time that so many samples cost a target that used so many seconds of it.
    #[must_use]
    pub fn share(&self, samples: u64, cpu_seconds: f64) -> Option<Estimate> {
        (cpu_seconds > 0.0).then(|| self.fit.slope_us.times(samples as f64 * 1e-6 / cpu_seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fit::Point;
    use super::*;

    fn fitted(figure: Figure, us: f64) -> FittedFigure {
        let points = [100.0, 2000.0, 4000.0]
            .map(|hz| Point { hz, cost: Estimate::with_error(us * 1e-6 * hz, 1e-6) });
        FittedFigure { figure, fit: Fit::of(&points, None).unwrap() }
    }

    fn conditions() -> Conditions {
        Conditions {
            host: "h".into(),
            kernel: "6.1".into(),
            event: "cycles".into(),
            call_graph: CallGraph::Fp,
        }
    }

    #[test]
    fn goes_by_the_stolen_time_and_predicts_with_it() {
        let fits = [
            fitted(Figure::Handler, 0.4),
            fitted(Figure::Stolen, 2.5),
            fitted(Figure::Counting, 3.0),
        ];
        let calibration = Calibration::of(conditions(), 0, &fits, None).unwrap();
        assert_eq!(calibration.figure, Figure::Stolen);
        assert!((calibration.share(8000, 2.0).unwrap().value - 0.01).abs() < 1e-6);
        assert_eq!(calibration.share(5, 0.0), None);
        assert_eq!(
            Calibration::of(conditions(), 0, &fits[..1], None),
            None,
            "the handler alone is not what a program loses"
        );
    }
}

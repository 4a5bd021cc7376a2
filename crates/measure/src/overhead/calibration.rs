//! The cost of a sample on one host, stored by a study or a recording for later use.

use serde::{Deserialize, Serialize};

use super::fit::Fit;
use super::plan::CallGraph;
use super::rates::{CostFigure, FittedFigure};
use super::short::ShortMeasurement;
use tare_format::ledger::{CostOrigin, Estimate};

/// Version of the format. It rises if a field changes its meaning or is removed.
pub const VERSION: u32 = 1;

/// The conditions for which a calibration is valid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conditions {
    /// The host's name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// The event's name.
    pub event: String,
    /// The kind of call chains.
    pub call_graph: CallGraph,
    /// CPU model; `None` in files of versions without this field.
    #[serde(default)]
    pub cpu_model: Option<String>,
}

/// The origin in files of versions without this field, which stored only studies.
fn default_origin() -> CostOrigin {
    CostOrigin::Study
}

/// The cost of a sample, as measured on a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// See [`VERSION`].
    pub version: u32,
    /// The conditions for which it is valid.
    #[serde(rename = "place")]
    pub conditions: Conditions,
    /// Time of the measurement, in seconds since 1970.
    pub time: u64,
    /// What measured it.
    #[serde(default = "default_origin")]
    pub origin: CostOrigin,
    /// The figure on which it is based: the stolen time, if measured.
    pub figure: CostFigure,
    /// The line through the rates; for a short measurement, the line through the origin.
    pub fit: Fit,
    /// Average number of entries in the samples' call chains; `None` without call chains.
    pub frames: Option<f64>,
}

impl Calibration {
    /// Derives a sample's cost under these conditions from the fit of the stolen time, or else of
    /// the counting loop, or else of the interrupt; `None` without these fits.
    #[must_use]
    pub fn from_fits(
        conditions: Conditions,
        time: u64,
        fits: &[FittedFigure],
        frames: Option<f64>,
    ) -> Option<Self> {
        let order = [CostFigure::Stolen, CostFigure::Counting, CostFigure::Interrupt];
        let FittedFigure { figure, fit } =
            order.iter().find_map(|figure| fits.iter().find(|fitted| fitted.figure == *figure))?;
        Some(Self {
            version: VERSION,
            conditions,
            time,
            origin: CostOrigin::Study,
            figure: *figure,
            fit: fit.clone(),
            frames,
        })
    }

    /// Creates a calibration from a short measurement of the stolen time at one rate.
    #[must_use]
    pub fn from_one_rate(conditions: Conditions, time: u64, measured: &ShortMeasurement) -> Self {
        Self {
            version: VERSION,
            conditions,
            time,
            origin: CostOrigin::Calibration,
            figure: CostFigure::Stolen,
            fit: Fit::from_one_rate(measured.stolen_us),
            frames: measured.frames,
        }
    }

    /// Whether the version is known and the cost is possible. Another program may have written the
    /// file.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let Estimate { value, low, high } = self.sample_us();
        let is_possible = |us: &f64| us.is_finite() && us.abs() < 1e6;
        self.version == VERSION && [low, value, high].iter().all(is_possible) && value > 0.0
    }

    /// The cost of a sample in microseconds.
    #[must_use]
    pub fn sample_us(&self) -> Estimate {
        self.fit.slope_us
    }

    /// Returns the cost of samples as a share of the CPU time that the target used; `None` if that
    /// is zero.
    #[must_use]
    pub fn share(&self, samples: u64, cpu_seconds: f64) -> Option<Estimate> {
        (cpu_seconds > 0.0).then(|| self.fit.slope_us.times(samples as f64 * 1e-6 / cpu_seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fit::Point;
    use super::*;

    fn fitted(figure: CostFigure, us: f64) -> FittedFigure {
        let points = [100.0, 2000.0, 4000.0]
            .map(|hz| Point { hz, cost: Estimate::with_error(us * 1e-6 * hz, 1e-6) });
        FittedFigure { figure, fit: Fit::from_points(&points, None).unwrap() }
    }

    fn conditions() -> Conditions {
        Conditions {
            host: "h".into(),
            kernel: "6.1".into(),
            event: "cycles".into(),
            call_graph: CallGraph::Fp,
            cpu_model: Some("c".into()),
        }
    }

    #[test]
    fn is_based_on_the_stolen_time_if_measured() {
        let fits = [
            fitted(CostFigure::Handler, 0.4),
            fitted(CostFigure::Stolen, 2.5),
            fitted(CostFigure::Counting, 3.0),
        ];
        let calibration = Calibration::from_fits(conditions(), 0, &fits, None).unwrap();
        assert_eq!(calibration.figure, CostFigure::Stolen);
        assert!((calibration.share(8000, 2.0).unwrap().value - 0.01).abs() < 1e-6);
        assert_eq!(calibration.share(5, 0.0), None);
        assert_eq!((calibration.origin, calibration.is_valid()), (CostOrigin::Study, true));
        assert_eq!(
            Calibration::from_fits(conditions(), 0, &fits[..1], None),
            None,
            "the handler's time alone isn't a program's loss"
        );
    }

    #[test]
    fn a_short_measurement_is_stored_and_read_back() {
        let measured = ShortMeasurement {
            stolen_us: Estimate { value: 16.0, low: 15.0, high: 17.5 },
            samples: 900,
            frames: None,
        };
        let calibration = Calibration::from_one_rate(conditions(), 7, &measured);
        let text = serde_json::to_string(&calibration).unwrap();
        let read: Calibration = serde_json::from_str(&text).unwrap();
        assert_eq!((&read, read.sample_us()), (&calibration, measured.stolen_us));
        assert!(read.is_valid() && read.origin == CostOrigin::Calibration);
        let impossible = text.replace("16.0", "-16.0");
        assert!(!serde_json::from_str::<Calibration>(&impossible).unwrap().is_valid());
        // The format of earlier versions.
        let old = text.replace(r#""origin":"calibration","#, "").replace(r#","cpu_model":"c""#, "");
        let read: Calibration = serde_json::from_str(&old).unwrap();
        assert_eq!((read.origin, read.conditions.cpu_model), (CostOrigin::Study, None));
    }
}

//! The page's plots, as SVG.

use crate::overhead::handler::SHARES;
use crate::overhead::published::XEON_E5530;
use crate::overhead::rates::{CostFigure, RateRow};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use tare_format::ledger::Estimate;

use crate::overhead::study::Study;

/// Width and height of a plot, in pixels.
const SIZE: (u32, u32) = (900, 420);

const COLOURS: [RGBColor; 6] = [
    RGBColor(27, 158, 119),
    RGBColor(217, 95, 2),
    RGBColor(117, 112, 179),
    RGBColor(231, 41, 138),
    RGBColor(102, 166, 30),
    RGBColor(166, 118, 29),
];

type ChartResult = Result<String, Box<dyn std::error::Error + Send + Sync>>;

fn colour(figure: CostFigure) -> RGBColor {
    let at = CostFigure::ALL.iter().position(|known| *known == figure).unwrap_or(0);
    COLOURS[at]
}

/// A series of points with their intervals, and its line.
struct Marks<'a> {
    name: &'a str,
    colour: RGBColor,
    points: Vec<(f64, Estimate)>,
    line: Vec<(f64, f64)>,
}

/// A plot's title, the labels of its axes, and the end of the vertical axis; 0 adapts it to points
/// and lines.
struct Frame {
    title: &'static str,
    x: &'static str,
    y: &'static str,
    top: f64,
}

/// Rates in Hz, on a logarithmic axis, as they differ by a factor of 1,000. It doesn't show 0 Hz.
struct Rates {
    lowest: f64,
    highest: f64,
}

/// Margin at both ends of an axis of rates, as a factor.
const ROOM: f64 = 1.3;

/// Number of segments of a fitted line, which is a curve on a logarithmic axis.
const CURVE: u32 = 100;

impl Rates {
    /// Creates the axis from the lowest of these rates to the highest; without rates from 1 to 10.
    fn spanning(hz: impl Iterator<Item = f64>) -> Self {
        let (lowest, highest) =
            hz.fold((f64::MAX, 0.0_f64), |(low, high), hz| (low.min(hz), high.max(hz)));
        let (lowest, highest) = if lowest > highest { (1.0, 10.0) } else { (lowest, highest) };
        Self { lowest, highest }
    }

    /// The range of the axis.
    fn shown(&self) -> std::ops::Range<f64> {
        self.lowest / ROOM..self.highest * ROOM
    }

    /// The ticks: 1, 2 and 5 times each power of ten.
    fn ticks(&self) -> Vec<f64> {
        let powers = (0..10).map(|power| 10_f64.powi(power));
        let ticks = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * power));
        ticks.filter(|hz| self.shown().contains(hz)).collect()
    }

    fn axis(&self) -> impl AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>> + use<> {
        self.shown().log_scale().with_key_points(self.ticks())
    }

    /// Rates from the lowest to the highest, at equal distances on the axis.
    fn between(&self) -> impl Iterator<Item = f64> {
        let factor = self.highest / self.lowest;
        (0..=CURVE).map(move |at| self.lowest * factor.powf(f64::from(at) / f64::from(CURVE)))
    }
}

/// Formats a rate with separators: 20,000.
fn with_separators(hz: &f64) -> String {
    tare_format::group_digits(&format!("{hz:.0}"))
}

/// Plots the cost as a share of CPU time against the delivered rate, with the lines. 0 Hz and
/// throttled rates are left out.
pub(super) fn plot_cost(study: &Study, overlay: bool) -> ChartResult {
    let sampled = study.rows.iter().filter(|row| row.asked_hz > 0 && row.delivered_hz > 0.0);
    let rows: Vec<&RateRow> = sampled.filter(|row| !row.is_throttled()).collect();
    let rates = Rates::spanning(rows.iter().map(|row| row.delivered_hz));
    let mut all: Vec<Marks<'_>> = CostFigure::ALL
        .iter()
        .map(|&figure| {
            let points = rows
                .iter()
                .filter_map(|row| Some((row.delivered_hz, row.share(figure)?.times(100.0))))
                .collect();
            let line = study.fit(figure).map_or_else(Vec::new, |fitted| {
                rates.between().map(|hz| (hz, fitted.fit.predict(hz).value * 100.0)).collect()
            });
            Marks { name: figure.name(), colour: colour(figure), points, line }
        })
        .collect();
    if overlay {
        let published = |value: fn(&crate::overhead::published::PublishedRate) -> f64| {
            XEON_E5530
                .iter()
                .filter(|one| rates.shown().contains(&one.hz))
                .map(|one| (one.hz, Estimate::exact(value(one) * 100.0)))
                .collect()
        };
        all.push(Marks {
            name: "Xeon, 2014: handler",
            colour: BLACK,
            points: published(|one| one.handler),
            line: Vec::new(),
        });
        all.push(Marks {
            name: "Xeon, 2014: loop",
            colour: RGBColor(128, 128, 128),
            points: published(|one| one.counting),
            line: Vec::new(),
        });
    }
    let frame = Frame {
        title: "Cost against rate",
        x: "delivered rate, Hz (logarithmic)",
        y: "% of CPU time",
        top: 0.0,
    };
    draw(&frame, rates.axis(), with_separators, &all)
}

/// Plots the cost of a sample against the requested rate.
pub(super) fn plot_sample(study: &Study) -> ChartResult {
    let figures = [CostFigure::Handler, CostFigure::Interrupt, CostFigure::Stolen];
    let us = |row: &RateRow, figure: CostFigure| match figure {
        CostFigure::Handler => row.cost.handler_us,
        CostFigure::Interrupt => row.cost.interrupt_us,
        _ => row.cost.stolen_us,
    };
    let sampled: Vec<&RateRow> = study.rows.iter().filter(|row| row.asked_hz > 0).collect();
    let hz = |row: &RateRow| row.asked_hz as f64;
    let marks = figures.map(|figure| {
        let points: Vec<(f64, Estimate)> =
            sampled.iter().filter_map(|row| Some((hz(row), us(row, figure)?))).collect();
        let line = points.iter().map(|(x, y)| (*x, y.value)).collect();
        Marks { name: figure.name(), colour: colour(figure), points, line }
    });
    let rates = Rates::spanning(sampled.iter().map(|row| hz(row)));
    let frame = Frame { title: "One sample", x: "asked rate, Hz (logarithmic)", y: "us", top: 0.0 };
    draw(&frame, rates.axis(), with_separators, &marks)
}

/// Plots the cumulative distribution of the stolen time, up to the last quantile but one.
pub(super) fn plot_distribution(study: &Study) -> ChartResult {
    let rows = study.rows.iter().filter(|row| row.cost.stolen_quantiles_us.len() == SHARES.len());
    let names: Vec<(String, &RateRow)> =
        rows.map(|row| (format!("{} Hz", with_separators(&(row.asked_hz as f64))), row)).collect();
    // The last quantile is the slowest sample, which would compress all others.
    let shown = SHARES.len() - 1;
    let marks: Vec<Marks<'_>> = names
        .iter()
        .enumerate()
        .map(|(at, (name, row))| {
            let line = row
                .cost
                .stolen_quantiles_us
                .iter()
                .zip(SHARES)
                .take(shown)
                .map(|(us, share)| (*us, share * 100.0))
                .collect();
            Marks { name, colour: COLOURS[at % COLOURS.len()], points: Vec::new(), line }
        })
        .collect();
    let longest = marks.iter().flat_map(|one| &one.line).map(|(us, _)| *us).fold(1.0, f64::max);
    let frame = Frame {
        title: "Stolen time of a sample",
        x: "us",
        y: "% of samples take at most",
        top: 100.0,
    };
    draw(&frame, 0.0..longest * 1.02, |us| format!("{us:.1}"), &marks)
}

fn draw<X>(frame: &Frame, axis: X, label: fn(&f64) -> String, marks: &[Marks<'_>]) -> ChartResult
where
    X: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
{
    let tops = marks.iter().flat_map(|one| {
        one.points.iter().map(|(_, y)| y.high).chain(one.line.iter().map(|(_, y)| *y))
    });
    let bottoms =
        marks.iter().flat_map(|one| one.points.iter().map(|(_, y)| y.low)).fold(0.0, f64::min);
    let top = if frame.top > 0.0 { frame.top } else { tops.fold(1e-6, f64::max) * 1.05 };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(text)?;
        let mut builder = ChartBuilder::on(&area);
        builder
            .caption(frame.title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(60);
        let mut chart = builder.build_cartesian_2d(axis, bottoms..top).map_err(text)?;
        chart
            .configure_mesh()
            .x_desc(frame.x)
            .x_label_formatter(&label)
            .y_desc(frame.y)
            .light_line_style(WHITE)
            .draw()
            .map_err(text)?;
        for one in marks.iter().filter(|one| !one.points.is_empty() || !one.line.is_empty()) {
            let colour = one.colour;
            let line = std::iter::once(PathElement::new(one.line.clone(), colour.stroke_width(1)));
            let drawn = chart.draw_series(line).map_err(text)?;
            drawn.label(one.name).legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
            let bars = one.points.iter().map(|(x, y)| {
                PathElement::new(vec![(*x, y.low), (*x, y.high)], colour.stroke_width(2))
            });
            chart.draw_series(bars).map_err(text)?;
            chart
                .draw_series(
                    one.points.iter().map(|(x, y)| Circle::new((*x, y.value), 3, colour.filled())),
                )
                .map_err(text)?;
        }
        let mut labels = chart.configure_series_labels();
        labels
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3));
        labels.draw().map_err(text)?;
        area.present().map_err(text)?;
    }
    Ok(svg)
}

/// Converts an error of the drawing library, which borrows from its plot.
fn text(error: impl std::fmt::Display) -> Box<dyn std::error::Error + Send + Sync> {
    error.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_rates() {
        let rates = Rates::spanning([100.0, 500.0, 20_000.0].into_iter());
        let marked: Vec<String> = rates.ticks().iter().map(with_separators).collect();
        assert_eq!(marked, ["100", "200", "500", "1,000", "2,000", "5,000", "10,000", "20,000"]);
        let between: Vec<f64> = rates.between().collect();
        let ratio = |at: usize| between[at + 1] / between[at];
        assert!((ratio(0) - ratio(99)).abs() < 1e-9, "equal distances on the axis");
    }
}

//! The page's plots, as SVG.

use crate::overhead::handler::SHARES;
use crate::overhead::published::XEON_E5530;
use crate::overhead::rates::{Figure, Row};
use plotters::prelude::*;
use tare_format::ledger::Estimate;

use crate::overhead::study::Study;

/// Pixels.
const SIZE: (u32, u32) = (900, 420);

const COLOURS: [RGBColor; 6] = [
    RGBColor(27, 158, 119),
    RGBColor(217, 95, 2),
    RGBColor(117, 112, 179),
    RGBColor(231, 41, 138),
    RGBColor(102, 166, 30),
    RGBColor(166, 118, 29),
];

type Drawn = Result<String, Box<dyn std::error::Error + Send + Sync>>;

fn colour(figure: Figure) -> RGBColor {
    let at = Figure::ALL.iter().position(|known| *known == figure).unwrap_or(0);
    COLOURS[at]
}

/// A point with its interval, and what it is called.
struct Marks<'a> {
    name: &'a str,
    colour: RGBColor,
    points: Vec<(f64, Estimate)>,
    line: Vec<(f64, f64)>,
}

/// A plot's title, what its axes say, and how far they go.
struct Frame {
    title: &'static str,
    x: &'static str,
    y: &'static str,
    from: (f64, f64),
    to: (f64, f64),
}

/// Shares of CPU time against the delivered rate, with the lines; throttled rates are left out.
pub(super) fn cost(study: &Study, overlay: bool) -> Drawn {
    let rows: Vec<&Row> = study.rows.iter().filter(|row| !row.throttled()).collect();
    let highest = rows.iter().map(|row| row.delivered_hz).fold(1.0, f64::max);
    let mut all: Vec<Marks<'_>> = Figure::ALL
        .iter()
        .map(|&figure| {
            let points = rows
                .iter()
                .filter_map(|row| Some((row.delivered_hz, row.share(figure)?.times(100.0))))
                .collect();
            let line = study.fit(figure).map_or_else(Vec::new, |fitted| {
                [0.0, highest].map(|hz| (hz, fitted.fit.predict(hz).value * 100.0)).to_vec()
            });
            Marks { name: figure.name(), colour: colour(figure), points, line }
        })
        .collect();
    if overlay {
        let published = |of: fn(&crate::overhead::published::Published) -> f64| {
            XEON_E5530
                .iter()
                .filter(|one| one.hz <= highest * 1.01)
                .map(|one| (one.hz, Estimate::exact(of(one) * 100.0)))
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
        x: "samples a second, delivered",
        y: "% of CPU time",
        from: (0.0, 0.0),
        to: (highest * 1.02, 0.0),
    };
    draw(&frame, &all)
}

/// What one sample costs, by rate: the places are the rates' order, as they differ a thousandfold.
pub(super) fn sample(study: &Study) -> Drawn {
    let figures = [Figure::Handler, Figure::Interrupt, Figure::Stolen];
    let of = |row: &Row, figure: Figure| match figure {
        Figure::Handler => row.cost.handler_us,
        Figure::Interrupt => row.cost.interrupt_us,
        _ => row.cost.stolen_us,
    };
    let sampled: Vec<&Row> = study.rows.iter().filter(|row| row.asked_hz > 0).collect();
    let hz = |row: &Row| (row.asked_hz as f64).log10();
    let marks = figures.map(|figure| {
        let points: Vec<(f64, Estimate)> =
            sampled.iter().filter_map(|row| Some((hz(row), of(row, figure)?))).collect();
        let line = points.iter().map(|(x, y)| (*x, y.value)).collect();
        Marks { name: figure.name(), colour: colour(figure), points, line }
    });
    let lowest = sampled.first().map_or(0.0, |row| hz(row)) - 0.1;
    let highest = sampled.last().map_or(1.0, |row| hz(row)) + 0.1;
    let frame = Frame {
        title: "One sample",
        x: "asked rate, log10 of Hz",
        y: "us",
        from: (lowest, 0.0),
        to: (highest, 0.0),
    };
    draw(&frame, &marks)
}

/// The distribution of the stolen time: which share of samples takes at most how long.
pub(super) fn distribution(study: &Study) -> Drawn {
    let rows = study.rows.iter().filter(|row| row.cost.stolen_quantiles_us.len() == SHARES.len());
    let names: Vec<(String, &Row)> =
        rows.map(|row| (format!("{} Hz", row.asked_hz), row)).collect();
    // The last quantile is the single worst sample: it would flatten all others.
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
        from: (0.0, 0.0),
        to: (longest * 1.02, 100.0),
    };
    draw(&frame, &marks)
}

fn draw(frame: &Frame, marks: &[Marks<'_>]) -> Drawn {
    let tops = marks.iter().flat_map(|one| {
        one.points.iter().map(|(_, y)| y.high).chain(one.line.iter().map(|(_, y)| *y))
    });
    let bottoms = marks
        .iter()
        .flat_map(|one| one.points.iter().map(|(_, y)| y.low))
        .fold(frame.from.1, f64::min);
    let top = if frame.to.1 > 0.0 { frame.to.1 } else { tops.fold(1e-6, f64::max) * 1.05 };
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
        let mut chart =
            builder.build_cartesian_2d(frame.from.0..frame.to.0, bottoms..top).map_err(text)?;
        chart
            .configure_mesh()
            .x_desc(frame.x)
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

/// The drawing library's errors borrow what they are about.
fn text(error: impl std::fmt::Display) -> Box<dyn std::error::Error + Send + Sync> {
    error.to_string().into()
}

//! Plots of a series: every run as a dot over time, as SVG and in an HTML page.

use std::io::{self, Write};

use plotters::prelude::*;

use super::report::{SeriesReport, TimeShape};
use super::text::{self, TextOptions};
use crate::compare::Metric;

/// Size of a plot in pixels.
const SIZE: (u32, u32) = (900, 420);

/// Colours of the commands, in turn: those of Okabe and Ito, which colour-blind readers tell apart.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

/// Writes an SVG: the time of each run over the time at which it began.
///
/// # Errors
/// Returns errors of `out` and of the drawing.
pub fn svg(out: &mut dyn Write, report: &SeriesReport) -> io::Result<()> {
    let drawn = draw(report).map_err(|error| io::Error::other(error.to_string()))?;
    out.write_all(drawn.as_bytes())
}

type DrawingResult<T> = Result<T, Box<dyn std::error::Error>>;

fn draw(report: &SeriesReport) -> DrawingResult<String> {
    let points: Vec<Vec<(f64, f64)>> = report
        .runs
        .iter()
        .map(|runs| {
            let times = runs.values(&Metric::Time);
            runs.begins().into_iter().zip(times.into_iter().map(|time| time * 1e3)).collect()
        })
        .collect();
    let largest = |value: fn(&(f64, f64)) -> f64| {
        points.iter().flatten().map(value).fold(0.0, f64::max) * 1.05 + 1e-6
    };
    let end = largest(|point| point.0);
    let slowest = largest(|point| point.1);
    let mut drawn = String::new();
    {
        let area = SVGBackend::with_string(&mut drawn, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..end, 0.0..slowest)?;
        chart
            .configure_mesh()
            .x_desc("seconds since the start")
            .y_desc("time of a run in ms")
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (index, points) in points.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let dots = points.iter().map(|point| Circle::new(*point, 2, colour.filled()));
            chart
                .draw_series(dots)?
                .label(format!("{}: {}", index + 1, report.commands[index].name))
                .legend(move |place| Circle::new(place, 4, colour.filled()));
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
    }
    Ok(drawn)
}

/// Writes a page that needs no other file: the plot, what stands out, and the text.
///
/// # Errors
/// Returns errors of `out` and of the drawing.
pub fn html(out: &mut dyn Write, report: &SeriesReport, options: TextOptions) -> io::Result<()> {
    let mut table = Vec::new();
    text::write(&mut table, report, options)?;
    let drawn = draw(report).map_err(|error| io::Error::other(error.to_string()))?;
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>tare bench</title>\n\
         <style>body{{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}}\
         svg{{max-width:100%;height:auto}}pre{{overflow-x:auto}}</style></head><body>\n\
         <h1>tare bench</h1>\n{drawn}\n<ul>\n"
    )?;
    for (runs, command) in report.runs.iter().zip(&report.commands) {
        let shape = TimeShape::from_times(&runs.values(&Metric::Time));
        for sentence in text::shape_sentences(&shape, options) {
            writeln!(
                out,
                "<li>{}: {}</li>",
                escaped(&tare_format::printable(&command.name)),
                escaped(&sentence)
            )?;
        }
    }
    let table = String::from_utf8_lossy(&table).into_owned();
    writeln!(out, "</ul>\n<pre>{}</pre>\n</body></html>", escaped(&table))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

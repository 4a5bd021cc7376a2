//! `--report`: a self-contained page with the plots, the machine, the method and the raw data. It
//! has no scripts.

mod chart;

use std::io::{self, Write};

use crate::overhead::study::{self, Study};
use crate::overhead::text;
use tare_format::printable;

/// The start of the page. The policy forbids scripts and external resources.
const HEAD: &str = r#"<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>What sampling costs</title>
<style>
body { font: 15px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px; display: block; overflow-x: auto; }
td, th { padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
svg { max-width: 100%; height: auto; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; background: #f6f6f6; padding: 1em; }
</style></head><body>
<h1>What sampling costs</h1>
"#;

/// A summary of the method of docs/overhead.md.
const METHOD: &str = "\
<p>All loops ran on one CPU. <b>handler</b> and <b>interrupt</b> are the time between the kernel's trace events, minus the cost of tracing. \
<b>stolen</b> is the length of the gaps that samples leave in a loop that reads the CPU's clock. Each sample's timestamp identifies its spans and \
gaps. The <b>loops</b> ran in short slices with sampling on and off, in random order. A loss is the share of passes by which a slice with \
sampling falls short of the one without, as a 20% trimmed mean over the pairs. All intervals are 95% bootstrap intervals. The lines are least \
squares, weighted by 1 / variance of each rate, minus the result at 0 Hz; throttled rates are left out.</p>";

/// Writes the page, with the published figures if `overlay`.
///
/// # Errors
/// Fails if writing to `out` fails, or a plot can't be drawn.
pub fn write(out: &mut dyn Write, studies: &[Study], overlay: bool) -> io::Result<()> {
    out.write_all(HEAD.as_bytes())?;
    for study in studies {
        write_study(out, study, overlay)?;
    }
    let mut raw = Vec::new();
    study::write_json(&mut raw, studies, overlay)?;
    writeln!(out, "<h2>Method</h2>\n{METHOD}")?;
    writeln!(
        out,
        "<h2>Raw data</h2>\n<details><summary>all figures, as `tare overhead --json` prints them</summary>"
    )?;
    writeln!(out, "<pre id=\"raw\">{}</pre></details>", escape(&String::from_utf8_lossy(&raw)))?;
    writeln!(out, "</body></html>")
}

fn write_study(out: &mut dyn Write, study: &Study, overlay: bool) -> io::Result<()> {
    let machine = &study.machine;
    writeln!(
        out,
        "<h2>{}, call graph {}</h2>",
        escape(&study.conditions.event),
        study.conditions.call_graph.name()
    )?;
    let rows = [
        ("host", machine.host.clone()),
        ("kernel", machine.kernel.clone()),
        ("processors", format!("{} x {}", machine.cpus, machine.cpu_model)),
        (
            "virtual machine",
            machine.virtual_machine.clone().unwrap_or_else(|| "none detected".to_owned()),
        ),
        (
            "measured",
            format!(
                "{}, for {:.0} s, on CPU {}",
                text::format_date(study.time),
                study.seconds,
                study.cpu
            ),
        ),
        (
            "slices",
            format!(
                "{} pairs of {} ms per rate and loop, seed {}",
                study.pairs, study.slice_ms, study.seed
            ),
        ),
    ];
    write!(out, "<table>")?;
    rows.iter().try_for_each(|(name, value)| {
        write!(out, "<tr><th>{name}</th><td>{}</td></tr>", escape(value))
    })?;
    writeln!(out, "</table>")?;
    for line in text::conclude(study).iter().chain(&study.notes) {
        writeln!(out, "<p>{}</p>", escape(line))?;
    }
    for chart in [
        chart::plot_cost(study, overlay),
        chart::plot_sample(study),
        chart::plot_distribution(study),
    ] {
        let svg = chart.map_err(io::Error::other)?;
        writeln!(out, "<figure>{svg}</figure>")?;
    }
    write_table(out, "Cost of a sample", &text::cost_table(study, overlay))?;
    write_table(out, "Losses of loops", &text::loss_table(study, overlay))?;
    if !study.profilers().is_empty() {
        write_table(out, "Profilers", &text::profiler_table(study))?;
    }
    write_table(out, "Lines through the rates", &text::fit_table(study))
}

fn write_table(out: &mut dyn Write, title: &str, rows: &[Vec<String>]) -> io::Result<()> {
    writeln!(out, "<h3>{title}</h3><table>")?;
    for (at, row) in rows.iter().enumerate() {
        let kind = if at == 0 { "th" } else { "td" };
        let cells: String =
            row.iter().map(|cell| format!("<{kind}>{}</{kind}>", escape(cell))).collect();
        writeln!(out, "<tr>{cells}</tr>")?;
    }
    writeln!(out, "</table>")
}

/// Escapes a text for HTML.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::study::tests::study;

    #[test]
    fn hostile_names_are_escaped() {
        let mut study = study();
        study.conditions.event = "</pre><script>alert('x')</script>\u{1b}[31m".to_owned();
        study.machine.host = "<img src=x onerror=\"y\">".to_owned();
        let mut page = Vec::new();
        write(&mut page, &[study], true).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(!page.contains("<script") && !page.contains("<img") && !page.contains('\u{1b}'));
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)"));
    }

    #[test]
    fn the_page_is_complete_and_loads_nothing() {
        let mut page = Vec::new();
        write(&mut page, &[study()], false).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert_eq!(page.matches("<svg").count(), 3);
        assert_eq!((page.matches("<table>").count(), page.matches("</table>").count()), (4, 4));
        let foreign = page.match_indices("http").filter(|(at, _)| {
            !page[*at..].starts_with("http://www.w3.org/") && !page[*at..].starts_with("http-equiv")
        });
        assert_eq!(foreign.count(), 0);
    }
}

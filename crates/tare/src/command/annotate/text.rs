//! Writes functions as text, in the layout of `perf annotate --stdio`.

use std::io::{self, Write};

use tare_format::printable;
use tare_profile::{Losses, Weight};
use tare_render::loss_lines;

use super::{ListingColumn, ListingStyle, WeightedFunction};
use crate::cli::raw::PercentType;
use tare_annotate::{AnnotatedFunction, AnnotatedLine, SourceRoot, Sources};

pub(super) fn write(
    out: &mut dyn Write,
    functions: &[WeightedFunction],
    shown: ListingStyle,
    root: SourceRoot,
    losses: &Losses,
) -> io::Result<()> {
    for line in loss_lines(losses) {
        writeln!(out, "# {}", printable(&line))?;
    }
    let mut sources = Sources::new(root);
    for function in functions {
        let name = printable(&function.name);
        let event = printable(&function.event);
        match &function.result {
            Ok(annotated) => write_one(out, annotated, &event, shown, &mut sources)?,
            Err(why) => writeln!(out, "# {name}, event '{event}': no instructions: {why}\n")?,
        }
    }
    Ok(())
}

fn write_one(
    out: &mut dyn Write,
    annotated: &AnnotatedFunction,
    event: &str,
    shown: ListingStyle,
    sources: &mut Sources,
) -> io::Result<()> {
    let kind = match shown.percent_type {
        PercentType::LocalPeriod => "local period",
        PercentType::LocalHits => "local hits",
        PercentType::GlobalPeriod => "global period",
        PercentType::GlobalHits => "global hits",
    };
    let (name, width) = match shown.column {
        ListingColumn::Percent => ("Percent", 8),
        ListingColumn::Samples => ("Samples", 8),
        ListingColumn::Period => ("Period", 14),
    };
    let title = format!(
        "{name:>width$} |\tSource code & Disassembly of {} for {event} ({} samples, percent: {kind})",
        printable(&annotated.path),
        annotated.own.samples
    );
    writeln!(out, "{title}\n{}", "-".repeat(title.chars().count() + 7))?;
    let first = annotated.lines.first().map_or(0, |line| line.instruction.address);
    writeln!(out, "{:width$} : {first:016x} <{}>:", "", printable(&annotated.name))?;
    let digits =
        annotated.lines.last().map_or(1, |line| format!("{:x}", line.instruction.address).len());
    let mut before = None;
    for line in &annotated.lines {
        if line.source.is_some() && line.source != before {
            write_source(out, line, width, shown, sources)?;
        }
        before.clone_from(&line.source);
        let weight = weight(line.weight, annotated, shown);
        let arrow = if line.jumps_from.is_empty() { ' ' } else { '>' };
        write!(out, "{weight:>width$} :{arrow}  {:digits$x}:\t", line.instruction.address)?;
        if shown.asm_raw {
            let bytes: Vec<_> =
                line.instruction.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            write!(out, "{:<22}", bytes.join(" "))?;
        }
        writeln!(out, "{}", printable(&line.instruction.text))?;
    }
    if annotated.elsewhere.samples > 0 {
        let weight = weight(annotated.elsewhere, annotated, shown);
        writeln!(out, "{weight:>width$} :   on none of these instructions")?;
    }
    writeln!(out)
}

fn write_source(
    out: &mut dyn Write,
    line: &AnnotatedLine,
    width: usize,
    shown: ListingStyle,
    sources: &mut Sources,
) -> io::Result<()> {
    let Some((path, number)) = &line.source else { return Ok(()) };
    if shown.print_line {
        writeln!(out, "{:width$} : {}:{number}", "", printable(path))?;
    }
    match sources.line(path, *number) {
        Some(text) => {
            let text = text.replace('\t', "    ");
            writeln!(out, "{:width$} : {number:<5} {}", "", printable(&text))
        }
        None => Ok(()),
    }
}

/// Returns a weight as the text of its column.
fn weight(weight: Weight, annotated: &AnnotatedFunction, shown: ListingStyle) -> String {
    match shown.column {
        ListingColumn::Percent => {
            format!("{:.2}", percent(weight, annotated, shown.percent_type))
        }
        ListingColumn::Samples => weight.samples.to_string(),
        ListingColumn::Period => weight.period.to_string(),
    }
}

/// Returns a weight as a percentage of the function or of all samples.
pub(super) fn percent(weight: Weight, annotated: &AnnotatedFunction, kind: PercentType) -> f64 {
    let (part, whole) = match kind {
        PercentType::LocalPeriod => (weight.period, annotated.own.period),
        PercentType::LocalHits => (weight.samples, annotated.own.samples),
        PercentType::GlobalPeriod => (weight.period, annotated.all.period),
        PercentType::GlobalHits => (weight.samples, annotated.all.samples),
    };
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

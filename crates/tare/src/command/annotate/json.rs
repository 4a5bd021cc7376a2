//! Writes functions as one versioned JSON document.

use std::io::{self, Write};

use serde_json::{Value, json};
use tare_profile::Losses;
use tare_render::loss_lines;

use super::text::percent;
use super::{ListingStyle, WeightedFunction};
use tare_annotate::{AnnotatedFunction, AnnotatedLine};

/// Version of the document: raised when a field changes its meaning or is removed.
const VERSION: u32 = 1;

pub(super) fn write(
    out: &mut dyn Write,
    functions: &[WeightedFunction],
    shown: ListingStyle,
    losses: &Losses,
) -> io::Result<()> {
    let functions: Vec<_> = functions.iter().map(|listed| function(listed, shown)).collect();
    let document =
        json!({ "version": VERSION, "functions": functions, "losses": loss_lines(losses) });
    tare_format::json::to_writer(&mut *out, &document)?;
    writeln!(out)
}

fn function(function: &WeightedFunction, shown: ListingStyle) -> Value {
    let name = &function.name;
    let event = &function.event;
    match &function.result {
        Err(why) => json!({ "name": name, "event": event, "error": why.to_string() }),
        Ok(annotated) => {
            let lines = annotated.lines.iter();
            let lines: Vec<_> = lines.map(|line| instruction(line, annotated, shown)).collect();
            json!({
                "name": name,
                "event": event,
                "file": annotated.path,
                "samples": annotated.own.samples,
                "period": annotated.own.period,
                "instructions": lines,
                "elsewhere": { "samples": annotated.elsewhere.samples, "period": annotated.elsewhere.period },
            })
        }
    }
}

fn instruction(line: &AnnotatedLine, annotated: &AnnotatedFunction, shown: ListingStyle) -> Value {
    let instruction = &line.instruction;
    let mut value = json!({
        "address": instruction.address,
        "text": instruction.text,
        "bytes": instruction.bytes,
        "samples": line.weight.samples,
        "period": line.weight.period,
        "percent": percent(line.weight, annotated, shown.percent_type),
    });
    if let Some(to) = instruction.jump {
        value["jumps_to"] = to.into();
    }
    if let Some((file, number)) = &line.source {
        value["source"] = json!({ "file": file, "line": number });
    }
    value
}

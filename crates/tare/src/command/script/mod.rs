//! `tare script`: a recording as text, a line or more for each sample, or as JSON, an object for
//! each.

mod chain;
mod events;
mod extra;
pub(crate) mod fields;
mod filter;
mod json;
mod line;
mod sample;
mod tracing;

use std::ops::ControlFlow;

use tare_format::file::Description;
use tare_format::record::kind;
use tare_replay::{Replay, What};

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::script::{Output, Script};
use crate::command::header;
use crate::exit::{self, Exit, Refusal};
use json::Objects;
use line::Lines;
use sample::Printer;
use tare_format::ledger::Ledger;

pub(crate) fn run(raw: &raw::Script) -> Outcome {
    let script = Script::new(raw)?;
    let reader = tare_replay::open(&script.input)?;
    let mut lines = Lines::new(std::io::stdout().lock());
    match script.output {
        Output::Header(extent) => header::write_only(lines.text(), reader, extent)?,
        Output::Text(extent) => {
            text(&script, Replay::new(reader, script.symbols.clone()), extent, &mut lines)?;
        }
        Output::Json => objects(&script, Replay::new(reader, script.symbols.clone()), &mut lines)?,
    }
    lines.flush()?;
    Ok(Exit::Success)
}

fn text(
    script: &Script,
    mut replay: Replay,
    mut header: Option<header::Extent>,
    lines: &mut Lines<impl std::io::Write>,
) -> anyhow::Result<()> {
    let mut printer = Printer::new(script);
    let mut filter = filter::Passing::new(&script.filter);
    let account = replay.run::<anyhow::Error>(&mut |machine, moment| {
        if filter.is_past(moment.time_ns) {
            return Ok(ControlFlow::Break(()));
        }
        // What a stream says of itself comes before the kernel's first record.
        if let Some(extent) = header.take_if(|_| moment.raw.kind < kind::USER_TYPE_START) {
            header::write(lines.text(), moment.description, extent)?;
        }
        match moment.what {
            What::Sample(sample) if filter.passes(machine, sample) => {
                printer.sample(lines.text(), machine, moment, sample).map_err(Refusal::usage)?;
            }
            What::Sample(_) => {}
            What::Other(record) => {
                printer.other(lines.text(), machine, moment, record).map_err(Refusal::usage)?;
            }
        }
        lines.end()?;
        Ok(ControlFlow::Continue(()))
    });
    lines.flush()?;
    let recorder =
        ledger(replay.description()).as_ref().map(tare_render::ledger_lines).unwrap_or_default();
    account?.lines().iter().chain(&recorder).for_each(|line| exit::say(line));
    Ok(())
}

fn objects(
    script: &Script,
    mut replay: Replay,
    lines: &mut Lines<impl std::io::Write>,
) -> anyhow::Result<()> {
    let mut objects = Objects::new(script);
    let mut filter = filter::Passing::new(&script.filter);
    Objects::begin(lines.text())?;
    let account = replay.run::<anyhow::Error>(&mut |machine, moment| {
        if filter.is_past(moment.time_ns) {
            return Ok(ControlFlow::Break(()));
        }
        if let What::Sample(sample) = moment.what
            && filter.passes(machine, sample)
        {
            objects.sample(lines.text(), machine, moment, sample)?;
            lines.end()?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    objects.end(lines.text(), &account, ledger(replay.description()).as_ref())?;
    Ok(())
}

/// What the recorder said about itself last.
fn ledger(description: &Description) -> Option<Ledger> {
    description.notes().iter().rev().find_map(|note| Ledger::from_note(note))
}

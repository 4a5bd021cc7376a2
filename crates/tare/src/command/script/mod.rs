//! `tare script`: a recording as text, a line or more for each sample.

mod chain;
mod events;
mod extra;
pub(crate) mod fields;
mod filter;
mod line;
mod sample;
mod tracing;

use std::ops::ControlFlow;

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::script::Script;
use crate::exit::{self, Exit, Refusal};
use crate::pipeline::replay::{self, Replay, What};
use line::Lines;
use sample::Printer;

pub(crate) fn run(raw: &raw::Script) -> Outcome {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    let script = Script::new(raw, home)?;
    let reader = replay::open(&script.input)?;
    let mut replay = Replay::new(reader, script.symbols.clone());
    let mut lines = Lines::new(std::io::stdout().lock());
    let mut printer = Printer::new(&script);
    let mut filter = filter::Passing::new(&script.filter);
    let account = replay.run(&mut |machine, moment| {
        if filter.is_past(moment.time_ns) {
            return Ok(ControlFlow::Break(()));
        }
        match moment.what {
            What::Sample(sample) if filter.passes(machine, sample) => {
                printer.sample(lines.text(), machine, moment, sample).map_err(Refusal::usage)?;
            }
            What::Sample(_) => {}
            What::Other(record) => printer.other(lines.text(), machine, moment, record).map_err(Refusal::usage)?,
        }
        lines.end()?;
        Ok(ControlFlow::Continue(()))
    });
    lines.flush()?;
    account?.lines().iter().for_each(|line| exit::say(line));
    Ok(Exit::Success)
}

//! `tare list`: which events this machine has, and why it lacks others.

mod inventory;
mod probe;
mod selection;
mod text;

use std::io::{BufWriter, Write};

use tare_kernel::host::Host;
use tare_kernel::open::System;

use crate::Outcome;
use crate::cli::raw::List;
use crate::exit::{Exit, Refusal};
use inventory::Section;
use selection::Selection;

/// The version of the JSON document: it changes when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// What users of `perf` look for in vain, and what to do instead.
const VENDOR_EVENTS: &str = "Names from vendors' event tables are not included. Take the numbers from the vendor's manual: rNNN, or pmu/event=N,umask=N/ with the terms of `tare list raw`.";

#[derive(serde::Serialize)]
struct Document<'a> {
    version: u32,
    sections: &'a [Section],
    notes: [&'a str; 1],
}

pub(crate) fn run(raw: &List) -> Outcome {
    let selection = Selection::new(&raw.what);
    let sections = inventory::sections(&selection, &Host::default(), &System);
    if sections.is_empty() {
        let message = format!(
            "nothing on this machine is called {}: `tare list` shows what is",
            raw.what.join(" or ")
        );
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    if raw.json {
        serde_json::to_writer_pretty(
            &mut out,
            &Document { version: VERSION, sections: &sections, notes: [VENDOR_EVENTS] },
        )
        .map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        text::write(&mut out, &sections, selection.is_everything().then_some(VENDOR_EVENTS))?;
    }
    out.flush()?;
    Ok(Exit::Success)
}

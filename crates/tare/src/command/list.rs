//! `tare list`: lists the events of this machine, the reason why others are missing, and what can
//! be probed in programs and the kernel.

use std::io::Write;
use std::path::Path;

use tare_events::list::{Listing, VENDOR_EVENTS};
use tare_events::probes::{ProbeFiles, ProbePoint, list_points};
use tare_format::printable;
use tare_kernel::command::find_in_path;
use tare_kernel::host::Host;
use tare_kernel::open::System;

use crate::Outcome;
use crate::cli::raw::ListArgs;
use crate::command::output;
use crate::exit::{Exit, Refusal};

/// Version of the JSON document: raised when a field changes its meaning or is removed.
const VERSION: u32 = 1;

/// The kinds of events that have names.
const NAMED_KINDS: [&str; 5] = ["hw", "sw", "cache", "pmu", "tracepoint"];

#[derive(serde::Serialize)]
struct ListDocument<'a> {
    version: u32,
    sections: Option<&'a Listing>,
    probes: &'a [ProbePoint],
    notes: &'a [&'a str],
}

pub(crate) fn run(raw: &ListArgs) -> Outcome {
    let asked = asked_words(raw);
    let mut words = Vec::new();
    let mut points = Vec::new();
    let path = std::env::var_os("PATH");
    let find = |name: &str| find_in_path(name.as_ref(), path.as_deref());
    let files = ProbeFiles { find: &find, pids: &[] };
    for word in &asked {
        match list_points(word, &files).map_err(|error| Refusal::usage(error.to_string()))? {
            Some(found) => points.extend(found),
            None => words.push(word.clone()),
        }
    }
    let has_events = asked.is_empty() || !words.is_empty();
    let listing = has_events.then(|| Listing::new(&words, &Host::default(), &System));
    if points.is_empty() && listing.as_ref().is_none_or(Listing::is_empty) {
        let names = asked.join(" or ");
        let message = if has_events {
            format!("this machine has no event called {names}; `tare list` shows those it has")
        } else {
            format!("no function and no static tracepoint matches {names}")
        };
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    output::write_to(raw.result.output.as_deref().unwrap_or(Path::new("-")), |mut out| {
        if raw.json.json {
            let notes: &[&str] = if has_events { &[VENDOR_EVENTS] } else { &[] };
            let sections = listing.as_ref();
            let document = ListDocument { version: VERSION, sections, probes: &points, notes };
            tare_format::json::to_writer_pretty(&mut out, &document)?;
            return writeln!(out);
        }
        match listing.filter(|listing| !listing.is_empty()) {
            Some(listing) if raw.raw_dump => listing.write_names(&mut out)?,
            Some(listing) => listing.write(&mut out)?,
            None => {}
        }
        if raw.raw_dump {
            let mut names = points.iter().map(|point| printable(point.name.as_bytes()));
            return names.try_for_each(|name| writeln!(out, "{name}"));
        }
        write_points(&mut out, &points)
    })?;
    Ok(Exit::Success)
}

/// Returns the selection as typed. A dump of all names lists each tracepoint.
fn asked_words(raw: &ListArgs) -> Vec<String> {
    match &raw.unit {
        Some(unit) => vec![format!("{unit}/*")],
        None if raw.raw_dump && raw.what.is_empty() => NAMED_KINDS.map(str::to_owned).to_vec(),
        None => raw.what.clone(),
    }
}

/// Writes the points, with a heading wherever the option that probes them changes.
fn write_points(out: &mut impl Write, points: &[ProbePoint]) -> std::io::Result<()> {
    let mut option = "";
    for point in points {
        if point.option != option {
            let separator = if option.is_empty() { "" } else { "\n" };
            option = point.option;
            writeln!(out, "{separator}for tare trace {option}:")?;
        }
        writeln!(out, "  {}", printable(point.name.as_bytes()))?;
    }
    Ok(())
}

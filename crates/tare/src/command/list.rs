//! `tare list`: lists the events of this machine, the reason why others are missing, and what can be
//! probed in programs and the kernel.

use std::io::{BufWriter, Write};

use tare_events::list::{Listing, VENDOR_EVENTS};
use tare_events::probes::{ProbeFiles, ProbePoint, list_points};
use tare_format::printable;
use tare_kernel::command::find_in_path;
use tare_kernel::host::Host;
use tare_kernel::open::System;

use crate::Outcome;
use crate::cli::raw::ListArgs;
use crate::exit::{Exit, Refusal};

/// Version of the JSON document: raised when a field changes its meaning or is removed.
const VERSION: u32 = 1;

#[derive(serde::Serialize)]
struct ListDocument<'a> {
    version: u32,
    sections: Option<&'a Listing>,
    probes: &'a [ProbePoint],
    notes: &'a [&'a str],
}

pub(crate) fn run(raw: &ListArgs) -> Outcome {
    let mut words = Vec::new();
    let mut points = Vec::new();
    let path = std::env::var_os("PATH");
    let find = |name: &str| find_in_path(name.as_ref(), path.as_deref());
    let files = ProbeFiles { find: &find, pids: &[] };
    for word in &raw.what {
        match list_points(word, &files).map_err(|error| Refusal::usage(error.to_string()))? {
            Some(found) => points.extend(found),
            None => words.push(word.clone()),
        }
    }
    let has_events = raw.what.is_empty() || !words.is_empty();
    let listing = has_events.then(|| Listing::new(&words, &Host::default(), &System));
    if points.is_empty() && listing.as_ref().is_none_or(Listing::is_empty) {
        let names = raw.what.join(" or ");
        let message = if has_events {
            format!("this machine has no event called {names}; `tare list` shows those it has")
        } else {
            format!("no function and no static tracepoint matches {names}")
        };
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    if raw.json.json {
        let notes: &[&str] = if has_events { &[VENDOR_EVENTS] } else { &[] };
        let document =
            ListDocument { version: VERSION, sections: listing.as_ref(), probes: &points, notes };
        serde_json::to_writer_pretty(&mut out, &document).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        if let Some(listing) = listing.filter(|listing| !listing.is_empty()) {
            listing.write(&mut out)?;
        }
        write_points(&mut out, &points)?;
    }
    out.flush()?;
    Ok(Exit::Success)
}

/// Writes the points under a heading for each option that probes them.
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

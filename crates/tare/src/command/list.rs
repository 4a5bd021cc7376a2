//! `tare list`: lists the events of this machine, and the reason why others are missing.

use std::io::{BufWriter, Write};

use tare_events::list::{Listing, VENDOR_EVENTS};
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
    sections: &'a Listing,
    notes: [&'a str; 1],
}

pub(crate) fn run(raw: &ListArgs) -> Outcome {
    let listing = Listing::new(&raw.what, &Host::default(), &System);
    if listing.is_empty() {
        let message = format!(
            "this machine has no event called {}; `tare list` shows those it has",
            raw.what.join(" or ")
        );
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    if raw.json.json {
        let document =
            ListDocument { version: VERSION, sections: &listing, notes: [VENDOR_EVENTS] };
        serde_json::to_writer_pretty(&mut out, &document).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        listing.write(&mut out)?;
    }
    out.flush()?;
    Ok(Exit::Success)
}

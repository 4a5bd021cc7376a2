//! `tare record`: samples and tracepoints into a perf.data file.

pub mod plan;

use std::io::Write;

use tare_kernel::host::Host;
use tare_kernel::open::System;

use self::plan::Plan;
use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::record::Record;
use crate::exit::{Exit, Refusal, say};

pub(crate) fn run(raw: raw::Record) -> Outcome {
    let host = Host::default();
    let record = Record::resolve(raw, &host)?;
    let plan = Plan::new(&record, &host, &System)?;
    plan.notes.iter().for_each(|note| say(note));
    if record.dry_run {
        write!(std::io::stdout(), "{plan}")?;
        return Ok(Exit::Success);
    }
    Err(Refusal::usage("this build records nothing yet: --dry-run shows what would be opened").into())
}

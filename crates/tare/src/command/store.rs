//! `tare store`: what a store has, names that come later, compaction, and a check of all files.

use std::io::stdout;
use std::path::Path;

use tare_agent::{
    name_frames, now_us, write_compaction, write_overview, write_symbolization, write_verification,
};
use tare_store::{Store, StoreError, StoreOptions, StoreReader};

use crate::Outcome;
use crate::cli::raw::{self, StoreAction};
use crate::cli::resolved::store::StoreCommand;
use crate::exit::{Exit, Refusal};

pub(crate) fn run(raw: raw::StoreCommandArgs) -> Outcome {
    let StoreCommand { action, stored, symbols, json } = StoreCommand::resolve(raw)?;
    let path = &stored.store;
    let mut out = stdout().lock();
    match action {
        StoreAction::Status => {
            write_overview(&mut out, &reader(path)?.overview(&stored.query)?, json)?;
        }
        StoreAction::Symbolize => {
            let (named, nameless) = name_frames(&writer(path)?, &symbols)?;
            write_symbolization(&mut out, &named, &nameless, json)?;
        }
        StoreAction::Compact => {
            let store = writer(path)?;
            store.recover()?;
            write_compaction(&mut out, &store.compact(now_us())?, json)?;
        }
        StoreAction::Verify => {
            let found = reader(path)?.verify()?;
            write_verification(&mut out, &found, path, json)?;
            return Ok(if found.problems.is_empty() { Exit::Success } else { Exit::Failure });
        }
    }
    Ok(Exit::Success)
}

fn reader(path: &Path) -> Result<StoreReader, Refusal> {
    StoreReader::open(path, 1).map_err(|error| not_opened(&error))
}

/// Opens a store that exists.
fn writer(path: &Path) -> Result<Store, Refusal> {
    reader(path)?;
    Store::open(path, StoreOptions::default()).map_err(|error| not_opened(&error))
}

fn not_opened(error: &StoreError) -> Refusal {
    let message = format!("{error}; --store DIR selects another store");
    Refusal { exit: Exit::Failure, message }
}

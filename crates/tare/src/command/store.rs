//! `tare store`: what a store has, names that come later, compaction, and a check of all files.

use std::io::stdout;

use tare_agent::{
    name_frames, now_us, write_compaction, write_overview, write_symbolization, write_verification,
};
use tare_store::{StoreError, StoreReader};

use crate::Outcome;
use crate::cli::raw::{self, StoreAction};
use crate::cli::resolved::store::StoreCommand;
use crate::cli::resolved::stored::StoredSamples;
use crate::exit::{Exit, Refusal};

pub(crate) fn run(raw: raw::StoreCommandArgs) -> Outcome {
    let StoreCommand { action, stored, symbols, json } = StoreCommand::resolve(raw)?;
    let access = stored.access();
    let mut out = stdout().lock();
    match action {
        StoreAction::Status => {
            write_overview(&mut out, &reader(&stored)?.overview(&stored.query)?, json)?;
        }
        StoreAction::Symbolize => {
            let named = access.rewrite(|store| name_frames(store, &symbols));
            let (named, nameless) = named.map_err(|error| not_opened(&error))?;
            write_symbolization(&mut out, &named, &nameless, json)?;
        }
        StoreAction::Compact => {
            let done = access.compact(now_us()).map_err(|error| not_opened(&error))?;
            write_compaction(&mut out, &done, json)?;
        }
        StoreAction::Verify => {
            let found = reader(&stored)?.verify()?;
            write_verification(&mut out, &found, &stored.folder()?, json)?;
            return Ok(if found.problems.is_empty() { Exit::Success } else { Exit::Failure });
        }
    }
    Ok(Exit::Success)
}

fn reader(stored: &StoredSamples) -> Result<StoreReader, Refusal> {
    let opened = stored.folder().and_then(|folder| StoreReader::open(&folder, 1));
    opened.map_err(|error| not_opened(&error))
}

fn not_opened(error: &StoreError) -> Refusal {
    let message = format!("{error}; --store selects another store");
    Refusal { exit: Exit::Failure, message }
}

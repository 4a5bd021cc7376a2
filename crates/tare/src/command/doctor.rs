//! `tare doctor`.

use crate::Outcome;
use crate::cli::raw::Doctor;
use crate::exit::Exit;

pub(crate) fn run(_raw: &Doctor) -> Outcome {
    Ok(Exit::Failure)
}

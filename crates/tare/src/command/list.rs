//! `tare list`.

use crate::Outcome;
use crate::cli::raw::List;
use crate::exit::Exit;

pub(crate) fn run(_raw: &List) -> Outcome {
    Ok(Exit::Failure)
}

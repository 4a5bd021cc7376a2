//! `tare stat`.

use crate::Outcome;
use crate::cli::raw::Stat;
use crate::exit::Exit;

#[allow(clippy::needless_pass_by_value)]
pub(crate) fn run(_raw: Stat) -> Outcome {
    Ok(Exit::Failure)
}

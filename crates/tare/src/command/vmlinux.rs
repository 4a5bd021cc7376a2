//! Checks the file of `--vmlinux`.

use tare_replay::Recording;
use tare_symbols::SymbolOptions;

use crate::exit::{Exit, Refusal};

/// Fails if the file is of another kernel than the recorded one. Passes if the recording's header
/// doesn't identify its kernel.
pub(crate) fn check(recording: &Recording, symbols: &SymbolOptions) -> Result<(), Refusal> {
    let Some(path) = &symbols.vmlinux else { return Ok(()) };
    tare_symbols::check_vmlinux(path, &recording.kernel()).map_err(|why| Refusal {
        exit: Exit::Failure,
        message: format!("--vmlinux {}: {why}", path.display()),
    })
}

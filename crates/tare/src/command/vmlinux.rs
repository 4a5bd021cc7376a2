//! The file that `--vmlinux` names.

use tare_replay::Recording;
use tare_symbols::SymbolOptions;

use crate::exit::{Exit, Refusal};

/// Refuses a file of another kernel than the recorded one, as far as the recording says already
/// which that is.
pub(crate) fn check(recording: &Recording, symbols: &SymbolOptions) -> Result<(), Refusal> {
    let Some(path) = &symbols.vmlinux else { return Ok(()) };
    tare_symbols::check_vmlinux(path, &recording.kernel()).map_err(|why| Refusal {
        exit: Exit::Failure,
        message: format!("--vmlinux {}: {why}", path.display()),
    })
}

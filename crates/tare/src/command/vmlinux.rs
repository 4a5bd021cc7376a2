//! Checks the file of `--vmlinux`.

use tare_replay::Recording;
use tare_symbols::SymbolOptions;

use crate::exit::{Exit, Refusal};

/// Fails if the file isn't a kernel image with a build id, or is of another kernel than the
/// recorded one. Another kernel passes if the recording doesn't identify its own.
pub(crate) fn check(recording: &Recording, symbols: &SymbolOptions) -> Result<(), Refusal> {
    let Some(path) = &symbols.vmlinux else { return Ok(()) };
    tare_symbols::check_vmlinux(path, &recording.kernel()).map_err(|why| Refusal {
        exit: Exit::Failure,
        message: format!("--vmlinux {}: {why}", path.display()),
    })
}

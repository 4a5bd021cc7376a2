//! The folder where tare keeps what it measured: `$XDG_STATE_HOME/tare`, else
//! `~/.local/state/tare`.

use std::path::PathBuf;

use anyhow::Context;
use tare_measure::overhead::kept::{FOLDER, StateFolder};

/// The user's state directory; none where neither variable says.
fn base() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
}

/// Opens the folder that studies are kept in, and makes it where it isn't there.
///
/// # Errors
/// It can't be made, is a symbolic link, or belongs to somebody else.
pub(crate) fn make() -> anyhow::Result<StateFolder> {
    let base = base().context(
        "neither XDG_STATE_HOME nor HOME says where results are kept: set one, or use --no-save",
    )?;
    Ok(StateFolder::make(&base, FOLDER)?)
}

/// Opens the folder; none where it isn't there.
///
/// # Errors
/// It is a symbolic link, or belongs to somebody else.
pub(crate) fn find() -> anyhow::Result<Option<StateFolder>> {
    base().map_or(Ok(None), |base| Ok(StateFolder::find(&base, FOLDER)?))
}

//! The folder of saved studies: `$XDG_STATE_HOME/tare/overhead`, otherwise
//! `~/.local/state/tare/overhead`.

use std::path::PathBuf;

use anyhow::Context;
use tare_kernel::foreign_folder::find_foreign_folder;
use tare_measure::overhead::kept::{FOLDER, StateFolder};

/// The user's state directory. `None` if neither variable is set to an absolute path.
fn base() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
}

/// Opens the folder, and creates it if it doesn't exist.
///
/// # Errors
/// Fails if neither variable holds an absolute path, or if the folder can't be created, is a
/// symbolic link, or belongs to another user. Root creates none in another user's home.
pub(crate) fn make() -> anyhow::Result<StateFolder> {
    let base =
        base().context("neither XDG_STATE_HOME nor HOME is set: set one, or use --no-save")?;
    if let Some(foreign) = find_foreign_folder(&base) {
        anyhow::bail!(
            "{} belongs to another user: set HOME to root's, or use --no-save",
            foreign.display()
        );
    }
    Ok(StateFolder::make(&base, FOLDER)?)
}

/// Opens the folder. `None` if it doesn't exist.
///
/// # Errors
/// Fails if the folder is a symbolic link or belongs to another user.
pub(crate) fn find() -> anyhow::Result<Option<StateFolder>> {
    base().map_or(Ok(None), |base| Ok(StateFolder::find(&base, FOLDER)?))
}

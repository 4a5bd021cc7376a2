//! Writes manual pages and shell completions.
//!
//! ```text
//! manual FOLDER
//! FOLDER/man1/tare.1, tare-stat.1 …    FOLDER/man7/tare-events.7 …
//! FOLDER/bash/tare    FOLDER/zsh/_tare    FOLDER/fish/tare.fish
//! ```
//! The generator of pages reads clap's description of tare and the pages in `docs`. It isn't part of
//! the program, to keep that small. `tare completions` prints the completions.

// A development tool, like a test.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic)]

mod markdown;
mod pages;

use std::fs;
use std::path::PathBuf;

use tare::command::completions::script_for;
use tare_complete::Shell;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("name a folder")?);
    // bash-completion looks for the program's name alone.
    let scripts = [
        (Shell::Bash, "bash", "tare"),
        (Shell::Zsh, "zsh", "_tare"),
        (Shell::Fish, "fish", "tare.fish"),
    ];
    for (shell, folder_name, name) in scripts {
        let folder = folder.join(folder_name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), script_for(shell)?)?;
    }
    for (name, text) in pages::all()? {
        let section = name.rsplit('.').next().unwrap_or_default();
        let folder = folder.join(format!("man{section}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

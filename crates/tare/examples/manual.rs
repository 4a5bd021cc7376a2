//! Writes manual pages and shell completions.
//!
//! ```text
//! manual FOLDER
//! FOLDER/man1/tare.1, tare-stat.1 …    FOLDER/bash/tare
//! FOLDER/zsh/_tare                     FOLDER/fish/tare.fish
//! ```
//! The generators read clap's description of tare. They aren't part of the program, to keep it
//! small.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;
use tare::cli::raw::Tare;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("name a folder")?);
    let mut command = Tare::command();
    // `build` describes the arguments of subcommands, which are deferred.
    command.build();
    for (shell, name) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        let made = clap_complete::generate_to(shell, &mut command, "tare", &folder)?;
        if shell == Shell::Bash {
            // bash-completion looks for the program's name alone.
            fs::rename(made, folder.join("tare"))?;
        }
    }
    let pages = folder.join("man1");
    fs::create_dir_all(&pages)?;
    let mut described = Tare::command().disable_help_subcommand(true);
    described.build();
    clap_mangen::generate_to(described, &pages)?;
    Ok(())
}

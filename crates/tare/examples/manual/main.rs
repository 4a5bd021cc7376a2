//! Writes manual pages and shell completions.
//!
//! ```text
//! manual FOLDER
//! FOLDER/man1/tare.1, tare-stat.1 …    FOLDER/man7/tare-events.7 …
//! FOLDER/bash/tare    FOLDER/zsh/_tare    FOLDER/fish/tare.fish
//! ```
//! The generators read clap's description of tare and the pages in `docs`. They aren't part of the
//! program, to keep it small.

// A development tool, like a test.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic)]

mod completions;
mod markdown;
mod pages;

use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("name a folder")?);
    completions::write(&folder)?;
    for (name, text) in pages::all()? {
        let section = name.rsplit('.').next().unwrap_or_default();
        let folder = folder.join(format!("man{section}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

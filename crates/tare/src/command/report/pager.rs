//! `--pager`: the report through the user's pager.

use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::Outcome;
use crate::exit::Exit;

/// The pager if `PAGER` is not set, or blank.
const DEFAULT_PAGER: &str = "less";

/// Pipes the output of `write` into `$PAGER`, and waits until the pager exits.
pub(super) fn through(write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> Outcome {
    let named = std::env::var("PAGER").ok().filter(|name| !name.trim().is_empty());
    let words = named.unwrap_or_else(|| DEFAULT_PAGER.to_owned());
    let mut pager = Command::new("sh")
        .args(["-c", &words])
        .stdin(Stdio::piped())
        // Exit if the text fits on one screen, leave it there, pass colours, don't wrap lines.
        .env("LESS", std::env::var("LESS").unwrap_or_else(|_| "FRSX".to_owned()))
        .spawn()
        .with_context(|| {
            format!("the pager '{words}' can't be started; set PAGER, or use --stdio")
        })?;
    let mut written = Ok(());
    if let Some(pipe) = pager.stdin.take() {
        let mut out = BufWriter::new(pipe);
        written = write(&mut out).and_then(|()| out.flush().context("cannot write to the pager"));
    }
    pager.wait().context("the pager can't be waited for")?;
    written.map(|()| Exit::Success)
}

//! `--pager`: the report through the user's pager.

use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::Outcome;
use crate::exit::Exit;

/// What shows text where the environment names nothing.
const USUAL: &str = "less";

/// Hands what `write` writes to `$PAGER`, and waits until the user has read it.
pub(super) fn through(write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> Outcome {
    let named = std::env::var("PAGER").ok().filter(|name| !name.trim().is_empty());
    let words = named.unwrap_or_else(|| USUAL.to_owned());
    let mut pager = Command::new("sh")
        .args(["-c", &words])
        .stdin(Stdio::piped())
        // What fits on one screen is left there, and long lines are not folded, as git has it.
        .env("LESS", std::env::var("LESS").unwrap_or_else(|_| "FRSX".to_owned()))
        .spawn()
        .with_context(|| format!("the pager '{words}' can't be started"))?;
    let mut written = Ok(());
    if let Some(pipe) = pager.stdin.take() {
        let mut out = BufWriter::new(pipe);
        written = write(&mut out).and_then(|()| out.flush().context("cannot write to the pager"));
    }
    pager.wait().context("the pager can't be waited for")?;
    written.map(|()| Exit::Success)
}

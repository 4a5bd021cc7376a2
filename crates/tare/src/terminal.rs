//! Abilities of the terminal, from stdout and the environment.

use std::io::IsTerminal;

use crate::exit::Refusal;

/// Whether colours are off: `NO_COLOR` is set and not empty (<https://no-color.org>).
pub(crate) fn is_plain() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Whether stdout is a terminal that can show a full-screen interface.
pub(crate) fn has_screen() -> bool {
    std::io::stdout().is_terminal() && moves_its_cursor()
}

/// Checks that `--tui` can be honoured. `text` names what is printed without it.
///
/// # Errors
/// Fails if stdout is not a terminal, or if the terminal can't move its cursor.
pub(crate) fn need_screen(text: &str) -> Result<(), Refusal> {
    if !std::io::stdout().is_terminal() {
        return Err(Refusal::usage(format!(
            "--tui: stdout is not a terminal; without --tui, {text} is printed as text"
        )));
    }
    if !moves_its_cursor() {
        return Err(Refusal::usage(format!(
            "--tui: this terminal can't move its cursor, according to TERM; without --tui, {text} is printed as text"
        )));
    }
    Ok(())
}

fn moves_its_cursor() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

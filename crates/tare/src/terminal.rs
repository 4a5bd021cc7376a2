//! What the user's terminal is to show, by stdout and the environment.

use std::io::IsTerminal;

use crate::exit::Refusal;

/// Whether the user wants no colours: `NO_COLOR` holds something (<https://no-color.org>).
pub(crate) fn is_plain() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Whether stdout is a terminal whose cursor can be moved, as a whole screen needs.
pub(crate) fn has_screen() -> bool {
    std::io::stdout().is_terminal() && moves_its_cursor()
}

/// Holds `--tui` to such a terminal. `text` is what there is without the option.
///
/// # Errors
/// Usage, with what is missing.
pub(crate) fn need_screen(text: &str) -> Result<(), Refusal> {
    if !std::io::stdout().is_terminal() {
        return Err(Refusal::usage(format!(
            "--tui: stdout is no terminal (without --tui {text} is text)"
        )));
    }
    if !moves_its_cursor() {
        return Err(Refusal::usage(format!(
            "--tui: the terminal can't move its cursor, as TERM has it (without --tui {text} is text)"
        )));
    }
    Ok(())
}

fn moves_its_cursor() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

//! The registers of `--user-regs` and `--intr-regs`.

use tare_record::registers::{REGISTERS, user_registers};

use crate::exit::Refusal;

/// Parses a list of registers, ignoring case; an empty text selects all.
pub(super) fn parse(option: &str, text: &str) -> Result<u64, Refusal> {
    let names = || REGISTERS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ");
    if text == "?" {
        return Err(Refusal::usage(format!("{option} takes: {}", names())));
    }
    if REGISTERS.is_empty() {
        return Err(Refusal::usage(format!(
            "{option}: registers of this processor are not supported: leave it out"
        )));
    }
    if text.is_empty() {
        return Ok(user_registers());
    }
    text.split(',').try_fold(0, |bits, name| {
        match REGISTERS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, number)) => Ok(bits | 1 << number),
            None => Err(Refusal::usage(format!(
                "{option}: unknown register '{name}'; known registers: {}",
                names()
            ))),
        }
    })
}

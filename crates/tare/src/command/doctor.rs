//! `tare doctor`: reports what this user can measure on this machine, and how to lift each limit.

use std::io::{IsTerminal, Write};

use tare_measure::doctor::Report;

use crate::Outcome;
use crate::cli::raw::DoctorArgs;
use crate::exit::Exit;
use crate::terminal;

pub(crate) fn run(raw: &DoctorArgs) -> Outcome {
    let report = Report::for_this_machine();
    let stdout = std::io::stdout();
    let output = if raw.json.json {
        tare_format::json::to_string_pretty(&report)? + "\n"
    } else {
        report.text(stdout.is_terminal() && !terminal::is_plain())
    };
    stdout.lock().write_all(output.as_bytes())?;
    Ok(Exit::Success)
}

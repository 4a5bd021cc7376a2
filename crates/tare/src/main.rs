//! The `tare` binary: see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tare::run(std::env::args_os())
}

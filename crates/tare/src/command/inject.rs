//! `tare inject`: copies a recording. perf adds build ids, symbols of JIT compilers and call chains
//! to a copy; tare reads them where it shows the recording.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context;
use tare_format::printable;

use crate::Outcome;
use crate::cli::raw::InjectArgs;
use crate::command::output;
use crate::exit::{Exit, Refusal, say};

/// Beginnings of recordings: of files, and of files and streams of the other byte order.
const MAGIC: [&[u8; 8]; 2] = [b"PERFILE2", b"2ELIFREP"];

pub(crate) fn run(raw: &InjectArgs) -> Outcome {
    let shown = printable(raw.input.as_os_str().as_encoded_bytes()).into_owned();
    let mut input: Box<dyn Read> = if raw.input == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(&raw.input).with_context(|| shown.clone())?)
    };
    let mut magic = [0; 8];
    let is_recording = input.read_exact(&mut magic).is_ok() && MAGIC.contains(&&magic);
    if !is_recording {
        let message = format!("{shown}: not a recording");
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    output::write_to(&raw.output, |out| {
        out.write_all(&magic)?;
        io::copy(&mut input, out).map(|_| ())
    })?;
    say(
        "copied as it is: tare reads build ids and files of JIT compilers where it shows a recording",
    );
    Ok(Exit::Success)
}

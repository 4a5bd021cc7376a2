//! `-o`: opens a file that only its owner can read, or standard output.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use tare_record::own_file;

/// Bytes per write.
const BUFFER: usize = 1 << 18;

/// Creates a file that only its owner can read, and writes to it; `-` is standard output. A symbolic
/// link in a folder that other users can write to is not followed.
pub(crate) fn write_to(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, create(path)?);
    write(&mut out).and_then(|()| out.flush()).with_context(|| named(path))
}

/// Opens the file or standard output.
pub(crate) fn create(path: &Path) -> anyhow::Result<Box<dyn Write + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    let file: File = own_file::create(path, false).with_context(|| named(path))?;
    Ok(Box::new(file))
}

/// The name of the output in errors.
pub(crate) fn named(path: &Path) -> String {
    if path == Path::new("-") {
        "standard output".to_owned()
    } else {
        format!("-o {}", path.display())
    }
}

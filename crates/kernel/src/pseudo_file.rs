//! Reading files that the kernel makes up when they are read, in `/proc` and tracefs.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The least room that a read is offered. Some files of tracefs (`events/header_page`) give what
/// fits into the first read, and nothing in the next; the small reads by which `std::fs::read`
/// finds the end of a file without a size cut them.
const READ_BYTES: usize = 8 << 10;

/// Replaces what is in `into` by what is left of a file. Its memory is kept for the next.
pub(crate) fn read_into(file: &mut File, into: &mut Vec<u8>) -> io::Result<()> {
    into.clear();
    let mut filled = 0;
    loop {
        if into.len() - filled < READ_BYTES {
            into.resize((2 * into.len()).max(2 * READ_BYTES), 0);
        }
        match file.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    into.truncate(filled);
    Ok(())
}

/// All of such a file. Most are small, and are had by two reads: the second finds the end.
///
/// # Errors
/// The file system's own.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_into(&mut File::open(path)?, &mut bytes)?;
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// The file system's own, and [`ErrorKind::InvalidData`] for what is none.
pub fn read_text(path: &Path) -> io::Result<String> {
    read(path).and_then(text)
}

/// Bytes as text.
pub(crate) fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

//! Reading files that the kernel makes up when they are read, in `/proc`, sysfs and tracefs.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::param::page_size;

/// The least room that a read is offered. Some files of tracefs (`events/header_page`) give what
/// fits into the first read, and nothing in the next; the small reads by which `std::fs::read`
/// finds the end of a file without a size cut them.
const READ_BYTES: usize = 8 << 10;

/// Replaces what is in `into` by what is left of a file. Its memory is kept for the next.
pub(crate) fn read_into(file: &File, into: &mut Vec<u8>) -> io::Result<()> {
    into.clear();
    loop {
        if into.capacity() - into.len() < READ_BYTES {
            into.reserve((2 * into.len()).max(2 * READ_BYTES));
        }
        // What is free isn't cleared first.
        match rustix::io::read(file, spare_capacity(into)) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// What one read of so many bytes gives: where the kernel writes a file record by record, it makes
/// up no more of them.
pub(crate) fn beginning(file: &File, bytes: usize) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(bytes);
    rustix::io::retry_on_intr(|| rustix::io::read(file, spare_capacity(&mut text)))?;
    Ok(text)
}

/// All of an attribute in sysfs, or of a setting, which has less than a page and comes whole in one
/// read (`Documentation/filesystems/sysfs.rst`); lists of CPUs can have more, and come by the page.
pub(crate) fn attribute(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        bytes.reserve(page_size());
        match rustix::io::read(file, spare_capacity(&mut bytes)) {
            Ok(read) if read < page_size() => return Ok(bytes),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// All of such a file. Most are small, and are had by two reads: the second finds the end.
///
/// # Errors
/// The file system's own.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_into(&File::open(path)?, &mut bytes)?;
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

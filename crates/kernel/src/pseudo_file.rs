//! Reads files that the kernel generates on reading, in `/proc`, sysfs and tracefs.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::param::page_size;

/// Smallest buffer of a read, in bytes. Some files of tracefs (`events/header_page`) return what
/// fits into the first read and nothing later; `std::fs::read` looks for the end of a file without
/// a size by small reads, which truncates them.
const READ_BYTES: usize = 8 << 10;

/// Replaces the content of `into` by the rest of a file, keeping its allocation.
pub(crate) fn read_into(file: &File, into: &mut Vec<u8>) -> io::Result<()> {
    into.clear();
    loop {
        if into.capacity() - into.len() < READ_BYTES {
            into.reserve((2 * into.len()).max(2 * READ_BYTES));
        }
        // The spare capacity isn't cleared first.
        match rustix::io::read(file, spare_capacity(into)) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Returns the bytes of one read of at most this many. The kernel generates a file such as
/// `/proc/cpuinfo` record by record, and only as many as fit.
pub(crate) fn beginning(file: &File, bytes: usize) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(bytes);
    rustix::io::retry_on_intr(|| rustix::io::read(file, spare_capacity(&mut text)))?;
    Ok(text)
}

/// Reads all of a sysfs attribute or a setting. Most have less than a page and come whole in one
/// read (`Documentation/filesystems/sysfs.rst`); longer lists of CPUs come by the page.
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

/// Reads a whole file. Most are small: one read returns the content, a second finds the end.
///
/// # Errors
/// Fails if the file can't be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_into(&File::open(path)?, &mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file as text.
///
/// # Errors
/// Fails if the file can't be read, and with [`ErrorKind::InvalidData`] if it isn't UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    read(path).and_then(text)
}

/// Converts bytes to text; fails with [`ErrorKind::InvalidData`] if they aren't UTF-8.
pub(crate) fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

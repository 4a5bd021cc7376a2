//! Files that only the user can access.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Creates a file that only its owner can access, or opens one to append to it. Doesn't follow a
/// symbolic link in a folder that others can write to: it could lead to any file of the user's.
///
/// # Errors
/// Fails for a link in such a folder, and if the file can't be opened.
pub fn create(path: &Path, append: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    if append {
        options.append(true);
    } else {
        options.write(true).truncate(true);
    }
    open(path, &mut options, OFlags::empty())
}

/// Opens a file with these options and flags. Doesn't follow a symbolic link in a folder that
/// others can write to.
///
/// # Errors
/// As [`create`].
pub fn open(path: &Path, options: &mut OpenOptions, flags: OFlags) -> io::Result<File> {
    let flags = if others_can_write(path) { flags | OFlags::NOFOLLOW } else { flags };
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(code) if Errno::from_raw_os_error(code) == Errno::LOOP => not_followed(),
        _ => error,
    })
}

/// Checks that a path may be opened if it is a symbolic link.
///
/// # Errors
/// Fails if the link lies in a folder that others can write to.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    if others_can_write(path) { Err(not_followed()) } else { Ok(()) }
}

fn not_followed() -> io::Error {
    io::Error::other(
        "a symbolic link in a folder that others can write to is not followed: name the file itself",
    )
}

/// Whether others can write to the folder of a path.
fn others_can_write(path: &Path) -> bool {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o022 != 0)
}

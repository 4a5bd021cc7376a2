//! Attributes of devices in sysfs (`Documentation/filesystems/sysfs.rst`), by folder.

use std::fs::File;
use std::io::Result;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::Host;
use crate::pseudo_file;

/// A folder of attributes in sysfs. It is opened once, because path lookup costs the kernel more
/// than the read.
#[derive(Debug)]
pub struct Attributes(OwnedFd);

impl Host {
    /// Opens a folder of attributes, an absolute path of the machine.
    ///
    /// # Errors
    /// Fails if the folder can't be opened.
    pub fn attributes(&self, folder: &str) -> Result<Attributes> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Attributes(openat(CWD, self.path(folder), flags, Mode::empty())?))
    }
}

impl Attributes {
    /// Reads an attribute and trims white space.
    ///
    /// # Errors
    /// Fails if the file can't be read, and with [`std::io::ErrorKind::InvalidData`] if it isn't
    /// UTF-8.
    pub fn read(&self, name: &str) -> Result<String> {
        let file =
            File::from(openat(&self.0, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
        Ok(pseudo_file::text(pseudo_file::attribute(&file)?)?.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::host::fixture;

    #[test]
    fn attributes_are_read_whole_and_trimmed() {
        let long = "x".repeat(10_000);
        let machine = fixture::machine(&[
            ("/sys/a/level", " 2\n"),
            ("/sys/a/empty", ""),
            ("/sys/a/long", long.as_str()),
        ]);
        let folder = machine.host().attributes("/sys/a").unwrap();
        assert_eq!(folder.read("level").unwrap(), "2");
        assert_eq!(folder.read("empty").unwrap(), "");
        assert_eq!(folder.read("long").unwrap(), long);
        assert_eq!(folder.read("none").unwrap_err().kind(), std::io::ErrorKind::NotFound);
        assert!(machine.host().attributes("/sys/b").is_err());
    }
}

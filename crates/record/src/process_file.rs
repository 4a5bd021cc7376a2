//! Opens files at paths that processes chose. Such a path may lead to a FIFO or a device by now, or
//! through the process's own links.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Opens a regular file. Refuses other kinds before they are opened, since that may wait or trigger
/// a device.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut open = OpenOptions::new();
    open.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0)).open(path)
}

/// Opens a regular file by its path as seen from a process's root. No link leads out of that.
pub(crate) fn open_in_root(root: &Path, path: &Path) -> io::Result<File> {
    let folder = File::open(root)?;
    let open = |flags| {
        let flags = flags | OFlags::CLOEXEC;
        rustix::fs::openat2(&folder, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
    };
    if !File::from(open(OFlags::PATH)?).metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_process_stay_below_its_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let outside = folder.path().join("file");
        std::fs::write(&outside, "outside").unwrap();
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        assert!(open_in_root(&root, Path::new("/link")).is_err());
        let inside = root.join(outside.strip_prefix("/").unwrap());
        std::fs::create_dir_all(inside.parent().unwrap()).unwrap();
        std::fs::write(&inside, "inside").unwrap();
        let opened = open_in_root(&root, Path::new("/link")).unwrap();
        assert_eq!(io::read_to_string(opened).unwrap(), "inside");
    }

    #[test]
    fn a_fifo_and_a_device_are_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("fifo"), Mode::RUSR).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("device")).unwrap();
        let place = folder.path().to_owned();
        let (done, opened) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let refused = ["fifo", "device"].map(|name| {
                open_regular(&place.join(name)).is_err()
                    && open_in_root(&place, &Path::new("/").join(name)).is_err()
            });
            done.send(refused)
        });
        let waited = opened.recv_timeout(std::time::Duration::from_secs(30));
        assert_eq!(waited, Ok([true, true]));
    }
}

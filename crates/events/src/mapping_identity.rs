//! Recognizes the mappings of a file.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tare_kernel::procfs::Mapping;

/// File systems whose files have another device number in `/proc/PID/maps` than in `stat(2)`:
/// `BTRFS_SUPER_MAGIC` and `OVERLAYFS_SUPER_MAGIC` of `include/uapi/linux/magic.h`.
const MANY_DEVICES: [rustix::fs::FsWord; 2] = [0x9123_683e, 0x794c_7630];

/// What identifies a file in mappings of it.
#[derive(Debug)]
pub(crate) struct MappingIdentity {
    inode: u64,
    /// `None` if mappings have another device than the file.
    device: Option<(u32, u32)>,
}

impl MappingIdentity {
    /// Reads what identifies a file; `None` if it can't be read.
    pub(crate) fn new(path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        let device = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
        let file_system = rustix::fs::statfs(path).ok()?.f_type;
        let device = (!MANY_DEVICES.contains(&file_system)).then_some(device);
        Some(Self { inode: metadata.ino(), device })
    }

    /// Whether a mapping is one of this file.
    pub(crate) fn is_mapped_by(&self, mapping: &Mapping<'_>) -> bool {
        mapping.inode == self.inode && self.device.is_none_or(|device| device == mapping.device)
    }
}

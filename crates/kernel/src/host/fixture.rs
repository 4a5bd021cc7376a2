//! Machines described by folders, for tests.

use std::path::Path;

use super::Host;

/// A machine in a temporary folder, which is removed on drop.
pub(crate) struct FixtureHost(tempfile::TempDir);

impl FixtureHost {
    pub(crate) fn host(&self) -> Host {
        Host::at(self.0.path())
    }
}

/// Creates a machine from absolute paths and their content.
pub(crate) fn machine(files: &[(impl AsRef<str>, impl AsRef<[u8]>)]) -> FixtureHost {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path.as_ref().trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, content).unwrap();
    }
    FixtureHost(root)
}

/// Creates a machine without files.
pub(crate) fn empty() -> FixtureHost {
    machine(&[("/proc/none", ""); 0])
}

//! Machines described as folders, for tests.

use std::path::Path;

use super::Host;

/// A machine that lives in a temporary folder until it is dropped.
pub(crate) struct FixtureHost(tempfile::TempDir);

impl FixtureHost {
    pub(crate) fn host(&self) -> Host {
        Host::at(self.0.path())
    }
}

/// A machine of these files: absolute paths and their contents.
pub(crate) fn machine(files: &[(impl AsRef<str>, impl AsRef<[u8]>)]) -> FixtureHost {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path.as_ref().trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, content).unwrap();
    }
    FixtureHost(root)
}

/// A machine without any file.
pub(crate) fn empty() -> FixtureHost {
    machine(&[("/proc/none", ""); 0])
}

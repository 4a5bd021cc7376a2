//! The folder of a benchmark's recordings, and the command lines of the recorders that write there.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use tempfile::{Builder, TempDir};

use crate::setting::Setting;

/// The prefix of the folders' names.
const PREFIX: &str = "tare-bench-";

/// A locked folder that is removed on drop. If the benchmark is killed, the next one that makes a
/// folder in the same place finds it unlocked and removes it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _folder: TempDir,
    _lock: File,
}

impl Folder {
    /// Makes a folder in `place`.
    pub(crate) fn new_in(place: &Path) -> anyhow::Result<Self> {
        let made = || -> anyhow::Result<Self> {
            // Held until the new folder is locked, so that no other benchmark removes that folder.
            let all = File::open(place)?;
            flock(&all, FlockOperation::LockExclusive)?;
            sweep(place)?;
            let folder = Builder::new().prefix(PREFIX).tempdir_in(place)?;
            // The path stays relative if `place` is: raw results must not name absolute paths.
            let path = place.join(folder.path().file_name().context("a folder has a name")?);
            let lock = File::open(&path)?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            Ok(Self { path, _folder: folder, _lock: lock })
        };
        made().with_context(|| format!("cannot make a folder in {}", place.display()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes benchmarks' folders that aren't locked. Those that can't be removed are left to the next
/// run.
fn sweep(place: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(place)? {
        let entry = entry?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            let folder = File::open(entry.path());
            if folder.is_ok_and(|folder| {
                flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
            }) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
    Ok(())
}

/// A recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tool {
    Tare,
    Perf,
    /// The binary before a change.
    Before,
}

/// A folder beside the measured binary, hence on its file system.
#[derive(Debug)]
pub(crate) struct Scratch<'a> {
    pub(crate) setting: &'a Setting,
    folder: Folder,
}

impl<'a> Scratch<'a> {
    pub(crate) fn new(setting: &'a Setting) -> anyhow::Result<Self> {
        let beside = setting.tare.parent().context("the binary to measure has no folder")?;
        Ok(Self { setting, folder: Folder::new_in(beside)? })
    }

    /// The folder's path; raw results name it.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// The beginning of a recorder's command line, up to the output file. perf keeps its cache of
    /// build ids in the scratch folder, too.
    pub(crate) fn recorder(&self, tool: Tool, into: &Path) -> Vec<String> {
        let into = into.display().to_string();
        match tool {
            Tool::Tare => vec![self.setting.tare(), "record".into(), "-o".into(), into],
            Tool::Before => {
                let before = self.setting.before.as_ref().map(|path| path.display().to_string());
                vec![before.unwrap_or_default(), "record".into(), "-o".into(), into]
            }
            Tool::Perf => {
                let cache = self.path("buildid").display().to_string();
                ["perf", "--buildid-dir", &cache, "record", "--no-bpf-event", "-o", &into]
                    .map(str::to_owned)
                    .to_vec()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_benchmarks_that_were_killed_are_swept() {
        let place = tempfile::tempdir().unwrap();
        let at_work = Folder::new_in(place.path()).unwrap();
        let [killed, other] = ["tare-bench-killed", "other"].map(|name| place.path().join(name));
        for folder in [&killed, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("perf.data"), "").unwrap();
        }
        let next = Folder::new_in(place.path()).unwrap();
        assert!(
            at_work.path().exists() && next.path().exists() && other.exists() && !killed.exists()
        );
        let ended = at_work.path().to_owned();
        drop(at_work);
        assert!(!ended.exists());
    }
}

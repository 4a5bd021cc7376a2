//! Requests that wait for a target: files in a folder of the store.
//!
//! ```text
//! 0000000000000007.0001.120     window 7, second part, 120 samples
//! ```
//! A file is removed once its request was answered, so a request that was under way when the agent
//! was killed is sent again. Beyond the limit the oldest window is dropped, and counted.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::request::PushRequest;

/// Begins the names of files that are being written.
const TEMPORARY: &str = ".";

/// A part of a window in the spool. Parts are in the order of their windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartId {
    pub(super) window: u64,
    part: u32,
}

/// A file of the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartFile {
    samples: u64,
    bytes: u64,
}

/// Windows and their samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowTally {
    pub(super) windows: u64,
    pub(super) samples: u64,
}

/// The requests that wait for a target.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    limit: u64,
    files: BTreeMap<PartId, PartFile>,
    bytes: u64,
    next_window: u64,
    /// The request that is under way: its window isn't dropped.
    under_way: Option<PartId>,
}

impl PartId {
    fn parse(name: &str) -> Option<(Self, u64)> {
        let mut numbers = name.split('.');
        let mut number = || numbers.next()?.parse::<u64>().ok();
        let [window, part, samples] = [number()?, number()?, number()?];
        Some((Self { window, part: u32::try_from(part).ok()? }, samples))
    }

    fn file_name(self, samples: u64) -> String {
        format!("{:016}.{:04}.{samples}", self.window, self.part)
    }
}

impl Spool {
    /// Opens the folder, with what an earlier agent left.
    ///
    /// # Errors
    /// Fails if it can't be created or listed.
    pub(super) fn open(folder: &Path, limit: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut spool = Self {
            folder: folder.to_owned(),
            limit,
            files: BTreeMap::new(),
            bytes: 0,
            next_window: 1,
            under_way: None,
        };
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some((id, samples)) = PartId::parse(&name) {
                let bytes = entry.metadata()?.len();
                spool.files.insert(id, PartFile { samples, bytes });
                spool.bytes += bytes;
                spool.next_window = spool.next_window.max(id.window.saturating_add(1));
            } else if name.starts_with(TEMPORARY) {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(spool)
    }

    /// Appends a window. If it can't be written, none of it is in the spool.
    ///
    /// # Errors
    /// Fails if a file can't be written.
    pub(super) fn push(&mut self, requests: &[PushRequest]) -> io::Result<()> {
        let window = self.next_window;
        self.next_window += 1;
        for (part, request) in (0..).zip(requests) {
            let id = PartId { window, part };
            match self.write(id, request) {
                Ok(bytes) => {
                    self.bytes += bytes;
                    self.files.insert(id, PartFile { samples: request.samples, bytes });
                }
                Err(error) => {
                    self.remove_window(window);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn write(&self, id: PartId, request: &PushRequest) -> io::Result<u64> {
        let name = id.file_name(request.samples);
        let temporary = self.folder.join(format!("{TEMPORARY}{name}"));
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let mut out = BufWriter::new(file);
        let written = request.write(&mut out).and_then(|()| out.flush());
        let length = out.get_ref().metadata().map(|file| file.len());
        let renamed = written.and_then(|()| std::fs::rename(&temporary, self.folder.join(name)));
        if let Err(error) = renamed {
            let _ = std::fs::remove_file(&temporary);
            return Err(error);
        }
        length
    }

    /// Drops the oldest windows until the spool is below its limit, and returns what was dropped.
    pub(super) fn bound(&mut self) -> WindowTally {
        let mut dropped = WindowTally::default();
        while self.bytes > self.limit {
            let kept = self.under_way.map(|id| id.window);
            let oldest = self.files.keys().map(|id| id.window).find(|of| Some(*of) != kept);
            let Some(oldest) = oldest else { break };
            dropped.windows += 1;
            dropped.samples += self.remove_window(oldest);
        }
        dropped
    }

    /// Removes what remains of a window, and returns its samples.
    fn remove_window(&mut self, window: u64) -> u64 {
        let all = PartId { window, part: 0 }..=PartId { window, part: u32::MAX };
        let parts: Vec<_> = self.files.range(all).map(|(id, _)| *id).collect();
        parts.into_iter().map(|id| self.remove_file(id)).sum()
    }

    fn remove_file(&mut self, id: PartId) -> u64 {
        let Some(file) = self.files.remove(&id) else { return 0 };
        self.bytes = self.bytes.saturating_sub(file.bytes);
        // A file that stays is sent again by the next agent.
        let _ = std::fs::remove_file(self.folder.join(id.file_name(file.samples)));
        file.samples
    }

    /// Returns the oldest request and its path, and protects it from being dropped.
    pub(super) fn begin(&mut self) -> Option<(PartId, SpooledFile)> {
        let (id, file) = self.files.first_key_value()?;
        self.under_way = Some(*id);
        let path = self.folder.join(id.file_name(file.samples));
        Some((*id, SpooledFile { path, samples: file.samples }))
    }

    /// Notes that the request under way has failed, and is tried again.
    pub(super) fn retry(&mut self) {
        self.under_way = None;
    }

    /// Removes a request that was answered. Returns whether it was the last of its window.
    pub(super) fn finish(&mut self, id: PartId) -> bool {
        self.under_way = None;
        self.remove_file(id);
        self.files.keys().next().is_none_or(|next| next.window != id.window)
    }

    /// Returns what waits.
    pub(super) fn waiting(&self) -> WindowTally {
        let mut windows = 0;
        let mut last = None;
        for id in self.files.keys() {
            windows += u64::from(last != Some(id.window));
            last = Some(id.window);
        }
        WindowTally { windows, samples: self.files.values().map(|file| file.samples).sum() }
    }

    /// Returns the size of what waits.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A request's file.
#[derive(Debug)]
pub(super) struct SpooledFile {
    path: PathBuf,
    /// Samples of the request.
    pub(super) samples: u64,
}

impl SpooledFile {
    /// Reads the request; `None` if it is damaged or gone.
    pub(super) fn read(&self) -> Option<PushRequest> {
        let bytes = std::fs::read(&self.path).ok()?;
        PushRequest::read(&bytes, self.samples)
    }
}

/// Opens the file that a thread locks while it sends requests of a folder.
///
/// # Errors
/// Fails if it can't be created.
pub(super) fn open_lock(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(folder.join("lock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(samples: u64, bytes: usize) -> PushRequest {
        PushRequest {
            path: "/".to_owned(),
            content_type: "text/plain".to_owned(),
            body: vec![b'x'; bytes],
            is_gzip: false,
            samples,
        }
    }

    #[test]
    fn requests_come_out_in_order_also_of_the_next_agent() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), 1 << 20).unwrap();
        spool.push(&[request(1, 10), request(2, 10)]).unwrap();
        spool.push(&[request(3, 10)]).unwrap();
        std::fs::write(folder.path().join(".0000000000000009.0000.1"), "").unwrap();
        let mut spool = Spool::open(folder.path(), 1 << 20).unwrap();
        assert_eq!(spool.waiting(), WindowTally { windows: 2, samples: 6 });
        let mut ends = Vec::new();
        while let Some((id, file)) = spool.begin() {
            let samples = file.read().unwrap().samples;
            ends.push((samples, spool.finish(id)));
        }
        assert_eq!(ends, [(1, false), (2, true), (3, true)]);
        assert_eq!((spool.bytes(), std::fs::read_dir(folder.path()).unwrap().count()), (0, 0));
        spool.push(&[request(4, 10)]).unwrap();
        assert_eq!(spool.waiting().samples, 4);
    }

    #[test]
    fn beyond_the_limit_the_oldest_window_is_dropped_unless_it_is_under_way() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), 250).unwrap();
        for samples in [1, 2, 3] {
            spool.push(&[request(samples, 90)]).unwrap();
        }
        assert_eq!(spool.bound(), WindowTally { windows: 1, samples: 1 });
        let (id, _) = spool.begin().unwrap();
        spool.push(&[request(4, 90)]).unwrap();
        assert_eq!(spool.bound(), WindowTally { windows: 1, samples: 3 });
        assert!(spool.finish(id));
        assert_eq!(spool.waiting(), WindowTally { windows: 1, samples: 4 });
    }

    #[test]
    fn a_window_that_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut spool = Spool::open(&path, 1 << 20).unwrap();
        std::fs::remove_dir(&path).unwrap();
        assert!(spool.push(&[request(1, 10)]).is_err());
        assert_eq!((spool.waiting(), spool.bytes()), (WindowTally::default(), 0));
    }
}

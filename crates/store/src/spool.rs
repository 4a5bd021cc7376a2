//! Segments that wait to be sent to a bucket: a local store of one writer.
//!
//! Beyond its limit the spool drops the oldest windows, and writes a gap with their samples in their
//! place. The oldest segment and the one under way stay, as parts of them may be in the bucket.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::StoreError;
use crate::filter::Query;
use crate::listing::list;
use crate::name::{FileKind, FileName};
use crate::publication::{FilePaths, ORDER};
use crate::schema::{FRAMES, SAMPLES, SEGMENTS, TableDefinition};
use crate::segment::SegmentInfo;
use crate::segment_scan::for_segments;
use crate::store::{Store, StoreOptions};
use crate::table_file::TableFile;

/// The key of a gap's metadata that has the digests of the segments that it replaces.
const DROPPED: &str = "tare.store.dropped";

/// Share of the limit that is made free at a time: not every window drops another one.
const FREED_SHARE: u64 = 16;

/// Windows, their samples, and bytes of their files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolTally {
    /// Windows.
    pub windows: u64,
    /// Their samples.
    pub samples: u64,
    /// Bytes of all files, also of gaps.
    pub bytes: u64,
}

impl SpoolTally {
    fn add(&mut self, other: Self) {
        self.windows += other.windows;
        self.samples += other.samples;
        self.bytes += other.bytes;
    }

    fn subtract(&mut self, other: Self) {
        self.windows = self.windows.saturating_sub(other.windows);
        self.samples = self.samples.saturating_sub(other.samples);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// A local store from which segments are sent.
pub struct Spool {
    store: Store,
    max_bytes: u64,
    state: Mutex<SpoolState>,
    /// Keeps programs away that compact.
    _lock: File,
}

#[derive(Default)]
struct SpoolState {
    waiting: SpoolTally,
    under_way: Option<FileName>,
}

/// A gap that takes the place of dropped windows.
struct DroppedTime {
    info: SegmentInfo,
    samples: u64,
}

impl Spool {
    /// Opens a spool, and completes what a killed program began.
    ///
    /// # Errors
    /// Fails if another program has opened it or compacts it, or a file can't be read or removed.
    pub fn open(path: &Path, max_bytes: u64) -> Result<Self, StoreError> {
        Self::from_store(Store::open(path, StoreOptions::default())?, max_bytes)
    }

    pub(crate) fn from_store(store: Store, max_bytes: u64) -> Result<Self, StoreError> {
        let lock = store.folder().lock_rewriting()?;
        let spool = Self { store, max_bytes, state: Mutex::default(), _lock: lock };
        spool.finish_removals()?;
        let mut waiting = SpoolTally::default();
        for name in spool.names()? {
            waiting.add(spool.tally(&name)?);
        }
        spool.lock().waiting = waiting;
        Ok(spool)
    }

    fn lock(&self) -> MutexGuard<'_, SpoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns what waits.
    #[must_use]
    pub fn waiting(&self) -> SpoolTally {
        self.lock().waiting
    }

    /// Counts what was written into the store, and drops the oldest windows beyond the limit.
    /// Returns what was dropped.
    ///
    /// # Errors
    /// Fails if the gap can't be written; the windows then stay.
    pub fn add(&self, written: SpoolTally) -> Result<SpoolTally, StoreError> {
        let mut state = self.lock();
        state.waiting.add(written);
        if state.waiting.bytes <= self.max_bytes {
            return Ok(SpoolTally::default());
        }
        self.drop_oldest(&mut state)
    }

    /// Returns the oldest segments, at most `limit` of them.
    pub(crate) fn oldest(&self, limit: usize) -> Result<Vec<FileName>, StoreError> {
        let mut names = self.names()?;
        names.truncate(limit);
        Ok(names)
    }

    /// Begins to send a segment, which then isn't dropped. Returns whether the spool has it.
    pub(crate) fn begin(&self, name: &FileName) -> bool {
        let mut state = self.lock();
        let has_it = self.path(name, &SEGMENTS).exists();
        state.under_way = has_it.then(|| name.clone());
        has_it
    }

    /// Ends the sending of a segment that the bucket has, or not yet. Returns what the bucket got.
    pub(crate) fn end(&self, name: &FileName, is_sent: bool) -> Result<SpoolTally, StoreError> {
        let mut state = self.lock();
        let mut sent = SpoolTally::default();
        if is_sent {
            sent = self.tally(name)?;
            self.remove(name)?;
            state.waiting.subtract(sent);
        }
        state.under_way = None;
        Ok(sent)
    }

    pub(crate) fn path(&self, name: &FileName, table: &TableDefinition) -> std::path::PathBuf {
        FilePaths::new(self.store.folder(), name, table).last
    }

    /// Returns the segments, oldest first. A segment's file of segments is the last to be published.
    fn names(&self) -> Result<Vec<FileName>, StoreError> {
        let files = list(self.store.folder(), &SEGMENTS)?.into_iter();
        Ok(files.filter(|file| !file.is_temporary).map(|file| file.name).collect())
    }

    fn tally(&self, name: &FileName) -> Result<SpoolTally, StoreError> {
        let mut tally = SpoolTally::default();
        for table in ORDER {
            tally.bytes += self.path(name, table).metadata().map_or(0, |metadata| metadata.len());
        }
        for_segments(&self.path(name, &SEGMENTS), &Query::default(), |segment| {
            if !segment.is_gap {
                tally.windows += 1;
                tally.samples += segment.figures.samples;
            }
        })?;
        Ok(tally)
    }

    /// Removes a segment. Frames are last: recovery removes frames that are alone.
    fn remove(&self, name: &FileName) -> Result<(), StoreError> {
        let folder = self.store.folder();
        let mut folders = Vec::new();
        for table in [&SAMPLES, &SEGMENTS, &FRAMES] {
            let paths = FilePaths::new(folder, name, table);
            folder.remove_file(&paths.last)?;
            folders.push(paths.folder);
        }
        self.store.remove_empty_folders(folders)
    }

    /// Drops the oldest windows until a part of the limit is free.
    fn drop_oldest(&self, state: &mut SpoolState) -> Result<SpoolTally, StoreError> {
        let target = self.max_bytes - self.max_bytes / FREED_SHARE;
        let mut bytes = state.waiting.bytes;
        let mut victims = Vec::new();
        let mut dropped = SpoolTally::default();
        let mut gaps = BTreeMap::new();
        for name in self.names()?.into_iter().skip(1) {
            // Gaps before a window that stays are merged too.
            if bytes <= target && name.kind != FileKind::Gap {
                break;
            }
            if state.under_way.as_ref() == Some(&name) {
                continue;
            }
            let tally = self.tally(&name)?;
            bytes = bytes.saturating_sub(tally.bytes);
            dropped.add(tally);
            self.add_dropped(&name, &mut gaps)?;
            victims.push(name);
        }
        if dropped.windows == 0 {
            return Ok(dropped);
        }
        // A crash in between leaves gaps and windows, of which the next start removes the windows.
        let digests: Vec<_> = victims.iter().map(|name| format!("{:016x}", name.digest)).collect();
        for DroppedTime { mut info, samples } in gaps.into_values() {
            while self.path(&FileName::for_segment(FileKind::Gap, &info), &SEGMENTS).exists() {
                info.end_us += 1;
            }
            let entry = Some((DROPPED, digests.join(",")));
            let bytes = self.store.write_gap_for(&info, samples, entry)?.bytes;
            state.waiting.add(SpoolTally { bytes, ..SpoolTally::default() });
        }
        victims.iter().try_for_each(|name| self.remove(name))?;
        state.waiting.subtract(dropped);
        Ok(dropped)
    }

    /// Adds a segment's samples, and those that it had lost itself, to the gaps of their hosts.
    fn add_dropped(
        &self,
        name: &FileName,
        gaps: &mut BTreeMap<[String; 2], DroppedTime>,
    ) -> Result<(), StoreError> {
        for_segments(&self.path(name, &SEGMENTS), &Query::default(), |segment| {
            let key = [segment.host, segment.boot].map(str::to_owned);
            let gap = gaps.entry(key).or_insert_with(|| DroppedTime {
                info: SegmentInfo {
                    host: segment.host.to_owned(),
                    boot: segment.boot.to_owned(),
                    kernel: segment.kernel.to_owned(),
                    agent_version: segment.agent_version.to_owned(),
                    start_us: segment.start_us,
                    end_us: segment.end_us,
                },
                samples: 0,
            });
            gap.info.start_us = gap.info.start_us.min(segment.start_us);
            gap.info.end_us = gap.info.end_us.max(segment.end_us);
            gap.samples += segment.figures.samples + segment.figures.lost;
        })
    }

    /// Removes windows for which a gap was written, and those whose removal began.
    fn finish_removals(&self) -> Result<(), StoreError> {
        let names = self.names()?;
        let mut dropped = HashSet::new();
        for name in names.iter().filter(|name| name.kind == FileKind::Gap) {
            let file = TableFile::open(&self.path(name, &SEGMENTS), &SEGMENTS)?;
            let digests = file.value(DROPPED).unwrap_or_default().split(',');
            dropped.extend(digests.filter_map(|digest| u64::from_str_radix(digest, 16).ok()));
        }
        let mut victims = names.iter().filter(|name| {
            let has_samples = name.kind == FileKind::Gap || self.path(name, &SAMPLES).exists();
            !has_samples || dropped.contains(&name.digest)
        });
        victims.try_for_each(|name| self.remove(name))
    }
}

//! Copies of a bucket's segments in a local folder, the mirror, where they are read and rewritten.
//!
//! Files never change, so a mirror only gets what it lacks, and keeps it for later queries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::bucket::{Bucket, Transfer};
use crate::error::StoreError;
use crate::filter::Query;
use crate::folder::{Folder, file_error};
use crate::listing::{list, replaced};
use crate::name::{FileKind, FileName, utc_date};
use crate::publication::{FilePaths, ORDER};
use crate::schema::{FRAMES, SAMPLES, SEGMENTS, TableDefinition};
use crate::store::{Store, StoreOptions};

/// How often segments are listed if some are compacted meanwhile.
const ATTEMPTS: usize = 8;

/// Files that are received at a time.
const PARALLEL: usize = 16;

/// Which segments a mirror gets.
pub(crate) enum MirrorScope<'a> {
    /// Those that may have rows of the query's times.
    Times(&'a Query),
    /// Those of days with files that may be merged.
    Unmerged,
    /// All.
    All,
}

impl MirrorScope<'_> {
    fn choose(&self, mut names: Vec<FileName>) -> BTreeSet<FileName> {
        match self {
            Self::All => {}
            Self::Times(query) => names.retain(|name| overlaps(name, query)),
            Self::Unmerged => {
                let date = |name: &FileName| utc_date(name.start_us);
                let is_unmerged = |name: &&FileName| name.kind != FileKind::Day;
                let dates: BTreeSet<_> = names.iter().filter(is_unmerged).map(date).collect();
                names.retain(|name| dates.contains(&date(name)));
            }
        }
        names.into_iter().collect()
    }
}

/// A file of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BucketFile {
    name: FileName,
    table: &'static str,
}

impl Bucket {
    /// Makes a local folder have the bucket's segments of the query's times, to be read with
    /// [`StoreReader`](crate::StoreReader), and removes those that the bucket has no longer, so a
    /// folder can't be the mirror of two buckets. Beyond `max_bytes` it removes the oldest of other
    /// times. Waits while another program uses the mirror so.
    ///
    /// # Errors
    /// Fails if the bucket can't be reached, a file can't be written, or the segments of these times
    /// are larger than `max_bytes`.
    pub fn download(
        &self,
        mirror: &Path,
        query: &Query,
        max_bytes: u64,
    ) -> Result<Transfer, StoreError> {
        let store = Store::open(mirror, StoreOptions::default())?;
        let folder = store.folder();
        let _lock = folder.lock_mirror()?;
        let (transfer, wanted) = self.fetch(folder, &MirrorScope::Times(query), max_bytes)?;
        bound(folder, &wanted, max_bytes)?;
        Ok(transfer)
    }

    /// Makes the mirror have the wanted segments, and returns their names.
    fn fetch(
        &self,
        folder: &Folder,
        wanted: &MirrorScope<'_>,
        max_bytes: u64,
    ) -> Result<(Transfer, BTreeSet<FileName>), StoreError> {
        let mut transfer = Transfer::default();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let listed = self.segments()?;
            let all: BTreeSet<FileName> = listed.iter().cloned().collect();
            let names = wanted.choose(listed);
            let missing = self.receive(folder, &names, max_bytes, &mut transfer)?;
            remove_others(folder, &all)?;
            // A segment that was compacted since it was listed is in one that wasn't listed. One
            // whose removal has begun is replaced by one that was.
            let files = list(folder, &SEGMENTS)?;
            let replaced = replaced(&files, &SEGMENTS)?;
            let is_whole = missing.iter().all(|name| replaced.contains(&name.digest));
            if is_whole || attempt >= ATTEMPTS {
                return Ok((transfer, names));
            }
        }
    }

    /// Receives the files that the mirror lacks, and returns the segments that have fewer of them
    /// in the bucket than they should.
    fn receive(
        &self,
        folder: &Folder,
        names: &BTreeSet<FileName>,
        max_bytes: u64,
        transfer: &mut Transfer,
    ) -> Result<Vec<FileName>, StoreError> {
        let mut missing = Vec::new();
        // In the order in which a segment's files are published.
        for table in ORDER {
            let is_absent = |name: &&FileName| !FilePaths::new(folder, name, table).last.exists();
            let is_gap = |name: &&FileName| name.kind == FileKind::Gap && *table != SEGMENTS;
            let absent: Vec<&FileName> =
                names.iter().filter(|name| !is_gap(name) && is_absent(name)).collect();
            self.run(async {
                let gets = absent.into_iter().map(|name| self.receive_file(folder, name, table));
                let mut gets = stream::iter(gets).buffer_unordered(PARALLEL);
                while let Some((name, bytes)) = gets.try_next().await? {
                    transfer.files += u64::from(bytes.is_some());
                    transfer.bytes += bytes.unwrap_or(0);
                    if bytes.is_none() {
                        missing.push(name.clone());
                    }
                    if transfer.bytes > max_bytes {
                        return Err(StoreError::TooLarge { limit_mb: max_bytes >> 20 });
                    }
                }
                Ok(())
            })?;
        }
        Ok(missing)
    }

    /// Receives a file. Returns its length, or `None` if the bucket has it no longer.
    async fn receive_file<'a>(
        &self,
        folder: &Folder,
        name: &'a FileName,
        table: &TableDefinition,
    ) -> Result<(&'a FileName, Option<u64>), StoreError> {
        let paths = FilePaths::new(folder, name, table);
        let object = self.file_object(name, table);
        folder.create_folder(&paths.folder)?;
        let mut file = folder.create_file(&paths.temporary)?;
        let received = self.get(&object, &paths.temporary, &mut file).await;
        if let Ok(Some(_)) = received {
            folder.rename(&paths.temporary, &paths.last)?;
        } else {
            fs::remove_file(&paths.temporary).map_err(file_error(&paths.temporary))?;
        }
        Ok((name, received?))
    }

    /// Changes the bucket's store: gets segments into the mirror, changes these there, and then
    /// sends the new ones and deletes those that were replaced. Only one program may change a bucket
    /// at a time.
    pub(crate) fn rewrite<T>(
        &self,
        mirror: &Path,
        wanted: &MirrorScope<'_>,
        change: impl FnOnce(&Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let store = Store::open(mirror, StoreOptions::default())?;
        let folder = store.folder();
        // Other programs that read the bucket would remove the new segments from the mirror.
        let _lock = folder.lock_mirror()?;
        self.fetch(folder, wanted, u64::MAX)?;
        store.recover()?;
        let before = files(folder)?;
        let changed = change(&store)?;
        let after = files(folder)?;
        let mut transfer = Transfer::default();
        let added: BTreeSet<&FileName> = after.difference(&before).map(|file| &file.name).collect();
        added.into_iter().try_for_each(|name| self.send(folder, name, &mut transfer))?;
        // A segment is in the bucket as long as its file of segments is.
        for table in [&SAMPLES, &FRAMES, &SEGMENTS] {
            let removed = before.difference(&after).filter(|file| file.table == table.name);
            for file in removed {
                self.delete(&self.file_object(&file.name, table))?;
            }
        }
        Ok(changed)
    }

    /// Compacts the bucket's segments, in the mirror.
    ///
    /// # Errors
    /// As [`Bucket::download`] and [`Store::compact`].
    pub fn compact(&self, mirror: &Path, now_us: i64) -> Result<crate::Compaction, StoreError> {
        self.rewrite(mirror, &MirrorScope::Unmerged, |store| store.compact(now_us))
    }
}

fn files(folder: &Folder) -> Result<BTreeSet<BucketFile>, StoreError> {
    let mut files = BTreeSet::new();
    for table in ORDER {
        for file in list(folder, table)?.into_iter().filter(|file| !file.is_temporary) {
            files.insert(BucketFile { name: file.name, table: table.name });
        }
    }
    Ok(files)
}

/// Removes segments that the bucket has no longer, and files of downloads that were interrupted.
fn remove_others(folder: &Folder, all: &BTreeSet<FileName>) -> Result<(), StoreError> {
    for table in [&SAMPLES, &SEGMENTS, &FRAMES] {
        for file in list(folder, table)? {
            if file.is_temporary || !all.contains(&file.name) {
                folder.remove_file(&file.path)?;
            }
        }
    }
    Ok(())
}

/// Removes the oldest segments but those of `wanted` until the mirror is within its limit.
fn bound(folder: &Folder, wanted: &BTreeSet<FileName>, max_bytes: u64) -> Result<(), StoreError> {
    let mut segments: BTreeMap<FileName, (u64, Vec<PathBuf>)> = BTreeMap::new();
    for table in [&SAMPLES, &SEGMENTS, &FRAMES] {
        for file in list(folder, table)? {
            let (bytes, paths) = segments.entry(file.name).or_default();
            *bytes += file.path.metadata().map_or(0, |metadata| metadata.len());
            paths.push(file.path);
        }
    }
    let mut bytes: u64 = segments.values().map(|(bytes, _)| bytes).sum();
    for (name, (length, paths)) in &segments {
        if bytes <= max_bytes {
            break;
        }
        if !wanted.contains(name) {
            paths.iter().try_for_each(|path| folder.remove_file(path))?;
            bytes -= length;
        }
    }
    Ok(())
}

fn overlaps(name: &FileName, query: &Query) -> bool {
    query.until_us.is_none_or(|until| name.start_us < until)
        && query.since_us.is_none_or(|since| name.end_us > since)
}

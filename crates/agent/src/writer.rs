//! Writes windows into the store, on a thread of its own: a slow disk must not delay the ring
//! buffers.
//!
//! ```text
//! closed window --> queue --> Store::write --> segment
//!                     \-- a full disk: the oldest waiting window is dropped --> gap
//! ```
//! A window that can't be written is tried again with the next one.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tare_store::{Segment, SegmentInfo, Store, StoreError, StoreLimits};

use crate::upload::OutgoingSpool;
use crate::window::now_us;

/// Windows that wait for the thread.
const QUEUED: usize = 4;

/// Windows that are kept while they can't be written, besides those in the queue.
const KEPT: usize = 8;

/// Bytes of all kept windows above which the oldest are dropped.
const KEPT_BYTES: usize = 16 << 20;

/// Time between two compactions of the store, each after its limits were enforced.
const UPKEEP: Duration = Duration::from_secs(300);

/// What was written so far, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteTotals {
    /// Windows in the store.
    pub windows: u64,
    /// Their samples.
    pub samples: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Windows that were dropped.
    pub dropped_windows: u64,
    /// Their samples.
    pub dropped_samples: u64,
    /// Windows that the limits of the store removed.
    pub removed_windows: u64,
    /// Why the last write or compaction failed; `None` if it didn't.
    pub error: Option<String>,
}

/// A window with the number of its samples.
#[derive(Debug)]
pub struct FinishedWindow {
    /// The window.
    pub segment: Arc<Segment>,
    /// Number of its samples.
    pub samples: u64,
    /// Memory that it takes, in bytes.
    pub bytes: usize,
}

/// The thread that writes windows.
#[derive(Debug)]
pub struct SegmentWriter {
    queue: SyncSender<FinishedWindow>,
    totals: Arc<Mutex<WriteTotals>>,
    thread: JoinHandle<()>,
}

impl SegmentWriter {
    /// Starts the thread. A spool has its own limit, and isn't compacted.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn start(
        store: Store,
        limits: StoreLimits,
        spool: Option<Arc<OutgoingSpool>>,
    ) -> std::io::Result<Self> {
        let (queue, windows) = sync_channel(QUEUED);
        let totals = Arc::<Mutex<WriteTotals>>::default();
        let mut work = WriterThread {
            store,
            limits,
            spool,
            kept: VecDeque::new(),
            dropped: VecDeque::new(),
            totals: Arc::clone(&totals),
            upkeep: Instant::now(),
        };
        let thread = std::thread::Builder::new()
            .name("tare-writer".to_owned())
            .spawn(move || work.run(&windows))?;
        Ok(Self { queue, totals, thread })
    }

    /// Hands a window over. If the thread is behind, the window is dropped and counted.
    pub fn write(&self, window: FinishedWindow) {
        match self.queue.try_send(window) {
            Ok(()) => {}
            Err(TrySendError::Full(window) | TrySendError::Disconnected(window)) => {
                let mut totals = lock(&self.totals);
                totals.dropped_windows += 1;
                totals.dropped_samples += window.samples;
            }
        }
    }

    /// Returns what was written so far.
    #[must_use]
    pub fn totals(&self) -> WriteTotals {
        lock(&self.totals).clone()
    }

    /// Writes what waits, and ends the thread.
    #[must_use]
    pub fn finish(self) -> WriteTotals {
        let Self { queue, totals, thread } = self;
        drop(queue);
        // A thread that panicked has written nothing since; the totals say so.
        let _ = thread.join();
        lock(&totals).clone()
    }
}

fn lock(totals: &Mutex<WriteTotals>) -> MutexGuard<'_, WriteTotals> {
    totals.lock().unwrap_or_else(PoisonError::into_inner)
}

struct WriterThread {
    store: Store,
    limits: StoreLimits,
    /// `None` unless windows are sent from the store.
    spool: Option<Arc<OutgoingSpool>>,
    kept: VecDeque<FinishedWindow>,
    /// Windows that were dropped, and aren't gaps in the store yet.
    dropped: VecDeque<(SegmentInfo, u64)>,
    totals: Arc<Mutex<WriteTotals>>,
    /// When the store was compacted last.
    upkeep: Instant,
}

impl WriterThread {
    fn run(&mut self, windows: &Receiver<FinishedWindow>) {
        for window in windows {
            self.kept.push_back(window);
            self.write_kept();
            self.bound();
            if self.upkeep.elapsed() >= UPKEEP && self.spool.is_none() {
                self.upkeep = Instant::now();
                self.keep_up();
            }
        }
        self.write_kept();
        while let Some(window) = self.kept.pop_front() {
            self.count_dropped(&window);
        }
    }

    fn write_kept(&mut self) {
        while let Some(window) = self.kept.front() {
            match self.store.write(&window.segment) {
                Ok(written) => {
                    let mut totals = lock(&self.totals);
                    totals.windows += 1;
                    totals.samples += window.samples;
                    totals.bytes += written.bytes;
                    totals.error = None;
                    drop(totals);
                    if let Some(spool) = &self.spool {
                        spool.add_window(window.samples, written.bytes);
                    }
                }
                Err(error) => {
                    lock(&self.totals).error = Some(error.to_string());
                    return;
                }
            }
            self.kept.pop_front();
        }
        while let Some((info, samples)) = self.dropped.front() {
            let Ok(written) = self.store.write_gap(info, *samples) else { return };
            if let Some(spool) = &self.spool {
                spool.add_gap(written.bytes);
            }
            self.dropped.pop_front();
        }
    }

    /// Enforces the limits of the store, and compacts hours and days that have ended. Another
    /// program that compacts the store does the same.
    fn keep_up(&self) {
        let now_us = now_us();
        let done = self.store.enforce(&self.limits, now_us).and_then(|removal| {
            lock(&self.totals).removed_windows += removal.windows;
            self.store.compact(now_us)
        });
        if let Err(error) = done
            && !matches!(error, StoreError::Locked(_))
        {
            lock(&self.totals).error = Some(error.to_string());
        }
    }

    fn bound(&mut self) {
        let bytes = |kept: &VecDeque<FinishedWindow>| kept.iter().map(|of| of.bytes).sum::<usize>();
        while self.kept.len() > KEPT || (self.kept.len() > 1 && bytes(&self.kept) > KEPT_BYTES) {
            let Some(window) = self.kept.pop_front() else { return };
            self.count_dropped(&window);
            self.add_gap(&window);
        }
    }

    fn count_dropped(&self, window: &FinishedWindow) {
        let mut totals = lock(&self.totals);
        totals.dropped_windows += 1;
        totals.dropped_samples += window.samples;
    }

    /// Notes a gap; one that follows the last one extends it.
    fn add_gap(&mut self, window: &FinishedWindow) {
        let info = window.segment.info().clone();
        if let Some((last, samples)) = self.dropped.back_mut()
            && last.end_us == info.start_us
        {
            last.end_us = info.end_us;
            *samples += window.samples;
            return;
        }
        self.dropped.push_back((info, window.samples));
    }
}

#[cfg(test)]
mod tests {
    use tare_store::{Figures, SegmentBuilder, StoreOptions};

    use super::*;

    fn window(minute: i64, samples: u64) -> FinishedWindow {
        let start_us = minute * 60_000_000;
        let info = SegmentInfo {
            host: "a".to_owned(),
            start_us,
            end_us: start_us + 60_000_000,
            ..SegmentInfo::default()
        };
        let builder = SegmentBuilder::new(info);
        let segment = builder.finish(Figures { samples, ..Figures::default() });
        FinishedWindow { segment: Arc::new(segment), samples, bytes: 1 }
    }

    #[test]
    fn windows_are_counted_when_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
        let writer = SegmentWriter::start(store, StoreLimits::default(), None).unwrap();
        (0..3).for_each(|minute| writer.write(window(minute, 10)));
        let totals = writer.finish();
        assert_eq!((totals.windows, totals.samples, totals.dropped_windows), (3, 30, 0));
        assert!(totals.bytes > 0);
    }

    #[test]
    fn upkeep_removes_old_windows_and_counts_them() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
        let mut thread = WriterThread {
            store,
            limits: StoreLimits { max_age: Some(Duration::from_secs(60)), max_bytes: None },
            spool: None,
            kept: (0..3).map(|minute| window(minute, 1)).collect(),
            dropped: VecDeque::new(),
            totals: Arc::default(),
            upkeep: Instant::now(),
        };
        thread.write_kept();
        thread.keep_up();
        let totals = lock(&thread.totals).clone();
        assert_eq!((totals.windows, totals.removed_windows, totals.error), (3, 3, None));
    }

    #[test]
    fn a_store_that_is_gone_loses_counted_windows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Store::open(&path, StoreOptions::default()).unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        // A file in the folder's place: nothing can be created below.
        std::fs::write(&path, "").unwrap();
        let mut thread = WriterThread {
            store,
            limits: StoreLimits::default(),
            spool: None,
            kept: VecDeque::new(),
            dropped: VecDeque::new(),
            totals: Arc::default(),
            upkeep: Instant::now(),
        };
        let add = |thread: &mut WriterThread, minute| {
            thread.kept.push_back(window(minute, 5));
            thread.write_kept();
            thread.bound();
        };
        (0..12).for_each(|minute| add(&mut thread, minute));
        assert!(lock(&thread.totals).error.is_some());
        assert_eq!(lock(&thread.totals).dropped_samples, 4 * 5);
        assert_eq!(thread.dropped.len(), 1, "gaps in a row are one");
        std::fs::remove_file(&path).unwrap();
        add(&mut thread, 12);
        let totals = lock(&thread.totals).clone();
        assert_eq!((totals.windows, totals.samples, totals.error), (9, 45, None));
        assert!(thread.dropped.is_empty(), "the gap is in the store");
    }
}

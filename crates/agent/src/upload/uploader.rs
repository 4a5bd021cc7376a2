//! The thread that sends segments from the spool to a bucket.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tare_store::{Bucket, BucketOptions, BucketStop, Spool, SpoolTally, StoreError, StoreLocation};

use crate::push::PushTotals;
use crate::retry::pause_after;

/// Time at the agent's end for windows that wait. The next agent sends the rest.
const END: Duration = Duration::from_secs(2);

/// Time between two looks whether the thread has ended.
const END_TICK: Duration = Duration::from_millis(10);

/// Returns an environment variable.
type Variable = fn(&str) -> Option<String>;

/// The spool and the figures, which the writer of windows and the thread share.
pub struct OutgoingSpool {
    spool: Spool,
    state: Mutex<UploadState>,
    /// A window was added, or the agent ends.
    changed: Condvar,
}

#[derive(Default)]
struct UploadState {
    totals: PushTotals,
    has_news: bool,
    is_ending: bool,
}

impl OutgoingSpool {
    fn new(url: &str, spool: Spool) -> Self {
        let totals = PushTotals { url: url.to_owned(), ..PushTotals::default() };
        let state = UploadState { totals, has_news: true, is_ending: false };
        Self { spool, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, UploadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a window that was written into the spool.
    pub(crate) fn add_window(&self, samples: u64, bytes: u64) {
        self.add(SpoolTally { windows: 1, samples, bytes });
    }

    /// Counts a gap that was written into the spool.
    pub(crate) fn add_gap(&self, bytes: u64) {
        self.add(SpoolTally { bytes, ..SpoolTally::default() });
    }

    fn add(&self, written: SpoolTally) {
        let dropped = self.spool.add(written);
        let mut state = self.lock();
        match dropped {
            Ok(dropped) => {
                state.totals.dropped_windows += dropped.windows;
                state.totals.dropped_samples += dropped.samples;
            }
            Err(error) => state.totals.error = Some(error.to_string()),
        }
        state.has_news = true;
        self.changed.notify_all();
    }

    fn totals(&self) -> PushTotals {
        let SpoolTally { windows, samples, bytes } = self.spool.waiting();
        let mut totals = self.lock().totals.clone();
        totals.waiting_windows = windows;
        totals.waiting_samples = samples;
        totals.waiting_bytes = bytes;
        totals
    }

    fn count_sent(&self, sent: SpoolTally) {
        let totals = &mut self.lock().totals;
        totals.windows += sent.windows;
        totals.samples += sent.samples;
        totals.bytes += sent.bytes;
        totals.error = None;
    }

    fn end(&self) {
        self.lock().is_ending = true;
        self.changed.notify_all();
    }

    /// Waits for a window; returns whether the agent goes on or has one to send.
    fn wait_for_news(&self) -> bool {
        let mut state = self.lock();
        while !state.has_news && !state.is_ending {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut state.has_news)
    }

    /// Waits, and returns whether the agent goes on.
    fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut state = self.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if state.is_ending || left.is_zero() {
                state.has_news = true;
                return !state.is_ending;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl std::fmt::Debug for OutgoingSpool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutgoingSpool").field("totals", &self.totals()).finish_non_exhaustive()
    }
}

/// The thread that sends segments.
#[derive(Debug)]
pub struct Uploader {
    shared: Arc<OutgoingSpool>,
    stop: BucketStop,
    thread: JoinHandle<()>,
}

impl Uploader {
    /// Starts the thread; `None` if the store is a folder. `folder` is the spool, of at most
    /// `max_bytes`; `variable` returns environment variables, which have the bucket's key.
    ///
    /// # Errors
    /// Fails if the bucket's options aren't valid, the spool can't be opened, or no thread can be
    /// started.
    pub fn start(
        location: &StoreLocation,
        folder: &Path,
        max_bytes: u64,
        variable: Variable,
    ) -> Result<Option<Self>, StoreError> {
        let StoreLocation::Bucket(url) = location else { return Ok(None) };
        let stop = BucketStop::default();
        let bucket = open(url, variable, &stop)?;
        let shared = Arc::new(OutgoingSpool::new(url, Spool::open(folder, max_bytes)?));
        let mut work = UploadThread {
            shared: Arc::clone(&shared),
            bucket,
            url: url.clone(),
            variable,
            stop: stop.clone(),
        };
        let thread = std::thread::Builder::new().name("tare-upload".to_owned());
        let thread = thread.spawn(move || work.run());
        let thread =
            thread.map_err(|source| StoreError::File { path: folder.to_owned(), source })?;
        Ok(Some(Self { shared, stop, thread }))
    }

    /// Returns what the writer of windows counts them in.
    #[must_use]
    pub fn spool(&self) -> Arc<OutgoingSpool> {
        Arc::clone(&self.shared)
    }

    /// Returns what was sent, waits and was dropped.
    #[must_use]
    pub fn totals(&self) -> PushTotals {
        self.shared.totals()
    }

    /// Tells the thread to send what waits for at most two seconds.
    #[must_use]
    pub fn end(self) -> EndingUploader {
        self.shared.end();
        EndingUploader { uploader: self, deadline: Instant::now() + END }
    }
}

/// A thread that sends the last segments.
#[derive(Debug)]
pub struct EndingUploader {
    uploader: Uploader,
    deadline: Instant,
}

impl EndingUploader {
    /// Waits for the end of the thread.
    #[must_use]
    pub fn finish(self) -> PushTotals {
        let Uploader { shared, stop, thread } = self.uploader;
        let wait = |end: Instant| {
            while !thread.is_finished() && Instant::now() < end {
                std::thread::sleep(END_TICK);
            }
        };
        wait(self.deadline);
        stop.stop();
        // A reload opens the spool again, which the thread has until it ends.
        wait(self.deadline + END / 4);
        shared.totals()
    }
}

fn open(url: &str, variable: Variable, stop: &BucketStop) -> Result<Bucket, StoreError> {
    let options = BucketOptions::from_variables(url, &variable)?;
    Ok(Bucket::open(&options)?.with_stop(stop.clone()))
}

struct UploadThread {
    shared: Arc<OutgoingSpool>,
    bucket: Bucket,
    url: String,
    variable: Variable,
    stop: BucketStop,
}

impl UploadThread {
    fn run(&mut self) {
        let mut failures = 0;
        let mut is_last = false;
        while self.shared.wait_for_news() {
            let shared = &self.shared;
            let sent = self.bucket.upload(&shared.spool, |tally| {
                failures = 0;
                shared.count_sent(tally);
            });
            match sent {
                Ok(_) => failures = 0,
                Err(StoreError::Stopped) => return,
                Err(error) => {
                    failures += 1;
                    self.shared.lock().totals.error = Some(error.to_string());
                    if is_last {
                        return;
                    }
                    is_last = !self.shared.pause(pause_after(failures));
                    // The file of credentials may have changed.
                    if let Ok(bucket) = open(&self.url, self.variable, &self.stop) {
                        self.bucket = bucket;
                    }
                }
            }
        }
    }
}

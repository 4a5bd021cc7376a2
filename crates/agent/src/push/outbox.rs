//! What a target's threads share: the spool and the figures.
//!
//! The figures have a lock of their own, which is never held during a read or write of files: the
//! thread that empties the ring buffers reads them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::request::PushRequest;
use super::spool::{PartId, Spool, SpooledFile, WindowTally};
use super::totals::PushTotals;

/// A target's spool and figures.
#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<OutboxState>,
    /// A request was added, or the agent ends.
    changed: Condvar,
    totals: Mutex<PushTotals>,
}

#[derive(Debug)]
struct OutboxState {
    spool: Spool,
    is_ending: bool,
    /// The window that a request was dropped of.
    incomplete: Option<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outbox {
    pub(super) fn new(url: String, spool: Spool) -> Self {
        let totals = PushTotals { url, ..PushTotals::default() };
        let state = OutboxState { spool, is_ending: false, incomplete: None };
        let outbox =
            Self { state: Mutex::new(state), changed: Condvar::new(), totals: Mutex::new(totals) };
        outbox.count(&lock(&outbox.state).spool, |_| {});
        outbox
    }

    /// Returns the figures.
    pub(super) fn totals(&self) -> PushTotals {
        lock(&self.totals).clone()
    }

    fn count(&self, spool: &Spool, change: impl FnOnce(&mut PushTotals)) {
        let WindowTally { windows, samples } = spool.waiting();
        let bytes = spool.bytes();
        let mut totals = lock(&self.totals);
        change(&mut totals);
        totals.waiting_windows = windows;
        totals.waiting_samples = samples;
        totals.waiting_bytes = bytes;
    }

    /// Counts a window that doesn't get as far as the spool.
    pub(super) fn drop_window(&self, samples: u64, why: &str) {
        let mut totals = lock(&self.totals);
        totals.dropped_windows += 1;
        totals.dropped_samples += samples;
        totals.error = Some(why.to_owned());
    }

    /// Adds a window, and drops the oldest ones beyond the limit. A window without samples has no
    /// requests, and isn't counted.
    pub(super) fn add(&self, requests: &[PushRequest]) {
        if requests.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        if let Err(error) = state.spool.push(requests) {
            let samples = requests.iter().map(|request| request.samples).sum();
            return self.drop_window(samples, &format!("cannot write into the spool: {error}"));
        }
        let dropped = state.spool.bound();
        self.count(&state.spool, |totals| {
            totals.dropped_windows += dropped.windows;
            totals.dropped_samples += dropped.samples;
        });
        self.changed.notify_all();
    }

    /// Tells the sending thread to end once the spool is empty or a request fails.
    pub(super) fn end(&self) {
        lock(&self.state).is_ending = true;
        self.changed.notify_all();
    }

    /// Waits for the next request; `None` if the agent ends and none waits.
    pub(super) fn next(&self) -> Option<(PartId, SpooledFile)> {
        let mut state = lock(&self.state);
        loop {
            let next = state.spool.begin();
            if next.is_some() || state.is_ending {
                return next;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits, and returns whether the agent goes on.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut state = lock(&self.state);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if state.is_ending || left.is_zero() {
                return !state.is_ending;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Counts a request that the target has accepted.
    pub(super) fn deliver(&self, id: PartId, request: &PushRequest) {
        self.finish(id, |totals| {
            totals.samples += request.samples;
            totals.bytes += request.body.len() as u64;
            totals.error = None;
        });
    }

    /// Drops a request that the target won't accept.
    pub(super) fn refuse(&self, id: PartId, samples: u64, why: String) {
        lock(&self.state).incomplete = Some(id.window);
        self.finish(id, |totals| {
            totals.dropped_samples += samples;
            totals.error = Some(why);
        });
    }

    fn finish(&self, id: PartId, change: impl FnOnce(&mut PushTotals)) {
        let mut state = lock(&self.state);
        let is_whole = state.spool.finish(id);
        let is_incomplete = state.incomplete == Some(id.window);
        self.count(&state.spool, |totals| {
            change(totals);
            match (is_whole, is_incomplete) {
                (true, false) => totals.windows += 1,
                (true, true) => totals.dropped_windows += 1,
                (false, _) => {}
            }
        });
    }

    /// Notes that the request under way has failed, and is tried again.
    pub(super) fn retry(&self, why: String) {
        lock(&self.state).spool.retry();
        lock(&self.totals).error = Some(why);
    }
}

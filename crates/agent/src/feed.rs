//! Passes the recorder's records to the replay and the windows, in the same process.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use tare_format::file::writer::Description;
use tare_kernel::heap::return_freed_memory;
use tare_kernel::timestamp::monotonic_ns;
use tare_profile::Losses;
use tare_record::output::{RecordSink, SinkClosed};
use tare_replay::{Live, LiveOptions};
use tare_symbols::SymbolOptions;

use crate::window::{ClosedWindow, WindowSink, WindowTime};

/// Longest expected time between a sample and the flush that delivers it, in nanoseconds. Order is
/// kept by the rounds of ring buffers; this lets windows end on an idle machine.
const UNDER_WAY_NS: u64 = 3_000_000_000;

/// How long ended threads stay known, in nanoseconds: their last samples may still come.
const REMEMBERED_NS: u64 = 10_000_000_000;

/// A live replay and the windows that it fills. Clones are the same.
#[derive(Clone, Debug)]
pub struct Feed(Arc<Mutex<Filled>>);

#[derive(Debug)]
struct Filled {
    live: Live,
    windows: WindowSink,
}

impl Feed {
    /// Makes a replay that leaves out samples of the process `own`.
    #[must_use]
    pub fn new(windows: WindowSink, symbols: SymbolOptions, own: i32) -> Self {
        let window = std::time::Duration::from_nanos(REMEMBERED_NS);
        let live = Live::new(LiveOptions { window, symbols, left_out: Some(own) });
        Self(Arc::new(Mutex::new(Filled { live, windows })))
    }

    fn with<T>(&self, use_parts: impl FnOnce(&mut Filled) -> T) -> T {
        use_parts(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the windows that ended, and the losses of the recording so far. Threads that ended
    /// before are forgotten.
    pub fn take_closed(&self) -> (Vec<ClosedWindow>, Losses) {
        self.with(|Filled { live, windows }| {
            let closed = windows.take_closed();
            if !closed.is_empty() {
                live.forget_ended_before(live.now_ns().saturating_sub(REMEMBERED_NS));
                return_freed_memory();
            }
            (closed, live.losses())
        })
    }

    /// Returns the open window's time, and its number of samples so far.
    #[must_use]
    pub fn open_window(&self) -> (WindowTime, u64) {
        self.with(|filled| filled.windows.open_window())
    }

    /// Delivers all records, and ends the open window.
    pub fn finish(&self) {
        self.with(|Filled { live, windows }| {
            live.drained(u64::MAX, windows);
            windows.close_now();
        });
    }
}

/// The recorder's output into a feed.
#[derive(Debug)]
pub struct FeedSink(pub Feed);

impl RecordSink for FeedSink {
    fn begin(&mut self, description: &Description) -> ControlFlow<SinkClosed> {
        let Ok(stream) = description.stream_beginning() else {
            return ControlFlow::Break(SinkClosed);
        };
        match self.0.with(|filled| filled.live.describe(&stream)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(SinkClosed),
        }
    }

    fn add_ids(&mut self, description: &Description) -> ControlFlow<SinkClosed> {
        self.begin(description)
    }

    fn records(&mut self, records: &[u8]) -> ControlFlow<SinkClosed> {
        self.0.with(|Filled { live, windows }| live.push(records, windows));
        ControlFlow::Continue(())
    }

    fn flush(&mut self) -> ControlFlow<SinkClosed> {
        let before_ns = monotonic_ns().saturating_sub(UNDER_WAY_NS);
        self.0.with(|Filled { live, windows }| {
            live.drained(before_ns, windows);
            windows.close_before(before_ns);
        });
        ControlFlow::Continue(())
    }
}

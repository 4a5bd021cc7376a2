//! Passes records from the recorder to the replay in the same process.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use tare_format::file::writer::Description;
use tare_kernel::timestamp::monotonic_ns;
use tare_record::output::{RecordSink, SinkClosed};
use tare_replay::{Live, LiveOptions, SampleSink, SampleSinkOptions};

/// The replay that takes the records.
#[derive(Clone, Debug)]
pub(super) enum Feed {
    /// Its samples are printed.
    Text(Arc<Mutex<(Live, SampleSink)>>),
    /// Its samples are shown by an interface.
    Screen(tare_tui::Feed),
}

impl Feed {
    /// A feed for text or JSON. `trace`: whether samples of tracepoints have their fields as text.
    pub(super) fn text(options: LiveOptions, trace: bool) -> Self {
        let live = Live::new(options);
        let sink = SampleSink::new(
            SampleSinkOptions { trace, forgets: true, ..SampleSinkOptions::default() },
            live.description(),
        );
        Self::Text(Arc::new(Mutex::new((live, sink))))
    }

    /// Calls `use_parts` with the replay and its samples. `None` if the interface has closed.
    pub(super) fn with<T>(
        &self,
        use_parts: impl FnOnce(&mut Live, &mut SampleSink) -> T,
    ) -> Option<T> {
        match self {
            Self::Screen(feed) => feed.with(use_parts),
            Self::Text(both) => {
                let mut both = both.lock().unwrap_or_else(PoisonError::into_inner);
                let (live, sink) = &mut *both;
                Some(use_parts(live, sink))
            }
        }
    }
}

/// The recorder's output into a feed.
#[derive(Debug)]
pub(super) struct FeedSink(pub(super) Feed);

impl RecordSink for FeedSink {
    fn begin(&mut self, description: &Description) -> ControlFlow<SinkClosed> {
        let Ok(stream) = description.stream_beginning() else {
            return ControlFlow::Break(SinkClosed);
        };
        match self.0.with(|live, _| live.describe(&stream)) {
            Some(Ok(())) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(SinkClosed),
        }
    }

    fn add_ids(&mut self, description: &Description) -> ControlFlow<SinkClosed> {
        self.begin(description)
    }

    fn records(&mut self, records: &[u8]) -> ControlFlow<SinkClosed> {
        self.0.with(|live, sink| live.push(records, sink));
        ControlFlow::Continue(())
    }

    fn flush(&mut self) -> ControlFlow<SinkClosed> {
        // While the display is paused, its time stands still.
        if matches!(&self.0, Feed::Screen(feed) if feed.is_paused()) {
            return ControlFlow::Continue(());
        }
        // The events' clock is CLOCK_MONOTONIC too.
        let now_ns = monotonic_ns();
        self.0.with(|live, sink| live.drained(now_ns, sink));
        ControlFlow::Continue(())
    }
}

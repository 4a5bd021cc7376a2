//! From the recorder to the replay.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use tare_format::file::writer::Description;
use tare_kernel::timestamp::monotonic_ns;
use tare_record::output::{RecordSink, SinkClosed};
use tare_replay::{Live, LiveOptions, SampleSink, SampleSinkOptions};

/// Where records go.
#[derive(Clone, Debug)]
pub(super) enum Feed {
    /// To what is printed.
    Text(Arc<Mutex<(Live, SampleSink)>>),
    /// To an interface.
    Screen(tare_tui::Feed),
}

impl Feed {
    /// For what is printed.
    pub(super) fn text(options: LiveOptions, trace: bool) -> Self {
        let live = Live::new(options);
        let sink = SampleSink::new(
            SampleSinkOptions { trace, forgets: true, ..SampleSinkOptions::default() },
            live.description(),
        );
        Self::Text(Arc::new(Mutex::new((live, sink))))
    }

    /// Does something with both parts of what is kept.
    pub(super) fn with<T>(&self, hand: impl FnOnce(&mut Live, &mut SampleSink) -> T) -> Option<T> {
        match self {
            Self::Screen(feed) => feed.with(hand),
            Self::Text(both) => {
                let mut both = both.lock().unwrap_or_else(PoisonError::into_inner);
                let (live, sink) = &mut *both;
                Some(hand(live, sink))
            }
        }
    }
}

/// Hands records to a feed.
#[derive(Debug)]
pub(super) struct ToFeed(pub(super) Feed);

impl RecordSink for ToFeed {
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
        // Time stands still for what is shown while nothing is recorded.
        if matches!(&self.0, Feed::Screen(feed) if feed.is_paused()) {
            return ControlFlow::Continue(());
        }
        // The clock that events are opened with.
        let now_ns = monotonic_ns();
        self.0.with(|live, sink| live.drained(now_ns, sink));
        ControlFlow::Continue(())
    }
}

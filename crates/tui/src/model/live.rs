//! The model of a live profile.

use std::time::Duration;

use tare_profile::{Losses, NewIds};
use tare_render::LiveFigures;
use tare_replay::{Live, SampleSink, SampleSinkOptions};

use super::{Model, Progress};

/// Allowed delays and windows, in seconds.
const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

/// How long samples are shown, and how often the view is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Length of the window.
    pub window: Duration,
    /// Refresh interval.
    pub delay: Duration,
    /// Show only samples since the last refresh.
    pub is_zeroed: bool,
}

impl Pace {
    /// Returns the age up to which samples are shown.
    #[must_use]
    pub fn span(&self) -> Duration {
        if self.is_zeroed { self.delay.min(self.window) } else { self.window }
    }

    /// Parses a delay or a window in seconds; `None` unless it is a number from 0.1 to 3600.
    #[must_use]
    pub fn seconds(text: &str) -> Option<Duration> {
        let seconds = text.trim().parse::<f64>().ok().filter(|seconds| SECONDS.contains(seconds));
        seconds.map(Duration::from_secs_f64)
    }
}

/// The live replay, and how much of it is shown.
#[derive(Debug)]
pub(crate) struct LiveModel {
    pub(crate) replay: Live,
    pub(crate) figures: LiveFigures,
    pub(crate) pace: Pace,
    /// Recording is paused; the display stays.
    pub(crate) is_paused: bool,
    /// The recorder's thread asks for a refresh.
    pub(crate) is_renewed: bool,
}

impl Model {
    /// Creates the empty model of a live profile. With `trace`, samples with different tracepoint
    /// fields are in different rows.
    pub(crate) fn for_live(live: LiveModel, trace: bool) -> Self {
        let description = live.replay.description().clone();
        Self {
            sink: SampleSink::new(
                SampleSinkOptions { trace, forgets: true, ..SampleSinkOptions::default() },
                &description,
            ),
            ledger: None,
            description,
            losses: Losses::default(),
            progress: Progress::Done,
            // The live replay drops the recorder's own samples.
            include_self: true,
            totals: None,
            replay: None,
            live: Some(live),
        }
    }

    /// Returns the live part; `None` for a recording.
    pub(crate) fn live(&mut self) -> Option<&mut LiveModel> {
        self.live.as_mut()
    }

    /// Returns the replay of the live part, and the sink; `None` for a recording.
    pub(crate) fn live_parts(&mut self) -> Option<(&mut Live, &mut SampleSink)> {
        Some((&mut self.live.as_mut()?.replay, &mut self.sink))
    }

    /// Returns the start of the window, in nanoseconds of the recording's clock; 0 for a recording.
    pub(super) fn since_ns(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.replay.since_ns(live.pace.span()))
    }

    /// Takes in the latest samples and drops the oldest. Returns the new ids if the tables changed.
    pub(crate) fn renew(&mut self) -> Option<NewIds> {
        let live = self.live.as_mut()?;
        let renumbered = live.replay.forget(&mut self.sink);
        // The recorder's own samples are dropped by design and don't count as losses.
        self.losses = Losses { own_samples: 0, ..live.replay.losses() };
        let description = live.replay.description();
        if self.description.events().len() != description.events().len() {
            self.description = description.clone();
            self.sink.learn_events(description);
        }
        self.totals = None;
        renumbered
    }
}

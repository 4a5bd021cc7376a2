//! What is recorded now, while it is.

use std::time::Duration;

use tare_profile::{Losses, NewIds};
use tare_render::LiveFigures;
use tare_replay::{Live, SampleSink, SampleSinkOptions};

use super::{Model, Progress};

/// Seconds that a delay and a window may have.
const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

/// How long and how often samples are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long.
    pub window: Duration,
    /// How often what is shown changes.
    pub delay: Duration,
    /// Only what came since the last change is shown.
    pub is_zeroed: bool,
}

impl Pace {
    /// How far back samples are shown.
    #[must_use]
    pub fn span(&self) -> Duration {
        if self.is_zeroed { self.delay.min(self.window) } else { self.window }
    }

    /// A delay or a window that a user gives in seconds; `None` where it is no number from 0.1 to
    /// 3600.
    #[must_use]
    pub fn seconds(text: &str) -> Option<Duration> {
        let seconds = text.trim().parse::<f64>().ok().filter(|seconds| SECONDS.contains(seconds));
        seconds.map(Duration::from_secs_f64)
    }
}

/// What is recorded now, and how much of it is shown.
#[derive(Debug)]
pub(crate) struct LiveModel {
    pub(crate) replay: Live,
    pub(crate) figures: LiveFigures,
    pub(crate) pace: Pace,
    /// Recording stops for a while, and what is shown stays.
    pub(crate) is_paused: bool,
    /// There is more than what is shown.
    pub(crate) is_renewed: bool,
}

impl Model {
    /// A model of which nothing is recorded yet.
    pub(crate) fn of_live(live: LiveModel, trace: bool) -> Self {
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
            // The replay leaves the recorder's own out.
            include_self: true,
            totals: None,
            replay: None,
            live: Some(live),
        }
    }

    /// What is recorded now; `None` of a recording.
    pub(crate) fn live(&mut self) -> Option<&mut LiveModel> {
        self.live.as_mut()
    }

    /// Both parts of what is recorded now.
    pub(crate) fn live_parts(&mut self) -> Option<(&mut Live, &mut SampleSink)> {
        Some((&mut self.live.as_mut()?.replay, &mut self.sink))
    }

    /// From when on samples are shown, in nanoseconds of the recording's clock.
    pub(super) fn since_ns(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.replay.since_ns(live.pace.span()))
    }

    /// Takes in what is recorded by now, and forgets what is too old. Returns what has become of ids
    /// in tables, where they have changed.
    pub(crate) fn renew(&mut self) -> Option<NewIds> {
        let live = self.live.as_mut()?;
        let renumbered = live.replay.forget(&mut self.sink);
        // What is left out is no loss: it is the rule here.
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

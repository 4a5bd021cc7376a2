//! What is shown, without a terminal: samples as far as they are loaded, and what views ask of
//! them.

mod annotate;
mod live;
mod loader;
mod query;
mod timeline;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tare_format::file::Description;
use tare_format::ledger::Ledger;
use tare_profile::{EventId, Losses, Profile, Samples, Selection, Term, Weight};
use tare_replay::{Replay, SampleSink};

pub(crate) use live::LiveModel;
pub use live::Pace;
pub(crate) use loader::{Source, load};
pub(crate) use query::{Functions, Query, Tree, callers_and_callees, whole_tree};
pub(crate) use timeline::{RowKind, RowOwner, Timeline};

/// How far loading is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// So many bytes of so many; the size of a stream isn't known.
    Loading(u64, Option<u64>),
    /// The recording was read to its end.
    Done,
    /// It can't be read further, and why.
    Failed(String),
}

/// Samples as far as they are loaded, and what the recording says of itself.
#[derive(Debug)]
pub(crate) struct Model {
    sink: SampleSink,
    description: Description,
    losses: Losses,
    ledger: Option<Ledger>,
    progress: Progress,
    include_self: bool,
    totals: Option<Totals>,
    /// What the recording was loaded with, once it is loaded.
    replay: Option<Replay>,
    /// What is recorded now.
    live: Option<LiveModel>,
}

/// What the samples of each event weigh for which the base of a query holds.
#[derive(Debug)]
struct Totals {
    /// Samples that were loaded.
    samples: usize,
    base: Vec<Term>,
    of_events: Vec<Weight>,
}

impl Model {
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    pub(crate) fn losses(&self) -> &Losses {
        &self.losses
    }

    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    pub(crate) fn profile(&mut self) -> &Profile {
        self.sink.parts().0
    }

    pub(crate) fn samples(&mut self) -> &Samples {
        self.sink.parts().1
    }

    /// The profile whose rows the last view made, with the account of what is missing.
    pub(crate) fn accounted(&mut self) -> &Profile {
        let profile = self.sink.parts().0;
        profile.losses = self.losses.clone();
        profile
    }

    /// Threads of the recorder, whose samples are left out.
    pub(crate) fn own_tids(&self) -> Vec<i32> {
        let recorder = self.ledger.as_ref().map(|ledger| &ledger.recorder);
        recorder
            .filter(|recorder| !self.include_self && !recorder.included)
            .map_or_else(Vec::new, |recorder| recorder.tids.iter().copied().collect())
    }

    /// The events that have samples, and what all of these weigh that count for a query.
    pub(crate) fn events(&mut self, query: &Query) -> Vec<(EventId, Weight)> {
        let base = query.base(self);
        let without_tids = self.own_tids();
        let (profile, samples) = self.sink.parts();
        let is_of = |totals: &Totals| totals.samples == samples.len() && totals.base == base;
        let totals = self.totals.take().filter(is_of).unwrap_or_else(|| {
            let selection = Selection { event: None, terms: base.clone(), without_tids };
            let of_events = query::totals(profile, samples, &selection);
            Totals { samples: samples.len(), base, of_events }
        });
        let events = profile.events().map(|(id, _)| id).zip(totals.of_events.iter().copied());
        let events = events.filter(|(_, weight)| weight.samples > 0).collect();
        self.totals = Some(totals);
        events
    }
}

/// A model that one thread fills and another shows.
#[derive(Clone, Debug)]
pub(crate) struct SharedModel {
    model: Arc<Mutex<Model>>,
    is_wanted: Arc<AtomicBool>,
}

impl SharedModel {
    pub(crate) fn new(model: Model) -> Self {
        Self { model: Arc::new(Mutex::new(model)), is_wanted: Arc::default() }
    }

    /// The model, for whoever shows it: the loader steps aside.
    pub(crate) fn show(&self) -> MutexGuard<'_, Model> {
        self.is_wanted.store(true, Ordering::SeqCst);
        let model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_wanted.store(false, Ordering::SeqCst);
        model
    }

    /// The model, for the loader, once nobody else wants it.
    pub(crate) fn fill(&self) -> MutexGuard<'_, Model> {
        while self.is_wanted() {
            std::thread::sleep(Duration::from_micros(100));
        }
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::SeqCst)
    }
}

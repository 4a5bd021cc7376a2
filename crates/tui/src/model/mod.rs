//! The data of the views, without a terminal: the samples loaded so far, and queries for them.

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
use tare_profile::{EventId, Losses, Profile, SampleStore, Selection, Term, Weight};
use tare_replay::{Replay, SampleSink};

pub(crate) use live::LiveModel;
pub use live::Pace;
pub(crate) use loader::{Source, load};
pub(crate) use query::{Functions, Query, Tree, callers_and_callees, whole_tree};
pub(crate) use timeline::{RowKind, RowOwner, Timeline};

/// The progress of loading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Bytes read, and the total; a stream's total isn't known.
    Loading(u64, Option<u64>),
    /// The recording was read to its end.
    Done,
    /// Reading failed, with the reason.
    Failed(String),
}

/// The samples loaded so far, and the recording's description.
#[derive(Debug)]
pub(crate) struct Model {
    sink: SampleSink,
    description: Description,
    losses: Losses,
    ledger: Option<Ledger>,
    progress: Progress,
    include_self: bool,
    totals: Option<Totals>,
    /// The replay, once the recording is loaded.
    replay: Option<Replay>,
    /// The live profile.
    live: Option<LiveModel>,
}

/// The weight of each event's samples that satisfy the base filters of a query.
#[derive(Debug)]
struct Totals {
    /// Number of samples when it was computed.
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

    pub(crate) fn samples(&mut self) -> &SampleStore {
        self.sink.parts().1
    }

    /// Returns the profile with the rows of the last view filled, and with the losses.
    pub(crate) fn profile_with_losses(&mut self) -> &Profile {
        let profile = self.sink.parts().0;
        profile.losses = self.losses.clone();
        profile
    }

    /// Returns the recorder's threads, whose samples are left out.
    pub(crate) fn own_tids(&self) -> Vec<i32> {
        tare_replay::own_tids(self.ledger.as_ref(), self.include_self).collect()
    }

    /// Returns the events that have samples, with the weight of those that satisfy the query's base
    /// filters.
    pub(crate) fn events(&mut self, query: &Query) -> Vec<(EventId, Weight)> {
        let base = query.base(self);
        let without_tids = self.own_tids();
        let (profile, samples) = self.sink.parts();
        let is_current = |totals: &Totals| totals.samples == samples.len() && totals.base == base;
        let totals = self.totals.take().filter(is_current).unwrap_or_else(|| {
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

/// A model that one thread fills while another displays it.
#[derive(Clone, Debug)]
pub(crate) struct SharedModel {
    model: Arc<Mutex<Model>>,
    /// A reader waits for the lock.
    is_wanted: Arc<AtomicBool>,
}

impl SharedModel {
    pub(crate) fn new(model: Model) -> Self {
        Self { model: Arc::new(Mutex::new(model)), is_wanted: Arc::default() }
    }

    /// Locks the model for display: the loader yields.
    pub(crate) fn show(&self) -> MutexGuard<'_, Model> {
        self.is_wanted.store(true, Ordering::SeqCst);
        let model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_wanted.store(false, Ordering::SeqCst);
        model
    }

    /// Locks the model for loading, once no reader waits.
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

//! Sources of profiles: a store, or a recording.

mod functions;
mod recorded;
mod stored;

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tare_fleet::Selection;
use tare_format::ledger::Ledger;
use tare_profile::Profile;
use tare_render::flame::Collector;
use tare_render::{RecordingOrigin, RecordingSummary};

use crate::error::ServeError;
use crate::job::Job;
use crate::view::SampleView;

use recorded::RecordedSource;
use stored::StoredSource;

/// A profile with its ledger and origin.
#[derive(Debug)]
pub struct RecordedProfile {
    /// Its name.
    pub name: String,
    /// The tables that samples refer to, and the losses.
    pub profile: Profile,
    /// Its ledger.
    pub ledger: Option<Ledger>,
    /// Machine, command line and units.
    pub origin: RecordingOrigin,
}

impl RecordedProfile {
    pub(crate) fn whole(&self) -> RecordingSummary<'_> {
        let Self { profile, ledger, origin, .. } = self;
        RecordingSummary { profile, ledger: ledger.as_ref(), session: origin }
    }
}

/// Samples of a flame graph.
#[derive(Debug)]
pub(crate) struct FlameSide {
    pub(crate) recorded: Arc<RecordedProfile>,
    pub(crate) samples: Collector,
}

/// Answers the page's questions, with documents of JSON.
pub(crate) trait ProfileSource: Send + Sync {
    /// Returns the source's name, its times, and samples over time.
    fn about(&self, job: &Job) -> Result<Value, ServeError>;

    /// Returns weight over time by labels, and a function's part.
    fn series(&self, view: &SampleView, job: &Job) -> Result<Value, ServeError>;

    /// Returns the groups with the most weight.
    fn top(&self, view: &SampleView, job: &Job) -> Result<Value, ServeError>;

    /// Returns losses and cost.
    fn losses(&self, view: &SampleView, job: &Job) -> Result<Value, ServeError>;

    /// Returns groups whose share differs between two selections.
    fn diff(&self, view: &SampleView, job: &Job) -> Result<Value, ServeError>;

    /// Returns verdicts on versions, or on two selections.
    fn regressions(&self, view: &SampleView, job: &Job) -> Result<Value, ServeError>;

    /// Returns the samples of a selection with their call chains.
    fn side(&self, selection: &Selection, job: &Job) -> Result<FlameSide, ServeError>;
}

/// A store or a recording.
pub struct Source(pub(crate) Box<dyn ProfileSource>);

impl Source {
    /// A store in a folder.
    ///
    /// # Errors
    /// Fails if the folder can't be read.
    pub fn for_store(folder: &Path) -> Result<Self, ServeError> {
        Ok(Self(Box::new(StoredSource::open(folder)?)))
    }

    /// A recording that was read to its end.
    #[must_use]
    pub fn for_recording(recorded: RecordedProfile, samples: Collector) -> Self {
        Self(Box::new(RecordedSource::new(recorded, samples)))
    }
}

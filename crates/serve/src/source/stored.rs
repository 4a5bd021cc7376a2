//! A store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tare_agent::TimedRow;
use tare_fleet::{
    Answer, BuiltIn, LossLimits, Question, Request, RunControl, Selection, TrendOptions,
};
use tare_profile::Profile;
use tare_render::flame::Collector;
use tare_render::{LocatedSample, RecordingOrigin, SampleSink};
use tare_store::{Query, StoreReader};

use crate::error::ServeError;
use crate::job::Job;
use crate::source::{FlameSide, ProfileSource, RecordedProfile};
use crate::view::SampleView;

/// Slices of the strip of times.
const STRIP_SLICES: u64 = 240;

/// Most threads that read the store for one question.
const MAX_THREADS: usize = 4;

/// A minute in microseconds.
const MINUTE_US: u64 = 60_000_000;

/// A store in a folder.
pub(super) struct StoredSource {
    folder: PathBuf,
    threads: usize,
}

/// Samples of a window or gap.
struct WindowSamples {
    start_us: i64,
    end_us: i64,
    kept: u64,
    lost: u64,
}

impl StoredSource {
    pub(super) fn open(folder: &Path) -> Result<Self, ServeError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        StoreReader::open(folder, threads)?;
        Ok(Self { folder: folder.to_owned(), threads })
    }

    fn reader(&self, job: &Job) -> Result<StoreReader, ServeError> {
        let reader = StoreReader::open(&self.folder, self.threads)?;
        Ok(reader.with_progress(Arc::clone(&job.progress)))
    }

    fn ask(
        &self,
        question: Question,
        selection: &Selection,
        job: &Job,
    ) -> Result<Value, ServeError> {
        let engine = BuiltIn::new(self.reader(job)?);
        let request = Request { question, selection: selection.clone() };
        let is_stopped = || job.is_stopped();
        let control = RunControl { is_interrupted: Some(&is_stopped), ..RunControl::default() };
        Ok(Answer::ask(&request, &engine, &control)?.document())
    }
}

impl ProfileSource for StoredSource {
    fn about(&self, job: &Job) -> Result<Value, ServeError> {
        let reader = self.reader(job)?;
        let windows = reader.segments(&Query::default(), Vec::new, |windows, segment| {
            let samples = segment.figures.samples;
            let [kept, lost] =
                if segment.is_gap { [0, samples] } else { [samples, segment.figures.lost] };
            let [start_us, end_us] = [segment.start_us, segment.end_us];
            windows.push(WindowSamples { start_us, end_us, kept, lost });
        })?;
        let start_us = windows.iter().map(|window| window.start_us).min().unwrap_or(0);
        let end_us = windows.iter().map(|window| window.end_us).max().unwrap_or(0);
        let length_us = end_us.abs_diff(start_us);
        // Whole minutes, the usual length of windows: slices then have equal numbers of these.
        let step_us = length_us.div_ceil(STRIP_SLICES).next_multiple_of(MINUTE_US).max(MINUTE_US);
        let slices = usize::try_from(length_us.div_ceil(step_us)).unwrap_or(0);
        let [mut kept, mut lost] = [vec![0_u64; slices], vec![0_u64; slices]];
        for window in &windows {
            let slice = usize::try_from(window.start_us.abs_diff(start_us) / step_us).unwrap_or(0);
            if let (Some(kept), Some(lost)) = (kept.get_mut(slice), lost.get_mut(slice)) {
                *kept = kept.saturating_add(window.kept);
                *lost = lost.saturating_add(window.lost);
            }
        }
        Ok(json!({
            "kind": "store",
            "name": self.folder.display().to_string(),
            "start_us": start_us,
            "end_us": end_us,
            "step_us": step_us,
            "kept": kept,
            "lost": lost,
            "labels": tare_fleet::Grouping::ALL.map(|(name, _)| name),
        }))
    }

    fn series(&self, view: &SampleView, job: &Job) -> Result<Value, ServeError> {
        let options = TrendOptions {
            by: view.groupings()?,
            function: view.function.clone(),
            slices: view.slices,
        };
        let engine = BuiltIn::new(self.reader(job)?);
        let is_stopped = || job.is_stopped();
        let control = RunControl { is_interrupted: Some(&is_stopped), ..RunControl::default() };
        let trends = engine.trends(&view.selection, &options, &control)?;
        let series = trends.series.iter().map(|one| {
            json!({
                "event": one.event,
                "names": one.names,
                "samples": one.samples,
                "weights": one.weights,
                "parts": one.parts,
            })
        });
        Ok(json!({
            "start_us": trends.start_us,
            "step_us": trends.step_us,
            "by": view.by,
            "series": series.collect::<Vec<_>>(),
        }))
    }

    fn top(&self, view: &SampleView, job: &Job) -> Result<Value, ServeError> {
        let by = view.groupings()?[0];
        let question = Question::Top { by, with_total: view.with_total, limit: view.rows };
        self.ask(question, &view.selection, job)
    }

    fn losses(&self, view: &SampleView, job: &Job) -> Result<Value, ServeError> {
        // Segments have no other labels.
        let mut selection = view.selection.clone();
        selection.conditions.retain(|condition| condition.label() == "host");
        let question = Question::Losses { limits: LossLimits::default(), all: true };
        self.ask(question, &selection, job)
    }

    fn diff(&self, view: &SampleView, job: &Job) -> Result<Value, ServeError> {
        let versus = view.versus.clone();
        let nothing = || ServeError::Question("versus: give a second selection".to_owned());
        let question = Question::Diff {
            by: view.groupings()?[0],
            with_total: view.with_total,
            limit: view.rows,
            versus: versus.ok_or_else(nothing)?,
        };
        self.ask(question, &view.selection, job)
    }

    fn regressions(&self, view: &SampleView, job: &Job) -> Result<Value, ServeError> {
        self.ask(Question::Regressions { versus: view.versus.clone() }, &view.selection, job)
    }

    fn side(&self, selection: &Selection, job: &Job) -> Result<FlameSide, ServeError> {
        let read = tare_agent::read_samples(&self.reader(job)?, &selection.query(), false)?;
        let nothing = || ServeError::Question("no sample is selected".to_owned());
        let read = read.ok_or_else(nothing)?;
        if job.is_stopped() {
            return Err(ServeError::Stopped);
        }
        let profile: Profile = read.summary.profile;
        let mut samples = Collector::default();
        for timed in &read.rows {
            let TimedRow { row, weight, .. } = *timed;
            samples
                .sample(&profile, &LocatedSample { row, weight, time_ns: None, switch: None })?;
        }
        let origin = RecordingOrigin::new(&read.summary.description);
        let conditions: Vec<&str> =
            selection.conditions.iter().map(tare_fleet::Condition::text).collect();
        let name = match conditions.is_empty() {
            true => self.folder.display().to_string(),
            false => conditions.join(", "),
        };
        let recorded = RecordedProfile { name, profile, ledger: None, origin };
        Ok(FlameSide { recorded: Arc::new(recorded), samples })
    }
}

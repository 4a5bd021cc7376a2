//! Writes the samples of a recording into a new store, as an agent would have.

use std::path::Path;
use std::time::Duration;

use tare_format::file::Description;
use tare_format::file::features::{HOSTNAME, OSRELEASE};
use tare_format::ledger::Ledger;
use tare_format::record::Sample;
use tare_kernel::host::Host;
use tare_profile::Losses;
use tare_replay::{LiveSink, Machine, Replayed};
use tare_store::{Figures, NewStore, SegmentInfo, StoreError};

use crate::labels::{LabelOptions, Labeler};
use crate::window::{ClosedWindow, WindowOptions, WindowSink};

/// Length of a window.
const WINDOW: Duration = Duration::from_secs(60);

/// A root without the files of a machine: those of this one say nothing about the recorded one.
const NO_HOST: &str = "/dev/null";

/// A store that is filled from a recording.
pub struct RecordingExport {
    store: NewStore,
    version: String,
    /// `None` before the first sample.
    windows: Option<WindowSink>,
    /// The window before the open one. The last one gets the losses.
    last: Option<ClosedWindow>,
    cpus: u64,
    /// Time of the newest sample, in nanoseconds of the recording's clock.
    newest_ns: u64,
    /// Why a window couldn't be written. Further samples are left out.
    error: Option<StoreError>,
}

impl LiveSink for RecordingExport {
    fn take(&mut self, machine: &mut Machine, sample: &Replayed<'_, Sample<'_>>) {
        if self.error.is_none() {
            self.error = self.add(machine, sample).err();
        }
    }
}

impl RecordingExport {
    /// Begins a store in a folder, which must not exist, or be empty. `version` is the writer's.
    ///
    /// # Errors
    /// Fails if the folder has files, or can't be created.
    pub fn begin(to: &Path, version: &str) -> Result<Self, StoreError> {
        Ok(Self {
            store: NewStore::begin(to)?,
            version: version.to_owned(),
            windows: None,
            last: None,
            cpus: 0,
            newest_ns: 0,
            error: None,
        })
    }

    fn add(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<(), StoreError> {
        let time_ns = sample.time_ns.unwrap_or(0);
        let description = sample.description;
        let version = &self.version;
        let windows = self.windows.get_or_insert_with(|| open(description, version, time_ns));
        windows.take(machine, sample);
        self.newest_ns = self.newest_ns.max(time_ns);
        self.cpus = description.features().cpus().map_or(0, |(online, _)| online.into());
        let closed = windows.take_closed();
        closed.into_iter().try_for_each(|window| self.keep(window))
    }

    /// Writes the last window, with the recording's losses and the recorder's CPU time, and gives
    /// the store its name.
    ///
    /// # Errors
    /// Fails if a window couldn't be written, or the folder has files by now.
    pub fn finish(mut self, losses: &Losses, ledger: Option<&Ledger>) -> Result<(), StoreError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if let Some(mut windows) = self.windows.take() {
            windows.close_after(self.newest_ns);
            windows.take_closed().into_iter().try_for_each(|window| self.keep(window))?;
        }
        let cost = ledger.map(|ledger| &ledger.cost);
        let recorder_ns = cost.map_or(0, |cost| cost.start_cpu_ns + cost.recording_cpu_ns);
        let lost = losses.lost_samples + losses.lost_records;
        self.write(Figures { lost, recorder_cpu_us: recorder_ns / 1000, ..Figures::default() })?;
        self.store.publish()
    }

    fn keep(&mut self, window: ClosedWindow) -> Result<(), StoreError> {
        self.write(Figures::default())?;
        self.last = Some(window);
        Ok(())
    }

    /// Writes the window before the open one, if there is one.
    fn write(&mut self, figures: Figures) -> Result<(), StoreError> {
        let Some(ClosedWindow { builder, counts }) = self.last.take() else { return Ok(()) };
        let figures = Figures {
            samples: counts.samples,
            truncated: counts.truncated,
            unnamed: counts.unnamed,
            cpus: self.cpus,
            ..figures
        };
        self.store.store().write(&builder.finish(figures)).map(|_| ())
    }
}

fn open(description: &Description, version: &str, time_ns: u64) -> WindowSink {
    let features = description.features();
    let text = |feature| {
        let text = features.text(feature).ok();
        text.map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
    };
    let info = SegmentInfo {
        host: text(HOSTNAME),
        kernel: text(OSRELEASE),
        agent_version: version.to_owned(),
        ..SegmentInfo::default()
    };
    let options = WindowOptions { length: WINDOW, keeps_addresses: false, info };
    let labeler = Labeler::new(Host::at(NO_HOST), LabelOptions::default());
    WindowSink::for_recording(options, labeler, features.clock_data().ok(), time_ns)
}

//! What an agent has written and what it cost, in a file of its store.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};
use tare_agent::config::Config;
use tare_agent::metrics::AgentFigures;
use tare_agent::push::PushTotals;
use tare_agent::{StatusDocument, WriteTotals};
use tare_store::{Figures, SegmentInfo};

use super::place::{AgentLocks, FOLDER, STATUS};
use crate::Outcome;
use crate::cli::resolved::agent::AgentOptions;
use crate::command::output;
use crate::exit::{Exit, Refusal};

/// The file with an agent's figures.
pub(super) struct AgentStatus {
    path: PathBuf,
    document: StatusDocument,
    /// What the file has; `None` before it is written.
    written: Option<WriteTotals>,
    /// Held as long as the agent runs.
    _locks: AgentLocks,
}

impl AgentStatus {
    pub(super) fn new(
        path: PathBuf,
        locks: AgentLocks,
        info: &SegmentInfo,
        config: &Config,
    ) -> Self {
        let document = StatusDocument::new(info, config.window.0);
        Self { path, document, written: None, _locks: locks }
    }

    pub(super) fn add_window(&mut self, info: &SegmentInfo, figures: &Figures) {
        self.document.add_window(info, figures);
    }

    /// Replaces the figures of targets and of the bucket.
    pub(super) fn set_sent(&mut self, push: Option<Vec<PushTotals>>, bucket: Option<PushTotals>) {
        if self.document.set_sent(push.unwrap_or_default(), bucket) {
            self.written = None;
        }
    }

    /// Returns the figures, with the agent's CPU time and the time in the kernel in microseconds.
    pub(super) fn figures(&self, written: &WriteTotals, costs_us: [u64; 2]) -> AgentFigures {
        self.document.figures(written, costs_us)
    }

    pub(super) fn end(&mut self) {
        self.document.ended = true;
        self.written = None;
    }

    /// Replaces the file, unless nothing changed.
    pub(super) fn write(&mut self, totals: &WriteTotals) -> anyhow::Result<()> {
        if self.written.as_ref() == Some(totals) {
            return Ok(());
        }
        self.document.set_written(totals);
        output::write_to(&self.path, |out| Ok(serde_json::to_writer(out, &self.document)?))?;
        self.written = Some(totals.clone());
        Ok(())
    }
}

/// Prints the status of a store's agent.
pub(super) fn print(store: &Path, json: bool) -> Outcome {
    let path = store.join(FOLDER).join(STATUS);
    let text = std::fs::read_to_string(&path).map_err(|error| Refusal {
        exit: Exit::Failure,
        message: format!(
            "no agent has written into {}: {error}; --store DIR selects another store",
            store.display()
        ),
    })?;
    let document: StatusDocument =
        serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    let is_running = is_locked(&store.join(FOLDER).join("lock"));
    let mut out = std::io::stdout().lock();
    if json {
        let mut value = serde_json::to_value(&document)?;
        value["running"] = is_running.into();
        writeln!(out, "{value}")?;
    } else {
        document.write_text(&mut out, is_running)?;
    }
    Ok(if is_running { Exit::Success } else { Exit::Failure })
}

/// Whether a running agent holds the lock.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

/// Prints the options that a valid configuration results in.
pub(super) fn print_config(options: &AgentOptions, json: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    tare_agent::write_config(&mut out, &options.config, options.file.as_deref(), json)?;
    Ok(Exit::Success)
}

//! What an agent has written and what it cost, in a file of its store.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tare_agent::config::Config;
use tare_agent::metrics::AgentFigures;
use tare_agent::push::PushTotals;
use tare_agent::{WriteTotals, now_us};
use tare_format::printable;
use tare_store::{Figures, SegmentInfo};

use super::place::{AgentLocks, FOLDER, STATUS};
use crate::Outcome;
use crate::cli::resolved::agent::AgentOptions;
use crate::command::output;
use crate::exit::{Exit, Refusal};

/// Version of the document that `--status --json` prints.
const VERSION: u32 = 1;

/// The figures of an agent since its start.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StatusDocument {
    version: u32,
    agent_version: String,
    host: String,
    pid: i32,
    started_us: i64,
    /// When the document was written; all times are microseconds since 1970 (UTC).
    written_us: i64,
    /// Whether the agent has ended by itself.
    ended: bool,
    window_s: u64,
    windows: u64,
    samples: u64,
    lost_samples: u64,
    bytes: u64,
    dropped_windows: u64,
    dropped_samples: u64,
    removed_windows: u64,
    /// Why the last window could not be written.
    error: Option<String>,
    last_window: LastWindow,
    /// The targets of `--push`.
    #[serde(default)]
    push: Vec<PushTotals>,
}

/// The figures of the window that ended last.
#[derive(Debug, Default, Serialize, Deserialize)]
struct LastWindow {
    samples: u64,
    truncated: u64,
    unnamed: u64,
    rate_hz: u64,
    cpus: u64,
    own_cpu_us: u64,
    kernel_us: u64,
}

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
        let document = StatusDocument {
            version: VERSION,
            agent_version: info.agent_version.clone(),
            host: info.host.clone(),
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            started_us: now_us(),
            written_us: now_us(),
            ended: false,
            window_s: config.window.0.as_secs(),
            windows: 0,
            samples: 0,
            lost_samples: 0,
            bytes: 0,
            dropped_windows: 0,
            dropped_samples: 0,
            removed_windows: 0,
            error: None,
            last_window: LastWindow::default(),
            push: Vec::new(),
        };
        Self { path, document, written: None, _locks: locks }
    }

    pub(super) fn add_window(&mut self, figures: &Figures) {
        self.document.lost_samples += figures.lost;
        self.document.last_window = LastWindow {
            samples: figures.samples,
            truncated: figures.truncated,
            unnamed: figures.unnamed,
            rate_hz: figures.rate_millihertz / 1000,
            cpus: figures.cpus,
            own_cpu_us: figures.recorder_cpu_us,
            kernel_us: figures.kernel_us,
        };
    }

    /// Replaces the figures of targets.
    pub(super) fn set_pushed(&mut self, totals: Option<Vec<PushTotals>>) {
        let totals = totals.unwrap_or_default();
        if self.document.push != totals {
            self.document.push = totals;
            self.written = None;
        }
    }

    /// Returns the figures, with the agent's CPU time and the time in the kernel in microseconds.
    pub(super) fn figures(&self, written: &WriteTotals, costs_us: [u64; 2]) -> AgentFigures {
        let [own_cpu_us, kernel_us] = costs_us;
        AgentFigures {
            version: self.document.agent_version.clone(),
            host: self.document.host.clone(),
            written: written.clone(),
            lost_samples: self.document.lost_samples,
            own_cpu_us,
            kernel_us,
            rate_hz: self.document.last_window.rate_hz,
            push: self.document.push.clone(),
        }
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
        let document = &mut self.document;
        document.written_us = now_us();
        document.windows = totals.windows;
        document.samples = totals.samples;
        document.bytes = totals.bytes;
        document.dropped_windows = totals.dropped_windows;
        document.dropped_samples = totals.dropped_samples;
        document.removed_windows = totals.removed_windows;
        document.error.clone_from(&totals.error);
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
        write_text(&mut out, &document, is_running)?;
    }
    Ok(if is_running { Exit::Success } else { Exit::Failure })
}

fn write_text(
    out: &mut impl Write,
    document: &StatusDocument,
    is_running: bool,
) -> std::io::Result<()> {
    let StatusDocument { windows, samples, bytes, last_window, .. } = document;
    let minutes = (now_us() - document.started_us).max(0) / 60_000_000;
    let host = printable(&document.host);
    match (is_running, document.ended) {
        (true, _) => writeln!(out, "running as {} on {host} for {minutes} min", document.pid)?,
        (false, true) => writeln!(out, "ended on {host}")?,
        (false, false) => writeln!(out, "killed on {host}: the next agent notes the gap")?,
    }
    writeln!(out, "written   {windows} windows, {samples} samples, {bytes} bytes")?;
    let cpu_us = last_window.own_cpu_us + last_window.kernel_us;
    let window_us = document.window_s.max(1) * 1_000_000;
    let percent = 100.0 * cpu_us as f64 / (window_us * last_window.cpus.max(1)) as f64;
    writeln!(
        out,
        "cost      {percent:.2}% of {} CPUs in the last window, at {} Hz",
        last_window.cpus, last_window.rate_hz
    )?;
    writeln!(
        out,
        "lost      {} samples, {} windows with {} samples",
        document.lost_samples, document.dropped_windows, document.dropped_samples
    )?;
    if let Some(error) = &document.error {
        writeln!(out, "error     {}", printable(error))?;
    }
    for target in &document.push {
        write_target(out, target)?;
    }
    Ok(())
}

fn write_target(out: &mut impl Write, target: &PushTotals) -> std::io::Result<()> {
    writeln!(out, "push      {}", printable(&target.url))?;
    let PushTotals { windows, samples, bytes, .. } = target;
    writeln!(out, "  sent    {windows} windows, {samples} samples, {bytes} bytes")?;
    for (name, windows, samples) in [
        ("waiting", target.waiting_windows, target.waiting_samples),
        ("dropped", target.dropped_windows, target.dropped_samples),
    ] {
        writeln!(out, "  {name} {windows} windows, {samples} samples")?;
    }
    match &target.error {
        Some(error) => writeln!(out, "  error   {}", printable(error)),
        None => Ok(()),
    }
}

/// Whether a running agent holds the lock.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

/// Prints the options that a valid configuration results in.
pub(super) fn print_config(options: &AgentOptions, json: bool) -> Outcome {
    let config = &options.config;
    let mut out = std::io::stdout().lock();
    if json {
        let value = serde_json::json!({
            "version": VERSION,
            "file": options.file,
            "store": config.store,
            "window_s": config.window.0.as_secs(),
            "events": config.events,
            "frequency_hz": config.frequency,
            "max_overhead": config.max_overhead.0,
            "off_cpu": config.off_cpu,
            "cgroup": config.cgroup,
            "push": config.push.iter().map(|target| target.url.to_string()).collect::<Vec<_>>(),
        });
        writeln!(out, "{value}")?;
        return Ok(Exit::Success);
    }
    writeln!(out, "ok: {}", options.file.as_deref().unwrap_or("no file, defaults"))?;
    writeln!(out, "store         {}", config.store.display())?;
    writeln!(out, "window        {}", config.window)?;
    writeln!(out, "frequency     {} Hz", config.frequency)?;
    writeln!(out, "max-overhead  {}%", 100.0 * config.max_overhead.0)?;
    for target in &config.push {
        writeln!(out, "push          {}", target.url)?;
    }
    Ok(Exit::Success)
}

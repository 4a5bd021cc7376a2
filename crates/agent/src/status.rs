//! What an agent has written and what it cost, as a document.

use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tare_format::printable;
use tare_store::{Figures, SegmentInfo};

use crate::config::Config;
use crate::metrics::AgentFigures;
use crate::push::PushTotals;
use crate::window::now_us;
use crate::writer::WriteTotals;

/// Version of the document that `--status --json` prints.
pub const STATUS_VERSION: u32 = 1;

/// The figures of an agent since its start.
#[derive(Debug, Serialize, Deserialize)]
pub struct StatusDocument {
    version: u32,
    agent_version: String,
    host: String,
    pid: i32,
    started_us: i64,
    /// When the document was written; all times are microseconds since 1970 (UTC).
    written_us: i64,
    /// Whether the agent has ended by itself.
    pub ended: bool,
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
    /// The bucket that the store is in.
    #[serde(default)]
    bucket: Option<PushTotals>,
}

/// The figures of the window that ended last.
#[derive(Debug, Default, Serialize, Deserialize)]
struct LastWindow {
    /// The first and the last window of an agent are shorter than the others. 0 before there is one.
    #[serde(default)]
    length_us: u64,
    samples: u64,
    truncated: u64,
    unnamed: u64,
    rate_hz: u64,
    cpus: u64,
    own_cpu_us: u64,
    kernel_us: u64,
}

impl LastWindow {
    /// The cost in percent of all CPUs' time; `None` before there is a window.
    fn cost_percent(&self) -> Option<f64> {
        let available_us = self.length_us * self.cpus;
        let cost_us = self.own_cpu_us + self.kernel_us;
        (available_us > 0).then(|| 100.0 * cost_us as f64 / available_us as f64)
    }
}

impl StatusDocument {
    /// Begins the figures of an agent.
    #[must_use]
    pub fn new(info: &SegmentInfo, window: Duration) -> Self {
        Self {
            version: STATUS_VERSION,
            agent_version: info.agent_version.clone(),
            host: info.host.clone(),
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            started_us: now_us(),
            written_us: now_us(),
            ended: false,
            window_s: window.as_secs(),
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
            bucket: None,
        }
    }

    /// Adds a window that ended.
    pub fn add_window(&mut self, info: &SegmentInfo, figures: &Figures) {
        self.lost_samples += figures.lost;
        self.last_window = LastWindow {
            length_us: u64::try_from(info.end_us - info.start_us).unwrap_or(0),
            samples: figures.samples,
            truncated: figures.truncated,
            unnamed: figures.unnamed,
            rate_hz: figures.rate_millihertz / 1000,
            cpus: figures.cpus,
            own_cpu_us: figures.recorder_cpu_us,
            kernel_us: figures.kernel_us,
        };
    }

    /// Replaces the figures of targets and of the bucket, and returns whether they changed.
    pub fn set_sent(&mut self, push: Vec<PushTotals>, bucket: Option<PushTotals>) -> bool {
        let is_changed = self.push != push || self.bucket != bucket;
        self.push = push;
        self.bucket = bucket;
        is_changed
    }

    /// Replaces the figures of the store.
    pub fn set_written(&mut self, totals: &WriteTotals) {
        self.written_us = now_us();
        self.windows = totals.windows;
        self.samples = totals.samples;
        self.bytes = totals.bytes;
        self.dropped_windows = totals.dropped_windows;
        self.dropped_samples = totals.dropped_samples;
        self.removed_windows = totals.removed_windows;
        self.error.clone_from(&totals.error);
    }

    /// Returns the figures as metrics have them, with the agent's CPU time and the time in the kernel
    /// in microseconds.
    #[must_use]
    pub fn figures(&self, written: &WriteTotals, costs_us: [u64; 2]) -> AgentFigures {
        let [own_cpu_us, kernel_us] = costs_us;
        AgentFigures {
            version: self.agent_version.clone(),
            host: self.host.clone(),
            written: written.clone(),
            lost_samples: self.lost_samples,
            own_cpu_us,
            kernel_us,
            rate_hz: self.last_window.rate_hz,
            push: self.push.iter().chain(&self.bucket).cloned().collect(),
        }
    }

    /// Writes the figures as text.
    ///
    /// # Errors
    /// Fails if `out` can't be written.
    pub fn write_text(&self, out: &mut impl Write, is_running: bool) -> io::Result<()> {
        let StatusDocument { windows, samples, bytes, last_window, .. } = self;
        let minutes = (now_us() - self.started_us).max(0) / 60_000_000;
        let host = printable(&self.host);
        match (is_running, self.ended) {
            (true, _) => writeln!(out, "running as {} on {host} for {minutes} min", self.pid)?,
            (false, true) => writeln!(out, "ended on {host}")?,
            (false, false) => writeln!(out, "killed on {host}: the next agent notes the gap")?,
        }
        writeln!(out, "written   {windows} windows, {samples} samples, {bytes} bytes")?;
        if let Some(percent) = last_window.cost_percent() {
            writeln!(
                out,
                "cost      {percent:.2}% of {} CPUs in the last window, at {} Hz",
                last_window.cpus, last_window.rate_hz
            )?;
        }
        writeln!(
            out,
            "lost      {} samples, {} windows with {} samples",
            self.lost_samples, self.dropped_windows, self.dropped_samples
        )?;
        if let Some(error) = &self.error {
            writeln!(out, "error     {}", printable(error))?;
        }
        for target in &self.push {
            write_target(out, "push  ", target)?;
        }
        if let Some(bucket) = &self.bucket {
            write_target(out, "bucket", bucket)?;
        }
        Ok(())
    }
}

fn write_target(out: &mut impl Write, kind: &str, target: &PushTotals) -> io::Result<()> {
    writeln!(out, "{kind}    {}", printable(&target.url))?;
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

/// Writes the options that a valid configuration results in.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn write_config(
    out: &mut impl Write,
    config: &Config,
    file: Option<&str>,
    json: bool,
) -> io::Result<()> {
    if json {
        let value = serde_json::json!({
            "version": STATUS_VERSION,
            "file": file,
            "store": config.store,
            "window_s": config.window.0.as_secs(),
            "events": config.events,
            "frequency_hz": config.frequency,
            "max_overhead": config.max_overhead.0,
            "off_cpu": config.off_cpu,
            "cgroup": config.cgroup,
            "push": config.push.iter().map(|target| target.url.to_string()).collect::<Vec<_>>(),
        });
        return writeln!(out, "{value}");
    }
    writeln!(out, "ok: {}", file.unwrap_or("no file, defaults"))?;
    writeln!(out, "store         {}", config.store.display())?;
    if config.location().is_bucket() {
        writeln!(out, "spool         {}", config.folder().display())?;
    }
    writeln!(out, "window        {}", config.window)?;
    writeln!(out, "frequency     {} Hz", config.frequency)?;
    writeln!(out, "max-overhead  {}%", 100.0 * config.max_overhead.0)?;
    config.push.iter().try_for_each(|target| writeln!(out, "push          {}", target.url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_short_window_is_that_of_its_length() {
        let info = SegmentInfo { start_us: 0, end_us: 2_000_000, ..SegmentInfo::default() };
        let mut document = StatusDocument::new(&info, Duration::from_secs(60));
        let text = |document: &StatusDocument| {
            let mut out = Vec::new();
            document.write_text(&mut out, true).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(!text(&document).contains("cost"), "{}", text(&document));
        let figures =
            Figures { recorder_cpu_us: 30_000, kernel_us: 10_000, cpus: 4, ..Figures::default() };
        document.add_window(&info, &figures);
        assert!(text(&document).contains("cost      0.50% of 4 CPUs"), "{}", text(&document));
    }
}

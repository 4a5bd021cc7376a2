//! A recording with one configuration: waits for the recorder, signals and the ends of windows.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use sd_notify::NotifyState;
use tare_agent::labels::Labeler;
use tare_agent::metrics::MetricsServer;
use tare_agent::push::Pusher;
use tare_agent::{
    ClosedWindow, Feed, FeedSink, FinishedWindow, OpenWindowFile, SegmentWriter, WindowNote,
    WindowOptions, WindowSink, now_us,
};
use tare_kernel::capabilities::{CapabilitySet, keep_while_measuring};
use tare_kernel::child::FileLimit;
use tare_kernel::host::Host;
use tare_kernel::signals::Signals;
use tare_profile::Losses;
use tare_record::output::Output;
use tare_record::{Backend, Notice, Recorder, Recording, RecordingState, Start};
use tare_store::{Figures, StoreLimits};
use tare_symbols::{SymbolCache, SymbolOptions};

use super::place::AgentPlace;
use super::status::AgentStatus;
use crate::cli::resolved::agent::AgentOptions;
use crate::command::record::{sample_cost, unwound, wording};
use crate::command::supervise::{EndCause, Supervisor};
use crate::exit::say;

/// Time before the budget is held: the symbols of the kernel and of running programs are read once,
/// at the start.
const START_UP: Duration = Duration::from_secs(5);

/// Time between two looks for windows that ended. The open window is noted then too.
const TICK: Duration = Duration::from_millis(500);

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// SIGHUP.
    Reload,
    Signal(i32),
    Timeout,
    /// The recorder can't go on.
    Stopped,
}

/// A recording under way.
pub(super) struct AgentSession<'a> {
    recording: Recording,
    supervisor: Supervisor<'a>,
    watchdog: Watchdog,
    windows: WindowKeeper,
}

/// The windows of a recording, and what is written about them.
struct WindowKeeper {
    feed: Feed,
    writer: SegmentWriter,
    /// `None` without targets.
    pusher: Option<Pusher>,
    /// `None` unless the figures are served.
    metrics: Option<MetricsServer>,
    open_window: OpenWindowFile,
    meter: CostMeter,
    status: AgentStatus,
    /// The error that was reported last.
    reported: Option<String>,
}

/// What a recording has cost up to the last window.
#[derive(Clone, Copy, Debug, Default)]
struct CostMeter {
    cpu_us: u64,
    kernel_us: u64,
    lost: u64,
}

/// What the recorder knows about itself.
#[derive(Clone, Copy, Debug)]
struct RecorderFacts {
    rate_hz: u64,
    cpus: u64,
    /// Time that samples have taken in the kernel, in microseconds.
    kernel_us: u64,
}

impl RecorderFacts {
    fn read(recording: &Recording) -> Self {
        let kernel_s = recording.cost_of_samples().map_or(0.0, |us| us.value * 1e-6);
        let kernel = Duration::try_from_secs_f64(kernel_s).unwrap_or_default();
        let kernel_us = u64::try_from(kernel.as_micros()).unwrap_or(u64::MAX);
        Self { rate_hz: recording.rate_hz().unwrap_or(0), cpus: recording.cpus() as u64, kernel_us }
    }
}

/// The service manager's watchdog.
#[derive(Clone, Copy, Debug)]
struct Watchdog {
    /// Time between two signs of life; `None` without a watchdog.
    interval: Option<Duration>,
    due: Instant,
}

impl Watchdog {
    fn new() -> Self {
        // Half of the limit, as systemd recommends.
        Self { interval: sd_notify::watchdog_enabled().map(|limit| limit / 2), due: Instant::now() }
    }

    fn keep_alive(&mut self) {
        if let Some(interval) = self.interval
            && self.due <= Instant::now()
        {
            notify(&[NotifyState::Watchdog]);
            self.due = Instant::now() + interval;
        }
    }
}

/// Tells the service manager, if there is one. It may have gone away.
fn notify(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

impl<'a> AgentSession<'a> {
    /// Opens the events and begins the first window.
    pub(super) fn start(
        options: &AgentOptions,
        host: &Host,
        place: AgentPlace,
        signals: &'a Signals,
    ) -> anyhow::Result<Self> {
        let AgentPlace { store, info, open_window, status, locks } = place;
        let config = &options.config;
        let labeler = Labeler::new(host.clone(), config.label_options()?);
        labeler.watch_containers().context("cannot start a thread")?;
        let windows = WindowOptions {
            length: config.window.0,
            keeps_addresses: config.keep_addresses,
            info: info.clone(),
        };
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let symbols = symbol_options(&status);
        let feed = Feed::new(WindowSink::new(windows, labeler), symbols, own);
        let recording = record(options, host, &feed)?;
        let mut supervisor = Supervisor::new(Some(signals), None).with_timeout(options.timeout);
        supervisor.let_go()?;
        let limits = StoreLimits {
            max_age: config.limits.age.map(|age| age.0),
            max_bytes: config.limits.size.map(|size| size.0),
        };
        let windows = WindowKeeper {
            writer: SegmentWriter::start(store, limits).context("cannot start a thread")?,
            pusher: Pusher::start(&config.push, &status.with_file_name("push"))
                .context("cannot spool windows for --push")?,
            metrics: config.metrics.map(serve_metrics).transpose()?,
            status: AgentStatus::new(status, locks, &info, config),
            feed,
            open_window,
            meter: CostMeter::default(),
            reported: None,
        };
        windows.note_open();
        notify(&[NotifyState::Ready, NotifyState::Status("recording")]);
        Ok(Self { recording, supervisor, watchdog: Watchdog::new(), windows })
    }

    /// Records until a signal, the timeout or the recorder ends it, and writes the open window.
    pub(super) fn run(mut self) -> anyhow::Result<SessionEnd> {
        let end = self.record()?;
        notify(&[match end {
            SessionEnd::Reload => NotifyState::Reloading,
            _ => NotifyState::Stopping,
        }]);
        self.finish()?;
        Ok(end)
    }

    fn record(&mut self) -> anyhow::Result<SessionEnd> {
        let mut due = Instant::now() + TICK;
        loop {
            let deadline = Some(due.min(self.recording.deadline()));
            let wake = self.supervisor.wait(&[self.recording.as_fd()], deadline)?;
            let is_due = due <= Instant::now();
            if is_due {
                self.recording.flush_every(TICK);
                due = Instant::now() + TICK;
            }
            let processed = match wake.is_ready(0) {
                true => self.recording.process(),
                false => self.recording.process_due(),
            };
            let state = processed?.clone();
            self.say_notices();
            match wake.end {
                Some(EndCause::Signal(number)) if number == Signal::HUP.as_raw() => {
                    return Ok(SessionEnd::Reload);
                }
                Some(EndCause::Signal(number)) => return Ok(SessionEnd::Signal(number)),
                Some(_) => return Ok(SessionEnd::Timeout),
                None => {}
            }
            if state != RecordingState::Recording {
                return Ok(SessionEnd::Stopped);
            }
            if is_due {
                self.windows.write_closed(RecorderFacts::read(&self.recording));
                self.windows.note_open();
                self.watchdog.keep_alive();
            }
        }
    }

    fn say_notices(&mut self) {
        for notice in self.recording.take_notices() {
            if let Notice::Warning(warning) = notice {
                say(&wording::warning(&warning));
            }
        }
    }

    /// Drains the ring buffers, and writes the open window.
    fn finish(mut self) -> anyhow::Result<()> {
        self.recording.stop()?;
        let facts = RecorderFacts::read(&self.recording);
        drop(self.recording.finish(None)?);
        self.windows.finish(facts)
    }
}

impl WindowKeeper {
    /// Hands windows that ended to the writer. The first has the costs since the last ones.
    fn write_closed(&mut self, facts: RecorderFacts) {
        let (closed, losses) = self.feed.take_closed();
        if closed.is_empty() {
            return self.write_status();
        }
        let mut costs = Some(self.meter.read(facts.kernel_us, &losses));
        for ClosedWindow { builder, counts } in closed {
            let CostMeter { cpu_us, kernel_us, lost } = costs.take().unwrap_or_default();
            let figures = Figures {
                samples: counts.samples,
                lost,
                truncated: counts.truncated,
                unnamed: counts.unnamed,
                recorder_cpu_us: cpu_us,
                kernel_us,
                rate_millihertz: facts.rate_hz * 1000,
                cpus: facts.cpus,
            };
            let bytes = builder.memory();
            let segment = Arc::new(builder.finish(figures));
            self.status.add_window(segment.info(), &figures);
            if let Some(pusher) = &self.pusher {
                pusher.push(Arc::clone(&segment));
            }
            self.writer.write(FinishedWindow { segment, samples: counts.samples, bytes });
        }
        self.write_status();
    }

    /// Writes the agent's figures if they changed.
    fn write_status(&mut self) {
        let totals = self.writer.totals();
        if totals.error.is_some() && totals.error != self.reported {
            say(&format!("cannot write a window: {}", totals.error.as_deref().unwrap_or_default()));
        }
        self.reported.clone_from(&totals.error);
        // A full disk is reported by the writer.
        self.status.set_pushed(self.pusher.as_ref().map(Pusher::totals));
        if let Some(metrics) = &self.metrics {
            let CostMeter { cpu_us, kernel_us, .. } = self.meter;
            metrics.set(self.status.figures(&totals, [cpu_us, kernel_us]));
        }
        let _ = self.status.write(&totals);
    }

    fn note_open(&self) {
        let (time, samples) = self.feed.open_window();
        let note = WindowNote { start_us: time.start_us, noted_us: now_us(), samples };
        // A full disk is reported when the window is written.
        let _ = self.open_window.write(&note);
    }

    fn finish(mut self, facts: RecorderFacts) -> anyhow::Result<()> {
        self.feed.finish();
        self.write_closed(facts);
        let Self { writer, pusher, metrics, open_window, mut status, .. } = self;
        if let Some(metrics) = metrics {
            metrics.finish();
        }
        let totals = writer.finish();
        status.set_pushed(pusher.map(Pusher::finish));
        status.end();
        status.write(&totals).context("cannot write the agent's status")?;
        open_window.remove().context("cannot remove the note of the open window")
    }
}

fn serve_metrics(address: SocketAddr) -> anyhow::Result<MetricsServer> {
    MetricsServer::start(address).with_context(|| format!("cannot serve --metrics {address}"))
}

impl CostMeter {
    /// Returns the costs and losses since the last call.
    fn read(&mut self, kernel_us: u64, losses: &Losses) -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let now = Self {
            cpu_us: u64::try_from(cpu.tv_sec).unwrap_or(0) * 1_000_000
                + u64::try_from(cpu.tv_nsec).unwrap_or(0) / 1000,
            kernel_us,
            lost: losses.lost_samples + losses.lost_records,
        };
        let before = std::mem::replace(self, now);
        Self {
            cpu_us: now.cpu_us.saturating_sub(before.cpu_us),
            kernel_us: now.kernel_us.saturating_sub(before.kernel_us),
            lost: now.lost.saturating_sub(before.lost),
        }
    }
}

/// Sources of symbols: those of this machine. Tables of symbols are kept beside the status, so that
/// they are mapped instead of read when an agent starts again.
fn symbol_options(status: &Path) -> SymbolOptions {
    let uid = rustix::process::geteuid().as_raw();
    let folder = status.with_file_name("symbols");
    let is_made = DirBuilder::new().recursive(true).mode(0o700).create(&folder).is_ok();
    let max_bytes = SymbolCache::DEFAULT_MAX_BYTES;
    let cache = is_made.then_some(SymbolCache { folder, max_bytes, uid });
    SymbolOptions { cache, reader_uid: uid, ..SymbolOptions::default() }
}

/// Opens the events. The budget is dropped where none is possible.
fn record(options: &AgentOptions, host: &Host, feed: &Feed) -> anyhow::Result<Recording> {
    let files = FileLimit::now();
    let recorder = plan(options, host)?.with_costs(sample_cost::known(host.clone()));
    for warning in &recorder.plan().warnings {
        say(&wording::warning(warning));
    }
    let output = Output::to_sink(Box::new(FeedSink(feed.clone())));
    let output = unwound(output, &options.recorder.sampling, &recorder)?;
    let start = Start { output, command: None, gives_other_rights: false, files: Some(&files) };
    let mut recording =
        recorder.start(start).map_err(|error| wording::record_error(error, host, &files))?;
    recording.begin_budget_after(START_UP);
    // A seccomp filter may refuse this call; tare then keeps its capabilities.
    let _ = keep_while_measuring(CapabilitySet::empty());
    Ok(recording)
}

fn plan(options: &AgentOptions, host: &Host) -> anyhow::Result<Recorder> {
    let backend = || Backend { host: host.clone(), ..Backend::default() };
    let planned = match Recorder::new(options.recorder.clone(), backend()) {
        Err(error) if error.is_of_budget() => {
            let mut recorder = options.recorder.clone();
            recorder.sampling.budget = None;
            say("max-overhead has no effect on these events: their rate or cost isn't known");
            Recorder::new(recorder, backend())
        }
        planned => planned,
    };
    Ok(planned.map_err(|error| wording::plan_error(&error, host))?)
}

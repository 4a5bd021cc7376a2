//! A recording with one configuration: waits for the recorder, signals and the ends of windows.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::Signal;
use sd_notify::NotifyState;
use tare_agent::labels::Labeler;
use tare_agent::metrics::MetricsServer;
use tare_agent::push::Pusher;
use tare_agent::upload::{EndingUploader, Uploader};
use tare_agent::{
    CostMeter, Feed, FeedSink, OpenWindowFile, RecorderFacts, SegmentWriter, WindowNote,
    WindowOptions, WindowSink, finish_window, now_us, symbol_options,
};
use tare_kernel::capabilities::{CapabilitySet, keep_while_measuring};
use tare_kernel::child::FileLimit;
use tare_kernel::host::Host;
use tare_kernel::signals::Signals;
use tare_record::output::Output;
use tare_record::{Backend, Notice, Recorder, Recording, RecordingState, Start};
use tare_store::StoreLimits;

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
    /// `None` unless the store is in a bucket.
    uploader: Option<Uploader>,
    /// `None` unless the figures are served.
    metrics: Option<MetricsServer>,
    open_window: OpenWindowFile,
    meter: CostMeter,
    status: AgentStatus,
    /// The error that was reported last.
    reported: Option<String>,
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
        let variable = |name: &str| std::env::var(name).ok();
        let location = config.location();
        let uploader = Uploader::start(&location, config.folder(), config.spool.size.0, variable)?;
        let spool = uploader.as_ref().map(Uploader::spool);
        let windows = WindowKeeper {
            writer: SegmentWriter::start(store, limits, spool).context("cannot start a thread")?,
            uploader,
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
        for closed in closed {
            let window = finish_window(closed, costs.take().unwrap_or_default(), facts);
            self.status.add_window(window.segment.info(), window.segment.figures());
            if let Some(pusher) = &self.pusher {
                pusher.push(Arc::clone(&window.segment));
            }
            self.writer.write(window);
        }
        self.write_status();
    }

    /// Writes the agent's figures if they changed.
    fn write_status(&mut self) {
        let totals = self.writer.totals();
        let sent = self.uploader.as_ref().map(Uploader::totals);
        let error = totals.error.clone().or_else(|| sent.as_ref()?.error.clone());
        if let Some(error) = error.as_ref().filter(|_| error != self.reported) {
            say(&format!("cannot write a window: {error}"));
        }
        self.reported = error;
        // A full disk is reported by the writer.
        self.status.set_sent(self.pusher.as_ref().map(Pusher::totals), sent);
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
        let Self { writer, pusher, uploader, metrics, open_window, mut status, .. } = self;
        if let Some(metrics) = metrics {
            metrics.finish();
        }
        let totals = writer.finish();
        let ending = uploader.map(Uploader::end);
        status.set_sent(pusher.map(Pusher::finish), ending.map(EndingUploader::finish));
        status.end();
        status.write(&totals).context("cannot write the agent's status")?;
        open_window.remove().context("cannot remove the note of the open window")
    }
}

fn serve_metrics(address: SocketAddr) -> anyhow::Result<MetricsServer> {
    MetricsServer::start(address).with_context(|| format!("cannot serve --metrics {address}"))
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

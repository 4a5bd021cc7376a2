//! Progress of a command: one line on stderr's terminal, shown after a second and removed at the
//! end. Without a terminal that can move its cursor, nothing is shown.

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tare_replay::{Position, Recording};

/// Time after which progress is shown.
pub const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Interval of drawing.
const REDRAWN_AFTER: Duration = Duration::from_millis(200);

/// Returns a bar on stderr's terminal, redrawn at steps, at most five times a second.
#[must_use]
pub fn progress_bar(steps: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(5));
    bar.set_style(style(template));
    bar
}

/// A bar that shows how much of a job is done, removed when this is dropped. Drawn in `update` only,
/// from the caller's thread: nothing ticks in between.
#[derive(Debug, Default)]
pub struct ShareBar {
    shown: Option<ProgressBar>,
}

impl ShareBar {
    /// Steps of the whole bar.
    const STEPS: u64 = 1000;

    /// Shows a share of 0 to 1, and a message behind it.
    pub fn update(&mut self, share: f64, message: String) {
        let bar = self
            .shown
            .get_or_insert_with(|| progress_bar(Self::STEPS, "{bar:24} {percent:>3}% {msg}"));
        bar.set_message(message);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        bar.set_position((share * Self::STEPS as f64) as u64);
    }
}

impl Drop for ShareBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A command's progress line. A thread draws it until this is dropped.
#[derive(Debug)]
pub struct ProgressLine {
    bar: ProgressBar,
    /// Position in the recording being read.
    position: Arc<Mutex<Option<Position>>>,
    /// The thread exits when this is dropped.
    ends: Option<Sender<()>>,
    drawer: Option<JoinHandle<()>>,
}

impl ProgressLine {
    /// Starts the progress of a command that writes to stdout after this is dropped.
    #[must_use]
    pub fn begin() -> Self {
        Self::start(std::io::stderr().is_terminal())
    }

    /// Starts the progress of a command that writes to stdout meanwhile. Nothing is shown if stdout
    /// is a terminal, or a pipe or socket, whose reader may write to the same terminal.
    #[must_use]
    pub fn beside_stdout() -> Self {
        let file = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
        let kind = file.and_then(|file| file.metadata()).map(|meta| meta.file_type());
        let is_apart = kind.is_ok_and(|kind| !kind.is_fifo() && !kind.is_socket());
        let is_terminal = std::io::stdout().is_terminal();
        Self::start(is_apart && !is_terminal && std::io::stderr().is_terminal())
    }

    fn start(is_shown: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let position = Arc::default();
        let mut progress = Self { bar, position, ends: None, drawer: None };
        if is_shown {
            let (ends, ended) = channel();
            let bar = progress.bar.clone();
            let position = Arc::clone(&progress.position);
            let draw = move || draw(&bar, &position, &ended);
            // If the thread can't be started, there is no progress line.
            progress.drawer = std::thread::Builder::new().spawn(draw).ok();
            progress.ends = Some(ends);
        }
        progress
    }

    /// Shows the progress of reading a recording.
    pub fn read(&self, recording: &Recording, path: &Path) {
        let is_stdin = path == Path::new("-");
        let name = if is_stdin { b"standard input" } else { path.as_os_str().as_encoded_bytes() };
        let name = tare_format::printable(name).into_owned();
        *self.position.lock().unwrap_or_else(PoisonError::into_inner) = Some(recording.position());
        match recording.bytes() {
            Some(bytes) => {
                self.bar.set_length(bytes);
                self.bar.set_style(style("tare: {bar:24} {percent:>3}% of {msg}"));
            }
            None => self.bar.set_style(style("tare: {bytes} of {msg}")),
        }
        self.bar.set_message(name);
    }

    /// Shows the progress of a download.
    pub fn receive(&self, url: &str) {
        self.bar.set_style(style("tare: {msg}: {bytes}"));
        self.bar.set_message(tare_format::printable(url.as_bytes()).into_owned());
    }

    /// Sets the number of bytes received, and the total if known.
    pub fn received(&self, bytes: u64, total: Option<u64>) {
        total.into_iter().for_each(|total| self.bar.set_length(total));
        self.bar.set_position(bytes);
    }

    /// Shows a step whose end isn't known, with the time it has taken.
    pub fn show_step(&self, step: &str) {
        *self.position.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.bar.set_style(style("tare: {msg}, {elapsed} so far"));
        self.bar.set_message(step.to_owned());
    }
}

fn draw(bar: &ProgressBar, position: &Mutex<Option<Position>>, ended: &Receiver<()>) {
    let mut wait = PROGRESS_AFTER;
    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        if wait == PROGRESS_AFTER {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            wait = REDRAWN_AFTER;
        }
        let position = position.lock().unwrap_or_else(PoisonError::into_inner).clone();
        position.inspect(|position| bar.set_position(position.bytes()));
        bar.tick();
    }
    bar.finish_and_clear();
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        drop(self.ends.take());
        self.drawer.take().map(JoinHandle::join);
    }
}

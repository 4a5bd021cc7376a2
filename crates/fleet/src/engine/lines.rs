//! Rows on their way from an engine, as texts of JSON objects.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::engine::{LineSink, RunControl};
use crate::error::FleetError;

/// How often it is checked whether the answer is still wanted.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Lines that wait to be read.
const QUEUED_LINES: usize = 1024;

/// What an engine tells.
enum EngineMessage {
    Row(Result<String, String>),
    /// How far it is, in words.
    Progress(String),
}

/// Sends rows from a thread of an engine.
#[derive(Clone)]
pub(super) struct LineSender(SyncSender<EngineMessage>);

/// Takes the rows of an engine.
pub(super) struct LineReceiver(Receiver<EngineMessage>);

/// Makes both ends.
pub(super) fn channel() -> (LineSender, LineReceiver) {
    let (sender, receiver) = sync_channel(QUEUED_LINES);
    (LineSender(sender), LineReceiver(receiver))
}

impl LineSender {
    /// Sends a row, or why there are no more. Returns whether the answer is still wanted.
    pub(super) fn send(&self, row: Result<String, String>) -> bool {
        self.0.send(EngineMessage::Row(row)).is_ok()
    }

    /// Tells how far the engine is. Dropped if rows wait, which are more recent.
    pub(super) fn tell(&self, progress: &str) {
        drop(self.0.try_send(EngineMessage::Progress(progress.to_owned())));
    }
}

impl LineReceiver {
    /// Passes on rows until all senders are gone.
    pub(super) fn pass(
        &self,
        engine: &'static str,
        control: &RunControl<'_>,
        each: &mut LineSink<'_>,
    ) -> Result<(), FleetError> {
        loop {
            control.check()?;
            match self.0.recv_timeout(CHECK_INTERVAL) {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(EngineMessage::Progress(progress)) => {
                    control.report(&format!("{engine}: {progress}"));
                }
                Ok(EngineMessage::Row(line)) => {
                    each(&line.map_err(|message| FleetError::Engine { engine, message })?)?;
                }
            }
        }
    }
}

/// Runs a thread that sends rows, and passes them on. If they aren't wanted any more, `cancel` tells
/// the engine so, while the thread ends by itself.
pub(super) fn run_thread(
    engine: &'static str,
    control: &RunControl<'_>,
    each: &mut LineSink<'_>,
    work: impl FnOnce(&LineSender) -> Result<(), String> + Send + 'static,
    cancel: impl FnOnce(),
) -> Result<(), FleetError> {
    let (sender, lines) = channel();
    let worker = std::thread::spawn(move || {
        if let Err(message) = work(&sender) {
            sender.send(Err(message));
        }
    });
    let passed = lines.pass(engine, control, each);
    if passed.is_err() {
        drop(lines);
        if !worker.is_finished() {
            cancel();
        }
        return passed;
    }
    let panicked = || FleetError::Engine { engine, message: "its thread panicked".to_owned() };
    worker.join().map_err(|_| panicked())
}

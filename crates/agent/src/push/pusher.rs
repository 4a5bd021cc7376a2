//! Encodes windows for all targets, on a thread of its own, and has them sent.
//!
//! ```text
//! finished window --> queue --> encoded for each target --> spool --> a thread per target --> target
//!                        \-- full: the window is dropped, and counted
//! ```
//! Nothing here makes the recorder or the store wait.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tare_store::Segment;
use twox_hash::XxHash64;

use super::grpc::GrpcTransport;
use super::http::HttpTransport;
use super::outbox::Outbox;
use super::request::PushRequest;
use super::sender::{Sender, Transport};
use super::spool::{Spool, open_lock};
use super::target::{Protocol, PushTarget};
use super::totals::PushTotals;
use super::{otlp, parca, pyroscope};

/// Windows that wait to be encoded.
const QUEUED: usize = 4;

/// Time at the agent's end for what waits to be sent. The next agent sends the rest.
const END: Duration = Duration::from_secs(2);

/// Time between two looks whether a thread has ended.
const END_TICK: Duration = Duration::from_millis(10);

/// The targets, and the threads that serve them.
#[derive(Debug)]
pub struct Pusher {
    queue: SyncSender<Arc<Segment>>,
    outboxes: Vec<Arc<Outbox>>,
    encoder: JoinHandle<()>,
    senders: Vec<JoinHandle<()>>,
}

impl Pusher {
    /// Starts the threads; `None` without targets. `folder` gets a spool for each target. Spools of
    /// other targets are removed.
    ///
    /// # Errors
    /// Fails if a spool can't be opened, or no thread can be started.
    pub fn start(targets: &[PushTarget], folder: &Path) -> io::Result<Option<Self>> {
        remove_others(targets, folder)?;
        if targets.is_empty() {
            return Ok(None);
        }
        let mut outboxes = Vec::new();
        let mut senders = Vec::new();
        let mut encoded = Vec::new();
        for target in targets {
            let folder = folder.join(spool_name(target));
            let spool = Spool::open(&folder, target.spool.0)?;
            let outbox = Arc::new(Outbox::new(target.url.to_string(), spool));
            let sender = Sender {
                outbox: Arc::clone(&outbox),
                transport: transport(target)?,
                lock: open_lock(&folder)?,
            };
            senders.push(spawn("tare-push", move || sender.run())?);
            encoded.push((target.url.protocol, Arc::clone(&outbox)));
            outboxes.push(outbox);
        }
        let (queue, windows) = sync_channel(QUEUED);
        let encoder = spawn("tare-encode", move || encode(&windows, &encoded))?;
        Ok(Some(Self { queue, outboxes, encoder, senders }))
    }

    /// Hands a window over. If the thread is behind, the window is dropped and counted.
    pub fn push(&self, window: Arc<Segment>) {
        let samples = window.figures().samples;
        if self.queue.try_send(window).is_err() {
            let dropped =
                |outbox: &Arc<Outbox>| outbox.drop_window(samples, "the disk is too slow");
            self.outboxes.iter().for_each(dropped);
        }
    }

    /// Returns the figures of the targets.
    #[must_use]
    pub fn totals(&self) -> Vec<PushTotals> {
        self.outboxes.iter().map(|outbox| outbox.totals()).collect()
    }

    /// Sends what waits for at most two seconds, and ends the threads. A thread whose request isn't
    /// answered by then ends with it.
    #[must_use]
    pub fn finish(self) -> Vec<PushTotals> {
        let Self { queue, outboxes, encoder, senders } = self;
        drop(queue);
        let end = Instant::now() + END;
        wait(&[encoder], end);
        outboxes.iter().for_each(|outbox| outbox.end());
        wait(&senders, end);
        outboxes.iter().map(|outbox| outbox.totals()).collect()
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}

fn wait(threads: &[JoinHandle<()>], end: Instant) {
    while threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < end {
        std::thread::sleep(END_TICK);
    }
}

fn encode(windows: &Receiver<Arc<Segment>>, targets: &[(Protocol, Arc<Outbox>)]) {
    for window in windows {
        for (protocol, outbox) in targets {
            outbox.add(&requests(*protocol, &window));
        }
    }
}

fn transport(target: &PushTarget) -> io::Result<Box<dyn Transport>> {
    Ok(match target.url.protocol {
        Protocol::OtlpGrpc => Box::new(GrpcTransport::new(target.clone())?),
        Protocol::OtlpHttp | Protocol::Parca | Protocol::Pyroscope => {
            Box::new(HttpTransport::new(target.clone()))
        }
    })
}

fn requests(protocol: Protocol, window: &Segment) -> Vec<PushRequest> {
    match protocol {
        Protocol::OtlpHttp | Protocol::OtlpGrpc => otlp::encode(window),
        Protocol::Parca => parca::encode(window),
        Protocol::Pyroscope => pyroscope::encode(window),
    }
}

/// Returns the name of a target's folder.
fn spool_name(target: &PushTarget) -> String {
    format!("{:016x}", XxHash64::oneshot(0, target.url.to_string().as_bytes()))
}

/// Removes the spools of targets that the configuration lacks.
fn remove_others(targets: &[PushTarget], folder: &Path) -> io::Result<()> {
    let kept: Vec<_> = targets.iter().map(spool_name).collect();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if !kept.iter().any(|name| entry.file_name() == name.as_str()) {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tare_store::{Figures, LabelSet, SegmentBuilder, SegmentInfo, StackFrame};

    use super::*;
    use crate::config::Size;

    /// A window with a sample of each of many functions, whose names don't compress well.
    fn window(minute: i64) -> Arc<Segment> {
        let start_us = minute * 60_000_000;
        let end_us = start_us + 60_000_000;
        let info = SegmentInfo { start_us, end_us, ..SegmentInfo::default() };
        let mut builder = SegmentBuilder::new(info);
        let event = builder.text("cpu-clock");
        let random = || std::iter::repeat_with(fastrand::alphanumeric).take(1000).collect();
        for _ in 0..400 {
            let name: String = random();
            let name = builder.text(&name);
            let frame =
                StackFrame { function: Some(name), module: Some(name), ..StackFrame::default() };
            let stack = builder.stack(&[frame]);
            builder.add(&LabelSet::default(), event, None, stack, 1, 1);
        }
        Arc::new(builder.finish(Figures { samples: 400, ..Figures::default() }))
    }

    #[test]
    fn every_sample_is_sent_or_waits_or_was_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let targets = ["otlp+http", "parca+http", "pyroscope+http"].map(|scheme| {
            let target = PushTarget::from_url(&format!("{scheme}://127.0.0.1:{port}")).unwrap();
            PushTarget { spool: Size(1 << 20), ..target }
        });
        let pusher = Pusher::start(&targets, folder.path()).unwrap().unwrap();
        for minute in 0..20 {
            pusher.push(window(minute));
            // The queue may be full for a moment, which is counted too.
            std::thread::sleep(END_TICK);
        }
        drop(pusher.queue);
        pusher.encoder.join().unwrap();
        for outbox in &pusher.outboxes {
            let PushTotals { samples, waiting_samples, dropped_samples, .. } = outbox.totals();
            assert_eq!(samples, 0);
            assert!(waiting_samples > 0 && dropped_samples > 0, "{:?}", outbox.totals());
            assert_eq!(waiting_samples + dropped_samples, 20 * 400);
            assert!(outbox.totals().waiting_bytes <= 1 << 20);
            outbox.end();
        }
        let others = Pusher::start(&targets[..1], folder.path()).unwrap().unwrap();
        assert_eq!(others.totals().len(), 1);
        assert!(others.totals()[0].waiting_samples > 0, "of the earlier agent");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "other spools are removed"
        );
    }
}

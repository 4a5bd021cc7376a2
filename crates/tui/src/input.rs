//! Input events: keys, mouse, terminal size, signals, end of loading.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use tare_kernel::signals::Signals;

/// An input event.
#[derive(Debug)]
pub(super) enum Message {
    /// A key, a mouse event, or a new terminal size.
    Terminal(Event),
    /// A signal number.
    Signal(i32),
    /// The recording was loaded to its end, or as far as possible.
    Loaded,
    /// The live profile has changed.
    Renewed,
    /// The live recording has ended: the interface exits.
    Over,
    /// The terminal is gone: no more input.
    Gone,
}

/// The queue of input events. The threads that fill it run until they can't send, the terminal is
/// gone, or the process exits.
#[derive(Debug)]
pub(super) struct Input {
    messages: Receiver<Message>,
    sender: Sender<Message>,
    signals: Arc<Signals>,
    is_stopping: Arc<AtomicBool>,
}

impl Input {
    /// Blocks the signals; call it before any thread starts.
    pub(super) fn new() -> io::Result<Self> {
        let signals = Arc::new(Signals::block_with(Some(Signal::TSTP.as_raw()))?);
        let (sender, messages) = channel();
        Ok(Self { messages, sender, signals, is_stopping: Arc::default() })
    }

    /// Starts the threads that wait for keys and signals.
    pub(super) fn start(&self) {
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            while let Ok(event) = event::read() {
                if sender.send(Message::Terminal(event)).is_err() {
                    return;
                }
            }
            let _ = sender.send(Message::Gone);
        });
        let sender = self.sender.clone();
        let signals = Arc::clone(&self.signals);
        let is_stopping = Arc::clone(&self.is_stopping);
        std::thread::spawn(move || {
            loop {
                let _ = poll(&mut [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)], None);
                while let Ok(Some(signal)) = signals.next() {
                    let is_stop = signal.number == Signal::TSTP.as_raw();
                    if is_stop && is_stopping.load(Ordering::SeqCst) {
                        continue;
                    }
                    if sender.send(Message::Signal(signal.number)).is_err() {
                        return;
                    }
                }
            }
        });
    }

    /// Returns a sender for messages.
    pub(super) fn sender(&self) -> Sender<Message> {
        self.sender.clone()
    }

    /// Returns the queue.
    pub(super) fn messages(&self) -> &Receiver<Message> {
        &self.messages
    }

    /// Calls `stop`, which sends SIGTSTP to this process too; meanwhile that signal isn't reported.
    pub(super) fn while_stopping<T>(&self, stop: impl FnOnce() -> T) -> T {
        self.is_stopping.store(true, Ordering::SeqCst);
        let done = stop();
        self.is_stopping.store(false, Ordering::SeqCst);
        done
    }
}

//! What happens outside: keys, the mouse, the terminal's size, signals, and the end of loading.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use tare_kernel::signals::Signals;

/// Something that happened.
#[derive(Debug)]
pub(super) enum Message {
    /// A key, the mouse, or another size.
    Terminal(Event),
    /// A signal, by its number.
    Signal(i32),
    /// The recording was read to its end, or could not be read further.
    Loaded,
    /// What is recorded now has changed.
    Renewed,
    /// What was shown is over: the interface ends.
    Over,
    /// There is no more input: the terminal is gone.
    Gone,
}

/// What happens, one after the other. Threads wait for it, and end with the process.
#[derive(Debug)]
pub(super) struct Input {
    messages: Receiver<Message>,
    sender: Sender<Message>,
    signals: Arc<Signals>,
    is_stopping: Arc<AtomicBool>,
}

impl Input {
    /// Holds signals back, which must come before any thread is started.
    pub(super) fn new() -> io::Result<Self> {
        let signals = Arc::new(Signals::block_with(Some(Signal::TSTP.as_raw()))?);
        let (sender, messages) = channel();
        Ok(Self { messages, sender, signals, is_stopping: Arc::default() })
    }

    /// Begins to wait for keys and signals.
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

    /// Where a message can be sent to.
    pub(super) fn sender(&self) -> Sender<Message> {
        self.sender.clone()
    }

    /// What happens next.
    pub(super) fn messages(&self) -> &Receiver<Message> {
        &self.messages
    }

    /// Does something that sends this process SIGTSTP too, which is not passed on meanwhile.
    pub(super) fn while_stopping<T>(&self, stop: impl FnOnce() -> T) -> T {
        self.is_stopping.store(true, Ordering::SeqCst);
        let done = stop();
        self.is_stopping.store(false, Ordering::SeqCst);
        done
    }
}

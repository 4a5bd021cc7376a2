//! A live profile on the full terminal.
//!
//! ```text
//! the caller's thread:  records --Feed--> Model <-- Query -- App <-- keys, mouse, signals   :the interface's thread
//!                       time ----------- Message::Renewed ----->
//!                            <---------- a byte: new interval, or pause --
//! ```
//! Only the caller's thread has a timer: one wake-up reads the ring buffers and refreshes the
//! display.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use ratatui::crossterm::event::Event;
use rustix::io::{read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use tare_format::file::Description;
use tare_profile::Term;
use tare_render::LiveFigures;
use tare_replay::{Live, LiveOptions, SampleSink};

use crate::app::{App, Settings};
use crate::input::{Input, Message};
use crate::model::{LiveModel, Model, Pace, SharedModel};
use crate::paint::Theme;
use crate::terminal::Screen;
use crate::{CodeView, Error, UiExit, handle_messages};

/// Refresh interval until the first samples arrive.
const FIRST_INTERVAL: Duration = Duration::from_millis(250);

/// What to display, and how.
#[derive(Debug)]
pub struct LiveShown {
    /// Text at the end of the last line.
    pub name: String,
    /// The function table.
    pub view: tare_render::TableView,
    /// Filters.
    pub terms: Vec<Term>,
    /// Without colours.
    pub is_plain: bool,
    /// Formats the recording's header as lines.
    pub header: fn(&Description) -> Vec<String>,
}

/// An interface that hasn't started.
#[derive(Debug)]
pub struct LiveScreen {
    input: Input,
    feed: Feed,
}

/// Receives records.
#[derive(Clone, Debug)]
pub struct Feed(SharedModel);

/// A running interface. Its descriptor becomes readable when the interface exits, and when the user
/// changes the refresh interval or pauses recording ([`Running::has_ended`] tells which).
#[derive(Debug)]
pub struct Running {
    thread: JoinHandle<Result<UiExit, Error>>,
    ended: OwnedFd,
    sender: Sender<Message>,
}

impl LiveScreen {
    /// Blocks the signals; call it before any thread starts. With `trace`, samples with different
    /// tracepoint fields are in different rows.
    ///
    /// # Errors
    /// [`Error::Signals`] if signals can't be blocked.
    pub fn new(options: LiveOptions, pace: Pace, trace: bool) -> Result<Self, Error> {
        let input = Input::new().map_err(Error::Signals)?;
        let live = LiveModel {
            replay: Live::new(options),
            figures: LiveFigures { window_s: pace.window.as_secs_f64(), ..LiveFigures::default() },
            pace,
            is_paused: false,
            is_renewed: false,
        };
        let model = Model::for_live(live, trace);
        Ok(Self { input, feed: Feed(SharedModel::new(model)) })
    }

    /// Returns the receiver of records.
    #[must_use]
    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// Takes over the terminal and starts the interface's thread, which runs until the user quits.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn start(self, shown: LiveShown) -> Result<Running, Error> {
        let Self { input, feed } = self;
        let (ended, orders) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|errno| Error::Loader(errno.into()))?;
        let sender = input.sender();
        let screen = Screen::take().map_err(Error::Terminal)?;
        input.start();
        let view = shown.view;
        let settings = Settings {
            view: Box::new(move |_| view.clone()),
            base: Vec::new(),
            terms: shown.terms,
            name: shown.name,
            theme: Theme { color: !shown.is_plain },
            header: shown.header,
            code: CodeView::default(),
        };
        let thread = std::thread::Builder::new().name("screen".to_owned()).spawn(move || {
            let app = App::new(settings, feed.0.show().description());
            LiveSession { screen, input, shared: feed.0, orders }.run(app)
        });
        Ok(Running { thread: thread.map_err(Error::Loader)?, ended, sender })
    }
}

impl Feed {
    /// Lends the replay and the sink to a function that adds records. The interface waits
    /// meanwhile.
    pub fn with<T>(&self, hand: impl FnOnce(&mut Live, &mut SampleSink) -> T) -> Option<T> {
        let mut model = self.0.fill();
        let (live, sink) = model.live_parts()?;
        Some(hand(live, sink))
    }

    /// Sets the cost figures. Returns the refresh interval that the user chose.
    pub fn set_figures(&self, figures: &LiveFigures) -> Duration {
        let mut model = self.0.fill();
        let is_empty = model.samples().is_empty();
        let Some(live) = model.live() else { return FIRST_INTERVAL };
        live.figures = LiveFigures { window_s: live.pace.span().as_secs_f64(), ..figures.clone() };
        live.is_renewed = true;
        if is_empty { live.pace.delay.min(FIRST_INTERVAL) } else { live.pace.delay }
    }

    /// Whether the user has paused recording.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.0.fill().live().is_some_and(|live| live.is_paused)
    }
}

impl AsFd for Running {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}

impl Running {
    /// Refreshes the display; call it after [`Feed::set_figures`].
    pub fn renew(&self) {
        // Fails only if the interface has exited.
        let _ = self.sender.send(Message::Renewed);
    }

    /// Whether the interface has exited; call it when the descriptor is readable. Otherwise the
    /// user changed the interval ([`Feed::set_figures`] returns it) or paused
    /// ([`Feed::is_paused`]).
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut orders = [0_u8; 64];
        matches!(read(&self.ended, &mut orders), Ok(0))
    }

    /// Ends the interface if it is running, and returns why it exited.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn end(self) -> Result<UiExit, Error> {
        // Fails only if the interface has exited.
        let _ = self.sender.send(Message::Over);
        self.thread.join().map_err(|_| Error::Input)?
    }
}

/// The interface's connections to the outside.
struct LiveSession {
    screen: Screen,
    input: Input,
    shared: SharedModel,
    /// Wakes the recorder: a byte for a new interval or a pause, end of file for the exit.
    orders: OwnedFd,
}

impl LiveSession {
    fn run(mut self, mut app: App) -> Result<UiExit, Error> {
        let settings = |model: &mut Model| model.live().map(|live| (live.pace, live.is_paused));
        loop {
            let mut model = self.shared.show();
            let is_renewed = model
                .live()
                .is_some_and(|live| std::mem::take(&mut live.is_renewed) && !live.is_paused);
            if is_renewed && let Some(renumbered) = model.renew() {
                app.renumber(&renumbered);
            }
            app.refresh(&mut model, is_renewed);
            let before = settings(&mut model);
            let picture = app.draw(&mut model, self.screen.area());
            drop(model);
            self.screen.show(picture).map_err(Error::Screen)?;
            let handle = |event: &Event| app.handle(&mut self.shared.show(), event);
            if let Some(ended) = handle_messages(&self.input, &mut self.screen, None, handle)? {
                return Ok(ended);
            }
            if settings(&mut self.shared.show()) != before {
                // A full pipe is readable, so its reader will notice.
                let _ = write(&self.orders, &[0]);
            }
        }
    }
}

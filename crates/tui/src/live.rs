//! A live profile on the full terminal.
//!
//! ```text
//! the caller's thread:  records --Feed--> Model <-- Query -- App <-- keys, mouse, signals   :the interface's thread
//!                       time ----------- Message::Renewed ----->
//!                            <---------- a byte: new interval --
//! ```
//! Only the caller's thread waits for time to pass: one wake-up reads the ring buffers and
//! refreshes the display.

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
use crate::{CodeView, Error, UiExit, take_in};

/// Interval of checks for the first samples.
const SOON: Duration = Duration::from_millis(250);

/// What to display, and how.
#[derive(Debug)]
pub struct LiveShown {
    /// Description of the target.
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

/// A running interface. Its descriptor is readable when it has exited, or when the user wants
/// another refresh interval ([`Running::has_ended`] tells which).
#[derive(Debug)]
pub struct Running {
    thread: JoinHandle<Result<UiExit, Error>>,
    ended: OwnedFd,
    sender: Sender<Message>,
}

impl LiveScreen {
    /// Blocks the signals. Must be called before any thread starts. `trace`: tracepoint fields
    /// distinguish rows.
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
        let model = Model::of_live(live, trace);
        Ok(Self { input, feed: Feed(SharedModel::new(model)) })
    }

    /// Returns the receiver of records.
    #[must_use]
    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// Takes over the terminal and runs until the user quits.
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
            Session { screen, input, shared: feed.0, orders }.go_on(app)
        });
        Ok(Running { thread: thread.map_err(Error::Loader)?, ended, sender })
    }
}

impl Feed {
    /// Passes records on; nothing is drawn meanwhile.
    pub fn with<T>(&self, hand: impl FnOnce(&mut Live, &mut SampleSink) -> T) -> Option<T> {
        let mut model = self.0.fill();
        let (live, sink) = model.live_parts()?;
        Some(hand(live, sink))
    }

    /// Sets the cost figures. Returns the refresh interval that the user wants.
    pub fn set_figures(&self, figures: &LiveFigures) -> Duration {
        let mut model = self.0.fill();
        let is_empty = model.samples().is_empty();
        let Some(live) = model.live() else { return SOON };
        live.figures = LiveFigures { window_s: live.pace.span().as_secs_f64(), ..figures.clone() };
        live.is_renewed = true;
        if is_empty { live.pace.delay.min(SOON) } else { live.pace.delay }
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
        // Fails if the interface has exited.
        let _ = self.sender.send(Message::Renewed);
    }

    /// Whether the interface has exited, if its descriptor is readable. Otherwise the user wants
    /// another interval: see [`Feed::set_figures`] and [`Feed::is_paused`].
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
        // Fails if the interface has exited.
        let _ = self.sender.send(Message::Over);
        self.thread.join().map_err(|_| Error::Input)?
    }
}

/// The interface's connections to the outside.
struct Session {
    screen: Screen,
    input: Input,
    shared: SharedModel,
    /// Tells the recorder about a new interval and, when closed, about the exit.
    orders: OwnedFd,
}

impl Session {
    fn go_on(mut self, mut app: App) -> Result<UiExit, Error> {
        let wanted = |model: &mut Model| model.live().map(|live| (live.pace, live.is_paused));
        loop {
            let mut model = self.shared.show();
            let is_renewed = model
                .live()
                .is_some_and(|live| std::mem::take(&mut live.is_renewed) && !live.is_paused);
            if is_renewed && let Some(renumbered) = model.renew() {
                app.renumber(&renumbered);
            }
            app.refresh(&mut model, is_renewed);
            let before = wanted(&mut model);
            let picture = app.picture(&mut model, self.screen.area());
            drop(model);
            self.screen.show(picture).map_err(Error::Screen)?;
            let take = |event: &Event| app.take(&mut self.shared.show(), event);
            if let Some(ended) = take_in(&self.input, &mut self.screen, None, take)? {
                return Ok(ended);
            }
            if wanted(&mut self.shared.show()) != before {
                // A full pipe already says so.
                let _ = write(&self.orders, &[0]);
            }
        }
    }
}

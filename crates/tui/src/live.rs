//! What is recorded now, on the whole of a terminal.
//!
//! ```text
//! the caller's thread:  records --Feed--> Model <-- Query -- App <-- keys, mouse, signals   :the interface's thread
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::Event;
use rustix::pipe::{PipeFlags, pipe_with};
use tare_format::file::Description;
use tare_profile::Term;
use tare_render::LiveFigures;
use tare_replay::{Live, LiveOptions, SampleSink};

use crate::app::{App, Settings};
use crate::input::{Input, Message};
use crate::model::{LiveModel, Model, Pace, Shared};
use crate::paint::Theme;
use crate::terminal::Screen;
use crate::{Ended, Error, take_in};

/// How soon something is shown at first, and how often it is looked whether there is something.
const SOON: Duration = Duration::from_millis(250);

/// What is to be shown, and how.
#[derive(Debug)]
pub struct LiveShown {
    /// What is recorded, in words.
    pub name: String,
    /// The table of functions.
    pub view: tare_render::View,
    /// Which samples are shown.
    pub terms: Vec<Term>,
    /// Without colours.
    pub is_plain: bool,
    /// What a recording says of its machine and its events, in lines.
    pub header: fn(&Description) -> Vec<String>,
}

/// An interface that is not shown yet.
#[derive(Debug)]
pub struct LiveScreen {
    input: Input,
    feed: Feed,
}

/// Takes in what is recorded.
#[derive(Clone, Debug)]
pub struct Feed(Shared);

/// An interface that is shown. Its file is readable when it has ended.
#[derive(Debug)]
pub struct Running {
    thread: JoinHandle<Result<Ended, Error>>,
    ended: OwnedFd,
    sender: Sender<Message>,
}

impl LiveScreen {
    /// Holds signals back, which must come before any thread is started. `trace`: places are told
    /// apart by the fields of tracepoints.
    ///
    /// # Errors
    /// [`Error::Signals`].
    pub fn new(options: LiveOptions, pace: Pace, trace: bool) -> Result<Self, Error> {
        let input = Input::new().map_err(Error::Signals)?;
        let live = LiveModel {
            replay: Live::new(options),
            figures: LiveFigures { window_s: pace.window.as_secs_f64(), ..LiveFigures::default() },
            pace,
            is_paused: false,
        };
        let model = Model::of_live(live, trace);
        Ok(Self { input, feed: Feed(Shared::new(model)) })
    }

    /// Where records go.
    #[must_use]
    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// Takes the terminal over, and shows what there is until the user has seen enough.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn start(self, shown: LiveShown) -> Result<Running, Error> {
        let Self { input, feed } = self;
        let (ended, ends) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|errno| Error::Loader(errno.into()))?;
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
        };
        let thread = std::thread::Builder::new().name("screen".to_owned()).spawn(move || {
            // Closed when the interface ends, however that is.
            let _ends = ends;
            let app = App::new(settings, feed.0.show().description());
            Session { screen, input, shared: feed.0 }.go_on(app)
        });
        Ok(Running { thread: thread.map_err(Error::Loader)?, ended, sender })
    }
}

impl Feed {
    /// Hands records in. Nothing is shown meanwhile.
    pub fn with<T>(&self, hand: impl FnOnce(&mut Live, &mut SampleSink) -> T) -> Option<T> {
        let mut model = self.0.fill();
        let (live, sink) = model.live_parts()?;
        Some(hand(live, sink))
    }

    /// Says what watching costs. Returns how often the user wants to hear of it.
    pub fn set_figures(&self, figures: &LiveFigures) -> Duration {
        let mut model = self.0.fill();
        let Some(live) = model.live() else { return SOON };
        live.figures = LiveFigures { window_s: live.pace.span().as_secs_f64(), ..figures.clone() };
        live.pace.delay
    }

    /// Whether the user has stopped recording for a while.
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
    /// Ends the interface, if it has not ended yet, and says how it ended.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn end(self) -> Result<Ended, Error> {
        // It may have ended.
        let _ = self.sender.send(Message::Over);
        self.thread.join().map_err(|_| Error::Input)?
    }
}

/// What the interface needs of the outside.
struct Session {
    screen: Screen,
    input: Input,
    shared: Shared,
}

impl Session {
    fn go_on(mut self, mut app: App) -> Result<Ended, Error> {
        let mut due = Instant::now();
        loop {
            let mut model = self.shared.show();
            let now = Instant::now();
            let (delay, is_paused) =
                model.live().map_or((SOON, false), |live| (live.pace.delay, live.is_paused));
            let is_due = due <= now && !is_paused;
            if is_due && let Some(renumbered) = model.renew() {
                app.renumber(&renumbered);
            }
            app.refresh(&mut model, is_due);
            if due <= now {
                let is_empty = model.samples().is_empty();
                due = now + if is_empty { delay.min(SOON) } else { delay };
            }
            let picture = app.picture(&mut model, self.screen.area());
            drop(model);
            self.screen.show(&picture).map_err(Error::Screen)?;
            let left = due.saturating_duration_since(Instant::now());
            let take = |event: &Event| app.take(&mut self.shared.show(), event);
            if let Some(ended) = take_in(&self.input, &mut self.screen, Some(left), take)? {
                return Ok(ended);
            }
        }
    }
}

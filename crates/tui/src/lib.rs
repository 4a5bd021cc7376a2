//! Reports and comparisons on the full terminal.
//!
//! ```text
//! recording --loader's thread--> Model <-- Query -- App <-- keys, mouse, signals --Input's threads
//!                                  \-------- what views show --> Buffer --> Screen
//! ```
//! The model knows no terminal, and the application draws into memory, so both can be tested
//! without one.

mod app;
pub mod diff;
mod input;
mod keys;
mod list;
mod live;
mod model;
mod paint;
mod progress;
mod terminal;
mod view;

use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::Event;
use rustix::process::Signal;
use tare_format::file::Description;
use tare_profile::{Losses, Term};
use tare_replay::{Recording, SampleSinkOptions};

use app::{App, Next, Settings};
use input::{Input, Message};
use model::{Model, Progress, SharedModel, Source};
use paint::Theme;
use terminal::Screen;

pub use keys::{Action, BINDINGS, Binding, LIVE_BINDINGS, View};
pub use live::{Feed, LiveScreen, LiveShown, Running};
pub use model::Pace;
pub use progress::{PROGRESS_AFTER, ProgressLine, progress_bar};
pub use view::annotate::CodeView;

/// Refresh interval while a recording is loading.
const TICK: Duration = Duration::from_millis(100);

/// Divisor of the time that refreshes may take while loading: an eighth.
const SHOWING: u32 = 8;

/// Selects the columns and call graphs that suit a recording.
pub type ViewOf = Box<dyn Fn(&Description) -> tare_render::TableView + Send>;

/// What to display, and how.
pub struct ReportInput {
    /// The recording, positioned at its beginning.
    pub recording: Recording,
    /// Its name.
    pub name: String,
    /// Where to look for symbols.
    pub symbols: tare_symbols::SymbolOptions,
    /// What to keep of samples. Lines and inlined functions are resolved once everything is loaded.
    pub samples: SampleSinkOptions,
    /// Keep the recorder's own samples.
    pub include_self: bool,
    /// The function table. It depends on the recording's description, which a stream contains later
    /// on.
    pub view: ViewOf,
    /// Filters that percentages obey.
    pub base: Vec<Term>,
    /// Further filters.
    pub terms: Vec<Term>,
    /// Without colours.
    pub is_plain: bool,
    /// Start with the instructions of a function.
    pub opened: Option<OpenedFunction>,
    /// Initial settings of the instruction view.
    pub code: CodeView,
    /// Panic after the first screen, to test that the terminal is restored.
    pub panics: bool,
    /// Formats the recording's header as lines.
    pub header: fn(&Description) -> Vec<String>,
    /// Adds advice on what would name unnamed samples.
    pub mend: fn(&mut Losses, &tare_symbols::SymbolOptions),
}

/// The function that the interface starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedFunction {
    /// Its name; without one, the heaviest function.
    pub name: Option<String>,
}

/// Why the interface exited.
#[derive(Debug)]
pub enum UiExit {
    /// The user quit.
    Quit,
    /// A signal ended it.
    Signal(i32),
    /// There are no samples; the losses say why.
    NoSamples(Box<Losses>),
    /// The function to start with has no sample.
    NoFunction,
}

/// Why the interface failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Blocking signals failed.
    #[error("signals can't be waited for")]
    Signals(#[source] io::Error),
    /// Taking over the terminal failed.
    #[error("the terminal can't be used (as text: --stdio)")]
    Terminal(#[source] io::Error),
    /// The loader thread couldn't be started.
    #[error("the recording can't be loaded beside the interface")]
    Loader(#[source] io::Error),
    /// Drawing failed.
    #[error("the terminal can't be written to")]
    Screen(#[source] io::Error),
    /// Suspending or resuming failed.
    #[error("the terminal can't be given back or taken again")]
    Suspended(#[source] io::Error),
    /// The input threads exited.
    #[error("neither keys nor signals come any more")]
    Input,
}

/// Shows a recording until the user quits.
///
/// # Errors
/// See [`Error`].
pub fn run(shown: ReportInput) -> Result<UiExit, Error> {
    let input = Input::new().map_err(Error::Signals)?;
    let ReportInput { recording, symbols, samples, include_self, panics, mend, .. } = shown;
    let source = Source { recording, symbols, samples, include_self, mend };
    let shared = SharedModel::new(Model::new(&source));
    let mut screen = Screen::take().map_err(Error::Terminal)?;
    input.start();
    let filled = shared.clone();
    let sender = input.sender();
    let loader = std::thread::Builder::new().name("loader".to_owned()).spawn(move || {
        model::load(&filled, source);
        // This fails if the interface has exited.
        let _ = sender.send(Message::Loaded);
    });
    loader.map_err(Error::Loader)?;
    let settings = Settings {
        view: shown.view,
        base: shown.base,
        terms: shown.terms,
        name: shown.name,
        theme: Theme { color: !shown.is_plain },
        header: shown.header,
        code: shown.code,
    };
    let app = App::new(settings, shared.show().description());
    let opened = shown.opened;
    Session { screen: &mut screen, input: &input, shared: &shared, opened, panics }.go_on(app)
}

/// The interface's connections to the outside.
struct Session<'a> {
    screen: &'a mut Screen,
    input: &'a Input,
    shared: &'a SharedModel,
    opened: Option<OpenedFunction>,
    panics: bool,
}

impl Session<'_> {
    fn go_on(&mut self, mut app: App) -> Result<UiExit, Error> {
        let mut refreshed = Instant::now();
        let mut cost = Duration::ZERO;
        let mut is_loading = true;
        loop {
            let mut model = self.shared.show();
            let was_loading = is_loading;
            is_loading = matches!(model.progress(), Progress::Loading(..));
            let is_due = was_loading && refreshed.elapsed() >= (cost * SHOWING).max(TICK * 2);
            let begun = Instant::now();
            app.refresh(&mut model, is_due || was_loading && !is_loading);
            if is_due {
                (cost, refreshed) = (begun.elapsed(), Instant::now());
            }
            if !is_loading && model.samples().is_empty() {
                return Ok(UiExit::NoSamples(Box::new(model.losses().clone())));
            }
            if !is_loading
                && let Some(OpenedFunction { name }) = self.opened.take()
                && !app.open_function(&mut model, name.as_deref())
            {
                return Ok(UiExit::NoFunction);
            }
            let picture = app.picture(&mut model, self.screen.area());
            drop(model);
            self.screen.show(picture).map_err(Error::Screen)?;
            assert!(!self.panics, "this panic was asked for");
            let take = |event: &Event| app.take(&mut self.shared.show(), event);
            let wait = is_loading.then_some(TICK);
            if let Some(ended) = take_in(self.input, self.screen, wait, take)? {
                return Ok(ended);
            }
        }
    }
}

/// Waits for a message, at most for the given time, and handles all that have arrived. Returns why
/// the interface exits, if a message says so.
fn take_in(
    input: &Input,
    screen: &mut Screen,
    wait: Option<Duration>,
    mut take: impl FnMut(&Event) -> Next,
) -> Result<Option<UiExit>, Error> {
    let messages = input.messages();
    let mut next = match wait.map(|wait| messages.recv_timeout(wait)) {
        Some(Err(RecvTimeoutError::Timeout)) => None,
        Some(received) => Some(received.map_err(|_| Error::Input)?),
        None => Some(messages.recv().map_err(|_| Error::Input)?),
    };
    while let Some(message) = next {
        let asked = asked_by(message, &mut take);
        if let ControlFlow::Break(ended) = follow(asked, input, screen)? {
            return Ok(Some(ended));
        }
        next = messages.try_recv().ok();
    }
    Ok(None)
}

/// Returns what a message asks for; [`ControlFlow::Break`] exits.
fn asked_by(message: Message, take: impl FnOnce(&Event) -> Next) -> ControlFlow<UiExit, Next> {
    ControlFlow::Continue(match message {
        Message::Terminal(event) => take(&event),
        Message::Signal(number) if number == Signal::TSTP.as_raw() => Next::Suspend,
        Message::Signal(number) if is_ending(number) => {
            return ControlFlow::Break(UiExit::Signal(number));
        }
        Message::Over => return ControlFlow::Break(UiExit::Quit),
        Message::Gone => return ControlFlow::Break(UiExit::Signal(Signal::HUP.as_raw())),
        Message::Signal(_) | Message::Loaded | Message::Renewed => Next::Show,
    })
}

/// Does what was asked for, except drawing.
fn follow(
    asked: ControlFlow<UiExit, Next>,
    input: &Input,
    screen: &mut Screen,
) -> Result<ControlFlow<UiExit>, Error> {
    match asked {
        ControlFlow::Break(ended) => return Ok(ControlFlow::Break(ended)),
        ControlFlow::Continue(Next::Quit) => return Ok(ControlFlow::Break(UiExit::Quit)),
        ControlFlow::Continue(Next::Suspend) => {
            input.while_stopping(|| screen.suspend()).map_err(Error::Suspended)?;
        }
        ControlFlow::Continue(Next::Show) => {}
    }
    Ok(ControlFlow::Continue(()))
}

fn is_ending(signal: i32) -> bool {
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].iter().any(|one| one.as_raw() == signal)
}

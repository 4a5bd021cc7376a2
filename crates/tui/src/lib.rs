//! Reports, comparisons and live profiles on the full terminal. The parts of a report:
//!
//! ```text
//! recording --loader's thread--> Model <-- Query -- App <-- keys, mouse, signals --Input's threads
//!                                              App -- draws into --> Buffer --> Screen
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

use app::{App, Reaction, Settings};
use input::{Input, Message};
use model::{Model, Progress, SharedModel, Source};
use paint::Theme;
use terminal::Screen;

pub use keys::{Action, BINDINGS, Binding, LIVE_BINDINGS, View};
pub use live::{Feed, LiveScreen, LiveShown, Running};
pub use model::Pace;
pub use progress::{PROGRESS_AFTER, ProgressLine, ShareBar, progress_bar};
pub use view::annotate::CodeView;

/// Refresh interval while a recording is loading.
const TICK: Duration = Duration::from_millis(100);

/// While loading, at most one part in this many of the time goes into refreshes.
const REFRESH_DIVISOR: u32 = 8;

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
    /// Which fields of samples to keep. Lines and inlined functions are resolved once everything is
    /// loaded.
    pub samples: SampleSinkOptions,
    /// Keep the recorder's own samples.
    pub include_self: bool,
    /// The function table. It depends on the recording's description, which a stream may extend
    /// while it is read.
    pub view: ViewOf,
    /// Filters that percentages obey: the samples that pass them are 100%.
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
    /// Adds advice on how to get names for unnamed samples.
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
    /// A signal with this number ended it.
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
    #[error("can't wait for signals")]
    Signals(#[source] io::Error),
    /// Taking over the terminal failed.
    #[error("can't use the terminal (--stdio prints text)")]
    Terminal(#[source] io::Error),
    /// Starting the thread that loads or displays the recording failed.
    #[error("can't start the interface's thread")]
    Loader(#[source] io::Error),
    /// Drawing failed.
    #[error("can't write to the terminal")]
    Screen(#[source] io::Error),
    /// Suspending or resuming failed.
    #[error("can't restore the terminal or take it over again")]
    Suspended(#[source] io::Error),
    /// The input threads exited.
    #[error("the threads that wait for keys and signals have exited")]
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
    ReportSession { screen: &mut screen, input: &input, shared: &shared, opened, panics }.run(app)
}

/// The interface's connections to the outside.
struct ReportSession<'a> {
    screen: &'a mut Screen,
    input: &'a Input,
    shared: &'a SharedModel,
    opened: Option<OpenedFunction>,
    panics: bool,
}

impl ReportSession<'_> {
    fn run(&mut self, mut app: App) -> Result<UiExit, Error> {
        let mut refreshed = Instant::now();
        let mut cost = Duration::ZERO;
        let mut is_loading = true;
        loop {
            let mut model = self.shared.show();
            let was_loading = is_loading;
            is_loading = matches!(model.progress(), Progress::Loading(..));
            let is_due =
                was_loading && refreshed.elapsed() >= (cost * REFRESH_DIVISOR).max(TICK * 2);
            let begun = Instant::now();
            app.refresh(&mut model, is_due || was_loading && !is_loading);
            if is_due {
                cost = begun.elapsed();
                refreshed = Instant::now();
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
            let picture = app.draw(&mut model, self.screen.area());
            drop(model);
            self.screen.show(picture).map_err(Error::Screen)?;
            assert!(!self.panics, "this panic was asked for");
            let handle = |event: &Event| app.handle(&mut self.shared.show(), event);
            let wait = is_loading.then_some(TICK);
            if let Some(ended) = handle_messages(self.input, self.screen, wait, handle)? {
                return Ok(ended);
            }
        }
    }
}

/// Waits for a message, at most for the given time, and handles all that have arrived. Returns why
/// the interface exits, or `None` if it goes on.
fn handle_messages(
    input: &Input,
    screen: &mut Screen,
    wait: Option<Duration>,
    mut handle: impl FnMut(&Event) -> Reaction,
) -> Result<Option<UiExit>, Error> {
    let messages = input.messages();
    let mut next = match wait.map(|wait| messages.recv_timeout(wait)) {
        Some(Err(RecvTimeoutError::Timeout)) => None,
        Some(received) => Some(received.map_err(|_| Error::Input)?),
        None => Some(messages.recv().map_err(|_| Error::Input)?),
    };
    while let Some(message) = next {
        let reaction = react_to(message, &mut handle);
        if let ControlFlow::Break(ended) = carry_out(reaction, input, screen)? {
            return Ok(Some(ended));
        }
        next = messages.try_recv().ok();
    }
    Ok(None)
}

/// Returns the reaction to a message, or why the interface exits.
fn react_to(
    message: Message,
    handle: impl FnOnce(&Event) -> Reaction,
) -> ControlFlow<UiExit, Reaction> {
    ControlFlow::Continue(match message {
        Message::Terminal(event) => handle(&event),
        Message::Signal(number) if number == Signal::TSTP.as_raw() => Reaction::Suspend,
        Message::Signal(number) if is_ending(number) => {
            return ControlFlow::Break(UiExit::Signal(number));
        }
        Message::Over => return ControlFlow::Break(UiExit::Quit),
        Message::Gone => return ControlFlow::Break(UiExit::Signal(Signal::HUP.as_raw())),
        Message::Signal(_) | Message::Loaded | Message::Renewed => Reaction::Draw,
    })
}

/// Suspends or exits if the reaction says so; the caller draws.
fn carry_out(
    reaction: ControlFlow<UiExit, Reaction>,
    input: &Input,
    screen: &mut Screen,
) -> Result<ControlFlow<UiExit>, Error> {
    match reaction {
        ControlFlow::Break(ended) => return Ok(ControlFlow::Break(ended)),
        ControlFlow::Continue(Reaction::Quit) => return Ok(ControlFlow::Break(UiExit::Quit)),
        ControlFlow::Continue(Reaction::Suspend) => {
            input.while_stopping(|| screen.suspend()).map_err(Error::Suspended)?;
        }
        ControlFlow::Continue(Reaction::Draw) => {}
    }
    Ok(ControlFlow::Continue(()))
}

fn is_ending(signal: i32) -> bool {
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].iter().any(|one| one.as_raw() == signal)
}

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
